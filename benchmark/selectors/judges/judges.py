"""Judges, and what they said: read for the comparison with people, and by whoever settles answers by a judge."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Count, Exists, OuterRef, Q, QuerySet

from annotation.core.errors import N_, NotFound
from annotation.core.study_scope import build_study_filter
from annotation.models import Dataset, GoldRelease, Guideline, Person, Response
from annotation.selectors.access import sealed_datasets
from annotation.selectors.releases.releases import list_releases
from annotation.selectors.studies import find_study_id
from benchmark.models import Judge, JudgeLabel, JudgeRun, JudgeTemplate
from benchmark.selectors.leaderboards.runs import list_open_datasets, refuse_sealed_dataset

Key = tuple[int, str]
"""A response and a criterion."""

CHUNK = 500
"""Of ids in one query: every database takes so many."""


def get_judge(name: str) -> Judge:
    judge = Judge.objects.select_related("guideline", "template").filter(name=name).first()
    if judge is None:
        known = ", ".join(Judge.objects.values_list("name", flat=True)[:20]) or "-"
        raise NotFound(N_("No judge is named {name}; known are: {known}."), name=name, known=known)
    return judge


def find_latest_template(guideline_name: str) -> JudgeTemplate | None:
    return (
        JudgeTemplate.objects.filter(study=find_study_id(), guideline_name=guideline_name)
        .order_by("-number")
        .first()
    )


def list_labels(judge: Judge, responses: Iterable[Response | int]) -> dict[Key, float | None]:
    """By response and criterion the value that the judge gave; None where what it said is no level of the scale.

    What it was not asked is not there.
    """
    ids = [response if isinstance(response, int) else response.pk for response in responses]
    labels: dict[Key, float | None] = {}
    for start in range(0, len(ids), CHUNK):
        rows = judge.labels.filter(response__in=ids[start : start + CHUNK])
        for response, criterion, value in rows.values_list("response_id", "criterion", "value"):
            labels[response, criterion] = value
    return labels


def list_templates(guideline_name: str) -> list[JudgeTemplate]:
    """Every version of the study, the newest first."""
    templates = JudgeTemplate.objects.filter(
        study=find_study_id(), guideline_name=guideline_name
    ).select_related("created_by")
    return list(templates.order_by("-number"))


def get_template(guideline_name: str, number: int) -> JudgeTemplate:
    template = JudgeTemplate.objects.filter(
        study=find_study_id(), guideline_name=guideline_name, number=number
    ).first()
    if template is None:
        known = (
            ", ".join(str(known_template.number) for known_template in list_templates(guideline_name)) or "-"
        )
        raise NotFound(
            N_("{guideline} has no judge's template {number}; there are: {known}."),
            guideline=guideline_name,
            number=number,
            known=known,
        )
    return template


MAX_RELEASES = 50
"""Of those on which judges are compared; which release is of which guideline stands in its manifest."""


@dataclass(frozen=True)
class JudgeRow:
    """A judge as the list shows it; of a ``sealed`` one nothing but its name is shown. ``labels`` are its labels."""

    judge: Judge
    labels: int
    off_scale: int
    sealed: bool


def list_judge_rows(person: Person, rows: QuerySet[Judge]) -> list[JudgeRow]:
    """These judges. Sealed: it labelled responses that the person judges blind."""
    judges = list(rows.select_related("guideline", "created_by"))
    sealed = set(_list_sealed_judges(person))
    # Alone: grouped with what is joined above it is slow.
    counted = JudgeLabel.objects.filter(judge__in=[judge.pk for judge in judges]).order_by().values("judge")
    counts = {
        judge: (n, off)
        for judge, n, off in counted.annotate(
            n=Count("pk"), off=Count("pk", filter=Q(value=None))
        ).values_list("judge", "n", "off")
    }
    return [JudgeRow(judge, *counts.get(judge.pk, (0, 0)), judge.pk in sealed) for judge in judges]


def get_open_judge(person: Person, name: str) -> Judge:
    """The judge, if the person may open what it said."""
    judge = get_judge(name)
    refuse_sealed_judge(person, judge)
    return judge


def refuse_sealed_judge(person: Person, judge: Judge) -> None:
    """Forbidden for who judges responses blind now that the judge labelled, or is being asked about."""
    for dataset in sealed_datasets(person):
        if _has_judged(judge, dataset):
            refuse_sealed_dataset(person, dataset)


def _has_judged(judge: Judge, dataset: Dataset) -> bool:
    is_judging = judge.judgings.filter(dataset=dataset).exists()
    return is_judging or judge.labels.filter(response__prompt__dataset=dataset).exists()


def _list_sealed_judges(person: Person) -> list[int]:
    sealed = list(sealed_datasets(person).values_list("pk", flat=True))
    if not sealed:
        return []
    labelled = JudgeLabel.objects.filter(judge=OuterRef("pk"), response__prompt__dataset__in=sealed)
    judgings = JudgeRun.objects.filter(judge=OuterRef("pk"), dataset__in=sealed)
    return list(Judge.objects.filter(Exists(labelled) | Exists(judgings)).values_list("pk", flat=True))


@dataclass(frozen=True)
class LevelCount:
    """How often a judge said each level of a criterion; None is off the scale."""

    criterion: str
    value: float | None
    n: int


def count_judge_levels(judge: Judge) -> list[LevelCount]:
    rows = (
        judge.labels.values_list("criterion", "value").annotate(n=Count("pk")).order_by("criterion", "value")
    )
    return [LevelCount(*row) for row in rows]


def list_off_scale(judge: Judge, limit: int) -> list[JudgeLabel]:
    """The first of its labels that are no level of the scale, to be read."""
    labels = judge.labels.filter(value=None).select_related("response__prompt", "response__model")
    return list(labels.defer("response__text", "response__turns").order_by("pk")[:limit])


def find_sample_response(person: Person, guideline: Guideline) -> Response | None:
    """A response to show a template with: of a dataset that was labelled by the guideline, and open to the person."""
    document = guideline.document
    responses = Response.objects.filter(prompt__dataset__in=list_open_datasets(person)).select_related(
        "prompt"
    )
    if document.dimensions:
        responses = responses.filter(prompt__dimension__in=document.dimension_names)
    own = build_study_filter("tasks__batch__study")
    labelled = responses.filter(tasks__batch__guideline__name=guideline.name, **own).order_by("pk").first()
    return labelled or responses.order_by("pk").first()


def list_comparable_releases(person: Person) -> dict[str, list[GoldRelease]]:
    """By the guideline's name, the gold releases that the person may open, the newest first: of the latest
    ``MAX_RELEASES`` that are not in the archive.
    """
    releases: dict[str, list[GoldRelease]] = {}
    latest = GoldRelease.objects.filter(archived_at=None).order_by("-created_at", "-pk")[:MAX_RELEASES]
    for listed in list_releases(person, latest):
        names = {guideline["name"] for guideline in listed.release.manifest.get("guidelines", [])}
        if not listed.sealed and len(names) == 1:
            releases.setdefault(names.pop(), []).append(listed.release)
    return releases
