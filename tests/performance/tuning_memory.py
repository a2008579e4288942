"""Whether the memory that a fine-tuning is said to need is what it takes; prints a Markdown table.

    python -m tests.performance.tuning_memory [--encoder FOLDER] [--rows 96]

Each tuning runs in a process of its own, on texts as long as the encoder reads. What its memory grew by from before the
training to its peak stands beside what ``scoring/backbones/transformer/memory.py`` computed before it began.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys

from scoring.backbones.transformer import memory
from scoring.domain.training_data import Example
from tests.performance.encoder_speed import COMPLIANCE, ENCODER

GIB_OF_KIB = 2**20


def peak() -> float:
    """GiB that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / GIB_OF_KIB


def measure(encoder: str, tuning: str, number: int) -> None:
    from scoring.backbones.transformer import memory, training
    from scoring.domain.spec import Spec, TransformerSettings

    computed: list[memory.MemoryNeeds] = []

    def remembered(*arguments: object) -> memory.MemoryNeeds:
        computed.append(memory.compute_needs(*arguments))  # type: ignore[arg-type]
        return computed[-1]

    memory.compute_needs = remembered  # type: ignore[assignment]
    long = " ".join(f"word{i} and" for i in range(600))
    levels = COMPLIANCE.values
    rows = [
        Example(
            f"k{i}", f"p{i}", f"How {i}?", f"{i} {long}", "m", labels={COMPLIANCE.criterion: levels[i % 3]}
        )
        for i in range(number)
    ]
    before = peak()
    settings = TransformerSettings(rounds=1, least_steps=0)
    training.fit_transformer(Spec("encoder", encoder, tuning, settings=settings), rows, [COMPLIANCE])  # type: ignore[arg-type]
    computed_gib = computed[0].total / memory.GIB
    print(f"| {tuning} | {peak() - before:.2f} | {computed_gib:.2f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--encoder", default=str(ENCODER), help="a folder of Hugging Face; %(default)s")
    parser.add_argument("--rows", type=int, default=96)
    parser.add_argument("--tuning", help="this one, in this process")
    options = parser.parse_args()
    if options.tuning:
        measure(options.encoder, options.tuning, options.rows)
        return
    print("| tuning | grew, GiB | computed, GiB |\n| --- | ---: | ---: |", flush=True)
    for tuning in ("full", "lora"):
        command_options = ["--encoder", options.encoder, "--rows", str(options.rows), "--tuning", tuning]
        subprocess.run(
            [sys.executable, "-m", "tests.performance.tuning_memory", *command_options], check=True
        )


if __name__ == "__main__":
    main()
