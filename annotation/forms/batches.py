from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from annotation.models import (
    ADJUDICATOR,
    ANNOTATOR,
    MAX_OVERLAP,
    MOST_CHECKS,
    Batch,
    Collection,
    Dataset,
    EvaluatedModel,
    Guideline,
    Membership,
    Person,
)
from annotation.selectors.blindness import openings_of
from annotation.selectors.corpus import collections_in, models_in
from annotation.selectors.people import people_in_role
from annotation.services.batches import LARGEST_SEED, Policy, Share
from annotation.services.making import Wish
from annotation.services.terms import LONGEST_WAIT, Terms
from annotation.views.numbers import DayField

PAIRINGS = (
    (
        Batch.Pairing.POOL,
        _("Pool: whoever is free takes the next item. The quickest; chance decides who works with whom."),
    ),
    (
        Batch.Pairing.BALANCED,
        _(
            "Balanced: every two people share as many items as any other two. Choose it to learn how reliable"
            " each person and each pair is."
        ),
    ),
    (
        Batch.Pairing.FIXED,
        _(
            "Fixed pairs: every item belongs to one of the pairs that you name. Choose it where certain people"
            " must judge together, such as an expert and a beginner."
        ),
    ),
)
ORDERS = (
    (
        Batch.Order.PROMPTS,
        _("Prompt by prompt: the responses to one prompt come near each other, never two in a row."),
    ),
    (Batch.Order.SHUFFLED, _("Shuffled: in an order that the seed decides.")),
)
# What a form that says nothing of these means.
USUAL = {
    "pairing": Batch.Pairing.POOL,
    "order": Batch.Order.PROMPTS,
    "seed": "0",
    "alarm_action": Batch.AlarmAction.TELL,
    "second_reading_percent": "5",
    "second_reading_days": "14",
    "check_percent": "0",
}
QUALIFYING = (
    (Batch.Qualifying.NONE, _("None: whoever is in the batch is given work at once.")),
    (Batch.Qualifying.ACCURACY, _("By accuracy: the share of labels that are equal to the known ones.")),
    (
        Batch.Qualifying.KAPPA,
        _("By Cohen's kappa with the known labels, which leaves out what chance would give."),
    ),
)
ALARMS = (
    (Batch.AlarmAction.TELL, _("Tell the managers, and let the work go on.")),
    (Batch.AlarmAction.PAUSE, _("Tell the managers and pause the batch, until one of them lets it go on.")),
)
MOST_MINUTES = 7 * 24 * 60


class CollectionChoice(forms.ModelChoiceField):  # type: ignore[type-arg]  # no generic at run time
    def label_from_instance(self, obj: Any) -> str:
        return obj.name or str(_("the one without a name"))


def _many(label: Any, help_text: Any = "") -> Any:
    return forms.ModelMultipleChoiceField(
        queryset=Person.objects.none(),
        label=label,
        help_text=help_text,
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )


class PairsInput(forms.Textarea):
    """The browser must not ask for pairs where the pairing needs none."""

    def use_required_attribute(self, initial: Any) -> bool:
        return False


class PairsField(forms.CharField):
    """Who works with whom: one pair a line, the names apart by commas or +. Cleans to lists of people.

    A name is the one to sign in with, or the display name where only one of ``people`` has it.
    """

    widget = PairsInput(attrs={"rows": 4, "spellcheck": "false", "autocomplete": "off"})
    people: Sequence[Person] = ()

    def clean(self, value: Any) -> list[list[Person]]:
        lines = enumerate(super().clean(value).splitlines(), start=1)
        named: dict[str, set[Person]] = defaultdict(set)
        for person in self.people:
            named[person.username] = {person}
        for person in self.people:
            if str(person) not in {one.username for one in self.people}:
                named[str(person)].add(person)
        pairs, errors = [], []
        for number, line in lines:
            names = _names(line)
            unknown = [name for name in names if len(named.get(name, ())) != 1]
            if unknown:
                words = _now("Line {line}: no annotator is named {names}.")
                errors.append(words.format(line=number, names=", ".join(unknown)))
            elif len(set(names)) < len(names):
                errors.append(_now("Line {line}: somebody stands there twice.").format(line=number))
            elif names:
                pairs.append([next(iter(named[name])) for name in names])
        if errors:
            raise ValidationError(errors)
        return pairs


