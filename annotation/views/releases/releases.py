"""Gold releases: the list, cutting one, reading one down to its labels, its datasheet, and downloading it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.contrib import messages
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.translation import get_language, gettext_lazy
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError, NotFound
from annotation.core.formatting import format_compact, format_part
from annotation.core.http import as_attachment, breadcrumbs
from annotation.domain.guidelines import GuidelineDocument, localize
from annotation.domain.guidelines.values import Label, parse_level
from annotation.domain.permissions import CUT_RELEASE, READ_RELEASES, READ_TASKS
from annotation.domain.release_spec import MAX_ABOUT_CHARACTERS, ReleaseSpec
from annotation.domain.releases.datasheet import GuidelineTexts
from annotation.domain.releases.gold_file import FORMATS
from annotation.domain.releases.manifest import index_dimensions, order_manifest
from annotation.forms.lists import ListColumns
from annotation.models import Batch, GoldLabel, GoldRelease, Job, Person
from annotation.selectors.access import refuse_sealed_gold
from annotation.selectors.guidelines import criterion_label, label_text
from annotation.selectors.jobs import get_job_for, list_visible_jobs
from annotation.selectors.origins import add_origins, find_origin
from annotation.selectors.releases.candidates import list_contradicted_keys
from annotation.selectors.releases.lineage import LabelSources, list_label_sources
from annotation.selectors.releases.releases import (
    RELEASE_JOB,
    get_release_for,
    list_release_chain,
    list_released_labels,
    list_releases,
)
from annotation.services.audit import record_file
from annotation.services.exports import export_lines, get_gold_format
from annotation.services.exports.datasheet import (
    LANGUAGES,
    agreement_table,
    files_table,
    render_datasheet,
    render_markdown,
    render_warnings,
    splits_table,
)
from annotation.services.exports.downloads import record_direct_download
from annotation.services.releases import (
    CONTRADICTED,
    MAX_EXAMPLES,
    UNDER_WAY,
    Contradicted,
    create_or_enqueue_release,
)
from annotation.views.access import act_required, may, person_of
from annotation.views.lists import narrow_by_request
from annotation.views.releases.conflicts import conflict_lines
from annotation.views.releases.verdicts import list_choice_rows, list_verdicts

LANGUAGE_NAMES = {"en": "English", "zh": "中文"}
PAGE = 50
FILTERS = ("criterion", "source", "dimension", "model")


class SupersededField(forms.ModelChoiceField):  # type: ignore[type-arg]
    def label_from_instance(self, obj: GoldRelease) -> str:
        return f"{obj.name} ({obj.labels})"


class ReleaseForm(forms.Form):
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=100,
        help_text=gettext_lazy("It never changes and is never given twice, for example flames-2026-05."),
    )
    about = forms.CharField(
        label=gettext_lazy("Subject"),
        required=False,
        max_length=MAX_ABOUT_CHARACTERS,
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text=gettext_lazy("Why it is made, by whom and for what: its datasheet begins with it."),
    )
    supersedes = SupersededField(
        label=gettext_lazy("Supersedes"),
        queryset=GoldRelease.objects.none(),
        to_field_name="name",
        required=False,
        empty_label=gettext_lazy("none"),
        help_text=gettext_lazy(
            "That release stays as it is, and says from then on that this one takes its place."
        ),
    )
    batches = forms.ModelMultipleChoiceField(
        queryset=Batch.objects.none(),
        error_messages={"required": gettext_lazy("Choose at least one batch.")},
    )

    def __init__(self, *args: Any, person: Person, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        known = [
            listed.release.pk
            for listed in list_releases(person)
            if not listed.sealed and not listed.successor and not listed.release.is_borrowed
        ]
        supersedes, batches = self.fields["supersedes"], self.fields["batches"]
        assert isinstance(supersedes, forms.ModelChoiceField)
        assert isinstance(batches, forms.ModelMultipleChoiceField)
        supersedes.queryset = GoldRelease.objects.filter(pk__in=known)
        batches.queryset = Batch.objects.select_related("guideline")

    def build_spec(self) -> ReleaseSpec:
        """Of a form that is valid. Raises AssayError where its parts do not fit."""
        return ReleaseSpec.model_validate(
            {name: self.cleaned_data[name] for name in ReleaseSpec.model_fields}
        )


@require_GET
@never_cache
@act_required(READ_RELEASES)
def releases(request: HttpRequest) -> HttpResponse:
    person = person_of(request)
    columns = ListColumns(guideline="batches__guideline__name")
    narrowed = narrow_by_request(request, GoldRelease.objects.all(), columns)
    context = {
        **narrowed.context,
        "releases": list_releases(person, narrowed.rows),
        "any": GoldRelease.objects.exists(),
        "cutting": list_visible_jobs(person).filter(kind=RELEASE_JOB, state__in=UNDER_WAY),
    }
    return render(request, "annotation/releases/list.html", context)


@require_http_methods(["GET", "POST"])
@never_cache
@act_required(CUT_RELEASE)
def release_new(request: HttpRequest) -> HttpResponse:
    """The form, and cutting the release; what is refused comes back with its reason on the form."""
    person = person_of(request)
    form = ReleaseForm(
        request.POST or None, person=person, initial={"supersedes": request.GET.get("supersedes")}
    )
    refused: dict[str, Any] = {}
    if request.method == "POST" and form.is_valid():
        try:
            made = create_or_enqueue_release(form.build_spec(), actor=person)
        except Contradicted as error:
            # The opening was undone with the release, and these are labels.
            refuse_sealed_gold(person, form.cleaned_data["batches"])
            refused = {
                "contradicted": error.params["count"],
                **contradictions_context(form.cleaned_data["batches"]),
            }
        except AssayError as error:
            form.add_error(None, error_text(error))
        else:
            return show_made(request, made)
    context = {
        "form": form,
        "choices": list_choice_rows(person),
        "chosen_batches": set((request.POST if form.is_bound else request.GET).getlist("batches")),
        **refused,
    }
    return render(
        request, "annotation/releases/new.html", context, status=400 if form.errors or refused else 200
    )


def show_made(request: HttpRequest, made: GoldRelease | Job) -> HttpResponse:
    if isinstance(made, Job):
        return redirect("release-making", made.pk)
    messages.success(request, _("The gold is frozen."))
    return redirect("release", made.name)


def contradictions_context(batches: Iterable[Batch]) -> dict[str, Any]:
    """The first of them, and where all of them are."""
    chosen_batches = list(batches)
    return {
        "contradictions": conflict_lines(
            chosen_batches, list_contradicted_keys(chosen_batches)[:MAX_EXAMPLES]
        ),
        "query": urlencode([("batches", batch.pk) for batch in chosen_batches]),
    }


@require_GET
@never_cache
@act_required(CUT_RELEASE)
def release_making(request: HttpRequest, job_id: int) -> HttpResponse:
    """A release that a job cuts: how far it is, and afterwards the release, or why there is none."""
    job = get_job_for(person_of(request), job_id, any_job=True)
    if job.kind != RELEASE_JOB:
        raise NotFound(N_("There is no such job."))
    if job.state == Job.State.DONE and GoldRelease.objects.filter(name=job.title).exists():
        return redirect("release", job.title)
    batches = Batch.objects.filter(pk__in=job.payload["batches"]).select_related("guideline")
    context: dict[str, Any] = {
        "job": job,
        "crumbs": breadcrumbs((_("Gold releases"), "releases", []), title=job.title),
        "back": urlencode([("batches", batch.pk) for batch in batches]),
    }
    if job.result.get("error", {}).get("template") == CONTRADICTED:
        context |= {"contradicted": job.result["error"]["params"]["count"], **contradictions_context(batches)}
    return render(request, "annotation/releases/making.html", context)


@require_GET
@never_cache
@act_required(READ_RELEASES)
def release(request: HttpRequest, name: str) -> HttpResponse:
    person = person_of(request)
    gold_release = get_release_for(person, name)
    language = get_language() or "en"
    manifest = add_origins(gold_release)
    texts = GuidelineTexts(gold_release.manifest, language)
    context = {
        "release": gold_release,
        "verdicts": list_verdicts(gold_release.manifest, texts),
        "chain": list_release_chain(gold_release),
        "share": format_part(gold_release.adjudicated, gold_release.labels),
        "tables": list_tables(gold_release),
        "splits": splits_table(gold_release.manifest),
        "agreement": agreement_table(gold_release.manifest, texts),
        "imports": files_table(manifest),
        "imported": manifest["imported"],
        "warnings": render_warnings(gold_release.manifest),
        "formats": list(FORMATS.values()),
        "has_slates": gold_release.batches.filter(of_slates=True).exists(),
    }
    return render(request, "annotation/releases/detail.html", context)


@require_GET
@never_cache
@act_required(READ_RELEASES)
def release_labels(request: HttpRequest, name: str) -> HttpResponse:
    """Every label with what stands behind it."""
    gold_release = get_release_for(person_of(request), name)
    filters = {part: request.GET.get(part, "") for part in FILTERS}
    page = Paginator(list_released_labels(gold_release, filters), PAGE).get_page(request.GET.get("page"))
    context = {
        "release": gold_release,
        "names_people": may(person_of(request), READ_TASKS) and not gold_release.is_borrowed,
        "rows": [label_row(label_source) for label_source in list_label_sources(list(page.object_list))],
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": urlencode({part: value for part, value in filters.items() if value}),
        "filters": list_filters(gold_release, filters),
        "several": len(gold_release.manifest["counts"]["by_level"]) > 1,
    }
    return render(request, "annotation/releases/labels.html", context)


@require_GET
@never_cache
@act_required(READ_RELEASES)
def release_datasheet(request: HttpRequest, name: str) -> HttpResponse:
    """The datasheet in the reader's language; the other one is a link away."""
    gold_release = get_release_for(person_of(request), name)
    language = request.GET.get("language") or get_language() or "en"
    sheet_language = "zh" if language.startswith("zh") else "en"
    context = {
        "release": gold_release,
        "sections": render_datasheet(add_origins(gold_release), sheet_language),
        "language": sheet_language,
        "languages": [(code, LANGUAGE_NAMES[code]) for code in LANGUAGES],
    }
    return render(request, "annotation/releases/datasheet.html", context)


