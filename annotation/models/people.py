"""People and how they come in. A role is a membership of a study; an admin is a superuser."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from django.contrib.auth.models import AbstractUser, UserManager
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.names import check_person_name, look_alike_key, look_alike_keys
from annotation.models.base import Authored
from annotation.models.datasets import EvaluatedModel
from annotation.models.studies import Study


class PersonManager(UserManager["Person"]):
    """Django's commands make admins with it, past every form: the rules for names and passwords hold there, too."""

    use_in_migrations = False

    def create_user(self, username: str, *args: Any, **fields: Any) -> Person:
        self._check(username, *args, **fields)
        return super().create_user(username, *args, **fields)

    def create_superuser(self, username: str, *args: Any, **fields: Any) -> Person:
        self._check(username, *args, **fields)
        return super().create_superuser(username, *args, **fields)

    def _check(self, username: str, email: str | None = None, password: str | None = None, **_f: Any) -> None:
        person = Person(username=username, email=email or "")
        person.clean()
        if password:
            validate_password(password, person)


ITEM_DISPLAY = ("blur", "text_size", "line_height", "latin_serif", "single_keys")
"""The fields of how a person's own pages show items."""


class Person(AbstractUser):
    """Whoever signs in, and whoever labels that were made elsewhere belong to (those cannot sign in)."""

    class TextSize(models.TextChoices):
        SMALL = "small", _("small")
        USUAL = "usual", _("usual")
        LARGE = "large", _("large")
        LARGEST = "largest", _("largest")

    class LineHeight(models.TextChoices):
        TIGHT = "tight", _("tight")
        USUAL = "usual", _("usual")
        LOOSE = "loose", _("loose")

    class Blur(models.TextChoices):
        NEVER = "never", _("never")
        SEVERE = "severe", _("where the dimension is severe")
        ALWAYS = "always", _("always")

    display_name = models.CharField(_("display name"), max_length=150, blank=True)
    # What rules out work: items in other languages, and responses of models that the person has a part in.
    languages = models.JSONField(
        _("languages"),
        default=list,
        blank=True,
        help_text=_("What this person reads; empty: every language."),
    )
    own_models: models.ManyToManyField[EvaluatedModel, models.Model] = models.ManyToManyField(
        EvaluatedModel,
        blank=True,
        related_name="authors",
        verbose_name=_("own models"),
        help_text=_("Models that this person helped to build; their responses go to others."),
    )
    # Nobody is asked why: these dimensions go to others, in every batch.
    opted_out = models.JSONField(_("opted out of"), default=list, blank=True)
    daily_exposure = models.PositiveIntegerField(
        _("daily exposure budget"),
        null=True,
        blank=True,
        help_text=_("In place of everybody's; empty: everybody's."),
    )
    blur = models.CharField(_("blur until opened"), max_length=6, choices=Blur.choices, default=Blur.NEVER)
    # How prompts and responses are set (styles/base.css).
    text_size = models.CharField(
        _("text size"),
        max_length=7,
        choices=TextSize.choices,
        default=TextSize.USUAL,
        db_default=TextSize.USUAL,
    )
    line_height = models.CharField(
        _("line height"),
        max_length=7,
        choices=LineHeight.choices,
        default=LineHeight.USUAL,
        db_default=LineHeight.USUAL,
    )
    latin_serif = models.BooleanField(_("Latin text with serifs"), default=False, db_default=False)
    single_keys = models.BooleanField(
        _("single keys act"), default=True, help_text=_("Off: every shortcut is pressed with Alt.")
    )

    # Equal for names that look alike (annotation/core/names.py). Null for who had such a name before this rule.
    name_key = models.CharField(max_length=600, null=True, editable=False)

    # Who sets the password while it is saved, for the audit trail; None is the operator's shell.
    password_by: Person | None = None

    objects: ClassVar[PersonManager] = PersonManager()

    class Meta:
        verbose_name = _("person")
        verbose_name_plural = _("people")
        constraints = [models.UniqueConstraint(fields=["name_key"], name="person_name_looks_like_no_other")]

    def __str__(self) -> str:
        return self.display_name or self.username

    def clean(self) -> None:
        """A new name must not look like another one; who has theirs keeps it."""
        super().clean()
        if Person.objects.filter(pk=self.pk, username=self.username).exists():
            return
        try:
            check_person_name(self.username)
        except AssayError as error:
            raise ValidationError({"username": error_text(error)}) from error
        look_alikes = Person.objects.filter(name_key__in=look_alike_keys(self.username)).exclude(pk=self.pk)
        if look_alikes.exists():
            raise ValidationError(
                {
                    "username": _(
                        "It looks like a name that exists already; choose one that nobody mistakes for it."
                    )
                }
            )
        self.name_key = look_alike_key(self.username)

    def save(self, *args: Any, **options: Any) -> None:
        if self._state.adding and self.name_key is None:
            self.name_key = look_alike_key(self.username)
        super().save(*args, **options)


