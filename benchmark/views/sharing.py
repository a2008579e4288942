"""What an outsider's link shows of a run: the parts of its own page that need no more than the run itself.

Links for outsiders: making and revoking them, and the page that one opens, for people without an account.

That page leads nowhere into the product, sets no cookie, and is kept by nobody on the way. Whoever asks for a link
that is unknown, expired or revoked gets one and the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import PurePosixPath
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.signing import Signer
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import translation
from django.utils.crypto import constant_time_compare
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST, require_safe

from annotation.core.charts import EMBEDDED, Spec, chart_svg, chart_url
from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError, NotFound
from annotation.core.http import breadcrumbs, build_site_url, enter_study
from annotation.domain.permissions import READ_LINKS, SHARE_BOARD
from annotation.views.access import act_required, person_of
from benchmark.forms.leaderboards import ShareForm
from benchmark.models import BenchmarkRun, ShareLink
from benchmark.selectors.leaderboards.runs import get_run, refuse_sealed_run
from benchmark.selectors.sharing import find_open_link, find_state, get_link, list_links
from benchmark.services.sharing import record_opening, revoke_link, share_run
from benchmark.views.leaderboards.charts import Draw
from benchmark.views.leaderboards.lineage import lineage_context
from benchmark.views.leaderboards.query import (
    BOARD,
    ESTIMATES,
    GROUPS,
    LINEAGE,
    PAIRS,
    BoardQuery,
    check_choice,
)
from benchmark.views.leaderboards.runs import list_tabs
from benchmark.views.leaderboards.tabs.estimates import estimates_context
from benchmark.views.leaderboards.tabs.groups import groups_context
from benchmark.views.leaderboards.tabs.pairs import pairs_context
from benchmark.views.leaderboards.tabs.table import board_context
from scoring.views.scorers.promotions import find_promotion_reason

PARTS = (PAIRS, GROUPS, ESTIMATES)
"""Views of which a run may have nothing to show."""


def shared_context(
    run: BenchmarkRun, query: Mapping[str, str], *, draw: Draw, with_published: bool
) -> dict[str, Any]:
    """AssayError where something is asked for that is not there, as on the page of the run."""
    parts = set(run.parts.values_list("name", flat=True))
    views = [BOARD, *(view for view in PARTS if view in parts), LINEAGE]
    view = check_choice(BoardQuery.of(query).view, views)
    return {
        "run": run,
        "public": True,
        "part": f"benchmark/leaderboards/tabs/{view or 'board'}.html",
        "tabs": list_tabs(view, tuple(views)),
        "gate_reason": find_promotion_reason(run.scorer),
        **_view_context(run, query, view, draw, with_published=with_published),
    }


def _view_context(
    run: BenchmarkRun, query: Mapping[str, str], view: str, draw: Draw, *, with_published: bool
) -> dict[str, Any]:
    if view == PAIRS:
        return pairs_context(run, query, public=True, draw=draw)
    if view == GROUPS:
        return groups_context(run, query, reader=None, public=True, with_published=with_published)
    if view == ESTIMATES:
        return estimates_context(run, query, public=True, draw=draw)
    if view == LINEAGE:
        return lineage_context(run, public=True)
    return board_context(run, query, reader=None, public=True, draw=draw, with_published=with_published)


View = Callable[..., HttpResponse]
DARK = "-dark"
HEADERS = {
    "Cache-Control": "private, no-store",
    "Referrer-Policy": "no-referrer",
    "X-Robots-Tag": "noindex, nofollow, noarchive",
}


@require_GET
@never_cache
@act_required(READ_LINKS)
def run_links(request: HttpRequest, name: str) -> HttpResponse:
    """Every link of the run, with who made it and when an outsider last opened it."""
    return _render_links(request, _open_run(request, name), ShareForm())


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(SHARE_BOARD)
def run_share(request: HttpRequest, name: str) -> HttpResponse:
    """POST makes a link, and its answer alone shows the address."""
    run = _open_run(request, name)
    if request.method == "GET":
        return redirect("run-links", run.name)
    form = ShareForm(request.POST)
    if not form.is_valid():
        return _render_links(request, run, form, status=422)
    try:
        made, token = share_run(run=run, actor=person_of(request), **form.cleaned_data)
    except AssayError as error:
        form.add_error(None, error_text(error))
        return _render_links(request, run, form, status=error.status)
    address = build_site_url(request, "shared", token)
    return _render_links(request, run, ShareForm(), made=made, address=address)


@require_POST
@act_required(SHARE_BOARD)
def run_link_revoke(request: HttpRequest, name: str, link_id: int) -> HttpResponse:
    run = _open_run(request, name)
    revoke_link(link=get_link(run, link_id), actor=person_of(request))
    messages.success(request, _("The link is revoked: it opens nothing any more."))
    return redirect("run-links", run.name)


def _open_run(request: HttpRequest, name: str) -> BenchmarkRun:
    run = get_run(name)
    refuse_sealed_run(person_of(request), run)
    return run


def _render_links(
    request: HttpRequest, run: BenchmarkRun, form: ShareForm, *, status: int = 200, **context: Any
) -> HttpResponse:
    crumbs = breadcrumbs(
        (_("Boards"), "runs", []), (run.name, "run", [run.name]), title=_("Links for outsiders")
    )
    context |= {
        "run": run,
        "form": form,
        "crumbs": crumbs,
        "lines": [_link_row(link) for link in list_links(run)],
    }
    return render(request, "benchmark/sharing/links.html", context, status=status)


def _link_row(link: ShareLink) -> dict[str, Any]:
    return {"link": link, "state": find_state(link)}


def protect_shared(view: View) -> View:
    """Nobody on the way keeps the answer, no search engine finds it, and no link on it tells its address."""

    @wraps(view)
    def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        answer = view(request, *args, **kwargs)
        for name, value in HEADERS.items():
            answer[name] = value
        return answer

    return login_not_required(guarded)


@require_safe
@protect_shared
def shared(request: HttpRequest, token: str, language: str = "") -> HttpResponse:
    """The run for whoever has the address; ``language`` in it is the reader's choice, for which no cookie is set."""
    opened_link = _find_link(request, token)
    if opened_link is None or language not in {"", *dict(settings.LANGUAGES)}:
        return _not_found_page(request)
    link, run = opened_link
    if request.method == "GET" and not request.user.is_authenticated:
        record_opening(link)
    with translation.override(language or translation.get_language()):
        try:
            context = shared_context(
                run, request.GET, draw=_make_drawer(link, token), with_published=link.with_published
            )
        except (
            AssayError
        ):  # the query asks for what is not there; the page of an error leads into the product
            return _not_found_page(request)
        languages = _list_languages(token, request.GET.urlencode())
        return render(request, "benchmark/sharing/shared.html", context | {"languages": languages})


