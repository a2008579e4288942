"""Studies, and which one the work under way is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.apps import apps
from django.db.models import QuerySet

from annotation.core.errors import N_, AssayError, Conflict, NotFound
from annotation.core.study_scope import get_study_scope
from annotation.models import Person, Shareable, Study
from annotation.selectors.access import list_archived_studies, list_visible_studies

DEFAULT = "default"
SAY_WHICH = N_("Say which study: its addresses begin with /s/ and its name.")
SEVERAL = N_(
    "There are several studies ({studies}): say which is meant, by --study or the environment variable ASSAY_STUDY."
)


def list_studies() -> QuerySet[Study]:
    """Those that the work under way is about."""
    studies = get_study_scope()
    return Study.objects.all() if studies is None else Study.objects.filter(pk__in=studies)


def get_study(name: str) -> Study:
    study = list_studies().filter(name=name).first()
    if study is None:
        known = ", ".join(list_studies().values_list("name", flat=True)) or "-"
        raise NotFound(N_("There is no study named {name}. Known: {known}."), name=name, known=known)
    return study


def find_study() -> Study | None:
    """The study that the work under way is about, or None on a site without any. AssayError among several."""
    studies = list(list_studies()[:2])
    if len(studies) > 1:
        raise AssayError(SEVERAL, studies=", ".join(list_studies().values_list("name", flat=True)))
    return studies[0] if studies else None


def find_study_id() -> int | None:
    """As ``find_study``, without a query where the work under way is limited to a study."""
    studies = get_study_scope()
    if studies is not None and len(studies) == 1:
        return next(iter(studies))
    study = find_study()
    return None if study is None else study.pk


OF_THEIR_HOLDER = (
    "api/v1/assignments/",
    "disputes/items/",
    "join/",
    "language/",
    "set-up/",
    "shared/",
    "sign-out/",
    "work/items/",
)
"""Of whoever holds a claim, by its id, or a link, by its secret: nothing is asked about their studies."""
# Routes that span a person's studies; those of the second constant with nothing behind them.
OF_THE_SITE = (
    "account/",
    "admin/",
    "api/v1/manage/jobs/",
    "api/v1/manage/studies/",
    "api/v1/predictions/",
    "audit/",
    "charts/",
    "demo/",
    "history/",
    "jobs/",
    "operations/",
    "sign-in/",
    "studies/",
    "wellbeing/",
)
# What is written there is no row of a study, or its own row says which.
WRITABLE = (*OF_THEIR_HOLDER, *OF_THE_SITE)
PREDICTIONS = "api/v1/predictions/"
HISTORY = "history/"
OF_THE_SITE_ALONE = frozenset({"", "api/v1/", "api/v1/batches/", "api/v1/docs/", "api/v1/schema/"})
# By the beginning of a route: the argument that names a row of a study, the field, and where its study is.
NAMED: tuple[tuple[str, str, str, str, str], ...] = (
    ("api/v1/batches/<", "name", "annotation.Batch", "name", "study"),
    ("api/v1/manage/batches/<", "name", "annotation.Batch", "name", "study"),
    ("api/v1/manage/datasets/<", "name", "annotation.Dataset", "name", "study"),
    ("api/v1/manage/releases/<", "name", "annotation.GoldRelease", "name", "study"),
    ("api/v1/manage/runs/<", "name", "benchmark.BenchmarkRun", "name", "study"),
    ("api/v1/manage/scorers/<", "name", "scoring.Scorer", "name", "study"),
    ("batches/-/making/<", "job_id", "annotation.Job", "pk", "study"),
    ("batches/-/new/<", "dataset", "annotation.Dataset", "name", "study"),
    ("batches/<", "name", "annotation.Batch", "name", "study"),
    ("data/-/dialogues/<", "number", "benchmark.DialogueRun", "pk", "dataset__study"),
    ("data/<", "name", "annotation.Dataset", "name", "study"),
    ("disputes/<", "name", "annotation.Batch", "name", "study"),
    ("releases/-/making/<", "job_id", "annotation.Job", "pk", "study"),
    ("releases/<", "name", "annotation.GoldRelease", "name", "study"),
    ("runs/-/collection/<", "number", "benchmark.CollectionRun", "pk", "dataset__study"),
    ("runs/-/judges/comparison/<", "name", "annotation.GoldRelease", "name", "study"),
    ("runs/-/judges/judge/<", "name", "benchmark.Judge", "name", "study"),
    ("runs/-/judges/judgings/<", "judging_id", "benchmark.JudgeRun", "pk", "judge__study"),
    ("runs/-/multiple-choice/<", "name", "benchmark.ChoiceReport", "name", "study"),
    ("runs/-/published/<", "table_id", "benchmark.PublishedTable", "pk", "study"),
    ("runs/-/retrain/<", "release", "annotation.GoldRelease", "name", "study"),
    ("runs/-/retrainings/<", "retraining_id", "benchmark.Retraining", "pk", "scorer__study"),
    ("runs/<", "name", "benchmark.BenchmarkRun", "name", "study"),
    ("scorers/<", "name", "scoring.Scorer", "name", "study"),
    ("tasks/<", "pk", "annotation.Task", "pk", "batch__study"),
    ("webhooks/<", "endpoint_id", "annotation.WebhookEndpoint", "pk", "study"),
    ("work/<", "name", "annotation.Batch", "name", "study"),
)


@dataclass(frozen=True)
class Located:
    """The studies that a request is about, None for no limit. ``name`` is that of the one which its address, or the row
    in it, says; ``is_open`` where several could be meant; ``is_archived`` where nothing may be changed.
    """

    studies: frozenset[int] | None
    name: str | None = None
    is_open: bool = False
    is_archived: bool = False

    def check_writable(self) -> None:
        """Raise Conflict where what the request is about is archived."""
        if self.is_archived:
            raise Conflict(
                N_(
                    "This study is archived: it can be read, and nothing in it changes until an admin restores it."
                )
            )


def locate(person: Person, study_name: str | None, route: str, arguments: Mapping[str, Any]) -> Located:
    """The studies of a request to the route, among those that the person may see. NotFound where the address has a
    study that is not there, or not for this person: to them it is the same.
    """
    if study_name is None and route.startswith(OF_THEIR_HOLDER):
        return Located(None)
    located = _locate(person, study_name, route, arguments)
    is_archived = bool(located.studies) and located.studies <= list_archived_studies(person)  # type: ignore[operator]
    is_writable = route.startswith(WRITABLE) and not route.startswith((PREDICTIONS, HISTORY))
    return replace(located, is_archived=is_archived and not is_writable)


def _locate(person: Person, study_name: str | None, route: str, arguments: Mapping[str, Any]) -> Located:
    """An address without a study is about those that are not archived, where there are any, or about the archived one
    that has the row of its name.
    """
    visible = list_visible_studies(person)
    if study_name is not None:
        named = [pk for pk, name in visible.items() if name == study_name]
        if not named:
            raise NotFound(N_("There is no such page."))
        return Located(frozenset(named), study_name)
    all_studies = frozenset(visible)
    live = all_studies - list_archived_studies(person) or all_studies
    if len(visible) < 2:
        is_new = person.is_superuser and not visible
        return Located(None if is_new else all_studies)
    if route.startswith(OF_THE_SITE) and not route.startswith(PREDICTIONS):
        return Located(all_studies)
    if route in OF_THE_SITE_ALONE or route.startswith(PREDICTIONS):
        return Located(live)
    candidates = [_find_studies(route, arguments, studies) for studies in (live, all_studies - live)]
    studies = candidates[0] or candidates[1] or candidates[0]
    if studies is not None and len(studies) == 1:
        (study,) = studies
        return Located(studies, visible[study])
    return Located(live, is_open=len(live) > 1 and (studies is None or bool(studies)))


def _find_studies(route: str, arguments: Mapping[str, Any], visible: frozenset[int]) -> frozenset[int] | None:
    """Those that have the row which the address names, or with which it is shared; None where it names none."""
    for beginning, argument, model, field, path in NAMED:
        if route.startswith(beginning):
            kind = apps.get_model(model)
            rows = kind._base_manager.filter(**{field: arguments[argument]})
            studies = frozenset(rows.filter(**{f"{path}__in": visible}).values_list(path, flat=True))
            if issubclass(kind, Shareable):
                shared = rows.filter(shared_with__in=visible).values_list("shared_with", flat=True)
                studies |= visible & frozenset(shared)
            return studies
    return None
