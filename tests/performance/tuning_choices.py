"""Whether another loss, form or balance helps a scorer, with intervals; prints a Markdown table.

    python -m tests.performance.tuning_choices [--data dialogues ratings products films xstest]
        [--scorers rates ngram embedding tuned] [--choices "ordinal 1"] [--of 1] [--folds 5] [--seeds 0 1]
        [--set KEY=VALUE ..] [--encoder DIR] [--threads 1] [--keep FOLDER]

``dialogues``: Lend an Ear's fifty under six criteria of five levels, each its own prompt, by the median of three
experts; ``ratings``: every rating of an expert or of the crowd is an example. ``products`` (five levels) and ``films``
(nine): sentences of reviews by the median of many people. ``xstest``: three levels. ``--of N`` takes about one example
in N.

Each choice learns and predicts the same of five folds by prompt, of each seed, and the folds are pooled. The figures
are means over the seeds, and over the criteria where there are several; *levels off* is the mean absolute distance in
levels. The last two differences are to the scorer's first choice, over the same labels, with a 95% interval over
prompts. With ``--keep`` each fold's predictions are kept as they come, so that a stopped run goes on.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from scoring.backbones import embedding
from scoring.backbones.linear import FeatureExtractor, HeadTask, LinearRecipe, fit_calibrated
from scoring.backbones.ngram import NgramBackbone
from scoring.backbones.transformer.backbone import TransformerBackbone
from scoring.domain.backbone import FitProgress, Learner, Report, ignore_progress
from scoring.domain.calibration import TINY
from scoring.domain.evaluation.baselines import RulesBackbone
from scoring.domain.evaluation.cross_validation import Evaluation, evaluate_splits
from scoring.domain.evaluation.outcomes import Draws, Outcomes, Statistic, collect_outcomes
from scoring.domain.spec import Spec, TransformerSettings
from scoring.domain.tables import PredictionTable, tabulate_labels
from scoring.domain.training_data import Example, Head, Prediction, splits_by_prompt
from scoring.inference.ngram import AnyHead, Form, LinearHead, list_distributions
from tests.performance.scorer_xstest import find_small_encoder
from tests.scoring import lend_an_ear, snippets, xstest

DATA: Mapping[str, tuple[Callable[[], list[Example]], Sequence[Head]]] = {
    "dialogues": (lend_an_ear.settled_dialogues, lend_an_ear.HEADS),
    "ratings": (lend_an_ear.rated_dialogues, lend_an_ear.HEADS),
    "products": (snippets.read_products, [snippets.PRODUCTS]),
    "films": (snippets.read_films, [snippets.FILMS]),
    "xstest": (xstest.examples, [xstest.HEAD]),
}
SCORERS = ("rates", "ngram", "embedding", "head", "tuned")
FORMS: Mapping[str, tuple[Form, ...]] = {
    "chosen on inner folds": ("multinomial", "cumulative"),
    "multinomial": ("multinomial",),
    "cumulative": ("cumulative",),
}
TUNED: Mapping[str, dict[str, float]] = {
    "ordinal 0": {},
    "ordinal 0.5": {"ordinal": 0.5},
    "ordinal 1": {"ordinal": 1.0},
    "ordinal 2": {"ordinal": 2.0},
    "balance 0": {"balance": 0.0},
    "balance 1": {"balance": 1.0},
}
ORDINAL = {name: changes.get("ordinal", 0.0) for name, changes in TUNED.items() if "ordinal" in name}
RESAMPLES = 2000
HEADER = (
    *("accuracy", "macro-F1", "within one", "levels off", "quadratic kappa", "log loss", "calibration error"),
    *("levels off, difference", "log loss, difference", "seconds"),
)


@dataclass(frozen=True)
class LinearPredictor:
    features: FeatureExtractor
    heads: Sequence[AnyHead]

    def predict(self, examples: Sequence[Example], *, report: Report = ignore_progress) -> list[Prediction]:
        return list_distributions(self.heads, self.features.extract_further(examples))


@dataclass(frozen=True)
class LinearLearner:
    """A linear scorer of another recipe than its backbone's; ``name`` tells it from others."""

    name: str
    recipe: LinearRecipe = field(repr=False)

    def fit(
        self,
        examples: Sequence[Example],
        heads: Sequence[Head],
        *,
        seed: int = 0,
        report: Report = ignore_progress,
        checkpoints: Path | None = None,
    ) -> LinearPredictor:
        fit = fit_calibrated(self.recipe, examples, heads, seed=seed)
        return LinearPredictor(fit.features, fit.heads)


