"""The list of scorers, guideline by guideline, and training a new one."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.http import breadcrumbs
from annotation.domain.permissions import READ_SCORERS, TRAIN_SCORER
from annotation.forms.lists import ListColumns
from annotation.models import Person
from annotation.views.access import act_required, person_of
from annotation.views.lists import narrow_by_request
from scoring.forms.training import AdaptForm, NewScorerForm, TrainingForm
from scoring.models import Scorer
from scoring.selectors.scorers import (
    ScorerRow,
    ScorerStatus,
    count_must_fail_items,
    list_scorer_rows,
    list_scorer_statuses,
    select_scorers,
)
from scoring.services import create_scorer
from scoring.views.scorers.wording import find_test_metrics, to_figure

INITIAL_FIELDS = {"release", "name", "base", "adapt_to", "kind", "encoder", "tuning", "target"}
"""What the address of the form may fill in."""


@require_GET
@never_cache
@act_required(READ_SCORERS)
def scorers(request: HttpRequest) -> HttpResponse:
    person = person_of(request)
    columns = ListColumns(guideline="guideline__name")
    narrowed = narrow_by_request(request, select_scorers(), columns)
    rows = list_scorer_rows(person, narrowed.rows)
    context = {
        **narrowed.context,
        "any": select_scorers().exists(),
        "groups": _group_rows([row for row in rows if not row.sealed]),
        "sealed": [row.scorer for row in rows if row.sealed],
    }
    return render(request, "scoring/scorers/list.html", context)


def _group_rows(rows: list[ScorerRow]) -> list[dict[str, Any]]:
    """Of each guideline its scorers, the newest first; the guideline first that has the newest of all."""
    statuses = list_scorer_statuses([row.scorer for row in rows])
    groups: dict[str, list[ScorerRow]] = {}
    for row in rows:
        groups.setdefault(row.scorer.guideline.name, []).append(row)
    return [_describe_group(name, guideline_rows, statuses) for name, guideline_rows in groups.items()]


def _describe_group(name: str, rows: list[ScorerRow], statuses: dict[int, ScorerStatus]) -> dict[str, Any]:
    last = statuses[rows[0].scorer.pk].last
    return {
        "guideline": name,
        "last": last,
        "is_open": last is not None and last.scorer_id in {row.scorer.pk for row in rows},
        "must_fail": count_must_fail_items(name),
        "rows": [_describe_row(row.scorer, statuses[row.scorer.pk]) for row in rows],
    }


def _describe_row(scorer: Scorer, status: ScorerStatus) -> dict[str, Any]:
    card = scorer.card if scorer.is_ready else {}
    test = find_test_metrics(scorer) if scorer.is_ready else None
    return {
        "scorer": scorer,
        "standing": status,
        "accuracy": to_figure(card.get("accuracy")),
        "macro_f1": to_figure(card.get("macro_f1")),
        "test": to_figure(test["accuracy"]) if test else None,
        "test_n": test["n"] if test else 0,
    }


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(TRAIN_SCORER)
def scorer_new(request: HttpRequest) -> HttpResponse:
    """The form, and starting the training; with a ``base`` in the address, adapting that one to a model.

    What is refused comes back with its reason on the form.
    """
    person = person_of(request)
    adapts = "base" in request.GET
    form = _build_form(request, person, adapts)
    if request.method == "POST" and form.is_valid():
        try:
            scorer, _job = create_scorer(form.build_spec(), actor=person)
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            return redirect("scorer", name=scorer.name)
    context = {
        "form": form,
        "adapts": adapts,
        "adaptable": Scorer.objects.exclude(ready_at=None).exists(),
        "title": _("Adapt a scorer to a model") if adapts else _("Train a scorer"),
        "crumbs": breadcrumbs(
            (_("Scorers"), "scorers", []),
            title=_("Adapt a scorer to a model") if adapts else _("Train a scorer"),
        ),
    }
    return render(request, "scoring/training/new.html", context, status=400 if form.errors else 200)


def _build_form(request: HttpRequest, person: Person, adapts: bool) -> TrainingForm:
    initial = {name: value for name, value in request.GET.items() if name in INITIAL_FIELDS and value}
    form = AdaptForm if adapts else NewScorerForm
    return form(request.POST or None, person=person, initial=initial)
