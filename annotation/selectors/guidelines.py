"""Guidelines and their versions, the notes on their clauses, and their labels in the reader's language."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from django.conf import settings
from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet
from django.utils.translation import get_language, gettext

from annotation.core.errors import N_, NotFound
from annotation.core.formatting import format_compact
from annotation.core.study_scope import build_own_filter, build_study_filter
from annotation.domain.guidelines import NA, GuidelineDocument, Label, localize
from annotation.domain.guidelines.criteria import Criterion
from annotation.domain.guidelines.parser import parse_guideline
from annotation.models import (
    Batch,
    Guideline,
    GuidelineNote,
    IntroductionReading,
    Membership,
    Person,
)
from annotation.selectors.access import (
    build_role_filter,
    record_openings,
    sealed_batches,
    sealed_datasets,
)
from annotation.selectors.wellbeing import list_working_documents


def get_guideline(reference: str) -> Guideline:
    """``G`` is its latest published version, ``G@V`` that one (published or not)."""
    name, _at, version = reference.partition("@")
    versions = Guideline.objects.filter(name=name)
    if version:
        guideline = versions.filter(version=version).first()
    else:
        guideline = versions.exclude(published_at=None).order_by("-published_at", "-id").first()
    if guideline is None:
        known = sorted({str(guideline) for guideline in Guideline.objects.only("name", "version")})
        raise NotFound(
            N_("There is no published guideline {reference}; known are: {known}."),
            reference=reference,
            known=", ".join(known) or "-",
        )
    return guideline


def list_published() -> QuerySet[Guideline]:
    return Guideline.objects.exclude(published_at=None)


SHIPPED = Path(settings.BASE_DIR) / "fixtures" / "guidelines"
SHIPPED_SIGN = "shipped:"
"""In front of the name of a shipped guideline, where one is to be copied."""
_VERSION_LINE = re.compile(r"^(version:[ \t]*[\"']?)([^\"'#\n]*?\d+)(?=[\"']?[ \t]*(?:#.*)?$)", re.MULTILINE)


@lru_cache(maxsize=1)
def list_shipped() -> dict[str, GuidelineDocument]:
    """The guidelines that come with the product, by name."""
    documents = (
        parse_guideline(path.read_text(encoding="utf-8"), path=path.name)
        for path in sorted(SHIPPED.glob("*.yaml"))
    )
    return {document.name: document for document in documents}


def read_shipped(name: str) -> str:
    """The text of a shipped guideline."""
    if name not in list_shipped():
        known = ", ".join(list_shipped())
        raise NotFound(
            N_("No guideline {name} comes with Assay; there are: {known}."), name=name, known=known
        )
    return (SHIPPED / f"{name}.yaml").read_text(encoding="utf-8")


def copy_guideline(base: str) -> str:
    """The text of a version (``flames@1.1``), or of a shipped guideline (``shipped:flames``), for an author to change:
    where the version is stored already, with the next number that is free.
    """
    shipped = base.removeprefix(SHIPPED_SIGN)
    text = read_shipped(shipped) if shipped != base else get_guideline(base).source
    document = parse_guideline(text, path=base)
    stored = set(Guideline.objects.filter(name=document.name).values_list("version", flat=True))
    if document.version not in stored:
        return text
    return _VERSION_LINE.sub(lambda match: match[1] + _find_next_version(match[2], stored), text, count=1)


def _find_next_version(version: str, stored: Collection[str]) -> str:
    """``1.2`` of ``1.1``, or the first number after it that is free."""
    digits = re.search(r"\d+$", version)
    assert digits is not None  # the pattern of the line ends with one
    head, number = version[: digits.start()], int(digits[0])
    return next(f"{head}{n}" for n in count(number + 1) if f"{head}{n}" not in stored)


@dataclass(frozen=True)
class GuidelineVersion:
    guideline: Guideline
    batches: tuple[Batch, ...]


@dataclass(frozen=True)
class GuidelineFamily:
    """A guideline with its versions, the latest first."""

    name: str
    title: dict[str, str]
    versions: tuple[GuidelineVersion, ...]


def list_families(*, drafts: bool) -> list[GuidelineFamily]:
    """Every guideline by name, with the batches that use each version; two queries."""
    guidelines = Guideline.objects.defer("source").order_by("name", "-created_at", "-id")
    if not drafts:
        guidelines = guidelines.exclude(published_at=None)
    used: dict[int, list[Batch]] = {}
    for batch in Batch.objects.only("name", "state", "guideline_id"):
        used.setdefault(batch.guideline_id, []).append(batch)
    named: dict[str, list[GuidelineVersion]] = {}
    for guideline in guidelines:
        version = GuidelineVersion(guideline, tuple(used.get(guideline.pk, ())))
        named.setdefault(guideline.name, []).append(version)
    return [
        GuidelineFamily(name, versions[0].guideline.document.title, tuple(versions))
        for name, versions in named.items()
    ]


def localized_title(family: GuidelineFamily, language: str) -> str:
    return localize(family.title, language)


def get_guideline_version(name: str, version: str, *, drafts: bool) -> Guideline:
    """That version; a draft does not exist for those who may not see drafts."""
    guideline = Guideline.objects.filter(name=name, version=version).first()
    if guideline is None or not (guideline.is_published or drafts):
        raise NotFound(N_("There is no guideline {name}@{version}."), name=name, version=version)
    return guideline


def list_guideline_versions(name: str, *, drafts: bool) -> list[Guideline]:
    """The versions of this guideline, without their YAML: drafts first, then the latest published one."""
    guidelines = Guideline.objects.filter(name=name).defer("source")
    if not drafts:
        guidelines = guidelines.exclude(published_at=None)
    return list(guidelines.order_by(F("published_at").desc(nulls_first=True), "-id"))


def choose_language(document: GuidelineDocument, preferred: str) -> str:
    """The document's language that comes closest to the wish: itself, a kin (zh-hans finds zh), or its first."""
    languages: Sequence[str] = document.languages
    primary = preferred.lower().partition("-")[0]
    related = [language for language in languages if language.partition("-")[0] == primary]
    return preferred if preferred in languages else (related or languages)[0]