@dataclass(frozen=True)
class OrdinalRecipe(LinearRecipe):
    """A linear head that learns by the loss of a tuned encoder's heads, ridge-regularised, to its minimum."""

    forms: tuple[Form, ...] = ("multinomial",)
    ordinal: float = 0.0

    def fit(self, task: HeadTask, form: Form, seed: int) -> LinearHead:
        import torch

        from scoring.backbones.transformer.modeling import head_loss

        if task.is_plain:
            return super().fit(task, form, seed)
        matrix, targets = torch.tensor(task.matrix), torch.tensor(task.targets)[:, None]
        level_importance = [task.importance[task.targets == place][0] for place in range(len(task.seen))]
        importance = torch.tensor(level_importance, dtype=torch.float32)
        weights = torch.zeros((matrix.shape[1], len(task.seen)), requires_grad=True)
        bias = torch.zeros(len(task.seen), requires_grad=True)
        optimizer = torch.optim.LBFGS([weights, bias], max_iter=300, line_search_fn="strong_wolfe")

        def compute_loss() -> torch.Tensor:
            optimizer.zero_grad()
            loss = head_loss([matrix @ weights + bias], targets, [importance], [self.ordinal])
            loss = loss + weights.square().sum() / (2 * self.regularisation)
            loss.backward()
            return loss

        optimizer.step(compute_loss)
        arrays = (weights.detach().numpy(), bias.detach().numpy())
        return LinearHead(task.head.criterion, task.head.values, task.seen, *arrays)


def match_nothing(response: str) -> bool:
    return False


def build_choices(scorer: str, encoder: str, settings: TransformerSettings) -> dict[str, Learner]:
    """By name; the first is what the others are compared with."""
    if scorer == "rates":
        return {"the commonest level": RulesBackbone(match_nothing)}
    if scorer == "tuned":
        return {
            name: TransformerBackbone(
                Spec("encoder", encoder, "full", settings=replace(settings, **changes))  # type: ignore[arg-type]
            )
            for name, changes in TUNED.items()
        }
    recipe = NgramBackbone().recipe if scorer == "ngram" else embedding.recipe(Spec("encoder", encoder))
    recipes: dict[str, LinearRecipe] = {name: replace(recipe, forms=forms) for name, forms in FORMS.items()}
    if scorer == "head":
        recipes = {
            name: OrdinalRecipe(recipe.reads, recipe.regularisation, settings.balance, ordinal=ordinal)
            for name, ordinal in ORDINAL.items()
        }
    return {name: LinearLearner(f"{scorer} {name}", recipe) for name, recipe in recipes.items()}


def read_rows(name: str, of: int) -> tuple[list[Example], Sequence[Head]]:
    read, heads = DATA[name]
    return [row for row in read() if sum(row.key.encode()) % of == 0], heads


@dataclass(frozen=True)
class Results:
    """The evaluations of one choice, one for each seed, and the errors of each label in them."""

    evaluations: Sequence[Evaluation]
    outcomes: Sequence[Outcomes]
    """Of each seed and criterion."""

    @classmethod
    def collect(
        cls,
        rows: Sequence[Example],
        heads: Sequence[Head],
        evaluations: Sequence[Evaluation],
        rates: Sequence[Evaluation],
    ) -> Results:
        labels = tabulate_labels((row.labels for row in rows), heads)
        outcomes = [
            outcomes
            for own, learned in zip(evaluations, rates, strict=True)
            for outcomes in collect_outcomes(
                labels,
                PredictionTable.collect(own.predictions, heads),
                PredictionTable.collect(learned.predictions, heads),
            )
        ]
        return cls(evaluations, outcomes)

    def list_figures(self) -> list[float]:
        metrics = [evaluation.metrics for evaluation in self.evaluations]
        kappas = [
            figures["quadratic_kappa"] or 0.0 for each in metrics for figures in each["by_criterion"].values()
        ]
        return [
            *(np.mean([each[name]["value"] for each in metrics]) for name in ("accuracy", "macro_f1")),
            np.mean([each["within_one"]["value"] for each in metrics]),
            np.concatenate(self.list_distances()).mean(),
            np.mean(kappas),
            np.concatenate(self.list_losses()).mean(),
            np.mean([each["calibration_error"] for each in metrics]),
        ]

    def list_distances(self) -> list[npt.NDArray[Any]]:
        return [np.abs(each.predicted - each.truth).astype(float) for each in self.outcomes]

    def select_learned(self) -> list[Outcomes]:
        """The labels whose level the fold had learned: of another it can know nothing."""
        return [each.select(_select_right(each, each.rates) > 0) for each in self.outcomes]

    def list_losses(self) -> list[npt.NDArray[Any]]:
        return [-np.log(np.maximum(_select_right(each, each.shares), TINY)) for each in self.select_learned()]

    def list_differences(self, base: Results, draws: Draws) -> list[str]:
        parts = (
            (self.outcomes, self.list_distances(), base.list_distances()),
            (self.select_learned(), self.list_losses(), base.list_losses()),
        )
        return [
            format_difference(
                draws.mean_of_hits(outcomes, [a - b for a, b in zip(own, compared, strict=True)])
            )
            for outcomes, own, compared in parts
        ]


