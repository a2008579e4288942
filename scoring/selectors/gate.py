"""What the gate reads: the evidence on two scorers, the attempts before, and what it said of a scorer that is current.

A prompt is known by its id and by its text, nearly the same text included: a text may stand in two datasets, and a text
so short that anybody begins with it is no mark of a prompt (``scoring.domain.training_data.shared_text``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db.models import Q

from annotation.core.study_scope import choose_study_id
from annotation.models import Job, Person
from scoring.domain.evaluation.metrics import list_criteria_below_rates
from scoring.domain.gate import VERSION, GateCase
from scoring.domain.training_data import Example, Head, prompt_groups, shared_text
from scoring.domain.training_data import Prediction as Predicted
from scoring.models import Promotion, Scorer
from scoring.selectors.scorers import JUDGE, list_sealed_scorers
from scoring.selectors.training import (
    OutOfFoldPredictions,
    TrainingRecord,
    TrainingSet,
    build_heads,
    build_training_set,
    find_weights,
)

MAX_TEXTS = 100_000
"""So many prompts' texts are reduced once: each stands before several responses."""
Ask = Callable[[Scorer, TrainingRecord, Sequence[Example]], dict[str, Predicted]]
"""What a scorer that is kept says, by content key."""


@dataclass(frozen=True)
class LearnedPrompts:
    """What a scorer has learned, as far as the releases tell: contents, and prompts by id and by text."""

    contents: frozenset[str]
    ids: frozenset[str]
    texts: frozenset[str]

    @classmethod
    def collect(cls, examples: Iterable[Example], contents: frozenset[str]) -> LearnedPrompts:
        learned = [example for example in examples if example.content_key in contents]
        texts = {_reduce_text(example.prompt) for example in learned}
        return cls(
            contents,
            frozenset(example.prompt_key for example in learned),
            frozenset(text for text in texts if text is not None),
        )

    def holds(self, example: Example) -> bool:
        return (
            example.content_key in self.contents
            or example.prompt_key in self.ids
            or _reduce_text(example.prompt) in self.texts
        )


@lru_cache(maxsize=MAX_TEXTS)
def _reduce_text(prompt: str) -> str | None:
    return shared_text(prompt)


@dataclass(frozen=True)
class GateSide:
    """One scorer, what it has learned, and what was said of that out of fold."""

    scorer: Scorer
    record: TrainingRecord
    learned: LearnedPrompts
    out_of_fold: Mapping[str, Predicted]

    @classmethod
    def load(cls, scorer: Scorer, examples: Iterable[Example]) -> GateSide:
        """Raises AssayError where its files are gone or changed."""
        record = TrainingRecord.load(scorer)
        predictions = OutOfFoldPredictions.load(
            find_weights(scorer), build_heads(scorer.guideline)
        ).predictions
        return cls(
            scorer,
            record,
            LearnedPrompts.collect(examples, record.learned),
            {key: predicted for key, (_fold, predicted) in predictions.items()},
        )

    def predict(self, examples: Sequence[Example], ask: Ask) -> dict[str, Predicted]:
        """By the example's key; what it has learned out of fold, and nothing where no fold said anything."""
        known = {example.key for example in examples if self.learned.holds(example)}
        unseen = [example for example in examples if example.key not in known]
        answers = ask(self.scorer, self.record, unseen) if unseen else {}
        predictions = {example.key: answers[example.content_key] for example in unseen}
        for example in examples:
            if example.key in known and example.content_key in self.out_of_fold:
                predictions[example.key] = self.out_of_fold[example.content_key]
        return predictions


def is_silent(scorer: Scorer, criterion: str) -> bool:
    """Whether the card says that it had no label of the criterion to learn from."""
    head = scorer.card.get("heads", {}).get(criterion)
    return head is not None and head["state"] == "empty"