@require_GET
@act_required(READ_RELEASES)
def release_download(request: HttpRequest, name: str, kind: str) -> HttpResponseBase:
    """The gold file, streamed; the manifest; or the datasheet, ``datasheet.en.md``."""
    gold_release, person = get_release_for(person_of(request), name), person_of(request)
    if kind == "manifest.json":
        record_file(actor=person, target=f"release:{name}", file=kind)
        text = json.dumps(add_origins(gold_release), ensure_ascii=False, indent=1, sort_keys=True) + "\n"
        return as_attachment(HttpResponse(text, content_type="application/json"), f"{name}.manifest.json")
    if kind in {f"datasheet.{language}.md" for language in LANGUAGES}:
        record_file(actor=person, target=f"release:{name}", file=kind)
        text = render_markdown(add_origins(gold_release), kind.split(".")[1])
        return as_attachment(
            HttpResponse(text, content_type="text/markdown; charset=utf-8"), f"{name}.{kind}"
        )
    gold_format = get_gold_format(kind.removeprefix("gold."))
    record_direct_download(release=gold_release, file=gold_format.file_name, actor=person)
    lines = (line.encode() for line in export_lines(gold_release, gold_format))
    answer = StreamingHttpResponse(lines, content_type=gold_format.content_type)
    return as_attachment(answer, f"{name}.{gold_format.name}")