def to_language(part: Any, language: str) -> Any:
    """The document, or a part of it, as plain values with every text in this one language."""
    if hasattr(type(part), "model_fields"):
        fields = type(part).model_fields
        return {name: _field_to_language(name, getattr(part, name), language) for name in fields}
    if isinstance(part, tuple):
        return [to_language(element, language) for element in part]
    return part[language] if isinstance(part, dict) else part


def _field_to_language(name: str, value: Any, language: str) -> Any:
    """The levels of a metric are the one mapping that is no text."""
    return value if name == "levels" else to_language(value, language)


def get_batch_to_enter(name: str, person: Person, role: str) -> tuple[Batch, bool]:
    """The batch, and whether its guideline's introduction comes first: the person works in it in this role, it is
    open, and they have not read this version's. One query, as without that question.
    """
    working = Membership.objects.filter(
        batch=OuterRef("pk"), batch__state=Batch.State.OPEN, person=person, role=role, active=True
    )
    read = IntroductionReading.objects.filter(guideline=OuterRef("guideline"), person=person)
    batches = Batch.objects.select_related("guideline").defer("guideline__content", "guideline__source")
    batch = batches.annotate(unread=Exists(working) & ~Exists(read)).filter(name=name).first()
    if batch is None:
        raise NotFound(N_("No batch is named {name}."), name=name)
    return batch, batch.unread


def get_working_guideline(name: str, person: Person) -> Guideline:
    """Of the batch of this name in which the person works, in whatever role; NotFound without one."""
    working = Membership.objects.filter(
        build_role_filter(OuterRef("role")), batch__name=name, person=person, active=True
    )
    guideline = Guideline.objects.filter(pk__in=working.values("batch__guideline")).defer("source").first()
    if guideline is None:
        raise NotFound(N_("No batch is named {name}."), name=name)
    return guideline


def find_last_read_guideline(guideline: Guideline, person: Person) -> Guideline | None:
    """The version of the same guideline whose introduction the person read last; None for the first."""
    readings = IntroductionReading.objects.filter(person=person, guideline__name=guideline.name)
    latest = readings.order_by("-read_at").select_related("guideline").first()
    return None if latest is None else latest.guideline


ClauseKey: TypeAlias = tuple[str, float | None]
"""A criterion and a level of it; None for the criterion itself, and no criterion for the whole guideline."""


def list_notes(person: Person) -> QuerySet[GuidelineNote]:
    """The notes that this person may read, the latest first.

    A note tells of labels: none of a batch that is sealed for them, nor of a dataset that they judge blind.
    """
    sealed = Q(task__batch__in=sealed_batches(person)) | Q(
        task__response__prompt__dataset__in=sealed_datasets(person)
    )
    of_whole = Q(task=None) & build_own_filter("study")
    return (
        GuidelineNote.objects.filter(of_whole | (~sealed & Q(**build_study_filter("task__batch__study"))))
        .select_related("created_by", "resolved_by", "guideline", "task__batch")
        .order_by("-created_at", "-id")
    )


