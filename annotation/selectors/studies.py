"""Studies, and which one the work under way is about."""

from __future__ import annotations

from django.db.models import QuerySet

from annotation.core.errors import N_, AssayError, NotFound
from annotation.core.study_scope import get_study_scope
from annotation.models import Study

DEFAULT = "default"
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


def get_current_study() -> Study:
    """As ``find_study``; a site without any has nothing that could be of one."""
    study = find_study()
    if study is None:
        raise NotFound(N_("There is no study yet: import something, or make one."))
    return study