def _names(line: str) -> list[str]:
    """A name may hold a +: where there is a comma, only commas part the names."""
    parts = re.split(r"[,，、;；]", line)
    if len(parts) == 1:
        parts = line.split("+")
    return [part.strip() for part in parts if part.strip()]


class TermsForm(forms.Form):
    """What of a batch's policy may change while people work in it."""

    lease_minutes = forms.IntegerField(
        label=_("Lease in minutes"),
        min_value=1,
        max_value=MOST_MINUTES,
        initial=30,
        help_text=_("An item that was not submitted by then goes to someone else."),
    )
    due_date = DayField(label=_("Due date"))
    agreement_threshold = forms.FloatField(
        label=_("Agreement threshold"),
        min_value=-1,
        max_value=1,
        required=False,
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_(
            "An alarm when the lower bound of Krippendorff's alpha falls below it; empty: none. Of few items the"
            " bound lies far below the value: 0.4 to 0.667 is usual."
        ),
    )
    alarm_action = forms.ChoiceField(
        label=_("At an alarm"), choices=ALARMS, widget=forms.RadioSelect, initial=Batch.AlarmAction.TELL
    )
    second_reading_percent = forms.FloatField(
        label=_("Repeat adjudications in percent"),
        min_value=0,
        max_value=100,
        initial=5,
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_(
            "Of the decided disputes: so many come back to their adjudicator unmarked, to measure how consistent"
            " they are. 0: none."
        ),
    )
    second_reading_days = forms.IntegerField(
        label=_("Days until a repeat adjudication"),
        min_value=0,
        max_value=LONGEST_WAIT,
        initial=14,
        help_text=_("Or when the disputes run out."),
    )
    check_percent = forms.FloatField(
        label=_("Gold checks in percent"),
        min_value=0,
        max_value=100 * MOST_CHECKS,
        initial=0,
        required=False,
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_(
            "Of the items that each annotator is given: so many are known ones, which look like all others."
            " You add them on the batch's page Known items. 0: none; 5 is usual."
        ),
    )
    check_feedback = forms.BooleanField(
        label=_("Tell people after a gold check"),
        required=False,
        help_text=_(
            "After a known item the annotator reads that it was one, the right label, and why. It teaches, and each"
            " item is spent on whoever has had it."
        ),
    )
    qualifying = forms.ChoiceField(
        label=_("Qualification"), choices=QUALIFYING, widget=forms.RadioSelect, required=False, initial=""
    )
    qualifying_threshold = forms.FloatField(
        label=_("Threshold of the qualification"),
        min_value=-1,
        max_value=1,
        required=False,
        widget=forms.NumberInput(attrs={"step": "any"}),
        help_text=_(
            "From 0 to 1, as in 0.8. Whoever reaches it on the round of known items is given the work."
        ),
    )

    def terms(self) -> Terms:
        """Of a form that is valid."""
        data = self.cleaned_data
        return Terms(
            lease_seconds=data["lease_minutes"] * 60,
            due_date=data["due_date"],
            agreement_threshold=data["agreement_threshold"],
            alarm_action=data["alarm_action"],
            second_reading_share=round(data["second_reading_percent"] / 100, 6),
            second_reading_days=data["second_reading_days"],
            check_share=round((data["check_percent"] or 0) / 100, 6),
            check_feedback=data["check_feedback"],
            qualifying=data["qualifying"],
            qualifying_threshold=data["qualifying_threshold"] if data["qualifying"] else None,
        )

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        missing = data.get("qualifying") and data.get("qualifying_threshold") is None
        if missing and not self.has_error("qualifying_threshold"):
            self.add_error("qualifying_threshold", _now("Say from which value on somebody has passed."))
        return data


