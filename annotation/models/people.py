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
from annotation.core.names import (
    check_person_name,
    look_alike_key,
    look_alike_keys,
    refuse_reserved_name,
)
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

    # While local passwords are switched off an admin may sign in by theirs until then (the command ``allow_password``).
    password_until = models.DateTimeField(null=True, editable=False)
    # The provider whose groups made this person an admin; empty: somebody did it by hand.
    admin_given_by = models.CharField(max_length=50, blank=True, default="", db_default="", editable=False)

    # Equal for names that look alike (annotation/core/names.py). Null for who had such a name before this rule.
    name_key = models.CharField(max_length=600, null=True, editable=False)

    # The account is a pseudonym since then, and nobody's any more (docs/decisions/erasure.md).
    erased_at = models.DateTimeField(_("erased"), null=True, editable=False)

    # Who sets the password while it is saved, for the audit trail; None is the operator's shell.
    password_by: Person | None = None

    objects: ClassVar[PersonManager] = PersonManager()

    class Meta:
        verbose_name = _("person")
        verbose_name_plural = _("people")
        constraints = [
            models.UniqueConstraint(fields=["name_key"], name="person_name_looks_like_no_other"),
            models.CheckConstraint(
                condition=models.Q(erased_at__isnull=True) | models.Q(is_active=False),
                name="person_erased_is_inactive",
            ),
        ]

    def __str__(self) -> str:
        return self.display_name or self.username

    def clean(self) -> None:
        """A new name must not look like another one; who has theirs keeps it."""
        super().clean()
        if Person.objects.filter(pk=self.pk, username=self.username).exists():
            return
        try:
            check_person_name(self.username)
            refuse_reserved_name(self.username)
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
    by_mail = models.BooleanField(
        _("sent by mail"),
        default=False,
        db_default=False,
        help_text=_("Nobody made it: whoever opens the person's mail asked for it."),
    )

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


class SignInSession(models.Model):
    """A browser in which a person is signed in: one row for each of their sessions, which ends with it.

    ``method`` is how they signed in: ``password``, ``passkey``, ``link`` (a set-up link or an invitation), ``demo``, or
    ``provider``, whose name is then ``provider``. Of a provider's session ``sealed_token`` is what a check is made
    with (annotation/core/sealing.py), ``subject`` and ``provider_session`` are what its logout names, and ``ends_at``
    is when it ends without a check.
    """

    IS_SESSION = True  # no backup has it (annotation/models/sql/dumps.py)

    class Method(models.TextChoices):
        PASSWORD = "password", pgettext_lazy("sign-in", "password")
        PASSKEY = "passkey", pgettext_lazy("sign-in", "passkey")
        LINK = "link", pgettext_lazy("sign-in", "link")
        DEMO = "demo", pgettext_lazy("sign-in", "demo")
        PROVIDER = "provider", pgettext_lazy("sign-in", "provider")

    person = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.CASCADE,
        related_name="sign_in_sessions",
        verbose_name=_("person"),
    )
    session_key = models.CharField(max_length=40, unique=True)
    method = models.CharField(_("how"), max_length=8, choices=Method, blank=True)
    began_at = models.DateTimeField(_("began"))
    seen_at = models.DateTimeField(_("last seen"))
    address = models.CharField(_("address"), max_length=45, blank=True)
    agent = models.CharField(_("browser"), max_length=200, blank=True)
    provider = models.CharField(_("provider"), max_length=50, blank=True)
    subject = models.CharField(max_length=191, blank=True)
    provider_session = models.CharField(max_length=255, blank=True)
    sealed_token = models.TextField(blank=True)
    checked_at = models.DateTimeField(null=True)
    check_begun_at = models.DateTimeField(null=True)
    ends_at = models.DateTimeField(null=True)

    class Meta:
        verbose_name = _("session")
        verbose_name_plural = _("sessions")
        ordering = ["-seen_at"]
        indexes = [models.Index(fields=["provider", "subject"], name="session_by_provider")]

    def __str__(self) -> str:
        return f"{self.pk}"


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
