from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Exists, F, OuterRef

from annotation.errors import N_, NotFound
from annotation.guidelines import GuidelineDocument, localized
from annotation.models import Batch, Guideline, IntroductionReading, Membership, Person
from annotation.selectors.access import who_has_role


def guideline_named(reference: str) -> Guideline:
    """``G`` is its latest published version, ``G@V`` that one (published or not)."""
    name, _at, version = reference.partition("@")
    versions = Guideline.objects.filter(name=name)
    if version:
        found = versions.filter(version=version).first()
    else:
        found = versions.exclude(published_at=None).order_by("-published_at", "-id").first()
    if found is None:
        known = sorted({str(guideline) for guideline in Guideline.objects.only("name", "version")})
        raise NotFound(
            N_("There is no published guideline {reference}; known are: {known}."),
            reference=reference,
            known=", ".join(known) or "-",
        )
    return found


@dataclass(frozen=True)
class Version:
    guideline: Guideline
    batches: tuple[Batch, ...]


@dataclass(frozen=True)
class Family:
    """A guideline with its versions, the latest first."""

    name: str
    title: dict[str, str]
    versions: tuple[Version, ...]


def families(*, drafts: bool) -> list[Family]:
    """Every guideline by name, with the batches that use each version; two queries."""
    guidelines = Guideline.objects.defer("source").order_by("name", "-created_at", "-id")
    if not drafts:
        guidelines = guidelines.exclude(published_at=None)
    used: dict[int, list[Batch]] = {}
    for batch in Batch.objects.only("name", "state", "guideline_id"):
        used.setdefault(batch.guideline_id, []).append(batch)
    named: dict[str, list[Version]] = {}
    for guideline in guidelines:
        version = Version(guideline, tuple(used.get(guideline.pk, ())))
        named.setdefault(guideline.name, []).append(version)
    return [
        Family(name, versions[0].guideline.document.title, tuple(versions))
        for name, versions in named.items()
    ]


def localized_title(family: Family, language: str) -> str:
    return localized(family.title, language)


def version_named(name: str, version: str, *, drafts: bool) -> Guideline:
    """That version; a draft does not exist for those who may not see drafts."""
    found = Guideline.objects.filter(name=name, version=version).first()
    if found is None or not (found.is_published or drafts):
        raise NotFound(N_("There is no guideline {name}@{version}."), name=name, version=version)
    return found


def versions_of(name: str, *, drafts: bool) -> list[Guideline]:
    """The versions of this guideline, without their YAML: drafts first, then the latest published one."""
    found = Guideline.objects.filter(name=name).defer("source")
    if not drafts:
        found = found.exclude(published_at=None)
    return list(found.order_by(F("published_at").desc(nulls_first=True), "-id"))


def language_for(document: GuidelineDocument, wish: str) -> str:
    """The document's language that comes closest to the wish: itself, a kin (zh-hans finds zh), or its first."""
    languages: Sequence[str] = document.languages
    primary = wish.lower().partition("-")[0]
    kin = [one for one in languages if one.partition("-")[0] == primary]
    return wish if wish in languages else (kin or languages)[0]


def in_language(thing: Any, language: str) -> Any:
    """The document, or a part of it, as plain values with every text in this one language."""
    if hasattr(type(thing), "model_fields"):
        fields = type(thing).model_fields
        return {name: _field(name, getattr(thing, name), language) for name in fields}
    if isinstance(thing, tuple):
        return [in_language(one, language) for one in thing]
    return thing[language] if isinstance(thing, dict) else thing


def _field(name: str, value: Any, language: str) -> Any:
    """The levels of a metric are the one mapping that is no text."""
    return value if name == "levels" else in_language(value, language)


def batch_to_enter(name: str, person: Person, role: str) -> tuple[Batch, bool]:
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


def guideline_at_work(name: str, person: Person) -> Guideline:
    """Of the batch of this name in which the person works, in whatever role; NotFound without one."""
    working = Membership.objects.filter(
        who_has_role(OuterRef("role")), batch__name=name, person=person, active=True
    )
    found = Guideline.objects.filter(pk__in=working.values("batch__guideline")).defer("source").first()
    if found is None:
        raise NotFound(N_("No batch is named {name}."), name=name)
    return found


def version_read_before(guideline: Guideline, person: Person) -> str:
    """The version of the same guideline whose introduction the person read last; empty for the first."""
    readings = IntroductionReading.objects.filter(person=person, guideline__name=guideline.name)
    latest = readings.order_by("-read_at").values_list("guideline__version", flat=True).first()
    return latest or ""