class PolicyForm(TermsForm):
    """The terms of a batch as they are. A lease of seconds that the form cannot show stays unless it is changed, and
    what concerns known items where nothing is said of them.

    Without ``threshold_open`` the threshold is shown and stays, and the gold checks as well.
    """

    def __init__(self, data: Any = None, *, batch: Batch, threshold_open: bool = True) -> None:
        self.batch = batch
        super().__init__(
            data,
            initial={
                "lease_minutes": max(1, round(batch.lease_seconds / 60)),
                "due_date": batch.due_date,
                "agreement_threshold": batch.agreement_threshold,
                "alarm_action": batch.alarm_action,
                "second_reading_percent": f"{batch.second_reading_share * 100:g}",
                "second_reading_days": batch.second_reading_days,
                "check_percent": f"{batch.check_share * 100:g}",
                "check_feedback": batch.check_feedback,
                "qualifying": batch.qualifying,
                "qualifying_threshold": batch.qualifying_threshold,
            },
        )
        if batch.state != Batch.State.DRAFT:
            for name in ("qualifying", "qualifying_threshold"):
                self.fields[name].disabled = True
            self.fields["qualifying"].help_text = _("It stays as it is while people work.")
        if not threshold_open:
            for name in ("check_percent", "check_feedback"):
                self.fields[name].disabled = True
            field = self.fields["agreement_threshold"]
            field.disabled = True
            field.help_text = _(
                "You judge blind in this batch, and an alarm would tell you how well people agree: another manager"
                " can set it."
            )

    def terms(self) -> Terms:
        terms, batch = super().terms(), self.batch
        if "lease_minutes" not in self.changed_data:
            terms = replace(terms, lease_seconds=batch.lease_seconds)
        if "check_percent" not in self.data:  # a form that says nothing of known items
            terms = replace(
                terms,
                check_share=batch.check_share,
                check_feedback=batch.check_feedback,
                qualifying=batch.qualifying,
                qualifying_threshold=batch.qualifying_threshold,
            )
        return terms