def _select_right(outcomes: Outcomes, shares: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
    assert shares is not None
    right: npt.NDArray[Any] = shares[np.arange(len(outcomes.truth)), outcomes.truth]
    return right


def format_difference(statistic: Statistic) -> str:
    value, low, high = (statistic[name] for name in ("value", "low", "high"))
    if low is None or high is None:
        return f"{value:+.3f}"
    return f"{value:+.3f} ({low:+.3f} to {high:+.3f})"


def tell_folds(words: str) -> Report:
    """On standard error, each fold as it begins."""
    begun: list[int | None] = []

    def report(progress: FitProgress) -> None:
        if progress.part not in begun:
            begun.append(progress.part)
            print(f"{words}, fold {progress.part}/{progress.parts}", file=sys.stderr, flush=True)

    return report


def evaluate_seeds(
    words: str, learner: Learner, rows: Sequence[Example], heads: Sequence[Head], options: argparse.Namespace
) -> list[Evaluation]:
    return [
        evaluate_splits(
            learner,
            rows,
            heads,
            splits_by_prompt(rows, seed=seed)[: options.folds],
            seed=seed,
            report=tell_folds(f"{words}, seed {seed}"),
            checkpoints=options.keep and options.keep / words.replace(" ", "-") / str(seed),
        )
        for seed in options.seeds
    ]


def print_data(data: str, options: argparse.Namespace) -> None:
    rows, heads = read_rows(data, options.of)
    draws = Draws.draw_prompts(rows, resamples=RESAMPLES)
    labels = sum(len(row.labels) for row in rows)
    print(f"\n{data}: {len(rows)} examples, {len(draws.weights)} prompts, {labels} labels\n")
    print(f"| scorer | choice | {' | '.join(HEADER)} |\n| --- | --- |{' ---: |' * len(HEADER)}")
    settings = TransformerSettings().with_assignments(options.set)
    baseline = build_choices("rates", "", settings)["the commonest level"]
    rates = evaluate_seeds(f"{data} rates", baseline, rows, heads, options)
    for scorer in options.scorers:
        base: Results | None = None
        for name, learner in build_choices(scorer, options.encoder, settings).items():
            if options.choices and name not in options.choices and base is not None:
                continue
            began = time.perf_counter()
            evaluations = evaluate_seeds(f"{data} {scorer} {name}", learner, rows, heads, options)
            results = Results.collect(rows, heads, evaluations, rates)
            cells = [f"{figure:.3f}" for figure in results.list_figures()]
            cells += results.list_differences(base, draws) if base else ["", ""]
            print(
                f"| {scorer} | {name} | {' | '.join(cells)} | {time.perf_counter() - began:.0f} |", flush=True
            )
            base = base or results


def limit_torch_threads(threads: int) -> None:
    import torch

    torch.set_num_threads(threads)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=list(DATA), default=["dialogues"])
    parser.add_argument("--scorers", nargs="+", choices=SCORERS, default=list(SCORERS))
    parser.add_argument("--choices", nargs="+", help="beside the first one of each scorer; all")
    parser.add_argument("--of", type=int, default=1)
    parser.add_argument("--folds", type=int, default=5, help="so many of the five are predicted")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--set", nargs="+", default=[], help="settings of the tuned encoder")
    parser.add_argument(
        "--encoder", default=find_small_encoder(), help="a folder of Hugging Face; %(default)s"
    )
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    limit_torch_threads(options.threads)
    for data in options.data:
        print_data(data, options)


if __name__ == "__main__":
    main()
