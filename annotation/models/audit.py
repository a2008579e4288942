"""What happened: the audit trail, and the files that were put in."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from annotation.domain.formats.bundle import label_place
from annotation.models.assignments import Assignment
from annotation.models.batches import Batch
from annotation.models.imports import Import


class AuditEvent(models.Model):
    """Written in the transaction of the change that it tells of; appended, never edited."""

    at = models.DateTimeField(_("time"), auto_now_add=True)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("by"),
    )
    verb = models.CharField(_("what"), max_length=50)
    target = models.CharField(_("target"), max_length=200)
    data = models.JSONField(_("data"), default=dict)

    class Meta:
        verbose_name = _("audit event")
        verbose_name_plural = _("audit events")
        ordering = ["-id"]
        indexes = [models.Index(fields=["target"], name="audit_by_target")]

    def __str__(self) -> str:
        return f"{self.verb} {self.target}"


class CacheEntry(models.Model):
    """The table of Django's database cache (CACHES in the settings), made by a migration like any other."""

    cache_key = models.CharField(max_length=255, primary_key=True)
    value = models.TextField()
    expires = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = _("cache entry")
        verbose_name_plural = _("cache entries")

    def __str__(self) -> str:
        return self.cache_key


class ResultOpening(models.Model):
    """Somebody opened the results of a batch: they would not judge blind in it. Written the first time alone.

    ``presumed``: of the time before this was recorded, and read off the roles that the person had.
    """

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="result_openings", verbose_name=_("person")
    )
    batch = models.ForeignKey(Batch, models.CASCADE, related_name="result_openings", verbose_name=_("batch"))
    first_at = models.DateTimeField(_("first opened"))
    presumed = models.BooleanField(_("presumed"), default=False)

    class Meta:
        verbose_name = _("opening of results")
        verbose_name_plural = _("openings of results")
        constraints = [
            models.UniqueConstraint(fields=["person", "batch"], name="result_opening_once_per_batch")
        ]

    def __str__(self) -> str:
        return f"{self.batch_id}/{self.person_id}"


class ImportedLabel(models.Model):
    """Where an annotation or a decision was imported from: its file and its line.

    Of an annotation it tells of the first revision; a later one is a correction that was made here.
    """

    assignment = models.OneToOneField(
        Assignment, models.PROTECT, primary_key=True, related_name="imported", verbose_name=_("assignment")
    )
    source = models.ForeignKey(
        Import, models.PROTECT, related_name="labels", verbose_name=_("import"), db_index=False
    )
    line = models.PositiveIntegerField(_("line"))
    # Of the labelling elsewhere, in the words of the file; empty where it says none.
    round = models.CharField(_("round"), max_length=200, blank=True, db_default="", default="")

    class Meta:
        verbose_name = _("imported label")
        verbose_name_plural = _("imported labels")
        indexes = [models.Index(fields=["source", "line"], name="imported_label_by_line")]

    def __str__(self) -> str:
        return f"{self.place}:{self.line}"

    @property
    def place(self) -> str:
        """The file, and of a bundle the table in it."""
        is_decision = self.assignment.is_adjudication
        return label_place(self.source.file_name, self.source.format, is_decision=is_decision)
