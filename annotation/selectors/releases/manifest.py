"""What a release says of itself: its manifest, made of what was counted while it was cut (``docs/gold.md``)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db.models import Count, F, Max, Min

from annotation.core.version import code_version
from annotation.domain.adjudication import ADJUDICATED
from annotation.domain.guidelines import GuidelineDocument, localize
from annotation.domain.guidelines.document import Dimension
from annotation.domain.guidelines.values import NA, NOT_APPLICABLE, strip_turn
from annotation.domain.releases.canonical import number
from annotation.domain.releases.same_texts import SameTexts
from annotation.domain.releases.splits import SPLITS, split_of
from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Assignment,
    Batch,
    Dataset,
    DisputeReason,
    EvaluatedModel,
    GoldRelease,
    Guideline,
    Person,
    Prompt,
    Task,
)
from annotation.models.sql.releases import FrozenLabel
from annotation.selectors.agreement import LabelPatterns
from annotation.selectors.origins import count_imported_work, count_people_here, describe_given_here
from annotation.selectors.releases.candidates import ReleaseNames

SCHEMA = 2
"""Of the manifest. The first had no ``schema``, nor any of the keys that the first do not share (docs/gold.md)."""
LANGUAGES = ("en", "zh")
EXAMPLES = 20
"""So many of the texts that several prompts share are named in the manifest; the rest are counted."""
PROMPTS_AT_ONCE = 1000
STATES = tuple(Task.State.values)


class ManifestCounts:
    """What a release holds, counted while it is read prompt by prompt."""

    def __init__(self, names: ReleaseNames) -> None:
        self.cells: Counter[tuple[Any, ...]] = Counter()
        self.rows = self.prompts = 0
        self.splits = {split: Counter(prompts=0, rows=0, labels=0) for split in SPLITS}
        self.same = SameTexts()
        self._names = names
        self._unread: list[int] = []

    @property
    def labels(self) -> int:
        return self.cells.total()

    @property
    def adjudicated(self) -> int:
        return self.by("source")[ADJUDICATED]

    def counted(self, of_prompt: list[FrozenLabel]) -> list[FrozenLabel]:
        """The released labels of one prompt, counted and handed on."""
        first_label = of_prompt[0]
        guidelines = self._names.guidelines
        rows = len({(guidelines[label.batch], label.model, label.response_sha256) for label in of_prompt})
        self.cells.update(
            (
                first_label.dataset,
                first_label.dimension,
                first_label.subcomponent,
                first_label.language,
                label.model,
                label.criterion,
                label.value,
                label.source,
            )
            for label in of_prompt
        )
        self.rows += rows
        self.prompts += 1
        split = self.splits[split_of(self._names.datasets[first_label.dataset], first_label.key)]
        split.update(prompts=1, rows=rows, labels=len(of_prompt))
        self._unread.append(first_label.prompt)
        if len(self._unread) == PROMPTS_AT_ONCE:
            self._read_texts()
        return of_prompt

    def by(self, *names: str) -> Counter[Any]:
        """Labels by one of the fields of a cell, or by several of them as a tuple."""
        places = [FIELDS.index(name) for name in names]
        counts: Counter[Any] = Counter()
        for cell, n in self.cells.items():
            key = tuple(cell[place] for place in places)
            counts[key if len(key) > 1 else key[0]] += n
        return counts

    def same_texts(self) -> list[list[int]]:
        self._read_texts()
        return self.same.groups()

    def _read_texts(self) -> None:
        prompts = Prompt.objects.filter(pk__in=self._unread).order_by("pk")
        for prompt, text in prompts.values_list("pk", "text"):
            self.same.add(prompt, text)
        self._unread = []


FIELDS = ("dataset", "dimension", "subcomponent", "language", "model", "criterion", "value", "source")


def build_manifest(
    release: GoldRelease,
    batches: Sequence[Batch],
    tally: ManifestCounts,
    selection: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    """Everything about the release that its datasheet needs; of people there are numbers only."""
    datasets = dict(Dataset.objects.filter(pk__in=tally.by("dataset")).values_list("pk", "name"))
    superseded = release.supersedes
    patterns = LabelPatterns(batches)
    return {
        "schema": SCHEMA,
        "name": release.name,
        "sha256": release.sha256,
        "created": release.created_at.isoformat(timespec="seconds"),
        "code_version": code_version(),
        "about": release.about,
        "supersedes": None if superseded is None else {"name": superseded.name, "sha256": superseded.sha256},
        "batches": sorted(batch.name for batch in batches),
        "protocol": [describe_protocol(batch) for batch in sorted(batches, key=lambda batch: batch.name)],
        "guidelines": describe_guidelines(batches),
        "datasets": sorted(datasets.values()),
        "counts": _describe_counts(tally),
        "splits": {split: dict(tally.splits[split]) for split in SPLITS},
        "selection": list(selection),
        "people": describe_people(batches),
        "imported": count_imported_work(batches),
        "agreement": [row.to_json() for row in patterns.report([("dimension",)])],
        "coverage": patterns.labels.coverage.to_json(),
        "adjudication_reasons": _count_reasons(release),
        "warnings": _list_warnings(tally, datasets),
    }


def describe_protocol(batch: Batch) -> dict[str, Any]:
    """How a batch was worked on: its policy, its dates, its tasks by state, how many people there were."""
    work = Task.objects.filter(batch=batch, kind=Task.Kind.WORK).order_by()
    states = dict(work.values_list("state").annotate(n=Count("pk")))
    days = list_submitted([batch]).aggregate(first=Min("submitted_at"), last=Max("submitted_at"))
    return {
        "name": batch.name,
        "guideline": batch.guideline.name,
        "guideline_version": batch.guideline.version,
        "state": batch.state,
        "overlap": batch.overlap,
        "overlap_share": number(batch.overlap_share),
        "plan": batch.plan,
        "settling": batch.settling,
        "aggregation": batch.aggregation if batch.settling == Batch.Settling.AGGREGATE else None,
        "aggregation_threshold": (
            batch.aggregation_threshold if batch.settling == Batch.Settling.AGGREGATE else None
        ),
        "pairing": batch.pairing,
        "order": batch.order,
        "tolerance": number(batch.tolerance),
        "second_reading_share": batch.second_reading_share,
        "second_adjudicator_share": batch.second_adjudicator_share,
        "check_share": batch.check_share,
        "check_feedback": batch.check_feedback,
        "response_format": batch.response_format,
        "prompt_format": batch.prompt_format,
        "read_to_end": batch.read_to_end,
        "introduction_required": batch.introduction_required,
        "qualifying": batch.qualifying or None,
        "qualifying_threshold": batch.qualifying_threshold,
        "created": batch.created_at.date().isoformat(),
        "first_submitted": days["first"] and days["first"].date().isoformat(),
        "last_submitted": days["last"] and days["last"].date().isoformat(),
        "tasks": {state: states.get(state, 0) for state in STATES},
        **_count_people([batch]),
        "here": describe_given_here(batch),
    }


def list_submitted(batches: Iterable[Batch]) -> Any:
    """What people handed in on the work of the batches, as a query of assignments."""
    return Assignment.objects.filter(
        batch__in=[batch.pk for batch in batches],
        state=Assignment.State.SUBMITTED,
        task__kind=Task.Kind.WORK,
    ).order_by()


def _count_people(batches: Sequence[Batch]) -> dict[str, int]:
    numbers = Counter(annotators=0, adjudicators=0, annotations=0)
    people = list_submitted(batches).values("person").annotate(n=Count("pk"))
    for row in people.filter(slot__lt=ADJUDICATION_SLOT):
        numbers.update(annotators=1, annotations=row["n"])
    numbers["adjudicators"] = len(people.filter(slot=ADJUDICATION_SLOT))
    return dict(numbers)


def describe_people(batches: Sequence[Batch]) -> dict[str, Any]:
    """How many people there were in all, and what the annotators say that they read."""
    annotators = list_submitted(batches).filter(slot__lt=ADJUDICATION_SLOT).values("person").distinct()
    person_languages = list(Person.objects.filter(pk__in=annotators).values_list("languages", flat=True))
    languages = Counter(language for languages_read in person_languages for language in languages_read)
    return {
        **_count_people(batches),
        "here": count_people_here(batches),
        "languages": _sort_counts(languages),
        "languages_unknown": sum(not languages_read for languages_read in person_languages),
    }


def describe_guidelines(batches: Sequence[Batch]) -> list[dict[str, Any]]:
    versions: dict[int, Guideline] = {batch.guideline.pk: batch.guideline for batch in batches}
    return [
        {
            "name": version.name,
            "version": version.version,
            "sha256": version.sha256,
            "title": _localize(version.document.title),
            "dimensions": [_describe_dimension(dimension) for dimension in version.document.dimensions],
            "criteria": [
                _describe_criterion(version.document, name)
                for name in (criterion.name for criterion in version.document.criteria)
            ],
        }
        for version in sorted(versions.values(), key=lambda guideline: (guideline.name, guideline.version))
    ]


def _describe_dimension(dimension: Dimension) -> dict[str, Any]:
    parts = [
        {"name": subcomponent.name, "label": _localize(subcomponent.label)}
        for subcomponent in dimension.subcomponents
    ]
    return {"name": dimension.name, "label": _localize(dimension.label), "subcomponents": parts}


def _describe_criterion(document: GuidelineDocument, name: str) -> dict[str, Any]:
    criterion = document.criterion(name)
    return {
        "name": name,
        "label": _localize(criterion.label),
        "measurement": "text" if criterion.kind == "text" else criterion.agreement_scale,
        "levels": {str(level.value): _localize(level.name) for level in criterion.scale}
        | ({NA: NOT_APPLICABLE} if criterion.na else {}),
    }


def _localize(text: Mapping[str, str]) -> dict[str, str]:
    return {language: localize(text, language) for language in LANGUAGES}


def _describe_counts(tally: ManifestCounts) -> dict[str, Any]:
    models = dict(EvaluatedModel.objects.filter(pk__in=tally.by("model")).values_list("pk", "name"))
    return {
        "rows": tally.rows,
        "labels": tally.labels,
        "prompts": tally.prompts,
        "adjudicated": tally.adjudicated,
        "by_dimension": _sort_counts(tally.by("dimension")),
        "by_subcomponent": _nest_counts(tally.by("dimension", "subcomponent")),
        "by_model": _sort_counts({models[model]: n for model, n in tally.by("model").items()}),
        "by_language": _sort_counts(tally.by("language")),
        "by_source": _sort_counts(tally.by("source")),
        "by_level": _nest_counts(_count_levels(tally)),
    }


def _count_levels(tally: ManifestCounts) -> dict[tuple[str, str], int]:
    """By criterion and value; the labels of all turns together."""
    counts: Counter[tuple[str, str]] = Counter()
    for (name, value), n in tally.by("criterion", "value").items():
        counts[strip_turn(name), str(number(value))] += n
    return dict(counts)


def _sort_counts(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts)}


def _nest_counts(counts: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for outer, inner in sorted(counts):
        nested.setdefault(outer, {})[inner] = counts[outer, inner]
    return nested


def _count_reasons(release: GoldRelease) -> list[dict[str, Any]]:
    """Why annotators differed where an adjudicator's decision is released, the most frequent first."""
    decided = release.items.exclude(adjudication=None).order_by().values("adjudication")
    reasons = Adjudication.objects.filter(pk__in=decided).order_by().values(key=F("reason__key"))
    counts = {row["key"]: row["n"] for row in reasons.annotate(n=Count("pk"))}
    words = {
        dispute_reason.key: dispute_reason.words
        for dispute_reason in DisputeReason.objects.filter(key__in=[key for key in counts if key])
    }
    return [
        {"reason": key, "words": words.get(key), "decisions": counts[key]}
        for key in sorted(counts, key=lambda key: (-counts[key], key or ""))
    ]


def _list_warnings(tally: ManifestCounts, datasets: Mapping[int, str]) -> list[dict[str, Any]]:
    """Prompts that say the same under several ids may stand on both sides of a split."""
    groups = tally.same_texts()
    if not groups:
        return []
    prompts = Prompt.objects.in_bulk([prompt for group in groups for prompt in group])
    prompt_groups = [
        [(datasets[prompts[pk].dataset_id], prompts[pk].key) for pk in group] for group in groups
    ]
    split_groups = [group for group in prompt_groups if len({split_of(*prompt) for prompt in group}) > 1]
    examples = sorted(split_groups) or sorted(prompt_groups)
    return [
        {
            "kind": "same_text",
            "texts": len(prompt_groups),
            "prompts": sum(map(len, prompt_groups)),
            "texts_across_splits": len(split_groups),
            "examples": [[list(prompt) for prompt in group] for group in examples[:EXAMPLES]],
        }
    ]
