"""A gold release as judges, scorers and people are compared on it: its labels, and what each annotator said alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from annotation.models import ADJUDICATION_SLOT, Annotation, Assignment, GoldLabel, GoldRelease, Person
from annotation.selectors.releases.selection import list_chances
from benchmark.domain.judges.metrics import LabelPair
from benchmark.selectors.judges.judges import Key
from scoring.domain.training_data import Head, Value, prompt_groups
from scoring.selectors.training import TrainingSet, build_training_set, get_release_guideline

CandidateLabels = dict[Key, tuple[Value | None, float | None]]
"""By response and criterion: the level (None off the scale), and its probability where there is one."""


@dataclass(frozen=True)
class RaterLabel:
    """What one annotator said alone of a criterion of a task, and whether gold rests on that word."""

    person: int
    task: int
    response: int
    criterion: str
    value: Value
    supports_gold: bool


class ReleaseComparison:
    """A release as the comparison reads it."""

    def __init__(self, release: GoldRelease) -> None:
        self.release = release
        self.guideline = get_release_guideline(release)

    @cached_property
    def training_set(self) -> TrainingSet:
        return build_training_set(self.release, self.guideline)

    @property
    def heads(self) -> tuple[Head, ...]:
        return self.training_set.heads

    @cached_property
    def n_gold(self) -> int:
        return sum(len(example.labels) for example in self.training_set.examples)

    @cached_property
    def prompts(self) -> dict[int, str]:
        """The group of prompts of each response: prompts of one text are one."""
        return dict(zip(self.training_set.responses, prompt_groups(self.training_set.examples), strict=True))

    @cached_property
    def rows(self) -> dict[int, int]:
        return {response: row for row, response in enumerate(self.training_set.responses)}

    @cached_property
    def scales(self) -> dict[str, frozenset[Value]]:
        return {head.criterion: frozenset(head.values) for head in self.heads}

    @cached_property
    def chances(self) -> dict[int, float | None]:
        """By response the chance with which it came to have gold."""
        return list_chances(self.release)

    @cached_property
    def decisions(self) -> dict[tuple[int, str], float]:
        """By task and criterion, what an adjudicator decided."""
        items = self.release.items.filter(source=GoldLabel.Source.ADJUDICATED)
        return {
            (task, criterion): value
            for task, criterion, value in items.values_list("task_id", "criterion", "value")
            if value is not None
        }

    @cached_property
    def rater_labels(self) -> list[RaterLabel]:
        """Every annotator's own label of what has gold here, before anything was settled."""
        submitted = Annotation.objects.filter(
            current=True,
            assignment__state=Assignment.State.SUBMITTED,
            assignment__slot__lt=ADJUDICATION_SLOT,
            assignment__task__in=self.release.items.order_by().values("task"),
        ).order_by("assignment__task_id", "assignment__slot")
        fields = ("assignment__person_id", "assignment__task_id", "assignment__task__response_id", "labels")
        return [
            RaterLabel(person, task, response, criterion, value, (task, criterion) not in self.decisions)
            for person, task, response, labels in submitted.values_list(*fields).iterator(chunk_size=2000)
            for criterion, value in labels.items()
            if value in self.scales.get(criterion, ()) and self._find_truth(response, criterion) is not None
        ]

    @cached_property
    def names(self) -> dict[int, str]:
        people = {rater_label.person for rater_label in self.rater_labels}
        return dict(Person.objects.filter(pk__in=people).values_list("pk", "username"))

    def build_pairs(self, labels: CandidateLabels, *, seen: frozenset[str] | None = None) -> list[LabelPair]:
        """The gold labels that there is a word on; what is no level of this version's scale is off it."""
        gold_pairs = []
        for response, example in zip(self.training_set.responses, self.training_set.examples, strict=True):
            for criterion, truth in example.labels.items():
                if (response, criterion) in labels:
                    answer, confidence = labels[response, criterion]
                    off = answer not in self.scales[criterion]
                    gold_pairs.append(
                        LabelPair(
                            prompt=self.prompts[response],
                            model=example.model,
                            dimension=example.dimension or "",
                            criterion=criterion,
                            truth=truth,
                            answer=None if off else answer,
                            confidence=None if off else confidence,
                            was_seen=None if seen is None else example.model in seen,
                            chance=self.chances.get(response),
                        )
                    )
        return gold_pairs

    def _find_truth(self, response: int, criterion: str) -> Value | None:
        row = self.rows.get(response)
        return None if row is None else self.training_set.examples[row].labels.get(criterion)

    def build_pair(self, rater_label: RaterLabel, truth: Value) -> LabelPair:
        example = self.training_set.examples[self.rows[rater_label.response]]
        return LabelPair(
            prompt=self.prompts[rater_label.response],
            model=example.model,
            dimension=example.dimension or "",
            criterion=rater_label.criterion,
            truth=truth,
            answer=rater_label.value,
            chance=self.chances.get(rater_label.response),
        )

    def get_gold(self, rater_label: RaterLabel) -> Value:
        return self.training_set.examples[self.rows[rater_label.response]].labels[rater_label.criterion]
