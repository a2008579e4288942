"""With which studies a dataset, a gold release or a scorer is shared, and where a dataset goes."""

from __future__ import annotations

from django.apps import apps
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError, NotFound
from annotation.core.http import breadcrumbs
from annotation.domain.permissions import SHARE_WITH_STUDY
from annotation.models import Dataset, Person, Shareable
from annotation.selectors.studies.sharing import (
    count_what_rests,
    format_counts,
    list_needed,
    list_shares,
    list_target_studies,
)
from annotation.services.sharing import end_sharing, move_dataset, refuse_borrowed, share
from annotation.views.access import View, act_required, person_of
from annotation.views.notices import add_notice


def build_sharing_view(model: str, page: str, ancestor: str, ancestor_label: str | Promise) -> View:
    """The view of a row of the model, by its name. ``page`` and ``ancestor`` are the URL names of the row's own page
    and of the list of its kind.
    """

    @require_http_methods(["GET", "POST"])
    @never_cache
    @act_required(SHARE_WITH_STUDY)
    def sharing(request: HttpRequest, name: str) -> HttpResponse:
        """A POST shares the row with a study (``act`` is ``share``), ends that (``end``) or moves it (``move``)."""
        person = person_of(request)
        row: Shareable | None = apps.get_model(model)._default_manager.filter(name=name).first()
        if row is None:
            raise NotFound(N_("There is nothing named {name} here."), name=name)
        refuse_borrowed(row)
        refusal = ""
        if request.method == "POST":
            try:
                return _act(request, row, person, page)
            except NotFound:
                raise
            except AssayError as error:
                refusal = error_text(error)
        targets = list_target_studies(row, person, SHARE_WITH_STUDY)
        shares = list_shares(row, person, SHARE_WITH_STUDY)
        context = {
            "row": row,
            "needed": list_needed(row),
            "shares": shares,
            "more": row.shared_with.count() - len(shares),
            "targets": targets.exclude(pk__in=[shared.study.pk for shared in shares]),
            "is_dataset": isinstance(row, Dataset),
            "resting": format_counts(count_what_rests(row)) if isinstance(row, Dataset) else "",
            "refusal": refusal,
            "crumbs": breadcrumbs(
                (str(ancestor_label), ancestor, []), (name, page, [name]), title=_("Sharing")
            ),
        }
        return render(request, "annotation/studies/sharing.html", context, status=422 if refusal else 200)

    return sharing


def _act(request: HttpRequest, row: Shareable, person: Person, page: str) -> HttpResponse:
    targets = list_target_studies(row, person, SHARE_WITH_STUDY)
    study = targets.filter(name=request.POST.get("study", "")).first()
    if study is None:
        raise NotFound(N_("There is no such study, or you do not manage it."))
    act, notice = request.POST.get("act"), {"name": str(row), "study": str(study)}
    if act == "move" and isinstance(row, Dataset):
        move_dataset(dataset=row, study=study, actor=person)
        add_notice(request, "moved", **notice)
        return redirect("datasets")
    if act == "end":
        if end_sharing(row=row, study=study, actor=person):
            add_notice(request, "sharing_ended", **notice)
    elif act == "share":
        share(row=row, study=study, actor=person)
        add_notice(request, "shared", **notice)
    else:
        raise NotFound(N_("There is no such page."))
    return redirect(f"{page}-sharing", str(row))


dataset_sharing = build_sharing_view("annotation.Dataset", "dataset", "datasets", gettext_lazy("Data"))
release_sharing = build_sharing_view(
    "annotation.GoldRelease", "release", "releases", gettext_lazy("Gold releases")
)
scorer_sharing = build_sharing_view("scoring.Scorer", "scorer", "scorers", gettext_lazy("Scorers"))