def list_open_notes(person: Person) -> QuerySet[GuidelineNote]:
    """Those that wait for an answer: for the next version, or a word."""
    return list_notes(person).filter(resolved_at=None)


def count_open_notes(person: Person) -> dict[int, int]:
    """Of each guideline version (its primary key) that has any: how many notes are open."""
    counted = list_open_notes(person).order_by().values("guideline").annotate(n=Count("pk"))
    return {row["guideline"]: row["n"] for row in counted}


def get_note(person: Person, note_id: int) -> GuidelineNote:
    """The note, if the person may read it."""
    note = list_notes(person).filter(pk=note_id).first()
    if note is None:
        raise NotFound(N_("There is no such note."))
    return note


def record_note_openings(person: Person, notes: Iterable[GuidelineNote]) -> None:
    """The person reads these notes, and with them what somebody thought of items of their batches."""
    record_openings(person, {note.task.batch_id for note in notes if note.task is not None})


def group_by_clause(
    guideline: Guideline, notes: Iterable[GuidelineNote]
) -> dict[ClauseKey, list[GuidelineNote]]:
    """The notes by the clause they stand beside.

    One on a level that has no words of its own stands by its criterion, and one on an unknown criterion by the whole.
    """
    levels = {
        criterion.name: {level.value for level in criterion.scale}
        for criterion in guideline.document.criteria
    }
    by_clause: dict[ClauseKey, list[GuidelineNote]] = {}
    for note in notes:
        criterion = note.criterion if note.criterion in levels else ""
        level = note.level if note.level in levels.get(criterion, ()) else None
        by_clause.setdefault((criterion, level), []).append(note)
    return by_clause


def level_text(criterion: Criterion, value: Label | None) -> str:
    """``3 Full compliance`` in the reader's language; the number alone where the level has no name. Of a set its
    options, whose numbers say nothing, as do those of a slate's entries beside their names.

    None is how a table has "not applicable".
    """
    if value is None or isinstance(value, str):
        return _label_value(value)
    language = get_language() or "en"
    levels = criterion.list_levels(value)
    if criterion.several or (levels and criterion.entries is not None):
        return gettext(", ").join(localize(level.name, language) for level in levels)
    return (
        f"{format_compact(value)} {localize(levels[0].name, language)}" if levels else format_compact(value)
    )


def _label_value(value: Label | None) -> str:
    if value is None or value == NA:
        return gettext("Not applicable")
    return value if isinstance(value, str) else format_compact(value)


def label_text(document: GuidelineDocument, criterion: str, value: Label | None) -> str:
    """As ``level_text``, also for a criterion that the document does not have."""
    known = _find_criterion(document, criterion)
    return level_text(known, value) if known else _label_value(value)


def criterion_label(document: GuidelineDocument, criterion: str) -> str:
    known = _find_criterion(document, criterion)
    return localize(known.label, get_language() or "en") if known else criterion


def list_answer_words(document: GuidelineDocument, answers: Mapping[str, Label]) -> list[tuple[str, str]]:
    """Each criterion with what was answered, both in the reader's language; a text as it was written."""
    return [
        (criterion_label(document, name), label_text(document, name, value))
        for name, value in answers.items()
    ]


def _find_criterion(document: GuidelineDocument, name: str) -> Criterion | None:
    try:
        return document.criterion(name)
    except NotFound:
        return None


def dimension_label(document: GuidelineDocument, dimension: str) -> str:
    """In the reader's language; ``-`` where the prompts have no dimension."""
    known = document.dimension(dimension)
    return localize(known.label, get_language() or "en") if known else dimension or "-"


def subcomponent_label(document: GuidelineDocument, subcomponent: str) -> str:
    """As ``dimension_label``; its bare name where two dimensions have one of this name and call it differently."""
    labels = {
        localize(declared.label, get_language() or "en")
        for dimension in document.dimensions
        for declared in dimension.subcomponents
        if declared.name == subcomponent
    }
    return labels.pop() if len(labels) == 1 else subcomponent or "-"


def topic_labels(person: Person) -> dict[str, str]:
    """The dimensions of the guidelines that the person works with, and those that they opted out of wherever these
    stand: by name, in the reader's language.
    """
    labels: dict[str, str] = {}
    for document in list_working_documents(person):
        for name in document.dimension_names:
            labels.setdefault(name, dimension_label(document, name))
    return labels | {name: name for name in person.opted_out if name not in labels}
