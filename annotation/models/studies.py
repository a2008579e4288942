from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from django.apps import apps
from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from annotation.core.study_scope import get_study_scope, remember_in_scope
from annotation.models.base import Authored

M = TypeVar("M", bound=models.Model)
_Ids = dict[type[models.Model], frozenset[int]]


class ExistingStudies(models.Manager["Study"]):
    def get_queryset(self) -> models.QuerySet[Study]:
        return super().get_queryset().filter(deleted_at=None)


class Study(Authored):
    """What ties datasets, batches, releases, scorers and boards together. Nothing crosses it.

    An archived one is read and not changed. Of a deleted one the row alone stays, with what other studies use: the
    audit trail and its certificate name it, so that its name is not given again.
    """

    name = models.CharField(_("name"), max_length=100, unique=True)
    title = models.CharField(_("title"), max_length=200, blank=True)
    archived_at = models.DateTimeField(_("archived"), null=True, blank=True, editable=False)
    deleted_at = models.DateTimeField(_("deleted"), null=True, blank=True, editable=False)

    objects = ExistingStudies()

    class Meta:
        verbose_name = _("study")
        verbose_name_plural = _("studies")
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(deleted_at__isnull=True) | models.Q(archived_at__isnull=False),
                name="study_deleted_is_archived",
            )
        ]

    def __str__(self) -> str:
        return self.title or self.name


class StudyManager(models.Manager[M]):
    """Reads what is of the studies that the work under way is about (annotation/core/study_scope.py), or shared with
    them.
    ``path`` leads to the study of a row: of the class, because Django makes the managers of relations from it.
    """

    path = "study"

    def get_queryset(self) -> models.QuerySet[M]:
        rows, studies = super().get_queryset(), get_study_scope()
        if studies is None or self._is_part_of_shareable():
            return rows
        own = {self.path: next(iter(studies))} if len(studies) == 1 else {f"{self.path}__in": studies}
        borrowed = find_borrowed(self.model) if issubclass(self.model, Shareable) else None
        if borrowed:
            return rows.filter(models.Q(**own) | models.Q(pk__in=borrowed))
        return rows.filter(**own)

    def _is_part_of_shareable(self) -> bool:
        """Of the batches of a gold release: they are read with it, in whichever study, because who may open it depends
        on all of them.
        """
        return isinstance(getattr(self, "instance", None), Shareable) and hasattr(self, "through")


class StudyOfBatchManager(StudyManager[M]):
    path = "batch__study"


class StudyOfDatasetManager(StudyManager[M]):
    path = "dataset__study"


class StudyOfJudgeManager(StudyManager[M]):
    path = "judge__study"


class StudyOfScorerManager(StudyManager[M]):
    path = "scorer__study"


class OfStudy(models.Model):
    """A row of one study."""

    study = models.ForeignKey(Study, models.PROTECT, related_name="+", verbose_name=_("study"))

    objects = StudyManager()

    class Meta:
        abstract = True


class Archivable(OfStudy):
    """A row of a list. It is left out once it is archived: nothing else changes for it, and it can be restored.

    ``title`` are other words for it on pages; its name, which stands in addresses, commands and files, stays.
    """

    title = models.CharField(_("title"), max_length=200, blank=True, default="", db_default="")
    archived_at = models.DateTimeField(_("archived"), null=True, blank=True, editable=False)

    class Meta:
        abstract = True


class Shareable(Archivable):
    """A row of one study that others may read, and work from, without changing it (annotation/services/sharing.py)."""

    shared_with = models.ManyToManyField(
        Study, blank=True, editable=False, related_name="+", verbose_name=_("shared with")
    )

    class Meta:
        abstract = True

    @property
    def is_borrowed(self) -> bool:
        """Whether the study under way reads it because it is shared with it, and another study owns it."""
        studies = get_study_scope()
        return studies is not None and self.study_id not in studies

    def list_needed(self) -> Iterable[Shareable]:
        """What is shared together with it, because nobody could read it without."""
        return ()


def find_borrowed(kind: type[models.Model]) -> frozenset[int]:
    """The ids of the rows that other studies share with those under way, which must be limited. They are ids rather
    than a subquery because a page builds dozens of querysets, and mostly nothing is shared.
    """
    return remember_in_scope(_read_shares)[0].get(kind, frozenset())


def find_shared(kind: type[models.Model]) -> frozenset[int]:
    """The same, with those that the studies under way share with others."""
    return find_borrowed(kind) | remember_in_scope(_read_shares)[1].get(kind, frozenset())


def _read_shares(studies: frozenset[int]) -> tuple[_Ids, _Ids]:
    """What is shared with these studies, and what they share with others."""
    kinds = {str(kind._meta.model_name): kind for kind in apps.get_models() if issubclass(kind, Shareable)}
    shares = [
        kind.shared_with.through._base_manager.filter(
            models.Q(study__in=studies) | models.Q(**{f"{name}__study__in": studies})
        ).values_list(models.Value(name), name, "study")
        for name, kind in kinds.items()
    ]
    borrowed, lent = _Ids(), _Ids()
    for name, row, study in shares[0].union(*shares[1:], all=True):
        ids = borrowed if study in studies else lent
        ids[kinds[name]] = ids.get(kinds[name], frozenset()) | {row}
    return borrowed, lent


class StudyMembership(Authored):
    """A role of a person in a study. It is deleted when it is taken away; the audit trail keeps that it was."""

    class Role(models.TextChoices):
        ANNOTATOR = "annotator", _("annotator")
        ADJUDICATOR = "adjudicator", _("adjudicator")
        MANAGER = "manager", _("manager")
        RESEARCHER = "researcher", _("researcher")
        VIEWER = "viewer", _("viewer")

    study = models.ForeignKey(Study, models.CASCADE, related_name="memberships", verbose_name=_("study"))
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        related_name="study_memberships",
        verbose_name=_("person"),
    )
    role = models.CharField(_("role"), max_length=11, choices=Role.choices)
    # The provider whose groups gave it, and take it away again; empty: somebody did by hand.
    given_by = models.CharField(max_length=50, blank=True, default="", db_default="", editable=False)

    class Meta:
        verbose_name = _("membership of a study")
        verbose_name_plural = _("memberships of studies")
        constraints = [
            models.UniqueConstraint(fields=["person", "study", "role"], name="study_membership_once_per_role")
        ]

    def __str__(self) -> str:
        return f"{self.study_id}/{self.person_id}/{self.role}"