def list_tables(release: GoldRelease) -> list[dict[str, Any]]:
    """The counts of the manifest as tables of (word, number, share of all)."""
    counts = order_manifest(release.manifest)["counts"]
    dimensions = dimension_names(release)
    named = [
        (
            "source",
            _("By source"),
            [(GoldLabel.Source(key).label, n) for key, n in counts["by_source"].items()],
        ),
        ("level", _("By level"), count_levels(release, counts["by_level"])),
        (
            "dimension",
            _("By dimension"),
            [(dimensions.get(key, key), n) for key, n in counts["by_dimension"].items()],
        ),
        ("model", _("By model"), counts["by_model"].items()),
        ("language", _("By language"), counts.get("by_language", {}).items()),
    ]
    return [
        {"id": key, "title": title, "rows": [(word, n, format_part(n, release.labels)) for word, n in of]}
        for key, title, of in named
        if of
    ]


def dimension_names(release: GoldRelease) -> dict[str, str]:
    """What the release's guidelines call their dimensions in the reader's language."""
    known = index_dimensions(release.manifest["guidelines"])
    return {name: localize(dimension["label"], get_language() or "en") for name, dimension in known.items()}


def documents_by_criterion(release: GoldRelease) -> dict[str, GuidelineDocument]:
    """By criterion a guideline of the release that asks it."""
    documents = [batch.guideline.document for batch in release.batches.select_related("guideline")]
    return {criterion.name: document for document in reversed(documents) for criterion in document.criteria}