class BatchForm(TermsForm):
    """A new batch of one dataset's responses. ``models_shown`` is False where their names are sealed."""

    name = forms.CharField(
        label=_("Name"), max_length=100, help_text=_("It stands in addresses and commands.")
    )
    guideline = forms.ModelChoiceField(
        queryset=Guideline.objects.exclude(published_at=None),
        label=_("Guideline"),
        empty_label=None,
        help_text=_("Only published versions: what people judge by must not change under them."),
    )
    models = forms.ModelMultipleChoiceField(
        queryset=EvaluatedModel.objects.none(),
        label=_("Models"),
        help_text=_("None chosen means all. Annotators never see the names."),
        required=False,
        widget=forms.CheckboxSelectMultiple,
    )
    collection = CollectionChoice(
        queryset=Collection.objects.none(), label=_("Collection"), required=False, empty_label=_("all")
    )
    annotators = _many(
        _("Annotators"), _("At least as many as the overlap; they share the tasks among them.")
    )
    adjudicators = _many(
        _("Adjudicators"), _("They decide where annotators differ, and never their own items.")
    )
    overlap = forms.IntegerField(
        label=_("Overlap"),
        min_value=1,
        max_value=MAX_OVERLAP,
        initial=2,
        help_text=_("Annotations per response, by different people."),
    )
    pairing = forms.ChoiceField(
        label=_("Pairing"), choices=PAIRINGS, widget=forms.RadioSelect, initial="pool"
    )
    pairs = PairsField(
        label=_("Pairs"),
        error_messages={"required": _("Name the pairs: who works with whom.")},
        help_text=_(
            "One pair on each line, the names with a comma or + between them: lin + chen. As many people in each"
            " as the overlap; somebody may be in several. Whoever stands here need not be ticked above."
        ),
    )
    quota = forms.IntegerField(
        label=_("Quota per person"),
        min_value=1,
        required=False,
        help_text=_("At most this many items for each; you can change it for single people afterwards."),
    )
    order = forms.ChoiceField(label=_("Order"), choices=ORDERS, widget=forms.RadioSelect, initial="prompts")
    seed = forms.IntegerField(
        label=_("Seed"),
        min_value=0,
        max_value=LARGEST_SEED,
        initial=0,
        help_text=_("Of the shuffling and of the plan: the same seed gives the same."),
    )
    tolerance = forms.FloatField(
        label=_("Tolerance"),
        min_value=0,
        initial=0,
        help_text=_("The distance on the scale that still counts as agreement; 0: the same level."),
    )
    seconds = forms.FloatField(
        label=_("Seconds per annotation"),
        min_value=1,
        required=False,
        help_text=_("For the estimate only."),
    )

    def __init__(self, data: Any = None, *, dataset: Dataset, models_shown: bool) -> None:
        if data is not None:
            data = data.copy()
            for name, usual in USUAL.items():
                data.setdefault(name, usual)
        super().__init__(data)
        self.dataset = dataset
        self._people("annotators", ANNOTATOR)
        pairs = self.fields["pairs"]
        assert isinstance(pairs, PairsField)
        pairs.people = list(people_in_role(ANNOTATOR)) if data is not None else ()
        self._people("adjudicators", ADJUDICATOR)
        if models_shown:
            self._choices("models", models_in(dataset))
            self._choices("collection", collections_in(dataset))
        else:
            del self.fields["models"], self.fields["collection"]

    def _people(self, name: str, role: str) -> None:
        self._choices(name, people_in_role(role))

    def _choices(self, name: str, queryset: Any) -> None:
        field = self.fields[name]
        assert isinstance(field, forms.ModelChoiceField)
        field.queryset = queryset

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("pairing") != Batch.Pairing.FIXED:
            data["pairs"] = []  # what was typed before another pairing was chosen, be it wrong or not
            self.errors.pop("pairs", None)
        elif not self.has_error("pairs"):
            self._refuse_other_sizes(data.get("pairs", []), data.get("overlap"))
        return data

    def _refuse_other_sizes(self, pairs: Sequence[Sequence[Person]], overlap: int | None) -> None:
        for pair in pairs:
            if overlap is not None and len(pair) != overlap:
                words = _now("{names}: that is {given}, and the overlap is {overlap}.")
                names = " + ".join(map(str, pair))
                self.add_error("pairs", words.format(names=names, given=len(pair), overlap=overlap))

    def policy(self) -> Policy:
        data = self.cleaned_data
        return Policy(
            overlap=data["overlap"],
            pairing=data["pairing"],
            order=data["order"],
            seed=data["seed"],
            tolerance=data["tolerance"],
            **asdict(self.terms()),
        )

    def wish(self, *, open_now: bool) -> Wish:
        """Of a form that is valid."""
        data = self.cleaned_data
        collection, quota = data.get("collection"), data["quota"]
        annotators = list(
            dict.fromkeys([*data["annotators"], *(person for pair in data["pairs"] for person in pair)])
        )
        return Wish(
            name=data["name"],
            guideline=data["guideline"],
            dataset=self.dataset,
            models=list(data.get("models", ())),
            collection=None if collection is None else collection.name,
            annotators=annotators,
            adjudicators=list(data["adjudicators"]),
            pairs=data["pairs"],
            shares={} if quota is None else {person: Share(quota) for person in annotators},
            policy=self.policy(),
            open_now=open_now,
        )


class JoinForm(forms.Form):
    """People to add to a batch in one role: those of its group who are not in it already.

    Who opened its results is not ``offered``; whose name comes all the same is refused with the reason, by the service.
    """

    people = _many(_("People"))

    def __init__(self, data: Any = None, *, batch: Batch, role: str) -> None:
        super().__init__(data, prefix=role)
        present = Membership.objects.filter(batch=batch, role=role).values("person")
        field = self.fields["people"]
        assert isinstance(field, forms.ModelMultipleChoiceField)
        field.queryset = people_in_role(role).exclude(pk__in=present)
        opened = openings_of(batch).values("person")
        self.offered = field.queryset.exclude(pk__in=opened)
        field.widget.choices = [(person.pk, str(person)) for person in self.offered]
        field.required = True
        field.label = {ANNOTATOR: _("Annotators"), ADJUDICATOR: _("Adjudicators")}[role]
