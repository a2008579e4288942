"""Making slates of a dataset's responses: how many there will be, and the sets that were made."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.core.http import breadcrumbs
from annotation.domain.permissions import MANAGE_BATCHES
from annotation.forms.slates import SlateForm
from annotation.selectors.access import refuse_blind_judge
from annotation.selectors.datasets import get_dataset
from annotation.selectors.slates import count_slates, list_sets
from annotation.services.slates import make_slates, plan_slates
from annotation.views.access import act_required, person_of


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(MANAGE_BATCHES)
def dataset_slates(request: HttpRequest, name: str) -> HttpResponse:
    """The form with the plan of what was asked for; ``make`` makes it."""
    dataset = get_dataset(name)
    refuse_blind_judge(person_of(request), dataset)
    form = SlateForm(request.POST or None, dataset=dataset)
    context: dict[str, Any] = {
        "dataset": dataset,
        "form": form,
        "crumbs": breadcrumbs((_("Data"), "datasets", []), (name, "dataset", [name]), title=_("Slates")),
    }
    if form.is_bound and form.is_valid():
        try:
            if "make" in request.POST:
                make_slates(form.build_spec(), actor=person_of(request))
                return redirect("dataset-slates", name)
            context["plan"] = plan_slates(form.build_spec())
        except AssayError as error:
            form.add_error(None, error_text(error))
    context["sets"] = [count_slates(collection) for collection in list_sets(dataset)]
    status = 422 if form.is_bound and form.errors else 200
    return render(request, "annotation/datasets/slates.html", context, status=status)
