"""The regression cases of a guideline: their list, adding one, and taking one out."""

from __future__ import annotations

from dataclasses import dataclass
from tempfile import NamedTemporaryFile
from typing import Any

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError, NotFound
from annotation.core.http import breadcrumbs, parse_int
from annotation.core.text_templates import render_text
from annotation.domain.permissions import EDIT_REGRESSION_CASES, READ_SCORERS
from annotation.models import Guideline, Response
from annotation.selectors.access import sealed_datasets
from annotation.selectors.guidelines import criterion_label, label_text, level_text
from annotation.views.access import accepts_body, act_required, person_of
from scoring.domain.training_data import level_name
from scoring.forms.regression_cases import MAX_FILE_BYTES, MustFailFileForm, MustFailForm, ResponseSearchForm
from scoring.models import RegressionCase
from scoring.selectors.regression_cases import harmless_levels, must_fail_for, must_fail_item
from scoring.selectors.scorers import get_latest_guideline
from scoring.selectors.training import response_text
from scoring.services import add_must_fail, import_must_fail, remove_must_fail

ITEMS_PER_PAGE = 50


@require_GET
@never_cache
@act_required(READ_SCORERS)
def must_fail(request: HttpRequest, guideline: str) -> HttpResponse:
    """The set; with a response in the address, that one to be added."""
    return _render_page(request, get_latest_guideline(guideline))


@require_POST
@act_required(EDIT_REGRESSION_CASES)
def must_fail_add(request: HttpRequest, guideline: str) -> HttpResponse:
    """The response that the form names into the set, for one criterion."""
    guideline_version = get_latest_guideline(guideline)
    if "response" not in request.POST:
        raise AssayError(N_("Find the response first, then add it."))
    response = _get_open_response(request, request.POST["response"])
    criterion = request.POST.get("criterion", "")
    offers = _list_offers(guideline_version, response, request)
    offer = next(
        (criterion_offer for criterion_offer in offers if criterion_offer.criterion == criterion), None
    )
    if offer is None:
        raise NotFound(N_("This criterion is not asked of this prompt."))
    if offer.form.is_valid():
        try:
            added = add_must_fail(
                guideline_name=guideline_version.name,
                response=response,
                criterion=criterion,
                refused=offer.form.values(),
                reason=offer.form.cleaned_data["reason"],
                actor=person_of(request),
            )
        except AssayError as error:
            offer.form.add_error(None, error_text(error))
        else:
            messages.success(
                request,
                _("Added to the regression cases.")
                if added
                else _("It was already among the regression cases."),
            )
            return redirect("must-fail", guideline_version.name)
    return _render_page(request, guideline_version, offered=[_describe_offer(response, offers)], status=422)


@require_POST
@act_required(EDIT_REGRESSION_CASES)
@accepts_body(MAX_FILE_BYTES)
def must_fail_import(request: HttpRequest, guideline: str) -> HttpResponse:
    guideline_version = get_latest_guideline(guideline)
    form = MustFailFileForm(request.POST, request.FILES)
    if form.is_valid():
        try:
            count = _import_items(guideline_version.name, form.cleaned_data["file"], request)
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            message = render_text("scoring/wording/message.txt", code="items_added", n=count)
            messages.success(request, message)
            return redirect("must-fail", guideline_version.name)
    return _render_page(request, guideline_version, file=form, status=422)


def _import_items(guideline_name: str, file: Any, request: HttpRequest) -> int:
    with NamedTemporaryFile() as copy:
        for chunk in file.chunks():
            copy.write(chunk)
        copy.flush()
        added = import_must_fail(
            guideline_name=guideline_name,
            path=copy.name,
            name=file.name or "file",
            actor=person_of(request),
        )
    return len(added)


@require_POST
@act_required(EDIT_REGRESSION_CASES)
def must_fail_remove(request: HttpRequest, guideline: str, item_id: int) -> HttpResponse:
    guideline_version = get_latest_guideline(guideline)
    item = must_fail_item(item_id)
    if item.guideline_name != guideline_version.name:
        raise NotFound(N_("There is no regression case {item}."), item=item_id)
    _get_open_response(request, str(item.response_id))
    remove_must_fail(item=item, actor=person_of(request))
    messages.success(request, _("Removed from the regression cases. Earlier verdicts stay as they are."))
    return redirect("must-fail", guideline_version.name)


def _render_page(
    request: HttpRequest,
    guideline: Guideline,
    *,
    offered: list[dict[str, Any]] | None = None,
    file: MustFailFileForm | None = None,
    status: int = 200,
) -> HttpResponse:
    person = person_of(request)
    find = ResponseSearchForm(request.GET if "prompt" in request.GET else None, person=person)
    is_searched = find.is_bound and find.is_valid()
    if offered is None:
        responses = find.list_responses() if is_searched else []
        offered = [
            _describe_offer(response, _list_offers(guideline, response, request)) for response in responses
        ]
    page = Paginator(must_fail_for(person, guideline.name), ITEMS_PER_PAGE).get_page(request.GET.get("page"))
    context = {
        "guideline": guideline,
        "crumbs": breadcrumbs(
            (_("Scorers"), "scorers", []), title=_("Regression cases of {name}").format(name=guideline.name)
        ),
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "lines": [_describe_item(item, guideline) for item in page.object_list],
        "find": find,
        "nothing_found": is_searched and not offered,
        "offered": offered,
        "file": file or MustFailFileForm(),
    }
    return render(request, "scoring/regression_cases/page.html", context, status=status)


def _describe_offer(response: Response, offers: list[MustFailOffer]) -> dict[str, Any]:
    return {"response": response, "said": read_response(response), "offers": offers}


def read_response(response: Response) -> str:
    return response_text(response.text, response.turns)


def _describe_item(item: RegressionCase, guideline: Guideline) -> dict[str, Any]:
    document = guideline.document
    return {
        "item": item,
        "prompt": item.response.prompt,
        "said": read_response(item.response),
        "criterion": criterion_label(document, item.criterion),
        "refused": [label_text(document, item.criterion, value) for value in item.refused],
    }


@dataclass(frozen=True)
class MustFailOffer:
    """One criterion that is asked of a response's prompt, with the form that adds it to the set."""

    criterion: str
    label: str
    form: MustFailForm


def _list_offers(guideline: Guideline, response: Response, request: HttpRequest) -> list[MustFailOffer]:
    document = guideline.document
    dimension = response.prompt.dimension or None
    offers = []
    for criterion in document.countable_for(dimension):
        levels = [(level_name(value), level_text(criterion, value)) for value in criterion.values]
        harmless = harmless_levels(document, dimension, criterion.name)
        posted = request.POST if request.POST.get("criterion") == criterion.name else None
        usual = {"criterion": criterion.name, "refused": [level_name(value) for value in harmless]}
        # Two forms on a page: each field an id of its own.
        form = MustFailForm(posted, levels=levels, initial=usual, auto_id=f"id_{criterion.name}_%s")
        offers.append(MustFailOffer(criterion.name, criterion_label(document, criterion.name), form))
    return offers


def _get_open_response(request: HttpRequest, number: str) -> Response:
    """The response, if the person may know whose it is."""
    sealed = sealed_datasets(person_of(request))
    responses = Response.objects.exclude(prompt__dataset__in=sealed).select_related(
        "prompt__dataset", "model", "collection"
    )
    pk = parse_int(number)
    response = None if pk is None else responses.filter(pk=pk).first()
    if response is None:
        raise NotFound(N_("There is no such response."))
    return response
