"""What the page of a new run of dialogues takes in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.conf import settings
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from annotation.models import Person
from benchmark.domain.dialogues import ANY_LANGUAGE, MAX_ROUNDS, MAX_TEXT_CHARACTERS
from benchmark.domain.llm_client.settings import MAX_INTEGER
from benchmark.forms.collection import MAX_EXTRA_CHARACTERS, CollectionForm
from benchmark.forms.leaderboards import JsonObjectField, list_endpoints
from benchmark.services.dialogues import ROUNDS, DialogueSide
from benchmark.services.endpoint_runs import MAX_MODEL_CHARACTERS

FOLDS: Mapping[str, frozenset[str]] = {
    "texts": frozenset({"template", "opening"}),
    "model": frozenset({"temperature", "top_p", "max_tokens", "seed", "stop", "system", "extra"}),
    "agent": frozenset({"agent_temperature", "agent_max_tokens", "agent_extra"}),
    "pace": frozenset({"concurrency", "timeout"}),
}
"""The fields of each folded part of the form."""


class DialogueForm(CollectionForm):
    samples = None  # type: ignore[assignment]  # there is one dialogue to each card
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=100,
        help_text=gettext_lazy("Of the run. The same name again goes on with the same settings."),
    )
    agent = forms.CharField(
        label=gettext_lazy("Name of the agent"),
        max_length=100,
        help_text=gettext_lazy("Who plays the role cards, as it is called here."),
    )
    agent_endpoint = forms.ChoiceField(label=gettext_lazy("Endpoint of the agent"))
    agent_model = forms.CharField(
        label=gettext_lazy("Model asked for as the agent"),
        max_length=MAX_MODEL_CHARACTERS,
        help_text=gettext_lazy("As the endpoint knows it."),
    )
    rounds = forms.IntegerField(
        label=gettext_lazy("Rounds"),
        min_value=1,
        max_value=MAX_ROUNDS,
        initial=ROUNDS,
        help_text=gettext_lazy("In each round both sides have a turn."),
    )
    template = forms.CharField(
        label=gettext_lazy("Text before each card"),
        max_length=MAX_TEXT_CHARACTERS,
        required=False,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 5}),
        help_text=gettext_lazy(
            "It tells the agent how to play. Empty: the text that comes with Assay, in the card's language."
        ),
    )
    opening = forms.CharField(
        label=gettext_lazy("Greeting"),
        max_length=MAX_TEXT_CHARACTERS,
        required=False,
        help_text=gettext_lazy(
            "What the agent answers first. The model under test does not see it, and nobody judges it."
        ),
    )
    agent_temperature = forms.FloatField(
        label=gettext_lazy("Temperature"), min_value=0, max_value=100, required=False
    )
    agent_max_tokens = forms.IntegerField(
        label=gettext_lazy("Most tokens of a turn"), min_value=1, max_value=MAX_INTEGER, required=False
    )
    agent_extra = JsonObjectField(
        label=gettext_lazy("Other settings"),
        max_length=MAX_EXTRA_CHARACTERS,
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "class": "code"}),
        help_text=gettext_lazy('As a JSON object: {"top_k": 40}.'),
    )

    def __init__(self, *args: Any, person: Person, **kwargs: Any) -> None:
        super().__init__(*args, person=person, **kwargs)
        endpoint = self.fields["agent_endpoint"]
        assert isinstance(endpoint, forms.ChoiceField)
        endpoint.choices = list_endpoints()
        self.fields["dataset"].help_text = _("Its prompts are the role cards.")
        self.fields["model"].label = _("Name of the model")
        self.fields["concurrency"].label = _("Dialogues at once")
        self.fields["max_tokens"].label = _("Most tokens of a turn")

    @property
    def open_folds(self) -> set[str]:
        """The folded parts in which something is wrong."""
        return {name for name, fields in FOLDS.items() if fields & self.errors.keys()}

    def clean(self) -> dict[str, Any]:
        data = super().clean()
        twice = sorted({"temperature", "max_tokens", "system"} & set(data.get("agent_extra") or {}))
        if twice:
            self.add_error(
                "agent_extra", _("These have fields of their own: {names}.").format(names=", ".join(twice))
            )
        return data

    def options(self) -> dict[str, Any]:
        """What ``start_dialogues`` takes."""
        data, urls = self.cleaned_data, settings.ASSAY_ENDPOINTS
        own = {name: data[f"agent_{name}"] for name in ("temperature", "max_tokens")}
        return {
            "model": DialogueSide(
                data["model"], urls[data["endpoint"]], data["served_model"], self.build_settings()
            ),
            "agent": DialogueSide(
                data["agent"], urls[data["agent_endpoint"]], data["agent_model"], data["agent_extra"] | own
            ),
            "templates": _by_language(data["template"]),
            "openings": _by_language(data["opening"]),
            **{
                name: data[name]
                for name in ("name", "dataset", "collection", "rounds", "concurrency", "timeout")
            },
        }


def _by_language(text: str) -> dict[str, str] | None:
    """The same text for every card; None where that of Assay is meant."""
    return {ANY_LANGUAGE: text.replace("\r\n", "\n")} if text.strip() else None
