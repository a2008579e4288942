"""What is judged: datasets of prompts, the responses of the evaluated models, and slates of several responses."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from annotation.domain import datasets, dialogues
from annotation.domain.guidelines.entries import MAX_ENTRIES
from annotation.models.base import Authored
from annotation.models.studies import Shareable


class Dataset(Shareable, Authored):
    name = models.CharField(_("name"), max_length=100)

    class Meta:
        verbose_name = _("dataset")
        verbose_name_plural = _("datasets")
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["study", "name"], name="dataset_name_once_per_study"),
        ]

    def __str__(self) -> str:
        return self.name


class Prompt(models.Model):
    """``key`` is the record's own id, or the first 16 hex digits of the sha256 of its NFC text. ``source`` is what it
    was made from, such as the data that a role card sums up. ``malice`` is how it carries the harm it is after, blank
    where nobody said.
    """

    class Malice(models.TextChoices):
        EXPLICIT = datasets.EXPLICIT, pgettext_lazy("malice", "explicit")
        IMPLICIT = datasets.IMPLICIT, pgettext_lazy("malice", "implicit")

    dataset = models.ForeignKey(Dataset, models.PROTECT, related_name="prompts", verbose_name=_("dataset"))
    key = models.CharField(_("id"), max_length=200)
    text = models.TextField(_("text"))
    dimension = models.CharField(_("dimension"), max_length=100, blank=True)
    subcomponent = models.CharField(_("subcomponent"), max_length=100, blank=True)
    language = models.CharField(_("language"), max_length=20, blank=True)
    attack_method = models.CharField(_("attack method"), max_length=100, null=True, blank=True)
    malice = models.CharField(
        _("malice"), max_length=8, choices=Malice, blank=True, default="", db_default=""
    )
    source = models.CharField(_("source"), max_length=200, blank=True, default="", db_default="")

    class Meta:
        verbose_name = _("prompt")
        verbose_name_plural = _("prompts")
        ordering = ["dataset", "id"]
        constraints = [models.UniqueConstraint(fields=["dataset", "key"], name="prompt_once_per_dataset")]
        indexes = [models.Index(fields=["dataset", "dimension"], name="prompt_by_dimension")]

    def __str__(self) -> str:
        return f"{self.dataset_id}/{self.key}"


class EvaluatedModel(models.Model):
    """The language model whose responses are judged (never our scorer).

    ``parts``: of what stands for the models of a slate together, these models; a model has none.
    """

    name = models.CharField(_("name"), max_length=100, unique=True)
    parts = models.ManyToManyField(
        "self", symmetrical=False, related_name="compared_in", blank=True, verbose_name=_("compared models")
    )
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("evaluated model")
        verbose_name_plural = _("evaluated models")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Collection(models.Model):
    """One named gathering of responses. The default one has the empty name."""

    name = models.CharField(_("name"), max_length=100, unique=True, blank=True)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("collection")
        verbose_name_plural = _("collections")
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Response(models.Model):
    """A text, or the turns of a dialogue ``[{"role": .., "text": ..}, ..]`` (then ``text`` is empty)."""

    prompt = models.ForeignKey(Prompt, models.PROTECT, related_name="responses", verbose_name=_("prompt"))
    model = models.ForeignKey(
        EvaluatedModel, models.PROTECT, related_name="responses", verbose_name=_("model")
    )
    collection = models.ForeignKey(
        Collection, models.PROTECT, related_name="responses", verbose_name=_("collection")
    )
    text = models.TextField(_("text"), blank=True)
    turns = models.JSONField(_("turns"), default=list, blank=True)
    # sha256 of the NFC text, or of the turns' canonical JSON: what a release and a scorer know a response by.
    sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField(_("created"), auto_now_add=True)

    class Meta:
        verbose_name = _("response")
        verbose_name_plural = _("responses")
        constraints = [
            models.UniqueConstraint(
                fields=["prompt", "model", "collection"], name="response_once_per_model_prompt_collection"
            )
        ]

    def __str__(self) -> str:
        return f"{self.prompt_id}/{self.model_id}"


class DialogueFault(models.Model):
    """What is wrong with a dialogue as a dialogue, whatever people think of it: counted, and left out of a batch
    where it says so.
    """

    class Kind(models.TextChoices):
        EMPTY = dialogues.EMPTY, pgettext_lazy("fault", "an empty turn")
        CUT = dialogues.CUT, pgettext_lazy("fault", "a turn cut off by the limit of tokens")
        UNMASKED = dialogues.UNMASKED, pgettext_lazy("fault", "the agent says that it is an AI")
        CARD_COPIED = dialogues.CARD_COPIED, pgettext_lazy("fault", "the agent copies its role card out")
        REPEATED = dialogues.REPEATED, pgettext_lazy("fault", "a side repeats itself")

    response = models.ForeignKey(Response, models.CASCADE, related_name="faults", verbose_name=_("response"))
    kind = models.CharField(_("fault"), max_length=11, choices=Kind)

    class Meta:
        verbose_name = _("fault of a dialogue")
        verbose_name_plural = _("faults of dialogues")
        constraints = [models.UniqueConstraint(fields=["response", "kind"], name="dialogue_fault_once")]

    def __str__(self) -> str:
        return f"{self.response_id}: {self.kind}"


class Slate(models.Model):
    """What a task holds of a slate is ``response``: its turns are those of the entries, in the slate's order, and its
    collection is the set that the slate was made in (docs/decisions/slates.md). ``seed`` decided that order.
    """

    response = models.OneToOneField(
        Response, models.CASCADE, primary_key=True, related_name="slate", verbose_name=_("response")
    )
    seed = models.BigIntegerField(_("seed"))

    class Meta:
        verbose_name = _("slate")
        verbose_name_plural = _("slates")

    def __str__(self) -> str:
        return str(self.response)


class SlateEntry(models.Model):
    """A response in a slate; ``place`` counts from 1 in the slate's own order."""

    slate = models.ForeignKey(
        Slate, models.CASCADE, related_name="entries", verbose_name=_("slate"), db_index=False
    )
    place = models.PositiveSmallIntegerField(_("place"))
    response = models.ForeignKey(
        Response, models.PROTECT, related_name="slate_entries", verbose_name=_("response")
    )

    class Meta:
        verbose_name = _("entry of a slate")
        verbose_name_plural = _("entries of slates")
        ordering = ["slate", "place"]
        constraints = [
            models.UniqueConstraint(fields=["slate", "place"], name="slate_entry_once_per_place"),
            models.UniqueConstraint(fields=["slate", "response"], name="slate_entry_once_per_response"),
            models.CheckConstraint(
                condition=Q(place__gte=1, place__lte=MAX_ENTRIES), name="slate_entry_place_in_range"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.slate_id}/{self.place}"
