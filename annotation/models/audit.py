"""What happened: the audit trail, and the files that were put in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _

from annotation.core.request_origin import get_request_origin
from annotation.domain.audit import EventContent, Verb
from annotation.domain.formats.bundle import label_place
from annotation.models.assignments import Assignment
from annotation.models.batches import Batch
from annotation.models.imports import Import
from annotation.models.jobs import Job
from annotation.models.studies import Study

MAX_ADDRESS_LENGTH = 45
MAX_AGENT_LENGTH = 200


class AuditEvent(models.Model):
    """Written in the transaction of the change that it tells of; appended, never edited: a trigger of the database
    refuses that (annotation/models/sql/audit.py).

    ``study`` is null for what is of an account or of the site, and for events of before that could not be told.
    """

    at = models.DateTimeField(_("time"), auto_now_add=True)
    actor = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("by"),
        db_index=False,
    )
    verb = models.CharField(_("what"), max_length=50)
    target = models.CharField(_("target"), max_length=200)
    data = models.JSONField(_("data"), default=dict)
    study = models.ForeignKey(
        Study,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("study"),
        db_index=False,
    )
    address = models.CharField(_("address"), max_length=MAX_ADDRESS_LENGTH, default="", db_default="")
    agent = models.CharField(_("browser"), max_length=MAX_AGENT_LENGTH, default="", db_default="")

    class Meta:
        verbose_name = _("audit event")
        verbose_name_plural = _("audit events")
        ordering = ["-id"]
        # The page reads the newest first, all or of a study, a person or a verb.
        indexes = [
            models.Index(fields=["target"], name="audit_by_target"),
            models.Index(fields=["at", "id"], name="audit_by_time"),
            models.Index(fields=["study", "at", "id"], name="audit_by_study"),
            models.Index(fields=["actor", "at", "id"], name="audit_by_actor"),
            models.Index(fields=["verb", "at", "id"], name="audit_by_verb"),
        ]

    def __str__(self) -> str:
        return f"{self.verb} {self.target}"

    @classmethod
    def append(
        cls, *, actor: Any, verb: Verb, target: str, study_id: int | None, data: Mapping[str, Any]
    ) -> AuditEvent:
        """With the origin of the request under way. Services call ``record`` (annotation/services/audit)."""
        origin = get_request_origin()
        return cls.objects.create(
            actor=actor,
            verb=verb.value,
            target=target,
            study_id=study_id,
            data=data,
            address=origin.address[:MAX_ADDRESS_LENGTH],
            agent=origin.agent[:MAX_AGENT_LENGTH],
        )

    @classmethod
    def rewrite(cls, contents: Iterable[EventContent]) -> None:
        """Store what is left of events after an erasure; the trigger refuses those without a row in AuditRewrite."""
        AuditEvent.objects.bulk_update(
            [
                AuditEvent(
                    pk=content.id,
                    target=content.target,
                    address=content.address,
                    agent=content.agent,
                    data=dict(content.data),
                )
                for content in contents
            ],
            ["target", "address", "agent", "data"],
        )


class AuditSeal(models.Model):
    """The place of an event in the chain, and its hash, which covers the event and the hash before it
    (docs/decisions/audit-chain.md). Appended by a sealing that runs every minute, never edited.

    It has no constraint with the event, so that a removed event leaves its seal behind.
    """

    position = models.BigIntegerField(_("position"), primary_key=True)
    event = models.OneToOneField(
        AuditEvent, models.DO_NOTHING, related_name="seal", db_constraint=False, verbose_name=_("audit event")
    )
    digest = models.BinaryField(_("hash"), max_length=32)
    sealed_at = models.DateTimeField(_("sealed"), auto_now_add=True)

    class Meta:
        verbose_name = _("seal of an audit event")
        verbose_name_plural = _("seals of audit events")

    def __str__(self) -> str:
        return str(self.position)


class AuditRewrite(models.Model):
    """That an event was rewritten because a person was erased: the SHA-256 of what is stored of it since then.

    ``erasure`` is the event of the erasure, whose data has one hash over all rewrites of it, and which is sealed like
    any other. Appended, never edited; the trigger of events lets an event change that has a row here.
    """

    event = models.ForeignKey(
        AuditEvent,
        models.DO_NOTHING,
        related_name="rewrites",
        db_constraint=False,
        db_index=False,
        verbose_name=_("audit event"),
    )
    erasure = models.ForeignKey(
        AuditEvent,
        models.DO_NOTHING,
        related_name="rewritten",
        db_constraint=False,
        verbose_name=_("erasure"),
    )
    digest = models.BinaryField(_("hash"), max_length=32)

    class Meta:
        verbose_name = _("rewrite of an audit event")
        verbose_name_plural = _("rewrites of audit events")
        constraints = [
            models.UniqueConstraint(fields=["event", "erasure"], name="audit_rewrite_once_per_erasure")
        ]

    def __str__(self) -> str:
        return f"{self.event_id}/{self.erasure_id}"


class StudyDeletion(models.Model):
    """That a study is being deleted, or was: what of it stays, what went, and the certificate that says so for good.

    ``plan`` is what was decided when the job began; ``removed`` counts rows by table as they go. ``certificate`` names
    nobody: ``begun_by`` and the actor of ``event`` do, whose data has the certificate's SHA-256.
    """

    study = models.OneToOneField(
        Study, models.PROTECT, related_name="deletion", editable=False, verbose_name=_("study")
    )
    begun_at = models.DateTimeField(_("begun"), auto_now_add=True)
    begun_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("by"),
    )
    job = models.ForeignKey(Job, models.SET_NULL, null=True, blank=True, related_name="+")
    plan = models.JSONField(_("plan"), default=dict)
    removed = models.JSONField(_("removed rows"), default=dict)
    certificate = models.JSONField(_("certificate"), default=dict)
    sha256 = models.CharField(max_length=64, blank=True)
    event = models.OneToOneField(
        AuditEvent, models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("audit event")
    )
    finished_at = models.DateTimeField(_("finished"), null=True, blank=True)

    class Meta:
        verbose_name = _("certificate of a deleted study")
        verbose_name_plural = _("certificates of deleted studies")
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(finished_at__isnull=True, sha256="", event__isnull=True)
                | models.Q(finished_at__isnull=False, event__isnull=False) & ~models.Q(sha256=""),
                name="study_deletion_finished_is_certified",
            )
        ]

    def __str__(self) -> str:
        return self.study.name


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

    @classmethod
    def forget(cls, beginning: str) -> None:
        """What is kept under keys that begin so."""
        stored_beginning = f":1:{beginning}"  # as Django's caches write a key: no prefix, version 1
        cls.objects.filter(cache_key__startswith=stored_beginning).delete()


class ChartEntry(models.Model):
    """The same of charts, where hosts share no folder that would keep them."""

    cache_key = models.CharField(max_length=255, primary_key=True)
    value = models.TextField()
    expires = models.DateTimeField(db_index=True)

    class Meta:
        verbose_name = _("chart")
        verbose_name_plural = _("charts")

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
