"""Making dialogues: an agent plays a role card, the model under test answers it, turn by turn."""

from __future__ import annotations

from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from annotation.models import Prompt
from annotation.models.studies import StudyOfDatasetManager
from benchmark.models.collection import EndpointFailure, EndpointOrigin, EndpointRun


class DialogueRun(EndpointRun):
    """The dialogues of one model and one agent on the role cards of a dataset; each becomes a response.

    ``endpoint``, ``served_model`` and ``settings`` are those of the model under test. ``templates`` are the texts
    before a card in the agent's system message and ``openings`` the greetings, both by the card's language; the one
    under "" is for every other language.
    """

    name = models.CharField(_("name"), max_length=100)
    agent = models.CharField(_("agent"), max_length=100)
    agent_endpoint = models.CharField(_("endpoint of the agent"), max_length=500)
    agent_model = models.CharField(_("model asked for as the agent"), max_length=200)
    agent_settings = models.JSONField(_("settings of the agent"), default=dict)
    rounds = models.PositiveSmallIntegerField(_("rounds"))
    templates = models.JSONField(_("texts before the card"))
    openings = models.JSONField(_("greetings"))

    objects = StudyOfDatasetManager()

    class Meta(EndpointRun.Meta):
        verbose_name = _("run of dialogues")
        verbose_name_plural = _("runs of dialogues")
        constraints = [
            models.UniqueConstraint(fields=["model", "dataset", "collection"], name="dialogue_run_once"),
            models.UniqueConstraint(fields=["dataset", "name"], name="dialogue_run_name_once_per_dataset"),
            models.CheckConstraint(condition=models.Q(rounds__gte=1), name="dialogue_run_has_rounds"),
        ]

    def __str__(self) -> str:
        return self.name


class DialogueTurn(EndpointOrigin):
    """What one side said, and how it came about. Even places are the agent's, from 0; the greeting has none.

    Its dialogue's response is made in the transaction that stores the last turn.
    """

    class Role(models.TextChoices):
        AGENT = "user", pgettext_lazy("dialogue", "agent")
        MODEL = "assistant", pgettext_lazy("dialogue", "model")

    run = models.ForeignKey(DialogueRun, models.CASCADE, related_name="turns")
    prompt = models.ForeignKey(Prompt, models.CASCADE, related_name="+", verbose_name=_("role card"))
    place = models.PositiveSmallIntegerField(_("place"))
    role = models.CharField(_("role"), max_length=9, choices=Role)
    text = models.TextField(_("text"), blank=True)

    class Meta:
        verbose_name = _("turn of a dialogue")
        verbose_name_plural = _("turns of dialogues")
        constraints = [
            models.UniqueConstraint(fields=["run", "prompt", "place"], name="dialogue_turn_once"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id}/{self.prompt_id}/{self.place}"


class PendingTurn(models.Model):
    """A card whose next turn was asked for and not answered yet."""

    run = models.ForeignKey(DialogueRun, models.CASCADE, related_name="pending")
    prompt = models.ForeignKey(Prompt, models.CASCADE, related_name="+")

    class Meta:
        verbose_name = _("turn under way")
        verbose_name_plural = _("turns under way")
        constraints = [models.UniqueConstraint(fields=["run", "prompt"], name="pending_turn_once")]

    def __str__(self) -> str:
        return f"{self.run_id}/{self.prompt_id}"


class FailedTurn(EndpointFailure):
    """A card whose dialogue stopped before the turn at ``place``; it goes on there when the run does."""

    run = models.ForeignKey(DialogueRun, models.CASCADE, related_name="failures")
    prompt = models.ForeignKey(Prompt, models.CASCADE, related_name="+", verbose_name=_("role card"))
    place = models.PositiveSmallIntegerField(_("place"))

    class Meta:
        verbose_name = _("turn without an answer")
        verbose_name_plural = _("turns without an answer")
        constraints = [models.UniqueConstraint(fields=["run", "prompt"], name="failed_turn_once")]

    def __str__(self) -> str:
        return f"{self.run_id}/{self.prompt_id}: {self.status}"
