from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.password_validation import password_validators_help_texts, validate_password
from django.core.exceptions import ValidationError
from django.utils.functional import lazy
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from annotation.models import ADJUDICATOR, ANNOTATOR, MANAGER, RESEARCHER, Person

ROLE_CHOICES = (
    (ANNOTATOR, _("Annotator: labels responses")),
    (ADJUDICATOR, _("Adjudicator: decides disputes")),
    (MANAGER, _("Manager: data, guidelines, batches, people")),
    (RESEARCHER, _("Researcher: gold releases, scorers, benchmarks")),
)


def _rules() -> str:
    return " ".join(password_validators_help_texts())


def _password(label: Any, *, required: bool = True, help_text: Any = "") -> forms.CharField:
    widget = forms.PasswordInput(attrs={"autocomplete": "new-password"})
    return forms.CharField(label=label, required=required, help_text=help_text, widget=widget, strip=False)


class RolesForm(forms.Form):
    roles = forms.MultipleChoiceField(
        label=_("Groups"), choices=ROLE_CHOICES, required=False, widget=forms.CheckboxSelectMultiple
    )


class PersonForm(RolesForm):
    name = forms.CharField(label=_("Name to sign in with"), max_length=150)
    display_name = forms.CharField(label=_("Display name"), max_length=150, required=False)
    password = _password(
        _("First password"),
        required=False,
        help_text=_("Tell it to the person; they can change it. Without one they cannot sign in."),
    )
    field_order = ("name", "display_name", "roles", "password")

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("password"):
            unsaved = Person(username=data.get("name", ""), display_name=data.get("display_name", ""))
            try:
                validate_password(data["password"], unsaved)
            except ValidationError as error:
                self.add_error("password", error)
        return data


class NewPasswordForm(forms.Form):
    password = _password(_("New password"), help_text=lazy(_rules, str)())

    def __init__(self, *args: Any, person: Person, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person = person

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        validate_password(password, self.person)
        return password


class OwnPasswordForm(NewPasswordForm):
    """With the old one: whoever finds a screen unlocked must not take the account over."""

    old_password = forms.CharField(
        label=_("Present password"),
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
        strip=False,
    )
    field_order = ("old_password", "password")

    def clean_old_password(self) -> str:
        password: str = self.cleaned_data["old_password"]
        if not self.person.check_password(password):
            raise ValidationError(_now("This is not your present password."))
        return password


class NameForm(forms.Form):
    display_name = forms.CharField(label=_("Display name"), max_length=150, required=False)
