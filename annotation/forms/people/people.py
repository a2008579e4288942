from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django import forms
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils.functional import lazy
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.passwords import describe_rules
from annotation.domain.mail.mail import check_address, extract_address
from annotation.models import (
    ADJUDICATOR,
    ANNOTATOR,
    MANAGER,
    RESEARCHER,
    ROLES,
    VIEWER,
    Batch,
    EvaluatedModel,
    Person,
    Study,
)
from annotation.selectors.mail.mail import is_mail_on
from annotation.services.people.invitations import MAX_DAYS
from annotation.services.people.people import language_tags
from annotation.services.people.tokens import MAX_NAME

ROLE_CHOICES = (
    (ANNOTATOR, _("Annotator: labels responses")),
    (ADJUDICATOR, _("Adjudicator: decides disputes")),
    (MANAGER, _("Manager: data, guidelines, batches, people")),
    (RESEARCHER, _("Researcher: gold releases, scorers, benchmarks")),
    (VIEWER, _("Viewer: reads gold releases and leaderboards, changes nothing")),
)
USUAL_DAYS = 7
MAX_INVITED = 100
MAX_NOTE = 200
SCOPE_CHOICES = (
    ("work", _("Work: the calls by which items are claimed, labelled and decided, and nothing else")),
    ("read", _("Read: every call that changes nothing")),
    ("manage", _("Manage: every call that you may make")),
)
USUAL_TOKEN_DAYS = 90
DAYS_CHOICES = ((7, _("7 days")), (30, _("30 days")), (90, _("90 days")), (365, _("1 year")))


def password_field(label: Any, *, required: bool = True, help_text: Any = "") -> forms.CharField:
    widget = forms.PasswordInput(attrs={"autocomplete": "new-password"})
    return forms.CharField(label=label, required=required, help_text=help_text, widget=widget, strip=False)


class RolesForm(forms.Form):
    roles = forms.MultipleChoiceField(
        label=_("Roles"), choices=ROLE_CHOICES, required=False, widget=forms.CheckboxSelectMultiple
    )


def check_new_password(form: forms.Form, name: str, display_name: str) -> None:
    """By the rules for passwords, for a person who is not there yet."""
    password = form.cleaned_data.get("password")
    if password:
        try:
            validate_password(password, Person(username=name, display_name=display_name))
        except ValidationError as error:
            form.add_error("password", error)


def check_repeated_password(form: forms.Form) -> None:
    passwords = [form.cleaned_data.get(name) for name in ("password", "again")]
    if all(passwords) and passwords[0] != passwords[1]:
        form.add_error("again", _now("The two passwords are not the same."))


class PersonForm(RolesForm):
    """Without a password: the person sets their own, by a link."""

    name = forms.CharField(label=_("User name"), max_length=150)
    display_name = forms.CharField(label=_("Display name"), max_length=150, required=False)
    field_order = ("name", "display_name", "roles")


class MemberForm(RolesForm):
    """Somebody who has an account, by the whole name with which they sign in: nothing lists or completes it."""

    username = forms.CharField(
        label=_("Name with which they sign in"), max_length=150, help_text=_("The whole name, exactly.")
    )
    field_order = ("username", "roles")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["roles"].required = True


class TitleForm(forms.Form):
    title = forms.CharField(label=_("Title of the study"), max_length=200, required=False)


class StudyForm(TitleForm):
    name = forms.CharField(
        label=_("Name"),
        max_length=100,
        help_text=_("It is used in addresses and commands and cannot be changed."),
    )
    managers = forms.CharField(
        label=_("Managers"),
        widget=forms.Textarea(attrs={"rows": 2}),
        help_text=_("Names with which they sign in, one a line."),
    )
    field_order = ("name", "title", "managers")

    def clean_managers(self) -> list[str]:
        return [line.strip() for line in self.cleaned_data["managers"].splitlines() if line.strip()]


