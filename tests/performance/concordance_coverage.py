"""How often the 95% interval of pooled W holds what a very large study has, and how wide it is.

    python -m tests.performance.concordance_coverage [SIMULATIONS]

People of unequal care rank the entries of items of uneven difficulty, with ties; of some designs a prompt has several
items, and these are alike.
"""

from __future__ import annotations

import sys

import numpy as np

from annotation.domain.agreement.rankings import measure_concordance

DESIGNS = {
    "2 people, 2 entries": ([2], [2], 1),
    "2 people, 3 entries": ([2], [3], 1),
    "2 people, 5 entries": ([2], [5], 1),
    "2 or 3 people, 2 to 5 entries": ([2, 3], [2, 3, 4, 5], 1),
    "3 people, 4 entries, 3 items to a prompt": ([3], [4], 3),
}
CLARITIES = (0.3, 1.0, 3.0)
PROMPTS = (10, 15, 20, 30, 60, 150)
CARE = np.array([0.5, 1.0, 2.0])
POPULATION = 20_000


def draw_study(
    prompts: int, people: list[int], entries: list[int], items: int, clarity: float, seed: int
) -> tuple[list[list[list[float]]], list[int]]:
    """Rankings, and the prompt of each item."""
    random = np.random.default_rng(seed)
    study, of_prompt = [], []
    for prompt in range(prompts):
        spread = random.gamma(1.0) * clarity
        for _item in range(items):
            n, m = random.choice(entries), random.choice(people)
            noise = random.normal(size=(m, n)) * CARE[:m, None]
            study.append(np.round(random.normal(size=n) * spread + noise).tolist())
            of_prompt.append(prompt)
    return study, of_prompt


def main(simulations: int) -> None:
    for name, design in DESIGNS.items():
        for clarity in CLARITIES:
            truth = measure_concordance(*draw_study(POPULATION, *design, clarity, 0)).w.value
            assert truth is not None
            cells = []
            for prompts in PROMPTS:
                drawn = [
                    measure_concordance(*draw_study(prompts, *design, clarity, seed)).w
                    for seed in range(1, simulations + 1)
                ]
                ends = [(w.low, w.high) for w in drawn if w.low is not None and w.high is not None]
                held = np.mean([low <= truth <= high for low, high in ends]) if ends else np.nan
                cells.append(f"{prompts}: {held:.3f} of {len(ends)}")
            print(f"{name}, clarity {clarity}, W {truth:.3f}: " + "; ".join(cells), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
