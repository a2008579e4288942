"""Finding a batch's items, and what to do with those that were chosen."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from annotation.models import Batch, Membership, Person, Task
from annotation.selectors.batches.tasks import HELD_NOW, RAN_OUT, TaskFilter, list_dimensions
from annotation.selectors.guidelines import dimension_label
from annotation.services.batches.tasks import MAX_PRIORITY

ASSIGN, EVERYBODY, WITHDRAW, BRING_BACK, PRIORITY = (
    "assign",
    "everybody",
    "withdraw",
    "bring_back",
    "priority",
)
ACTIONS = [
    (ASSIGN, _("Assign to people")),
    (EVERYBODY, _("Give back to everybody")),
    (PRIORITY, _("Set the priority")),
    (WITHDRAW, _("Withdraw")),
    (BRING_BACK, _("Bring back")),
]
# In an address, and never the name of a dimension.
NO_DIMENSION = "-"


class FindTasksForm(forms.Form):
    """Everything optional; what nobody could have chosen is left out of account."""

    words = forms.CharField(label=_("Words of the prompt, or its id"), max_length=200, required=False)
    state = forms.ChoiceField(label=_("State"), required=False, choices=[("", _("all")), *Task.State.choices])
    dimension = forms.ChoiceField(label=_("Dimension"), required=False)
    person = forms.ChoiceField(label=_("Held or labelled by"), required=False)

    claim = forms.ChoiceField(
        label=_("Claim"),
        required=False,
        choices=[("", _("all")), (HELD_NOW, _("in progress now")), (RAN_OUT, _("ran out"))],
    )

    def __init__(self, data: Any, *, batch: Batch) -> None:
        super().__init__(data)
        document = batch.guideline.document
        names = list_dimensions(batch)
        people = Person.objects.filter(memberships__batch=batch).distinct().order_by("username")
        self._choices(
            "dimension", [(name or NO_DIMENSION, dimension_label(document, name)) for name in names]
        )
        self._choices("person", [(person.username, str(person)) for person in people])

    def _choices(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", _("all")), *choices]

    def build_filter(self) -> TaskFilter:
        self.is_valid()
        data = self.cleaned_data
        dimension = data.get("dimension") or None
        return TaskFilter(
            state=data.get("state", ""),
            dimension="" if dimension == NO_DIMENSION else dimension,
            words=data.get("words", "").strip(),
            person=data.get("person", ""),
            claim=data.get("claim", ""),
        )


class TaskIdsField(forms.Field):
    """The ids of the chosen items, as many as boxes are checked."""

    widget = forms.SelectMultiple
    default_error_messages = {
        "required": _("Choose at least one item."),
        "invalid": _("That is not an item."),
    }

    def to_python(self, value: Any) -> list[int]:
        try:
            return [int(task_id) for task_id in value or ()]
        except (TypeError, ValueError):
            raise forms.ValidationError(self.error_messages["invalid"], code="invalid") from None


class ChangeForm(forms.Form):
    """What to do with the chosen items. The fields that the action does not ask for are left out of account."""

    tasks = TaskIdsField()
    action = forms.ChoiceField(
        label=_("Action to take"),
        widget=forms.RadioSelect,
        choices=ACTIONS,
        error_messages={"required": _("Choose what to do.")},
    )
    people = forms.ModelMultipleChoiceField(
        queryset=Person.objects.none(),
        label=_("People"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        help_text=_(
            "Only they are given the free places from now on, beside who has labelled the item already."
        ),
    )
    reason = forms.CharField(label=_("Reason"), max_length=500, required=False)
    priority = forms.IntegerField(
        label=_("Priority"),
        min_value=-MAX_PRIORITY,
        max_value=MAX_PRIORITY,
        required=False,
        help_text=_("Higher comes first; 0 is usual."),
    )

    def __init__(self, data: Any = None, *, batch: Batch) -> None:
        super().__init__(data)
        field = self.fields["people"]
        assert isinstance(field, forms.ModelMultipleChoiceField)
        annotating = Membership.objects.filter(batch=batch, role=Membership.Role.ANNOTATOR, active=True)
        field.queryset = Person.objects.filter(pk__in=annotating.values("person")).order_by("username")
        if batch.pairing != Batch.Pairing.POOL:
            actions = self.fields["action"]
            assert isinstance(actions, forms.ChoiceField)
            actions.choices = [choice for choice in ACTIONS if choice[0] != EVERYBODY]

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        required = {
            ASSIGN: ("people", _("Name the people.")),
            WITHDRAW: ("reason", _("Give a reason: others will read it.")),
            PRIORITY: ("priority", _("Give a priority.")),
        }
        name, words = required.get(data.get("action", ""), ("", ""))
        if name and name not in self.errors and not self.is_filled(data[name]):
            self.add_error(name, words)
        return data

    @staticmethod
    def is_filled(value: Any) -> bool:
        return value == 0 or bool(value)


class LimitsForm(forms.Form):
    """What a member is given at most, and what not at all."""

    quota = forms.IntegerField(
        label=_("Quota"),
        min_value=0,
        max_value=2**31 - 1,
        required=False,
        help_text=_("At most this many items in this batch, those submitted included; empty: no limit."),
    )
    excluded_dimensions = forms.MultipleChoiceField(
        label=_("Not these dimensions"), required=False, widget=forms.CheckboxSelectMultiple
    )

    def __init__(self, data: Any = None, *, membership: Membership) -> None:
        limits = {"quota": membership.quota, "excluded_dimensions": membership.excluded_dimensions}
        super().__init__(data, initial=limits)
        document = membership.batch.guideline.document
        names = {*list_dimensions(membership.batch), *membership.excluded_dimensions} - {""}
        field = self.fields["excluded_dimensions"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [(name, dimension_label(document, name)) for name in sorted(names)]
