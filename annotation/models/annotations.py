"""What people do on a task: the claim, the annotation with its revisions, the adjudication, the gold label."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from annotation.models.assignments import Assignment
from annotation.models.base import Authored, channel_field
from annotation.models.batches import Batch


class SubmissionBlock(models.Model):
    """Some of a person's submissions in a batch, one after another, that are shown closed together.

    They are those submitted from ``first_at`` to ``last_at``; while ``closed_at`` is null they are shown open.
    """

    batch = models.ForeignKey(
        Batch, models.CASCADE, related_name="submission_blocks", verbose_name=_("batch"), db_index=False
    )
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="submission_blocks", verbose_name=_("person")
    )
    first_at = models.DateTimeField(_("first submitted"))
    last_at = models.DateTimeField(_("last submitted"))
    closed_at = models.DateTimeField(_("shown closed"), null=True, blank=True)

    class Meta:
        verbose_name = _("block of submissions")
        verbose_name_plural = _("blocks of submissions")
        constraints = [
            models.UniqueConstraint(fields=["batch", "person", "first_at"], name="submission_block_once")
        ]
        indexes = [
            models.Index(fields=["batch"], condition=Q(closed_at__isnull=True), name="submission_block_open")
        ]

    def __str__(self) -> str:
        return f"{self.batch_id}/{self.person_id}/{self.first_at}"


class Annotation(models.Model):
    """What was submitted. A correction is a new revision; the one that counts is ``current``.

    That is the latest one, but for a correction that came when its task had closed: it counts for nothing until the
    manager has read it.
    """

    assignment = models.ForeignKey(Assignment, models.PROTECT, related_name="annotations", db_index=False)
    revision = models.PositiveSmallIntegerField(_("revision"), default=1)
    current = models.BooleanField(_("current"), default=True)
    labels = models.JSONField(_("labels"))
    texts = models.JSONField(
        _("texts"),
        default=dict,
        db_default=models.Value({}, models.JSONField()),
        blank=True,
        help_text=_("The answers to criteria that ask for a text."),
    )
    rationale = models.TextField(_("rationale"), blank=True)
    evidence = models.JSONField(_("evidence"), default=list, blank=True)
    flags = models.JSONField(_("flags"), default=list, blank=True)
    seconds = models.FloatField(_("seconds"), null=True, blank=True)
    reason = models.CharField(_("reason for the correction"), max_length=500, blank=True)
    receipt = models.UUIDField(_("receipt"), default=uuid.uuid4, unique=True, editable=False)
    idempotency_key = models.CharField(max_length=200)
    body_sha256 = models.CharField(max_length=64)
    channel = channel_field()
    created_at = models.DateTimeField(_("created"))

    class Meta:
        verbose_name = _("annotation")
        verbose_name_plural = _("annotations")
        ordering = ["assignment", "revision"]
        constraints = [
            models.UniqueConstraint(fields=["assignment", "revision"], name="annotation_once_per_revision"),
            models.UniqueConstraint(
                fields=["assignment"], condition=Q(current=True), name="annotation_one_current"
            ),
            models.UniqueConstraint(fields=["assignment", "idempotency_key"], name="annotation_once_per_key"),
        ]

    def __str__(self) -> str:
        return str(self.receipt)

    @property
    def answers(self) -> dict[str, Any]:
        """The labels and the texts together, as the person gave them."""
        return {**self.labels, **self.texts}


class Draft(models.Model):
    """Work that is not submitted, kept for its author: saved on the way, or come when its place was gone.

    ``why`` says why it was refused, and is null while it is merely unfinished: its labels may then be some of all.
    """

    assignment = models.OneToOneField(
        Assignment, models.PROTECT, primary_key=True, related_name="draft", verbose_name=_("assignment")
    )
    labels = models.JSONField(_("labels"))
    rationale = models.TextField(_("rationale"), blank=True)
    evidence = models.JSONField(_("evidence"), default=list, blank=True)
    flags = models.JSONField(_("flags"), default=list, blank=True)
    seconds = models.FloatField(_("seconds"), null=True, blank=True)
    why = models.JSONField(
        _("why it was refused"), null=True, blank=True, help_text=_("As wording.kept_error takes it.")
    )
    updated_at = models.DateTimeField(_("kept"))

    class Meta:
        verbose_name = _("draft")
        verbose_name_plural = _("drafts")

    def __str__(self) -> str:
        return f"{self.assignment_id}"


class CorrectionRequest(models.Model):
    """A correction that came after its task had closed: for the manager to read."""

    assignment = models.ForeignKey(Assignment, models.PROTECT, related_name="correction_requests")
    labels = models.JSONField(_("labels"))
    reason = models.TextField(_("reason"), blank=True)
    idempotency_key = models.CharField(max_length=200)
    body_sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    handled_at = models.DateTimeField(_("handled"), null=True, blank=True)
    handled_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, blank=True, related_name="+"
    )

    class Meta:
        verbose_name = _("correction request")
        verbose_name_plural = _("correction requests")
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["assignment", "idempotency_key"], name="correction_request_once_per_key"
            )
        ]

    def __str__(self) -> str:
        return f"{self.assignment_id}"


class ItemMessage(Authored):
    """A message between whoever works on an item and the managers. The messages of an assignment are a thread: neither
    side reads the other's name, and nobody else who works on the item reads any of it.

    ``answers``: it is the managers'. ``criterion`` and ``level`` are the clause of the guideline that it goes by.
    ``read_at`` is when the other side had it on a page.
    """

    assignment = models.ForeignKey(
        Assignment, models.CASCADE, related_name="messages", verbose_name=_("item")
    )
    answers = models.BooleanField(_("answer"))
    text = models.TextField(_("text"))
    criterion = models.CharField(_("criterion"), max_length=100, blank=True)
    level = models.FloatField(_("level"), null=True, blank=True)
    read_at = models.DateTimeField(_("read"), null=True, blank=True)

    class Meta:
        verbose_name = _("message about an item")
        verbose_name_plural = _("messages about items")
        ordering = ["created_at", "id"]
        indexes = [
            models.Index(
                fields=["assignment"],
                condition=Q(answers=True, read_at__isnull=True),
                name="item_message_unread_answer",
            )
        ]

    def __str__(self) -> str:
        return f"{self.assignment_id}/{self.pk}"
