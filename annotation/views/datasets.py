"""The data of a study: its datasets, and what each of them holds."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from annotation.core.http import breadcrumbs
from annotation.domain.permissions import DELETE_DATA, READ_DATA
from annotation.models import Dataset
from annotation.selectors.datasets import count_parts, get_dataset, list_dataset_rows
from annotation.services.datasets import delete_dataset
from annotation.views.access import act_required, person_of
from annotation.views.lists import narrow_by_request
from annotation.views.notices import add_notice


@require_GET
@never_cache
@act_required(READ_DATA)
def datasets(request: HttpRequest) -> HttpResponse:
    narrowed = narrow_by_request(request, Dataset.objects.all())
    context = {
        **narrowed.context,
        "rows": list_dataset_rows(narrowed.rows),
        "any": Dataset.objects.exists(),
    }
    return render(request, "annotation/datasets/list.html", context)


@require_GET
@never_cache
@act_required(READ_DATA)
def dataset(request: HttpRequest, name: str) -> HttpResponse:
    """What it holds, by its parts; no model's name to somebody who judges its responses blind."""
    chosen_dataset = get_dataset(name)
    context = {
        "dataset": chosen_dataset,
        "parts": count_parts(chosen_dataset, person_of(request)),
        "crumbs": breadcrumbs((_("Data"), "datasets", []), title=name),
    }
    return render(request, "annotation/datasets/dataset.html", context)


@require_POST
@act_required(DELETE_DATA)
def dataset_delete(request: HttpRequest, name: str) -> HttpResponse:
    delete_dataset(dataset=get_dataset(name), actor=person_of(request))
    add_notice(request, "deleted", name=name)
    return redirect("datasets")
