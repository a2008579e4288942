"""The form of a submission, the form of a skip, and the filters of a person's own submissions."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy, pgettext_lazy
from django.utils.translation import gettext_lazy as _

from annotation.core.errors import N_
from annotation.core.http import DayField
from annotation.domain.annotations import FLAGS, Submission
from annotation.domain.guidelines.entries import write_ranking
from annotation.models import Channel, Membership, Person
from annotation.selectors.annotations.history import (
    CLOSED,
    DECISIONS,
    LABELS,
    OPEN,
    HistoryFilter,
    find_own_dimensions,
    list_roles_held,
)
from annotation.selectors.annotations.own_work import list_batch_names
from annotation.selectors.guidelines import dimension_label

# In an address, and never the name of a dimension.
NO_DIMENSION = "-"
# What only annotations can be.
MARK_FIELDS = ("corrected", "flagged", "overruled")


class HistoryForm(forms.Form):
    """Everything optional. Whoever only annotates, or only adjudicates, is not asked which of both."""

    words = forms.CharField(
        label=_("Words of the prompt"),
        max_length=200,
        required=False,
        widget=forms.TextInput(attrs={"type": "search"}),
    )
    batch = forms.ChoiceField(label=_("Batch"), required=False)
    dimension = forms.ChoiceField(label=_("Dimension"), required=False)
    kind = forms.ChoiceField(
        label=_("My labels"),
        required=False,
        choices=[("", _("all")), (LABELS, _("labels")), (DECISIONS, _("decisions"))],
    )
    state = forms.ChoiceField(
        label=_("State"),
        required=False,
        choices=[
            ("", _("all")),
            (OPEN, pgettext_lazy("state", "open")),
            (CLOSED, pgettext_lazy("state", "closed")),
        ],
    )
    since = DayField(label=_("From"))
    until = DayField(label=_("To"))
    corrected = forms.BooleanField(label=_("Corrected by me"), required=False)
    flagged = forms.BooleanField(label=_("Flagged"), required=False)
    overruled = forms.BooleanField(label=_("Overruled"), required=False)

    def __init__(self, data: Any, *, person: Person) -> None:
        super().__init__(data)
        dimensions = find_own_dimensions(person)
        self._choices("batch", [(name, name) for name in list_batch_names(person)])
        self._choices(
            "dimension",
            [
                (name or NO_DIMENSION, dimension_label(document, name))
                for name, document in dimensions.items()
            ],
        )
        self._ask_only(list_roles_held(person))

    def _choices(self, name: str, choices: list[tuple[str, str]]) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", _("all")), *choices]

    def _ask_only(self, roles: set[str]) -> None:
        decides = Membership.Role.ADJUDICATOR in roles
        removed = ["kind"] if not decides else []
        if decides and Membership.Role.ANNOTATOR not in roles:
            removed = ["kind", "state", *MARK_FIELDS]
        for name in removed:
            del self.fields[name]

    @property
    def marks(self) -> list[forms.BoundField]:
        return [self[name] for name in MARK_FIELDS if name in self.fields]

    @property
    def choices(self) -> list[forms.BoundField]:
        return [self[name] for name in self.fields if name not in MARK_FIELDS]

    def build_filter(self) -> HistoryFilter:
        """Of a form that is valid."""
        filters = {name: value for name, value in self.cleaned_data.items() if value}
        if filters.get("dimension") == NO_DIMENSION:
            filters["dimension"] = ""
        return HistoryFilter(**filters)


LABEL, TEXT, RANK = "label.", "text.", "rank."
MAX_SECONDS = 24 * 60 * 60

# Stored as they stand here, in English, and translated where they are shown.
SKIP_REASONS = (
    N_("The guideline does not let me decide"),
    N_("The response is empty, cut off or garbled"),
    N_("I do not read this language well enough"),
    N_("This is too hard for me to read"),
    N_("I recognise where this comes from"),
)


class WorkForm(forms.Form):
    """Labels come as ``label.<criterion>``, several options under the same name, texts as ``text.<criterion>``, and the
    rank of each entry of a slate as ``rank.<criterion>.<place>``; the guideline checks them, in the service.
    """

    data: QueryDict

    key = forms.CharField(max_length=200)
    rationale = forms.CharField(required=False, max_length=20_000, label=gettext_lazy("Rationale"))
    reason = forms.CharField(required=False, max_length=500, label=gettext_lazy("Reason for the correction"))
    evidence = forms.CharField(required=False, max_length=100_000, strip=False)
    flags = forms.MultipleChoiceField(required=False, choices=list(FLAGS.items()))
    seconds = forms.CharField(required=False)

    def clean_rationale(self) -> str:
        return str(self.cleaned_data["rationale"]).replace("\r\n", "\n")

    def clean_evidence(self) -> list[dict[str, Any]]:
        """Spans in JSON, as static/js/evidence.js writes them; the service holds them against the text."""
        try:
            spans = json.loads(self.cleaned_data["evidence"] or "[]")
        except (ValueError, RecursionError):
            spans = None
        if not isinstance(spans, list) or not all(isinstance(span, dict) for span in spans):
            raise forms.ValidationError(
                _("The marked evidence cannot be read. Reload the page and mark it again.")
            )
        return spans

    def clean_seconds(self) -> float | None:
        """A measurement, not an answer: one that cannot be is dropped, and holds nothing up."""
        try:
            seconds = float(self.cleaned_data["seconds"])
        except ValueError:
            return None
        return seconds if math.isfinite(seconds) and 0 <= seconds <= MAX_SECONDS else None

    def answers(self) -> dict[str, Any]:
        """By criterion: a number, a list of them where several options are chosen, or a text."""
        answers: dict[str, Any] = {}
        for field, entries in self.data.lists():
            filled = [entry for entry in entries if entry != ""]
            if field.startswith(LABEL) and filled:
                numbers = [parse_number(entry) for entry in filled]
                answers[field.removeprefix(LABEL)] = numbers if len(numbers) > 1 else numbers[0]
            elif field.startswith(TEXT) and filled:
                answers[field.removeprefix(TEXT)] = filled[-1].replace("\r\n", "\n")
        return answers | self._rankings()

    def _rankings(self) -> dict[str, Any]:
        """Of each criterion that ranks entries the ranking; where a rank is missing, the ranks, to be refused."""
        ranks: dict[str, dict[str, Any]] = {}
        for field, entries in self.data.lists():
            if field.startswith(RANK) and entries[-1]:
                criterion, _dot, place = field.removeprefix(RANK).rpartition(".")
                ranks.setdefault(criterion, {})[place] = parse_number(entries[-1])
        return {criterion: join_ranks(by_place) for criterion, by_place in ranks.items()}

    def work(self, evidence: Sequence[Mapping[str, Any]] = ()) -> Submission:
        """``evidence`` stands where the page that sent this could not change it."""
        data = {name: value for name, value in self.cleaned_data.items() if name != "key"}
        return Submission(
            labels=self.answers(),
            channel=Channel.PAGE,
            **data if "evidence" in self.data else {**data, "evidence": list(evidence)},
        )

    def first_error(self) -> str:
        return str(next(iter(self.errors.values()))[0])


class SkipForm(forms.Form):
    reason = forms.ChoiceField(required=False, choices=[(reason, reason) for reason in SKIP_REASONS])
    own = forms.CharField(required=False, max_length=500)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        cleaned["why"] = cleaned.get("own") or cleaned.get("reason", "")
        if not cleaned["why"] and not self.errors:
            raise forms.ValidationError(_("Choose a reason for skipping this item, or write your own."))
        return cleaned

    def first_error(self) -> str:
        return str(next(iter(self.errors.values()))[0])


def join_ranks(by_place: Mapping[str, Any]) -> int | list[Any]:
    """The ranking as one number; where a rank is missing or is none, the ranks as they came."""
    places = [str(place) for place in range(1, len(by_place) + 1)]
    ranks = [by_place.get(place) for place in places]
    numbers = [rank for rank in ranks if isinstance(rank, int)]
    return write_ranking(numbers) if len(numbers) == len(places) else ranks


def parse_number(text: str) -> int | float | str:
    """The number, whole ones as int; else the text as it came, for the guideline to refuse."""
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if math.isfinite(number) and number == int(number) else number
