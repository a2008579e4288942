from __future__ import annotations

from django.apps import apps
from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from annotation.core.study_scope import get_study_scope
from annotation.domain.guidelines import GuidelineDocument
from annotation.models.base import Authored
from annotation.models.studies import Study, find_borrowed

_DOCUMENTS: dict[str, GuidelineDocument] = {}


class GuidelineManager(models.Manager["Guideline"]):
    """Reads the guidelines of the site, those of the studies that the work under way is about, and those by which
    somebody labelled what these have: their batches, and releases that are shared with them.
    """

    def get_queryset(self) -> models.QuerySet[Guideline]:
        rows, studies = super().get_queryset(), get_study_scope()
        if studies is None:
            return rows
        batches, releases = (apps.get_model("annotation", name) for name in ("Batch", "GoldRelease"))
        readable = models.Q(study=None) | models.Q(study__in=studies)
        readable |= models.Q(pk__in=batches.objects.values("guideline"))
        borrowed = find_borrowed(releases)
        if borrowed:
            rested = releases.objects.filter(pk__in=borrowed).values("batches__guideline")
            readable |= models.Q(pk__in=rested)
        return rows.filter(readable)


class Guideline(Authored):
    """One version of a guideline. Once ``published_at`` is set, the row never changes.

    ``study`` is null for one of the site: what comes with Assay, and what several studies used before there were any.
    """

    study = models.ForeignKey(
        Study, models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("study")
    )
    name = models.CharField(_("name"), max_length=100)
    version = models.CharField(_("version"), max_length=50)
    source = models.TextField(_("source"), help_text=_("The YAML as it was loaded."))
    content = models.JSONField(_("content"))
    sha256 = models.CharField(max_length=64)
    published_at = models.DateTimeField(_("published"), null=True, blank=True)

    objects = GuidelineManager()

    class Meta:
        verbose_name = _("guideline")
        verbose_name_plural = _("guidelines")
        ordering = ["name", "-published_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["study", "name", "version"], name="guideline_once_per_study"),
            models.UniqueConstraint(
                fields=["name", "version"],
                condition=models.Q(study__isnull=True),
                name="guideline_once_per_version",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def document(self) -> GuidelineDocument:
        """The validated document; kept by its hash, because every page of the annotation loop asks for it."""
        document = _DOCUMENTS.get(self.sha256)
        if document is None:
            document = _DOCUMENTS[self.sha256] = GuidelineDocument.from_json(self.content)
        return document

    @property
    def is_published(self) -> bool:
        return self.published_at is not None


class IntroductionReading(models.Model):
    """That a person read the introduction of a guideline version, on whatever machine: it comes before its items."""

    guideline = models.ForeignKey(
        Guideline, models.PROTECT, related_name="readings", verbose_name=_("guideline"), db_index=False
    )
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="+", verbose_name=_("person")
    )
    read_at = models.DateTimeField(_("read"), auto_now_add=True)

    class Meta:
        verbose_name = _("introduction that was read")
        verbose_name_plural = _("introductions that were read")
        constraints = [
            models.UniqueConstraint(fields=["guideline", "person"], name="introduction_read_once_per_version")
        ]

    def __str__(self) -> str:
        return f"{self.person_id}/{self.guideline_id}"


class GuidelineNote(Authored):
    """A remark on one clause of a guideline version, for the next one: a criterion, a level of it, or (empty) all.

    ``study`` is that of whoever left one without a task. ``for_everybody``: until it is resolved, whoever works by this
    version reads it beside the guideline.

    It tells of labels: whoever must be blind to the batch of its task must not read it before the batch closes.
    """

    class Source(models.TextChoices):
        FLAG = "flag", _("flag of an annotator")
        ADJUDICATION = "adjudication", _("adjudication")
        MANAGER = "manager", _("manager")

    guideline = models.ForeignKey(
        Guideline, models.PROTECT, related_name="notes", verbose_name=_("guideline")
    )
    study = models.ForeignKey(
        Study, models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("study")
    )
    criterion = models.CharField(_("criterion"), max_length=100, blank=True)
    level = models.FloatField(_("level"), null=True, blank=True)
    text = models.TextField(_("text"), blank=True)
    source = models.CharField(_("source"), max_length=12, choices=Source.choices)
    task = models.ForeignKey(
        "Task", models.PROTECT, null=True, blank=True, related_name="notes", verbose_name=_("task")
    )
    for_everybody = models.BooleanField(_("for everybody"), default=False, db_default=False)
    resolved_at = models.DateTimeField(_("resolved"), null=True, blank=True)
    resolved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, blank=True, related_name="+"
    )

    class Meta:
        verbose_name = _("annotator note")
        verbose_name_plural = _("annotator notes")
        ordering = ["-id"]
        constraints = [
            # A flag that is sent again, in a correction say, is the same note.
            models.UniqueConstraint(
                fields=["task", "created_by", "source", "criterion"],
                condition=models.Q(task__isnull=False),
                name="note_once_per_task_and_author",
            )
        ]

    def __str__(self) -> str:
        return f"{self.guideline_id}/{self.criterion}"
