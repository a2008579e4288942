from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _now
from django.utils.translation import gettext_lazy as _

from annotation.core.specs import MAX_SEED
from annotation.domain.batch_spec import USUAL_POLICY, BatchSpec, Policy
from annotation.forms.batches.collection import USUAL_COLLECTION, CollectionPolicyForm, add_usual
from annotation.forms.batches.policy import USUAL_TERMS, TermsForm
from annotation.forms.fields import StudyChoiceField
from annotation.models import (
    ADJUDICATOR,
    ANNOTATOR,
    Batch,
    Collection,
    Dataset,
    EvaluatedModel,
    Membership,
    Person,
)
from annotation.selectors.access import list_openings
from annotation.selectors.batches.plan import find_fitting_guideline, suggest_batch_name
from annotation.selectors.datasets import has_faults, list_collections, list_models
from annotation.selectors.guidelines import list_published
from annotation.selectors.people import list_people_in_role

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
# What a request that leaves these out means.
USUAL = {
    "overlap_share": USUAL_POLICY.overlap_share,
    "pairing": USUAL_POLICY.pairing,
    "order": USUAL_POLICY.order,
    "seed": USUAL_POLICY.seed,
    **USUAL_COLLECTION,
    **USUAL_TERMS,
}


class CollectionChoice(forms.ModelChoiceField):  # type: ignore[type-arg]  # no generic at run time
    def label_from_instance(self, obj: Any) -> str:
        return obj.name or str(_("the unnamed collection"))


def people_field(label: Any, help_text: Any = "") -> Any:
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
            if str(person) not in {person.username for person in self.people}:
                named[str(person)].add(person)
        pairs, errors = [], []
        for number, line in lines:
            names = split_names(line)
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


def split_names(line: str) -> list[str]:
    """A name may hold a +: where there is a comma, only commas part the names."""
    parts = re.split(r"[,，、;；]", line)
    if len(parts) == 1:
        parts = line.split("+")
    return [part.strip() for part in parts if part.strip()]


FOLDS: Mapping[str, frozenset[str]] = {
    "pairing": frozenset({"plan", "pairing", "pairs", "quota"}),
    "settling": frozenset({"settling", "aggregation", "aggregation_threshold", "tolerance"}),
    "order": frozenset({"order", "seed"}),
    "time": frozenset({"lease_minutes", "seconds"}),
    "reading": frozenset({"response_format", "prompt_format", "read_to_end", "introduction_required"}),
    "monitoring": frozenset(
        {
            "agreement_threshold",
            "alarm_action",
            "second_reading_percent",
            "second_reading_days",
            "second_adjudicator_percent",
        }
    ),
    "questions": frozenset({"check_percent", "check_feedback", "qualifying", "qualifying_threshold"}),
}
"""The parts of the page that are folded, with the fields of each: most batches leave them as they are."""


class BatchForm(CollectionPolicyForm, TermsForm):
    """A new batch of one dataset's responses. ``models_shown`` is False where their names are sealed."""

    name = forms.CharField(
        label=_("Name"), max_length=100, help_text=_("It is used in addresses and commands.")
    )
    guideline = StudyChoiceField(
        list_published,
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
    without_faults = forms.BooleanField(
        label=_("Leave out dialogues with a fault"),
        required=False,
        help_text=_(
            "Those with an empty turn, a turn cut off, a side that repeats itself, or an agent that steps out of its"
            " role."
        ),
    )
    annotators = people_field(
        _("Annotators"), _("At least as many as the overlap; they share the tasks among them.")
    )
    adjudicators = people_field(
        _("Adjudicators"), _("They decide where annotators differ, and never their own items.")
    )
    overlap_share = forms.FloatField(
        label=_("Share of the prompts with this overlap"),
        min_value=0,
        max_value=1,
        initial=USUAL_POLICY.overlap_share,
        help_text=_(
            "0.2 gives the overlap to a fifth of the prompts, drawn by the seed, and one label to the others."
        ),
    )
    pairing = forms.ChoiceField(
        label=_("Pairing"), choices=PAIRINGS, widget=forms.RadioSelect, initial=USUAL_POLICY.pairing
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
    order = forms.ChoiceField(
        label=_("Order"), choices=ORDERS, widget=forms.RadioSelect, initial=USUAL_POLICY.order
    )
    seed = forms.IntegerField(
        label=_("Seed"),
        min_value=0,
        max_value=MAX_SEED,
        initial=USUAL_POLICY.seed,
        help_text=_("For the shuffling and the plan: the same seed gives the same order."),
    )
    seconds = forms.FloatField(
        label=_("Seconds per annotation"),
        min_value=1,
        required=False,
        help_text=_("For the estimate only."),
    )

    def __init__(
        self, data: Any = None, *, dataset: Dataset, models_shown: bool, collection: str = ""
    ) -> None:
        """``collection``: of which the batch is to be, unless another is chosen."""
        super().__init__(add_usual(data, USUAL))
        self.dataset = dataset
        self._people("annotators", ANNOTATOR)
        pairs = self.fields["pairs"]
        assert isinstance(pairs, PairsField)
        pairs.people = list(list_people_in_role(ANNOTATOR)) if data is not None else ()
        self._people("adjudicators", ADJUDICATOR)
        self.fields["guideline"].initial = find_fitting_guideline(dataset, collection)
        self.fields["name"].initial = suggest_batch_name(dataset)
        if models_shown:
            self._choices("models", list_models(dataset))
            self._choices("collection", list_collections(dataset))
            self.fields["collection"].initial = list_collections(dataset).filter(name=collection).first()
        else:
            del self.fields["models"], self.fields["collection"]
        if not has_faults(dataset):
            del self.fields["without_faults"]

    def _people(self, name: str, role: str) -> None:
        self._choices(name, list_people_in_role(role))

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

    @property
    def open_folds(self) -> set[str]:
        """The folded parts in which something is wrong."""
        return {name for name, fields in FOLDS.items() if fields & self.errors.keys()}

    def build_spec(self, *, open_now: bool) -> BatchSpec:
        """Of a form that is valid. Raises AssayError where its parts do not fit."""
        data = self.cleaned_data
        collection = data.get("collection")
        names = ("name", "guideline", "annotators", "adjudicators", "pairs", "quota")
        policy = {name: data[name] for name in Policy.model_fields if name in data}
        return BatchSpec.model_validate(
            {name: data[name] for name in names}
            | {
                "dataset": self.dataset,
                "models": list(data.get("models", ())),
                "collection": None if collection is None else collection.name,
                "without_faults": data.get("without_faults", False),
                "policy": policy | self.collect_terms(),
                "open_now": open_now,
            }
        )


class JoinForm(forms.Form):
    """People to add to a batch in one role: those of its group who are not in it already.

    Who opened its results is not ``offered``; whose name comes all the same is refused with the reason, by the service.
    """

    people = people_field(_("People"))

    def __init__(self, data: Any = None, *, batch: Batch, role: str) -> None:
        super().__init__(data, prefix=role)
        present = Membership.objects.filter(batch=batch, role=role).values("person")
        field = self.fields["people"]
        assert isinstance(field, forms.ModelMultipleChoiceField)
        field.queryset = list_people_in_role(role).exclude(pk__in=present)
        opened = list_openings(batch).values("person")
        self.offered = field.queryset.exclude(pk__in=opened)
        field.widget.choices = [(person.pk, str(person)) for person in self.offered]
        field.required = True
        field.label = {ANNOTATOR: _("Annotators"), ADJUDICATOR: _("Adjudicators")}[role]