class NewPasswordForm(forms.Form):
    password = password_field(_("New password"), help_text=lazy(describe_rules, str)())

    def __init__(self, *args: Any, person: Person, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.person = person

    def clean_password(self) -> str:
        password: str = self.cleaned_data["password"]
        validate_password(password, self.person)
        return password


class SetupForm(NewPasswordForm):
    """What the person of a set-up link fills in."""

    again = password_field(_("The password again"))

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        check_repeated_password(self)
        return data


class TokenForm(forms.Form):
    name = forms.CharField(
        label=_("Purpose of the token"),
        max_length=MAX_NAME,
        help_text=_("Such as the program that uses it."),
    )
    scope = forms.ChoiceField(
        label=pgettext_lazy("token", "Scope"), choices=SCOPE_CHOICES, widget=forms.RadioSelect, initial="work"
    )
    days = forms.TypedChoiceField(
        label=_("Valid for"), choices=DAYS_CHOICES, coerce=int, initial=USUAL_TOKEN_DAYS
    )


class OwnPasswordForm(NewPasswordForm):
    """With the present one: whoever finds a screen unlocked must not take the account over.

    ``check`` answers whether a password is the present one, and None where nobody may try again yet.
    """

    old_password = forms.CharField(
        label=_("Current password"),
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
        strip=False,
    )
    field_order = ("old_password", "password")

    def __init__(self, *args: Any, check: Callable[[str], bool | None] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.check = check or self.person.check_password

    def clean_old_password(self) -> str:
        password: str = self.cleaned_data["old_password"]
        is_present = self.check(password)
        if is_present is None:
            raise ValidationError(_now("Too many attempts. Wait five minutes, then try again."))
        if not is_present:
            raise ValidationError(_now("This is not your present password."))
        return password


class NameForm(forms.Form):
    display_name = forms.CharField(label=_("Display name"), max_length=150, required=False)


class LanguagesForm(forms.Form):
    """What a person reads: of the languages that prompts are in, and any other."""

    languages = forms.MultipleChoiceField(
        label=_("Languages"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_(
            "None chosen: every language. With some chosen, items in other languages go to other people; items"
            " whose language nobody named are for everybody. zh reads zh-Hans and zh-Hant, too, but not the"
            " other way round."
        ),
    )
    others = forms.CharField(
        label=_("Other languages"),
        required=False,
        max_length=200,
        help_text=_("Tags such as zh-Hant, en or pt-BR, with commas between them."),
    )

    def __init__(self, data: Any = None, *, selected: Sequence[str] = (), known: Sequence[str]) -> None:
        """``selected`` are chosen at first, ``known`` are offered besides."""
        super().__init__(data, initial={"languages": list(selected)})
        field = self.fields["languages"]
        assert isinstance(field, forms.MultipleChoiceField)
        languages = list(dict.fromkeys([*known, *selected]))
        field.choices = [(tag, tag) for tag in languages]
        if not languages:
            del self.fields["languages"]
            self.fields["others"].label = _("Languages")

    def clean_others(self) -> list[str]:
        try:
            return language_tags(re.split(r"[,，、;；\s]+", self.cleaned_data["others"]))
        except AssayError as error:
            raise ValidationError(error_text(error)) from error

    def tags(self) -> list[str]:
        return [*self.cleaned_data.get("languages", []), *self.cleaned_data["others"]]


class InvitationForm(LanguagesForm, RolesForm):
    notes = forms.CharField(
        label=_("For whom"),
        max_length=MAX_INVITED * MAX_NOTE,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=_("One person a line: each gets a link of their own. Only managers read it."),
    )
    batch = forms.ModelChoiceField(
        label=_("Batch"),
        queryset=Batch.objects.none(),
        required=False,
        empty_label=_("none yet"),
        help_text=_("Whoever accepts works in it at once."),
    )
    days = forms.IntegerField(
        label=_("Valid for (days)"), min_value=1, max_value=MAX_DAYS, initial=USUAL_DAYS
    )
    send = forms.BooleanField(
        label=_("Send the links by mail"),
        required=False,
        help_text=_("Each line must then contain an address, such as Lin Wei <lin@example.org>."),
    )
    field_order = ("notes", "send", "roles", "batch", "days", "languages", "others")

    def __init__(
        self, data: Any = None, *, known: Sequence[str], batches: QuerySet[Batch], batch: str = ""
    ) -> None:
        """``batch``: the name of the one that is chosen at first."""
        super().__init__(data, known=known)
        self.fields["roles"].required = True
        if not is_mail_on():
            del self.fields["send"]
        field = self.fields["batch"]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = batches
        chosen_batch = batches.filter(name=batch).first() if batch else None
        if chosen_batch is not None:
            self.initial = {**self.initial, "batch": chosen_batch.pk, "roles": [ANNOTATOR]}

    def clean_notes(self) -> list[str]:
        """A note for each invitation; one without a note where no line has any."""
        notes = [line.strip() for line in self.cleaned_data["notes"].splitlines() if line.strip()]
        if len(notes) > MAX_INVITED:
            raise ValidationError(_now("Invite at most %(most)s people at once.") % {"most": MAX_INVITED})
        long = [note for note in notes if len(note) > MAX_NOTE]
        if long:
            raise ValidationError(
                _now("A line has at most %(most)s characters: %(line)s…")
                % {"most": MAX_NOTE, "line": long[0][:40]}
            )
        return notes or [""]

    def clean(self) -> dict[str, Any]:
        """``addresses``: to which the link of each note is sent, empty where none is."""
        data = super().clean() or self.cleaned_data
        notes = data.get("notes", [])
        data["addresses"] = [""] * len(notes)
        if data.get("send"):
            try:
                data["addresses"] = [check_address(extract_address(note) or note) for note in notes]
            except AssayError as error:
                self.add_error("notes", error_text(error))
        return data


class AccountForm(LanguagesForm):
    """The account that whoever was invited makes for themselves."""

    name = forms.CharField(
        label=_("User name"),
        max_length=100,
        help_text=_("Letters, digits and @ . + - _ only; it cannot be changed later."),
        widget=forms.TextInput(attrs={"autocomplete": "username", "autocapitalize": "none"}),
    )
    display_name = forms.CharField(
        label=_("Display name"),
        max_length=150,
        required=False,
        help_text=_("How others see you; you can change it."),
        widget=forms.TextInput(attrs={"autocomplete": "nickname"}),
    )
    password = password_field(_("Password"), help_text=lazy(describe_rules, str)())
    again = password_field(_("The password again"))
    field_order = ("name", "display_name", "password", "again", "languages", "others")

    def __init__(self, data: Any = None, *, selected: Sequence[str], known: Sequence[str]) -> None:
        super().__init__(data, selected=selected, known=known)
        languages_field = self.fields["languages" if "languages" in self.fields else "others"]
        languages_field.label = _("Languages that you read")
        if "languages" in self.fields:
            languages_field.help_text = _(
                "None chosen: every language. Items in other languages go to other people."
            )

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        check_new_password(self, data.get("name", ""), data.get("display_name", ""))
        check_repeated_password(self)
        return data


class FindPeopleForm(forms.Form):
    """What is looked for among the people; what nobody could have chosen is left out of account."""

    words = forms.CharField(label=_("Name"), max_length=150, required=False)
    role = forms.ChoiceField(label=_("Role"), required=False)

    def __init__(self, data: Any = None) -> None:
        super().__init__(data)
        field = self.fields["role"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [
            ("", _("all")),
            *((role, pgettext_lazy("role", role.capitalize())) for role in ROLES),
        ]

    def parse_search(self) -> tuple[str, str]:
        """The words and the role, empty where nothing is asked for."""
        self.is_valid()
        return self.cleaned_data.get("words", "").strip(), self.cleaned_data.get("role", "")


class ErasureForm(forms.Form):
    """The name of the person who is erased, typed once more: nothing brings them back."""

    name = forms.CharField(label=_("User name"), max_length=150)

    def __init__(self, data: Any = None, *, person: Person) -> None:
        super().__init__(data)
        self._username = person.username
        self.fields["name"].help_text = _("Type {name} to confirm.").format(name=person.username)
        self.fields["name"].widget.attrs["autocomplete"] = "off"

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if name.strip() != self._username:
            raise forms.ValidationError(_("This is not the name of the person on this page."))
        return name


class StudyDeletionForm(forms.Form):
    """The name of the study that is deleted, typed once more."""

    name = forms.CharField(label=_("Name of the study"), max_length=100)

    def __init__(self, data: Any = None, *, study: Study) -> None:
        super().__init__(data)
        self._name = study.name
        self.fields["name"].help_text = _("Type {name} to confirm.").format(name=study.name)
        self.fields["name"].widget.attrs["autocomplete"] = "off"

    def clean_name(self) -> str:
        name: str = self.cleaned_data["name"]
        if name.strip() != self._name:
            raise forms.ValidationError(_("This is not the name of the study on this page."))
        return name


class OwnModelsForm(forms.Form):
    """The models that a person helped to build, among those whose names the reader may see."""

    models = forms.ModelMultipleChoiceField(
        label=_("Own models"),
        queryset=EvaluatedModel.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_(
            "Models that this person helped to build. Their responses go to others, to annotate and to decide."
        ),
    )

    def __init__(self, data: Any = None, *, person: Person, open_models: Iterable[EvaluatedModel]) -> None:
        ids = [model.pk for model in open_models]
        super().__init__(data, initial={"models": list(person.own_models.filter(pk__in=ids))})
        field = self.fields["models"]
        assert isinstance(field, forms.ModelMultipleChoiceField)
        field.queryset = EvaluatedModel.objects.filter(pk__in=ids).order_by("name")
