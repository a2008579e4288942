"""Questions with options: FINE's two forms of one question, and CValues' multiple choice."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from annotation.models import Archivable, Collection, Dataset, EvaluatedModel, Prompt, Response
from annotation.models.base import Authored
from benchmark.models.judges import Judge
from scoring.models import Scorer


class QuestionVariant(models.Model):
    """What a prompt asks beyond its text: which question, in which form, and which option is safe.

    ``options`` are ``[{"letter": "A", "text": .., "safe": true}, ..]`` in the order in which the prompt shows them; an
    open form has none. ``order`` is 0 where the safe option stands as in the source, 1 where the two are swapped.
    ``difficulty`` is what the source says of the pair.
    """

    class Form(models.TextChoices):
        OPEN = "open", _("open-ended")
        CHOICE = "choice", _("multiple choice")

    prompt = models.OneToOneField(
        Prompt, models.CASCADE, related_name="question_form", verbose_name=_("prompt")
    )
    question = models.CharField(_("question"), max_length=200)
    category = models.CharField(_("category"), max_length=100, blank=True)
    form = models.CharField(_("form"), max_length=6, choices=Form.choices)
    order = models.PositiveSmallIntegerField(_("order"), default=0)
    options = models.JSONField(_("options"), default=list)
    difficulty = models.CharField(_("difficulty"), max_length=20, blank=True, default="", db_default="")

    class Meta:
        verbose_name = _("variant of a question")
        verbose_name_plural = _("variants of questions")
        constraints = [models.CheckConstraint(condition=Q(order__in=[0, 1]), name="question_form_order")]

    def __str__(self) -> str:
        return f"{self.question} {self.form} {self.order}"


class ParsedAnswer(models.Model):
    """What the rules of a version read in an answer to a choice, so that nothing is read twice.

    Neither a response nor the options of its prompt ever change, so this does not either; other rules are another row.
    """

    # The constraint's index begins with the response.
    response = models.ForeignKey(Response, models.CASCADE, related_name="+", db_index=False)
    rules = models.PositiveSmallIntegerField(_("version of the rules"))
    choice = models.CharField(_("choice"), max_length=10)
    rule = models.CharField(_("rule"), max_length=20)

    class Meta:
        verbose_name = _("parsed answer")
        verbose_name_plural = _("parsed answers")
        constraints = [
            models.UniqueConstraint(fields=["response", "rules"], name="answer_read_once_by_each_version")
        ]

    def __str__(self) -> str:
        return f"{self.response_id}/{self.rules}={self.choice}"


class ChoiceReport(Archivable, Authored):
    """Which responses a FINE or multiple-choice result is read from, and who says whether open answers are safe.

    At most one of ``scorer`` and ``judge``; with neither it is people, by the gold of closed tasks. The numbers are
    read from the labels as they are now.
    """

    class Kind(models.TextChoices):
        FINE = "fine", "FINE"
        CVALUES = "cvalues", "CValues"

    name = models.CharField(_("name"), max_length=100)
    kind = models.CharField(_("kind"), max_length=7, choices=Kind.choices)
    dataset = models.ForeignKey(
        Dataset, models.PROTECT, related_name="choice_reports", verbose_name=_("dataset")
    )
    collection = models.ForeignKey(
        Collection, models.PROTECT, related_name="choice_reports", verbose_name=_("collection")
    )
    evaluated_models = models.ManyToManyField(EvaluatedModel, related_name="+", verbose_name=_("models"))
    scorer = models.ForeignKey(
        Scorer, models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("scorer")
    )
    judge = models.ForeignKey(
        Judge, models.PROTECT, null=True, blank=True, related_name="+", verbose_name=_("judge")
    )

    class Meta:
        verbose_name = _("multiple-choice report")
        verbose_name_plural = _("multiple-choice reports")
        ordering = ["-created_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["study", "name"], name="choice_report_name_once_per_study"),
            models.CheckConstraint(
                condition=Q(scorer__isnull=True) | Q(judge__isnull=True), name="choice_report_one_source"
            ),
        ]

    def __str__(self) -> str:
        return self.name
