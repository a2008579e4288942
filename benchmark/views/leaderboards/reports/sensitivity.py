"""The sensitivity of a board in its report, with people under pseudonyms: a report leaves the site."""

from __future__ import annotations

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from annotation.core.documents import DocumentTable
from annotation.core.formatting import UNDEFINED
from annotation.core.text_templates import join_names, render_text
from annotation.models import Person
from annotation.selectors.jobs import StoredResult
from benchmark.models import BenchmarkRun
from benchmark.selectors.estimates.sensitivity import list_participant_pseudonyms
from benchmark.services.sensitivity import load_sensitivity
from benchmark.views.leaderboards.query import Context
from benchmark.views.leaderboards.tabs.sensitivity import PersonWithout, SensitiveModel, build_context

WORDING = "benchmark/wording"


def sensitivity_parts(
    run: BenchmarkRun, reader: Person | None
) -> tuple[str, list[str], list[DocumentTable]] | None:
    """Its title, sentences and tables; None where nothing can move."""
    stored, title = load_sensitivity(run, actor=reader), pgettext("board", "Sensitivity")
    if stored.content is None:
        return title, [_state_text(stored)], []
    context = build_context(run, stored.content, list_participant_pseudonyms(run))
    if "people" not in context:
        return None
    sentences = [
        render_text(f"{WORDING}/sensitivity_{name}.txt", **context) for name in ("finding", "method")
    ]
    if stored.is_stale:
        sentences.append(_state_text(stored))
    return title, sentences, [_model_table(context), _person_table(context)]


def _state_text(stored: StoredResult) -> str:
    return render_text(f"{WORDING}/sensitivity_state.txt", stored=stored)


def _model_table(context: Context) -> DocumentTable:
    return DocumentTable(
        name="sensitivity-models",
        caption=_("Ranks of the compared models with any one person left out of the gold"),
        head=[
            _("Model"),
            _("Rank"),
            _("Ranks with anyone left out"),
            _change_heading(context),
            _("Left out"),
        ],
        rows=[_model_cells(model) for model in context["models"]],
    )


def _model_cells(model: SensitiveModel) -> list[str]:
    rank = UNDEFINED if model.rank is None else str(model.rank)
    return [model.model, rank, model.ranks, model.shift or UNDEFINED, model.by or UNDEFINED]


def _person_table(context: Context) -> DocumentTable:
    return DocumentTable(
        name="sensitivity-people",
        caption=_("Gold and ranks without each person, people under pseudonyms"),
        head=[
            _("Person left out"),
            _("Role"),
            _("Tasks"),
            _("Gold that changes"),
            _("Gold that is lost"),
            _("Ranks that change"),
            _change_heading(context),
        ],
        rows=[_person_cells(person) for person in context["people"]],
        words=2,
    )


def _person_cells(person: PersonWithout) -> list[str]:
    moves = join_names(f"{model}: {before} → {after}" for model, before, after in person.moves)
    return [
        person.name,
        person.role,
        *(str(n) for n in (person.labels, person.changed, person.dropped)),
        (moves or _("none")) if person.is_ranked else UNDEFINED,
        person.shift or UNDEFINED,
    ]


def _change_heading(context: Context) -> str:
    return _("Largest change, percentage points") if context["rate"] else _("Largest change")
