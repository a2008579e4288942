"""Gold releases: the list, cutting one, reading one down to its labels, and downloading it."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.http import content_disposition_header
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from annotation.errors import AssayError
from annotation.goldfile import FORMATS
from annotation.models import MANAGER, RESEARCHER, Batch, GoldLabel, GoldRelease
from annotation.selectors.gold import (
    batch_choices,
    release_for,
    released_labels,
    releases_for,
)
from annotation.selectors.lineage import Behind, behind
from annotation.services.exports import export_lines, format_named
from annotation.services.gold import cut_release
from annotation.views.access import has_role, person_of, role_required
from annotation.views.levels import criterion_label, label_text
from annotation.wording import error_text

PAGE = 50
FILTERS = ("criterion", "source", "dimension", "model")


class ReleaseForm(forms.Form):
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=100,
        help_text=gettext_lazy("It never changes and is never given twice, for example flames-2026-05."),
    )
    batches = forms.ModelMultipleChoiceField(
        queryset=Batch.objects.all(),
        error_messages={"required": gettext_lazy("Choose at least one batch.")},
    )


@require_GET
@never_cache
@role_required(RESEARCHER, MANAGER)
def releases(request: HttpRequest) -> HttpResponse:
    person = person_of(request)
    context = {"releases": releases_for(person), "researches": has_role(person, RESEARCHER)}
    return render(request, "annotation/releases/list.html", context)


@require_http_methods(["GET", "POST"])
@never_cache
@role_required(RESEARCHER)
def release_new(request: HttpRequest) -> HttpResponse:
    """The form, and cutting the release; what is refused comes back with its reason on the form."""
    form = ReleaseForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            release = cut_release(
                name=form.cleaned_data["name"],
                batches=list(form.cleaned_data["batches"].select_related("guideline")),
                actor=person_of(request),
            )
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            messages.success(request, _("The gold is frozen."))
            return redirect("release", name=release.name)
    context = {
        "form": form,
        "choices": batch_choices(person_of(request)),
        "chosen": set((request.POST if form.is_bound else request.GET).getlist("batches")),
    }
    return render(request, "annotation/releases/new.html", context, status=400 if form.errors else 200)


@require_GET
@never_cache
@role_required(RESEARCHER, MANAGER)
def release(request: HttpRequest, name: str) -> HttpResponse:
    person = person_of(request)
    found = release_for(person, name)
    context = {
        "release": found,
        "share": _percent(found.adjudicated, found.labels),
        "tables": _tables(found),
        "formats": list(FORMATS.values()),
        "researches": has_role(person, RESEARCHER),
    }
    return render(request, "annotation/releases/detail.html", context)


@require_GET
@never_cache
@role_required(RESEARCHER, MANAGER)
def release_labels(request: HttpRequest, name: str) -> HttpResponse:
    """Every label with what stands behind it."""
    found = release_for(person_of(request), name)
    filters = {part: request.GET.get(part, "") for part in FILTERS}
    page = Paginator(released_labels(found, filters), PAGE).get_page(request.GET.get("page"))
    context = {
        "release": found,
        "lines": [_line(one) for one in behind(list(page.object_list))],
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": urlencode({part: value for part, value in filters.items() if value}),
        "filters": _filters(found, filters),
        "several": len(found.manifest["counts"]["by_level"]) > 1,
    }
    return render(request, "annotation/releases/labels.html", context)


@require_GET
@role_required(RESEARCHER, MANAGER)
def release_download(request: HttpRequest, name: str, kind: str) -> HttpResponseBase:
    """The gold file, streamed; or the manifest."""
    found = release_for(person_of(request), name)
    if kind == "manifest.json":
        text = json.dumps(found.manifest, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
        return _attached(HttpResponse(text, content_type="application/json"), f"{name}.manifest.json")
    gold_format = format_named(kind.removeprefix("gold."))
    lines = (line.encode() for line in export_lines(found, gold_format))
    answer = StreamingHttpResponse(lines, content_type=gold_format.content_type)
    return _attached(answer, f"{name}.{gold_format.name}")


def _attached(answer: HttpResponseBase, file_name: str) -> HttpResponseBase:
    answer["Content-Disposition"] = str(content_disposition_header(True, file_name))
    answer["X-Content-Type-Options"] = "nosniff"
    answer["Cache-Control"] = "private, no-store"
    return answer


def _tables(release: GoldRelease) -> list[dict[str, Any]]:
    """The counts of the manifest as tables of (word, number, share of all)."""
    counts = release.manifest["counts"]
    sources = {str(GoldLabel.Source(name).label): n for name, n in counts["by_source"].items()}
    named = [
        ("source", _("By source"), sources),
        ("level", _("By level"), _levels(release)),
        ("dimension", _("By dimension"), counts["by_dimension"]),
        ("model", _("By model"), counts["by_model"]),
    ]
    return [
        {
            "id": key,
            "title": title,
            "rows": [(word, n, _percent(n, release.labels)) for word, n in of.items()],
        }
        for key, title, of in named
    ]


def _levels(release: GoldRelease) -> dict[str, int]:
    """Labels by criterion and level, each in the words of the release's guideline."""
    by_level = release.manifest["counts"]["by_level"]
    documents = [batch.guideline.document for batch in release.batches.select_related("guideline")]
    words: dict[str, int] = {}
    for criterion, counts in by_level.items():
        document = next(one for one in documents if any(c.name == criterion for c in one.criteria))
        for value in sorted(counts, key=float):
            word = f"{criterion_label(document, criterion)} · {label_text(document, criterion, float(value))}"
            words[word] = counts[value]
    return words


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}"


def _filters(release: GoldRelease, chosen: dict[str, str]) -> list[dict[str, Any]]:
    counts = release.manifest["counts"]
    sources = [(value, label) for value, label in GoldLabel.Source.choices if value in counts["by_source"]]
    options: dict[str, tuple[str, list[tuple[str, Any]]]] = {
        "criterion": (_("Criterion"), [(name, name) for name in counts["by_level"]]),
        "source": (_("Source"), sources),
        "dimension": (_("Dimension"), [(name, name) for name in counts["by_dimension"] if name]),
        "model": (_("Model"), [(name, name) for name in counts["by_model"]]),
    }
    return [
        {"name": name, "label": label, "options": found, "chosen": chosen[name]}
        for name, (label, found) in options.items()
    ]


def _line(one: Behind) -> dict[str, Any]:
    label = one.released
    document = label.task.batch.guideline.document
    return {
        "released": label,
        "criterion": criterion_label(document, label.criterion),
        "gold": label_text(document, label.criterion, label.value),
        "given": [
            (a.assignment.person.username, _value(a.labels.get(label.criterion))) for a in one.annotations
        ],
        "decided_by": one.decision.assignment.person.username if one.decision else None,
    }


def _value(value: Any) -> str:
    return "-" if value is None else f"{value:g}"