@dataclass(frozen=True)
class GateEvidence:
    """The labelled responses of both scorers' releases, and the criteria on which both can be asked.

    Where both releases have a label, the new scorer's counts.
    """

    examples: list[Example]
    taught: list[Example]
    heads: tuple[Head, ...]
    rescaled: tuple[str, ...]

    @classmethod
    def collect(cls, lesson: TrainingSet, new: Scorer, old: Scorer) -> GateEvidence:
        """``lesson`` is what the new scorer's release teaches."""
        if (old.release_id, old.guideline_id) == (new.release_id, new.guideline_id):
            return cls(list(lesson.examples), list(lesson.examples), lesson.heads, ())
        more = build_training_set(old.release, old.guideline)
        examples = {example.key: example for example in more.examples}
        examples |= {example.key: example for example in lesson.examples}
        known = set(more.heads)
        return cls(
            sorted(examples.values(), key=lambda example: (example.key, example.content_key)),
            [*lesson.examples, *more.examples],
            tuple(head for head in lesson.heads if head in known),
            tuple(head.criterion for head in lesson.heads if head not in known),
        )

    def build_cases(self, new: GateSide, old: GateSide, ask: Ask) -> tuple[list[GateCase], int]:
        """One for each label on which both may be asked, and how many others are left out.

        A label is left out where a scorer has learned its prompt and no fold of its evaluation predicted it.
        """
        criteria = [head.criterion for head in self.heads]
        labelled = [example for example in self.examples if not example.labels.keys().isdisjoint(criteria)]
        fair = [
            example for example in labelled if self._is_fair(example, new) and self._is_fair(example, old)
        ]
        answers_new, answers_old = new.predict(fair, ask), old.predict(fair, ask)
        groups = dict(zip((e.key for e in self.examples), prompt_groups(self.examples), strict=True))
        cases, left_out = [], 0
        fair_keys = {example.key for example in fair}
        for example in labelled:
            for head in self.heads:
                if head.criterion not in example.labels:
                    continue
                sides = ((new, answers_new), (old, answers_old))
                if example.key not in fair_keys or any(
                    _is_unpredicted(side, example, answers[example.key], head) for side, answers in sides
                ):
                    left_out += 1
                    continue
                cases.append(
                    GateCase(
                        key=example.content_key,
                        prompt=groups[example.key],
                        criterion=head.criterion,
                        truth=example.labels[head.criterion],
                        new=_find_value(head, answers_new[example.key]),
                        old=_find_value(head, answers_old[example.key]),
                        test=not any(side.learned.holds(example) for side in (new, old)),
                    )
                )
        return cases, left_out

    def _is_fair(self, example: Example, side: GateSide) -> bool:
        return not side.learned.holds(example) or example.content_key in side.out_of_fold


def _is_unpredicted(side: GateSide, example: Example, predicted: Predicted, head: Head) -> bool:
    """No fold could learn what the scorer that is kept has learned: its silence out of fold is no answer of its own."""
    return (
        head.criterion not in predicted
        and side.learned.holds(example)
        and not is_silent(side.scorer, head.criterion)
    )


def _find_value(head: Head, predicted: Predicted) -> float | None:
    """The most likely level, or None where nothing was said."""
    distribution = predicted.get(head.criterion)
    return None if distribution is None else head.most_likely(distribution)


def list_useless_criteria(scorer: Scorer) -> list[str]:
    """The criteria on which it predicts no better than the commonest levels' rates, by log loss out of fold.

    A scorer of an earlier version has neither figure, and is not asked for a reason; nor is one whose labels of the
    criterion are of one level alone, for nobody can predict better than that level.
    """
    heads = scorer.card.get("heads", {})
    return [
        criterion
        for criterion in list_criteria_below_rates(scorer.evaluation.get("grouped", {}))
        if criterion not in heads or heads[criterion]["state"] == "learned"
    ]


def list_datasets(examples: Iterable[Example]) -> list[str]:
    """The datasets that have a label here, in whatever split: those out of fold are evidence as well."""
    return sorted({example.prompt_key.partition("/")[0] for example in examples if example.labels})


