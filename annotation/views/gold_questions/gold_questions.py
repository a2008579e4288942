"""A batch's known items for its manager, and the qualification before the work.

All of it tells labels, so it is closed to whoever works in the batch until the batch closes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from tempfile import NamedTemporaryFile
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.formatting import format_compact, format_decimal, format_percent
from annotation.domain.gold_questions import LEAST_ITEMS, LEAST_SHARE, Confusion
from annotation.domain.guidelines import GuidelineDocument
from annotation.forms.gold_questions import (
    AGAIN,
    FROM_FILE,
    FROM_GOLD,
    LARGEST_FILE,
    DecisionForm,
    FileForm,
    GoldForm,
)
from annotation.models import MANAGER, Batch, GoldQuestion, Person, Qualification
from annotation.selectors.access import refuse_sealed_gold
from annotation.selectors.batches import batch_named
from annotation.selectors.gold_questions import (
    CheckResult,
    ItemLine,
    RoundLine,
    check_results_of,
    item_lines,
    known_items,
    rounds,
    supplies,
)
from annotation.selectors.guidelines import criterion_label, dimension_label, label_text
from annotation.selectors.people import person_named
from annotation.services.batches.members import another_round, let_in
from annotation.services.gold_questions.gold_questions import set_item_active
from annotation.services.gold_questions.sources import add_from_batches, add_from_file, add_from_release
from annotation.views.access import accepts_body, person_of, role_required
from annotation.views.batches.batches import batch_context
from annotation.views.gold_questions.feedback import asked_for, reached, too_few

PAGE = 50


@require_http_methods(["GET", "POST"])
@never_cache
@role_required(MANAGER)
@accepts_body(LARGEST_FILE)
def batch_known(request: HttpRequest, name: str) -> HttpResponse:
    """The known items of a batch, and who had them right; POST adds some, from gold or from a file."""
    found = _open_to(request, name)
    posted = request.POST.get("from", "") if request.method == "POST" else ""
    gold = GoldForm(request.POST if posted == FROM_GOLD else None, batch=found, reader=person_of(request))
    file = FileForm(*((request.POST, request.FILES) if posted == FROM_FILE else ()))
    forms: dict[str, GoldForm | FileForm] = {FROM_GOLD: gold, FROM_FILE: file}
    form = forms.get(posted)
    if form is not None and form.is_valid():
        try:
            made = _add(form, found, person_of(request))
            _open_to(request, name)  # whoever adds the first of them knows the answers, without looking again
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            words = ngettext("{n} known item is added.", "{n} known items are added.", made)
            messages.success(request, words.format(n=made))
            return redirect("batch-known", name)
    page = Paginator(known_items(found), PAGE).get_page(request.GET.get("page"))
    document = found.guideline.document
    context = batch_context(found, person_of(request), tab="known") | {
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "lines": [_line(item_line, document) for item_line in item_lines(list(page.object_list))],
        "results": [_result(one, document) for one in check_results_of(found)],
        "supplies": supplies(found),
        "percent": format_compact(found.check_share * 100),
        "least_share": format_percent(LEAST_SHARE, 0),
        "least_items": LEAST_ITEMS,
        "gold": gold,
        "file": file,
        "may_change": found.state != Batch.State.CLOSED,
    }
    return render(request, "annotation/gold_questions/items.html", context, status=422 if posted else 200)


@require_POST
@role_required(MANAGER)
def batch_known_item(request: HttpRequest, name: str, item_id: int) -> HttpResponse:
    """Take an item out (``active=0``) or put it in again (``active=1``)."""
    found, active = _open_to(request, name), request.POST.get("active") == "1"
    set_item_active(batch=found, item=item_id, active=active, actor=person_of(request))
    messages.success(
        request,
        _("The item is in again.")
        if active
        else _("The item is out: nobody is given it any more, and its answers are not counted."),
    )
    return redirect("batch-known", name)


@require_GET
@never_cache
@role_required(MANAGER)
def batch_rounds(request: HttpRequest, name: str) -> HttpResponse:
    """Everybody's qualification: the value with its interval, what was confused, and what to do about it."""
    found = _open_to(request, name)
    context = batch_context(found, person_of(request), tab="known", page_title=_("Qualification")) | {
        "lines": [_round(one, found) for one in rounds(found)],
        "kappa": found.qualifying == Batch.Qualifying.KAPPA,
        "threshold": asked_for(found.qualifying_threshold, kappa=found.qualifying == Batch.Qualifying.KAPPA),
        "supply": supplies(found)[GoldQuestion.Kind.QUALIFICATION],
        "least_items": LEAST_ITEMS,
        "may_change": found.state != Batch.State.CLOSED,
    }
    return render(request, "annotation/gold_questions/rounds.html", context)


@require_POST
@role_required(MANAGER)
def batch_round(request: HttpRequest, name: str, username: str) -> HttpResponse:
    """Let somebody in whatever came out, or give them another round; with a reason."""
    found, person = _open_to(request, name), person_named(username)
    form = DecisionForm(request.POST)
    if not form.is_valid():
        messages.error(request, _("Say why: whoever reads the audit trail wants to know."))
        return redirect("batch-rounds", name)
    decide = another_round if form.cleaned_data["action"] == AGAIN else let_in
    decide(batch=found, person=person, reason=form.cleaned_data["reason"], actor=person_of(request))
    words = (
        _("{name} is given another round.")
        if decide is another_round
        else _("{name} is let in: the work is theirs from now on.")
    )
    messages.success(request, words.format(name=person))
    return redirect("batch-rounds", name)


