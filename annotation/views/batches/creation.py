"""The pages that make a batch: choosing a dataset, filling in the form beside its plan, opening it or keeping a draft.

A job makes a batch of very many responses; a page shows its progress.
"""

from __future__ import annotations

from datetime import date
from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError, NotFound
from annotation.core.formatting import format_duration
from annotation.core.http import breadcrumbs
from annotation.domain.permissions import MANAGE_BATCHES
from annotation.forms.batches.batches import BatchForm
from annotation.models import Batch, Dataset, Guideline, Job
from annotation.selectors.access import sealed_datasets
from annotation.selectors.batches.plan import Plan, measure_pace, plan_responses
from annotation.selectors.datasets import get_dataset, list_dataset_rows
from annotation.selectors.guidelines import dimension_label, list_published
from annotation.selectors.jobs import get_job_for, list_visible_jobs
from annotation.services.batches.batches import JOB_KIND, UNDER_WAY, create_or_enqueue_batch, filter_responses
from annotation.views.access import act_required, person_of
from annotation.views.guidelines.editing import list_unused_shipped


def describe_plan(plan: Plan, guideline: Guideline | None, due: date | None) -> dict[str, Any]:
    """The time of all and of each; of each on every day until it is due; the sharing with a time for each row; and the
    dimensions in the reader's language.
    """
    rows = plan.sharing.rows if plan.sharing else ()
    seconds, each = plan.seconds, plan.each_seconds
    days = 0 if due is None else (due - timezone.localdate()).days + 1
    return {
        "total_time": format_duration(plan.total_seconds),
        "each_time": format_duration(each),
        "daily_time": format_duration(each / days) if each is not None and days > 0 else "",
        "dimension_lines": [
            (dimension_label(guideline.document, name) if guideline else name, n)
            for name, n in plan.dimensions.items()
        ],
        "shares": [(row, format_duration(None if seconds is None else row.tasks * seconds)) for row in rows],
    }


@require_GET
@act_required(MANAGE_BATCHES)
def batch_dataset(request: HttpRequest) -> HttpResponse:
    """The first step: which dataset's responses are to be judged."""
    context = {
        "choices": list_dataset_rows(),
        "making": list_visible_jobs(person_of(request)).filter(kind=JOB_KIND, state__in=UNDER_WAY),
        "guideline_there": list_published().exists(),
        "crumbs": breadcrumbs((_("Batches"), "batches", []), title=_("New batch")),
    }
    return render(request, "annotation/batches/dataset.html", context)


@require_http_methods(["GET", "POST"])
@act_required(MANAGE_BATCHES)
def batch_new(request: HttpRequest, dataset: str) -> HttpResponse:
    chosen_dataset = get_dataset(dataset)
    form = build_form(request, chosen_dataset)
    if request.method == "GET" or not form.is_valid():
        return show_form(request, form, chosen_dataset, status=422 if form.is_bound else 200)
    try:
        made = create_or_enqueue_batch(
            form.build_spec(open_now="draft" not in request.POST), actor=person_of(request)
        )
    except AssayError as error:
        form.add_error(None, error_text(error))
        return show_form(request, form, chosen_dataset, status=422)
    if isinstance(made, Job):
        return redirect("batch-making", made.pk)
    if request.POST.get("draft") == "invite":
        messages.success(request, _("The batch is made. Invite its people, then open it."))
        return redirect(f"{reverse('invitations')}?{urlencode({'batch': made.name})}")
    is_open = made.state == Batch.State.OPEN
    messages.success(request, _("The batch is open.") if is_open else _("The batch is saved as a draft."))
    return redirect("batch", made.name)


@require_GET
@never_cache
@act_required(MANAGE_BATCHES)
def batch_making(request: HttpRequest, job_id: int) -> HttpResponse:
    """A batch that a job makes: how far it is, and afterwards the batch, or why there is none."""
    job = get_job_for(person_of(request), job_id, any_job=True)
    if job.kind != JOB_KIND:
        raise NotFound(N_("There is no such job."))
    if job.state == Job.State.DONE and Batch.objects.filter(name=job.title).exists():
        return redirect("batch", job.title)
    dataset = Dataset.objects.filter(pk=job.payload["dataset"]).first()
    crumbs = breadcrumbs((_("Batches"), "batches", []), title=job.title)
    context = {"job": job, "dataset": dataset, "crumbs": crumbs}
    return render(request, "annotation/batches/making.html", context)


@require_POST
@act_required(MANAGE_BATCHES)
def batch_plan(request: HttpRequest, dataset: str) -> HttpResponse:
    """The plan of the form as it stands, complete or not."""
    chosen_dataset = get_dataset(dataset)
    form = build_form(request, chosen_dataset)
    context = plan_context(form, chosen_dataset) | {"pairs_errors": form.errors.get("pairs")}
    return render(request, "annotation/batches/_plan.html", context)


def build_form(request: HttpRequest, dataset: Dataset) -> BatchForm:
    blind = sealed_datasets(person_of(request)).filter(pk=dataset.pk).exists()
    collection = request.GET.get("collection", "")
    return BatchForm(request.POST or None, dataset=dataset, models_shown=not blind, collection=collection)


def plan_context(form: BatchForm, dataset: Dataset) -> dict[str, Any]:
    """From whatever of the form is valid; an empty form is planned with its initial values."""
    form.is_valid()
    data = form.cleaned_data if form.is_bound else {}
    guideline = data.get("guideline")
    if guideline is None and not form.is_bound:
        published = list_published()
        guideline = form.fields["guideline"].initial or published.first()
    measured = measure_pace(guideline.name) if guideline is not None else None
    collection = data.get("collection")
    if not form.is_bound and "collection" in form.fields:
        collection = form.fields["collection"].initial
    plan = plan_responses(
        filter_responses(
            dataset=dataset,
            models=list(data.get("models", ())),
            collection=None if collection is None else collection.name,
            without_faults=data.get("without_faults", False),
        ),
        guideline=guideline,
        overlap=data.get("overlap") or form.fields["overlap"].initial,
        pairing=data.get("pairing") or form.fields["pairing"].initial,
        pairs=data.get("pairs", ()),
        quota=data.get("quota"),
        seed=data.get("seed") or 0,
        overlap_share=data.get("overlap_share") or 1,
        is_open=data.get("plan") == Batch.Plan.OPEN,
        annotators=list(data.get("annotators", ())),
        adjudicators=list(data.get("adjudicators", ())),
        seconds=data.get("seconds") or (measured.seconds if measured else None),
    )
    return {
        "plan": plan,
        "sealed": "models" not in form.fields,
        "measured": measured,
        "typed": data.get("seconds"),
        **describe_plan(plan, guideline, data.get("due_date")),
    }


def show_form(request: HttpRequest, form: BatchForm, dataset: Dataset, *, status: int) -> HttpResponse:
    crumbs = breadcrumbs(
        (_("Batches"), "batches", []), (_("New batch"), "batch-dataset", []), title=dataset.name
    )
    context = {"form": form, "dataset": dataset, "crumbs": crumbs} | plan_context(form, dataset)
    if not list_published().exists():
        context["shipped"] = list_unused_shipped()
    return render(request, "annotation/batches/new.html", context, status=status)
