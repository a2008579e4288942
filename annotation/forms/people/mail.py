"""The address of a person, what is sent there, and the form of who has forgotten a password."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.domain.mail.mail import MAX_ADDRESS, check_address
from annotation.models import MailProfile

DIGEST_CHOICES = MailProfile.Digest.choices


class AddressForm(forms.Form):
    """An address. Nothing is said of whose it is."""

    address = forms.CharField(
        label=_("E-mail address"),
        max_length=MAX_ADDRESS,
        widget=forms.EmailInput(attrs={"autocomplete": "email"}),
    )

    def clean_address(self) -> str:
        try:
            return check_address(self.cleaned_data["address"])
        except AssayError as error:
            raise ValidationError(error_text(error)) from error


class OwnAddressForm(AddressForm):
    """With the present password: who finds a screen unlocked must not have links for it sent to themselves.

    ``check`` answers whether a password is the present one, and None where nobody may try again yet.
    """

    password = forms.CharField(
        label=_("Current password"),
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
        strip=False,
    )

    def __init__(self, *args: Any, check: Callable[[str], bool | None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.check = check

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        is_present = self.check(password)
        if is_present is None:
            raise ValidationError(_now("Too many attempts. Wait five minutes, then try again."))
        if not is_present:
            raise ValidationError(_now("This is not your present password."))
        return password


class RemoveAddressForm(OwnAddressForm):
    address = None  # type: ignore[assignment]


class MailSettingsForm(forms.Form):
    """What is sent to a person. Mails that answer an act of theirs are not among it."""

    language = forms.ChoiceField(label=_("Language of mails"), choices=settings.LANGUAGES)
    due_dates = forms.BooleanField(
        label=_("Due dates of batches"),
        required=False,
        help_text=_(
            "Some days before a batch with items left for you is due; to managers, once it is overdue."
        ),
    )
    alarms = forms.BooleanField(
        label=_("Alarms of batches"),
        required=False,
        help_text=_("To managers: agreement below its threshold."),
    )
    failed_jobs = forms.BooleanField(
        label=_("Jobs that failed"),
        required=False,
        help_text=_(
            "Jobs that you started, such as an import or a training; to managers, also collections that stopped."
        ),
    )
    digest = forms.ChoiceField(
        label=pgettext_lazy("mail", "Digest"),
        choices=DIGEST_CHOICES,
        widget=forms.RadioSelect,
        help_text=_(
            "What is waiting for you, as on your home page. No mail is sent when nothing is waiting."
        ),
    )

    def __init__(self, data: Any = None, *, profile: MailProfile) -> None:
        super().__init__(data, initial={name: getattr(profile, name) for name in self.base_fields})