def list_attempts(new: Scorer, datasets: Iterable[str]) -> list[dict[str, Any]]:
    """The verdicts so far that rest on labels of one of the datasets, of the study under way and the scorer's
    guideline, the oldest first.

    Those of the first version did not name datasets; they count.
    """
    labelled = set(datasets)
    study = choose_study_id(new.study_id)
    known = Scorer.objects.filter(Q(study=study) | Q(pk=new.pk), guideline__name=new.guideline.name)
    scorers = dict(known.values_list("pk", "name"))
    # The verdict is stored before the job's end: whoever counts in between must not overlook it.
    attempts = []
    verdicts = Job.objects.filter(
        Q(study=study) | Q(study=None), kind=JUDGE, payload__scorer__in=list(scorers)
    )
    for job in verdicts.order_by("pk"):
        verdict = job.result.get("verdict")
        if verdict is None or verdict["first"]:
            continue
        if "datasets" in verdict and labelled.isdisjoint(verdict["datasets"]):
            continue
        attempts.append(
            {
                "scorer": scorers[job.payload["scorer"]],
                "outcome": read_outcome(verdict),
                "margin": verdict.get("margin"),
            }
        )
    return attempts


def read_outcome(verdict: Mapping[str, Any]) -> str | None:
    """Of a verdict of any version. The first version called not worse whatever it did not find worse: not shown."""
    if verdict.get("version") == VERSION:
        outcome: str | None = verdict["outcome"]
        return outcome
    if verdict.get("first", True):
        return None
    return "not_shown" if verdict["passed"] else "worse"


def find_promotion(scorer: Scorer) -> Promotion | None:
    """The last row by which the gate, or a reason, made it the current one."""
    promotions = Promotion.objects.filter(scorer=scorer).exclude(kind=Promotion.Kind.BACK)
    return promotions.select_related("created_by").order_by("-number").first()


def withhold_comparisons(verdict: Mapping[str, Any], sealed: Collection[str]) -> dict[str, Any]:
    """A verdict without its figures of gold beside these scorers: their ``rivals`` say ``sealed`` and no more.

    The figures are of the gold of both scorers that were compared: whoever may not open one of them sees none.
    """
    sealed_rivals = [rival["scorer"] for rival in verdict.get("rivals", ()) if rival["scorer"] in sealed]
    if not sealed_rivals:
        return dict(verdict)
    return {
        **verdict,
        "rivals": [
            {"role": rival["role"], "scorer": rival["scorer"], "sealed": True, "criteria": []}
            if rival["scorer"] in sealed
            else rival
            for rival in verdict["rivals"]
        ],
        "reasons": [reason for reason in verdict["reasons"] if reason.get("scorer") not in sealed],
    }


def describe_promotion(scorer: Scorer, reader: Person | None = None) -> dict[str, Any] | None:
    """What cards, boards and files tell of how the scorer became the current one; None where it never did.

    Of a ``reader``: without the comparisons with scorers whose gold is sealed for them, which ``withheld`` names.

    ``{"outcome", "margin", "reason", "first", "other_scales", "by_first_version", "comparisons": [{"role", "criterion",
    "n", "prompts", "difference": {"value", "low", "high"}, "outcome"}], "doubts": [{"code", ..}], "withheld":
    [scorer, ..], "attempt", "raised_from", "at"}``; fractions of 1. ``other_scales``: it was judged as a first one, for
    the scorer that it replaced knew none of its scales.
    """
    promotion = find_promotion(scorer)
    if promotion is None:
        return None
    sealed = list_sealed_scorers(reader) if reader is not None else frozenset()
    verdict = withhold_comparisons(promotion.verdict, sealed)
    is_current_form = verdict.get("version") == VERSION
    return {
        "outcome": read_outcome(verdict),
        "margin": verdict.get("margin"),
        "reason": promotion.reason,
        "first": bool(verdict.get("first", False)),
        "other_scales": bool(verdict.get("first", False)) and promotion.replaced_id is not None,
        "by_first_version": not is_current_form,
        "comparisons": _list_comparisons(verdict) if is_current_form else [],
        "doubts": list(verdict["reasons"]) if is_current_form else [],
        "withheld": [rival["scorer"] for rival in verdict.get("rivals", ()) if rival.get("sealed")],
        "attempt": verdict.get("attempt"),
        "raised_from": verdict.get("raised_from"),
        "at": promotion.created_at.isoformat(timespec="seconds"),
    }


def _list_comparisons(verdict: Mapping[str, Any]) -> list[dict[str, Any]]:
    names = ("criterion", "n", "prompts", "difference", "outcome")
    return [
        {"role": rival["role"]} | {name: comparison[name] for name in names}
        for rival in verdict["rivals"]
        for comparison in rival["criteria"]
    ]