@require_safe
@protect_shared
def shared_chart(request: HttpRequest, token: str, proof: str, key: str) -> HttpResponse:
    """A chart that the link's page named: its proof was made by that page, for that link."""
    opened_link = _find_link(request, token)
    if opened_link is None or not constant_time_compare(
        proof, _sign_key(opened_link[0], key.removesuffix(DARK))
    ):
        return _not_found_page(request)
    try:
        return HttpResponse(chart_svg(key), content_type="image/svg+xml")
    except NotFound:
        return _not_found_page(request)


def _find_link(request: HttpRequest, token: str) -> tuple[ShareLink, BenchmarkRun] | None:
    """The link and its run. Who is signed in and judges behind the run blind is refused, as on the run's own page."""
    opened_link = find_open_link(token)
    if opened_link is not None:
        enter_study([opened_link[1].study_id], None)
        if request.user.is_authenticated:
            refuse_sealed_run(person_of(request), opened_link[1])
    return opened_link


def _not_found_page(request: HttpRequest) -> HttpResponse:
    return render(request, "404.html", status=404)


def _make_drawer(link: ShareLink, token: str) -> Draw:
    """Charts by addresses below the link's own, which end with it."""

    def draw(spec: Spec) -> str:
        url = chart_url(spec)
        if url.startswith(EMBEDDED):
            return url
        key = PurePosixPath(url).stem
        return reverse("shared-chart", args=[token, _sign_key(link, key), key])

    return draw


def _sign_key(link: ShareLink, key: str) -> str:
    return Signer(salt="benchmark.shared-chart").signature(f"{link.pk}/{key}")


def _list_languages(token: str, query: str) -> list[dict[str, str]]:
    """The same view in each other language."""
    return [
        {
            "code": code,
            "name": translation.get_language_info(code)["name_local"],
            "url": reverse("shared-in", args=[token, code]) + (f"?{query}" if query else ""),
        }
        for code, _name in settings.LANGUAGES
        if code != translation.get_language()
    ]