def count_levels(release: GoldRelease, by_level: Mapping[str, Mapping[str, int]]) -> list[tuple[str, int]]:
    """Labels by criterion and level, each in the words of the release's guideline."""
    asking, levels = documents_by_criterion(release), []
    for criterion, counts in by_level.items():
        document = asking[criterion]
        label = criterion_label(document, criterion)
        levels += [
            (f"{label} · {label_text(document, criterion, parse_level(value))}", n)
            for value, n in counts.items()
        ]
    return levels


def list_filters(release: GoldRelease, choices: dict[str, str]) -> list[dict[str, Any]]:
    counts, dimensions = order_manifest(release.manifest)["counts"], dimension_names(release)
    asking = documents_by_criterion(release)
    sources = [(value, label) for value, label in GoldLabel.Source.choices if value in counts["by_source"]]
    options: dict[str, tuple[str, list[tuple[str, Any]]]] = {
        "criterion": (
            _("Criterion"),
            [(name, criterion_label(asking[name], name)) for name in counts["by_level"]],
        ),
        "source": (_("Source"), sources),
        "dimension": (
            _("Dimension"),
            [(name, dimensions.get(name, name)) for name in counts["by_dimension"] if name],
        ),
        "model": (_("Model"), [(name, name) for name in counts["by_model"]]),
    }
    return [
        {"name": name, "label": label, "options": values, "value": choices[name]}
        for name, (label, values) in options.items()
    ]


def describe_answer(document: GuidelineDocument, labels: Mapping[str, Label], criterion: str) -> str:
    """The number alone, since the gold beside it has the level's name; the options of a set in words."""
    label = labels.get(criterion)
    if isinstance(label, str) or document.criterion(criterion).several:
        return label_text(document, criterion, label)
    return format_compact(label)


def label_row(label_sources: LabelSources) -> dict[str, Any]:
    label = label_sources.released
    document = label.task.batch.guideline.document
    return {
        "released": label,
        "criterion": criterion_label(document, label.criterion),
        "gold": label_text(document, label.criterion, label.value),
        "annotations": [
            (
                a.assignment.person.username,
                describe_answer(document, a.labels, label.criterion),
                find_origin(a),
            )
            for a in label_sources.annotations
        ],
        "decided_by": label_sources.decision.assignment.person.username if label_sources.decision else None,
        "decision_origin": find_origin(label_sources.decision) if label_sources.decision else None,
    }