class OneTimeLink(Authored):
    """A link that works once. Only the hash of its secret is stored: it is shown once, to whoever made it."""

    secret_sha256 = models.CharField(max_length=64, unique=True)
    expires_at = models.DateTimeField(_("expires"))
    accepted_at = models.DateTimeField(_("accepted"), null=True, blank=True)
    revoked_at = models.DateTimeField(_("revoked"), null=True, blank=True)

    class Meta:
        abstract = True


class Invitation(OneTimeLink):
    """A link by which one person makes their own account, with the roles in the study that the manager chose. Somebody
    who has an account joins the study by it. Either becomes a member of the batch, if the manager chose one.
    """

    study = models.ForeignKey(Study, models.CASCADE, null=True, related_name="+", verbose_name=_("study"))

    roles = models.JSONField(_("roles"))
    languages = models.JSONField(_("languages"), default=list, blank=True)
    note = models.CharField(_("for whom"), max_length=200, blank=True)
    batch = models.ForeignKey(
        "annotation.Batch", models.SET_NULL, null=True, blank=True, related_name="+", verbose_name=_("batch")
    )
    accepted_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="invitations",
        verbose_name=_("accepted by"),
    )

    class Meta:
        verbose_name = _("invitation")
        verbose_name_plural = _("invitations")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.pk}"


class SetupLink(OneTimeLink):
    """A link by which somebody who has an account sets their own password.

    The person is told of each link until they have said that they read it; ``seen_at`` is when.
    """

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, related_name="setup_links", verbose_name=_("person")
    )
    seen_at = models.DateTimeField(_("seen"), null=True, blank=True)

    class Meta:
        verbose_name = _("set-up link")
        verbose_name_plural = _("set-up links")
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.pk}"


class ApiToken(models.Model):
    """By which a program speaks in its owner's name. Only its hash is stored: the owner reads it once.

    It has ended for good where ``ended_at`` says so; nothing takes that back.
    """

    class Scope(models.TextChoices):
        WORK = "work", pgettext_lazy("scope", "work")
        READ = "read", pgettext_lazy("scope", "read")
        MANAGE = "manage", pgettext_lazy("scope", "manage")

    class Ended(models.TextChoices):
        REVOKED = "revoked", _("revoked")
        PASSWORD = "password", _("the password changed")
        ROLE = "role", _("a role was taken away")
        ACCOUNT = "account", _("the account was deactivated")

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, related_name="tokens", verbose_name=_("person")
    )
    name = models.CharField(_("name"), max_length=100)
    sha256 = models.CharField(max_length=64, unique=True)
    scope = models.CharField(_("scope"), max_length=6, choices=Scope)
    created_at = models.DateTimeField(_("created"))
    expires_at = models.DateTimeField(_("expires"), null=True, blank=True)
    last_used_at = models.DateTimeField(_("last used"), null=True, blank=True)
    ended_at = models.DateTimeField(_("ended"), null=True, blank=True)
    ended_why = models.CharField(_("why it ended"), max_length=8, choices=Ended, blank=True)

    class Meta:
        verbose_name = _("API token")
        verbose_name_plural = _("API tokens")
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.name


class IdempotencyKey(models.Model):
    """A call of a program that made something, with the answer that it got: who sends the key again gets it again.

    ``attempt`` is of the call that wrote the row, by which it knows whether it came first. Whatever is refused leaves
    no row. The nightly clean-up removes old ones.
    """

    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    sha256 = models.CharField(max_length=64)  # of the address and the content
    attempt = models.UUIDField()
    status = models.PositiveSmallIntegerField(default=0)
    body = models.JSONField(default=dict)
    created_at = models.DateTimeField(_("created"), db_index=True)

    class Meta:
        verbose_name = _("idempotency key")
        verbose_name_plural = _("idempotency keys")
        constraints = [models.UniqueConstraint(fields=["person", "key"], name="idempotency_key_once")]

    def __str__(self) -> str:
        return self.key