def _open_to(request: HttpRequest, name: str) -> Batch:
    found = batch_named(name)
    refuse_sealed_gold(person_of(request), [found])
    return found


def _add(form: GoldForm | FileForm, batch: Batch, actor: Person) -> int:
    data = form.cleaned_data
    if isinstance(form, FileForm):
        return len(_add_file(data["file"], batch, data["kind"], actor))
    chosen: Any = {"batch": batch, "kind": data["kind"], "number": data["number"], "actor": actor}
    chosen["sources"] = data["sources"]
    if data["release"]:
        return len(add_from_release(release=data["release"], **chosen))
    return len(add_from_batches(batches=list(data["batches"]), **chosen))


def _add_file(file: Any, batch: Batch, kind: str, actor: Person) -> list[GoldQuestion]:
    """It is read twice as a file by name is, and gone afterwards."""
    with NamedTemporaryFile() as kept:
        for chunk in file.chunks():
            kept.write(chunk)
        kept.flush()
        return add_from_file(batch=batch, kind=kind, path=kept.name, name=file.name or "file", actor=actor)


@dataclass(frozen=True)
class _Said:
    criterion: str
    label: str


def _labels(document: GuidelineDocument, labels: Mapping[str, float]) -> list[_Said]:
    many = len(labels) > 1
    return [
        _Said(criterion_label(document, name) if many else "", label_text(document, name, value))
        for name, value in labels.items()
    ]


def _line(line: ItemLine, document: GuidelineDocument) -> dict[str, Any]:
    response = line.item.response
    return {
        "line": line,
        "item": line.item,
        "prompt": response.prompt,
        "response": response.text or "\n".join(turn["text"] for turn in response.turns),
        "dimension": dimension_label(document, response.prompt.dimension),
        "labels": _labels(document, line.item.labels),
        "percent": format_percent(line.right / line.answered, 0) if line.answered else "",
    }


def _result(one: CheckResult, document: GuidelineDocument) -> dict[str, Any]:
    return {
        "one": one,
        "share": format_percent(one.share, 0),
        "interval": f"{format_percent(one.low, 0)} - {format_percent(one.high, 0)}",
        "whisker": {"low": 100 * one.low, "value": 100 * one.share, "high": 100 * one.high},
        "within": format_percent(one.within / one.n, 0),
        "confused": _confused(one.confusion, document),
    }


@dataclass(frozen=True)
class _Confused:
    """So often the right label was another than the given one."""

    criterion: str
    known: str
    given: str
    n: int


def _confused(counts: Confusion, document: GuidelineDocument) -> list[_Confused]:
    """What was wrong, the most frequent first."""
    many = len(counts) > 1
    found = [
        _Confused(
            criterion_label(document, name) if many else "",
            label_text(document, name, known),
            label_text(document, name, given),
            n,
        )
        for name, of in counts.items()
        for (known, given), n in of.items()
        if known != given
    ]
    return sorted(found, key=lambda one: (-one.n, one.criterion, one.known, one.given))


def _round(line: RoundLine, batch: Batch) -> dict[str, Any]:
    found = line.round
    value = found.value if found else None
    shown: dict[str, float | None] = {"low": None, "value": None, "high": None}
    if found is not None and value is not None and batch.qualifying == Batch.Qualifying.ACCURACY:
        shown = {"low": _percent(found.low), "value": _percent(value), "high": _percent(found.high)}
    elif found is not None and value is not None:
        shown = {"low": _of_kappa(found.low), "value": _of_kappa(value), "high": _of_kappa(found.high)}
    return {
        "line": line,
        "round": found,
        "person": line.member.person,
        "value": reached(value, kappa=batch.qualifying == Batch.Qualifying.KAPPA),
        "interval": _interval(found, batch),
        "whisker": shown,
        "reason": _why(found),
        "confused": _confused(line.confusion, batch.guideline.document),
        "waits": line.state in (Qualification.State.RUNNING, Qualification.State.FAILED),
        "failed": line.state == Qualification.State.FAILED,
    }


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _of_kappa(value: float | None) -> float | None:
    """From -1 .. 1 to 0 .. 100."""
    return None if value is None else 50 * (value + 1)


def _figure(value: float | None, batch: Batch) -> str:
    if value is None:
        return ""
    is_share = batch.qualifying == Batch.Qualifying.ACCURACY
    return format_percent(value, 0) if is_share else format_decimal(value, 2)


def _interval(found: Qualification | None, batch: Batch) -> str:
    if found is None or found.low is None or found.high is None:
        return ""
    return f"{_figure(found.low, batch)} - {_figure(found.high, batch)}"


def _why(found: Qualification | None) -> str:
    """Why a round that ended is no pass where the value alone does not say it."""
    if found is None or found.state != Qualification.State.FAILED:
        return ""
    if found.value is None:
        return _("It is undefined: all labels are the same, or there is none.")
    return too_few(found)
