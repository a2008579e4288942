from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from annotation.models.base import Authored, WithFiles
from annotation.models.jobs import Job
from annotation.models.studies import Study, StudyManager

UPLOADS = "uploads"
"""The folder of MEDIA_ROOT in the data folder."""


class Import(WithFiles, Authored):
    """One file that was put in: what it was, what was taken, what was already there."""

    class Kind(models.TextChoices):
        PROMPTS = "prompts", pgettext_lazy("import", "prompts")
        RESPONSES = "responses", pgettext_lazy("import", "responses")
        ANNOTATIONS = "annotations", pgettext_lazy("import", "annotations")

    study = models.ForeignKey(Study, models.PROTECT, null=True, related_name="+", verbose_name=_("study"))
    kind = models.CharField(_("kind"), max_length=11, choices=Kind.choices)
    format = models.CharField(_("format"), max_length=20)
    file_name = models.CharField(_("file"), max_length=255)
    sha256 = models.CharField(max_length=64, blank=True)
    path = models.CharField(max_length=500, blank=True)
    options = models.JSONField(_("options"), default=dict)
    # How the labels were made, as whoever imported them wrote it; null is not recorded, never a guess.
    protocol = models.TextField(_("protocol"), null=True, blank=True)
    # Of a bundle: what its manifest says of the labels of each batch, by the batch's name here.
    carried_protocols = models.JSONField(_("protocols of the bundle"), null=True, blank=True)
    # How the file is to be read, and for an upload what was last chosen and what came of trying it.
    reading = models.JSONField(_("reading"), default=dict, db_default=models.Value({}, models.JSONField()))
    report = models.JSONField(_("report"), default=dict)
    job = models.ForeignKey(Job, models.SET_NULL, null=True, blank=True, related_name="+")

    objects = StudyManager()

    class Meta:
        verbose_name = _("import")
        verbose_name_plural = _("imports")
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.file_name

    @property
    def stored_name(self) -> str:
        """Its file's path below the data folder, which is its name in a bucket."""
        return f"{UPLOADS}/{self.path}"

    def list_files(self) -> list[Path]:
        return [Path(settings.MEDIA_ROOT) / self.path] if self.path else []

    @property
    def target(self) -> str:
        """Under which the audit trail tells of it, once labels were taken."""
        names = self.options.get("batches", {}).values() or [self.options.get("batch", "")]
        return f"batch:{', '.join(names)}"[:200]


class HeaderMapping(models.Model):
    """What a person took the columns of a header for, so that the next file with that header is read alike."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    kind = models.CharField(_("kind"), max_length=11, choices=Import.Kind.choices)
    header = models.CharField(max_length=64)  # sha256 of the columns in their order
    mapping = models.JSONField(_("columns"))
    changed_at = models.DateTimeField(_("time"), auto_now=True)

    class Meta:
        verbose_name = _("columns of a header")
        verbose_name_plural = _("columns of headers")
        constraints = [
            models.UniqueConstraint(fields=["person", "header", "kind"], name="header_mapped_once")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.header[:8]}"
