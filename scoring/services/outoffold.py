"""The predictions that a scorer may give of what it was trained on: out of fold, kept beside its weights.

They are part of the scorer's folder, so that its hash covers them, and they are known by content: the same
prompt and response under another model, collection or dataset is what the scorer was trained on too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scoring.dataset import Head, level_name, prediction_from_json, prediction_to_json
from scoring.dataset import Prediction as Predicted
from scoring.models import Prediction, Scorer
from scoring.selectors.lessons import heads_of

OUT_OF_FOLD = "out_of_fold.json"


@dataclass(frozen=True)
class OutOfFold:
    """By content key: the fold, and the prediction of the model that had not seen it.

    A content of the release that no fold could predict is here with an empty prediction: it is not unseen.
    """

    predictions: Mapping[str, tuple[int, Predicted]]

    def save(self, folder: Path) -> None:
        rows = {
            key: {"fold": fold, "prediction": prediction_to_json(predicted)}
            for key, (fold, predicted) in sorted(self.predictions.items())
        }
        (folder / OUT_OF_FOLD).write_text(json.dumps(rows), encoding="utf-8")

    @classmethod
    def load(cls, folder: Path, heads: Sequence[Head]) -> OutOfFold:
        rows: dict[str, Any] = json.loads((folder / OUT_OF_FOLD).read_text(encoding="utf-8"))
        return cls(
            {key: (row["fold"], prediction_from_json(row["prediction"], heads)) for key, row in rows.items()}
        )


class PredictionRows:
    """Makes the rows of one scorer's predictions."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self._document = scorer.guideline.document
        self._heads = {head.criterion: head for head in heads_of(scorer.guideline)}
        heads = scorer.card.get("heads", {})
        self._unlearned = {name for name, head in heads.items() if head["state"] == "empty"}

    def applicable(self, dimension: str | None) -> list[str]:
        """The criteria asked of a prompt of this dimension."""
        return [one.name for one in self._document.criteria_for(dimension)]

    def expected(self, dimension: str | None) -> list[str]:
        """Of those the ones that the scorer had labels to learn: what a scored response has predictions of."""
        return [name for name in self.applicable(dimension) if name not in self._unlearned]

    def of(
        self, response: int, dimension: str | None, predicted: Predicted, fold: int | None
    ) -> list[Prediction]:
        """A row for each applicable criterion that the scorer could predict."""
        return [
            Prediction(
                scorer=self._scorer,
                response_id=response,
                criterion=name,
                value=self._heads[name].most_likely(predicted[name]),
                probabilities={level_name(value): p for value, p in predicted[name].items()},
                fold=fold,
            )
            for name in self.applicable(dimension)
            if name in predicted
        ]
