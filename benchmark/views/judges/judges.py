"""The pages of judges: which there are, how they are asked, what they said, and how good they are."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from annotation.core.error_messages import error_text
from annotation.core.errors import N_, AssayError, NotFound
from annotation.core.http import parse_int
from annotation.domain.guidelines import GuidelineDocument
from annotation.domain.guidelines.comparison import text_pieces
from annotation.domain.permissions import ASK_JUDGES, READ_JUDGES
from annotation.forms.lists import ListColumns
from annotation.models import Guideline, Response
from annotation.selectors.guidelines import criterion_label, get_guideline, label_text
from annotation.selectors.releases.releases import get_release_for
from annotation.views.access import act_required, may, person_of
from annotation.views.lists import build_archive_view, build_title_view, narrow_by_request
from benchmark.domain.judges.alternative_annotator import EPSILON
from benchmark.domain.judges.prompts import (
    build_messages,
    check_template,
    get_default_language,
    get_default_system,
    get_default_text,
)
from benchmark.forms.judges import AskForm, NewJudgeForm, TemplateForm
from benchmark.models import Judge, JudgeRun, JudgeTemplate
from benchmark.selectors.judges import comparison as comparison_selectors
from benchmark.selectors.judges.comparison import (
    MAX_SCORERS,
    ComparisonRequest,
    find_stored_comparison,
    list_judges,
    list_scorers,
)
from benchmark.selectors.judges.gold import ReleaseComparison
from benchmark.selectors.judges.judges import (
    JudgeRow,
    count_judge_levels,
    find_latest_template,
    find_sample_response,
    get_open_judge,
    get_template,
    list_comparable_releases,
    list_judge_rows,
    list_off_scale,
    list_templates,
)
from benchmark.selectors.leaderboards.runs import list_open_scorers
from benchmark.services.judges.comparison import start_comparison
from benchmark.services.judges.judges import (
    create_judge,
    refuse_unlisted_endpoint,
    resume_judging,
    save_template,
    start_judging,
)
from benchmark.views.judges.comparison import comparison_context
from scoring.models import Scorer
from scoring.selectors.training import response_text

EPSILONS = {"0.1": 0.1, "0.15": 0.15, "0.2": 0.2}
MAX_ROWS = 20


@require_GET
@act_required(READ_JUDGES)
def judges(request: HttpRequest) -> HttpResponse:
    """A page of judges by guideline, and with the first of them the guidelines whose releases have none yet."""
    person = person_of(request)
    columns = ListColumns(guideline="guideline__name")
    narrowed = narrow_by_request(request, Judge.objects.all(), columns)
    releases = list_comparable_releases(person)
    by_guideline: dict[str, list[JudgeRow]] = {}
    for row in list_judge_rows(person, narrowed.rows):
        by_guideline.setdefault(row.judge.guideline.name, []).append(row)
    is_whole = narrowed.context["query"] == "" and narrowed.context["page"].number == 1
    groups = [
        {"guideline": name, "judges": by_guideline.get(name, []), "releases": releases.get(name, [])}
        for name in sorted({*by_guideline, *(releases if is_whole else ())})
    ]
    context = {**narrowed.context, "groups": groups, "any": Judge.objects.exists()}
    return render(request, "benchmark/judges/list.html", context)


archive_judge = build_archive_view("benchmark.Judge", ASK_JUDGES, "judges")
title_judge = build_title_view("benchmark.Judge", ASK_JUDGES, "judges")


@require_http_methods(["GET", "POST"])
@act_required(ASK_JUDGES)
def new_judge(request: HttpRequest) -> HttpResponse:
    form = NewJudgeForm(request.POST or None)
    made = None
    if request.method == "POST" and form.is_valid():
        try:
            made = create_judge(actor=person_of(request), **form.judge)
        except AssayError as error:
            form.add_error(None, error_text(error))
    if made is not None:
        return redirect("judge", made.name)
    context = {"form": form, "endpoints": settings.ASSAY_ENDPOINTS, "crumbs": _crumbs(_("New judge"))}
    return render(request, "benchmark/judges/new.html", context, status=400 if form.is_bound else 200)


@require_GET
@act_required(READ_JUDGES)
def judge(request: HttpRequest, name: str) -> HttpResponse:
    return _render_judge(request, get_open_judge(person_of(request), name))


def _render_judge(request: HttpRequest, found_judge: Judge, form: AskForm | None = None) -> HttpResponse:
    person = person_of(request)
    document = found_judge.guideline.document
    is_listed = found_judge.endpoint in settings.ASSAY_ENDPOINTS.values()
    label_counts: list[dict[str, Any]] = [
        {
            "criterion": criterion_label(document, count.criterion),
            "level": None if count.value is None else label_text(document, count.criterion, count.value),
            "n": count.n,
        }
        for count in count_judge_levels(found_judge)
    ]
    judgings = found_judge.judgings.select_related("dataset", "collection", "job", "created_by")
    context = {
        "judge": found_judge,
        "crumbs": _crumbs(found_judge.name),
        "label_counts": label_counts,
        "off_scale": [
            (label, criterion_label(document, label.criterion))
            for label in list_off_scale(found_judge, MAX_ROWS)
        ],
        "judgings": [
            {
                "judging": judging,
                "failures": _failures(judging, document),
                "models": judging.evaluated_models.count(),
            }
            for judging in judgings.all()[:MAX_ROWS]
        ],
        "sources": [line.partition("  ")[::2] for line in found_judge.source.splitlines()],
        "is_listed": is_listed,
        "may_ask": may(person, ASK_JUDGES) and found_judge.kind == Judge.Kind.ENDPOINT and is_listed,
        "form": form or AskForm(person=person),
    }
    return render(request, "benchmark/judges/one.html", context, status=400 if form else 200)


def _failures(judging: JudgeRun, document: GuidelineDocument) -> list[dict[str, Any]]:
    """The last ones, with the prompt and the model of each."""
    last = judging.failures[-MAX_ROWS:]
    responses = Response.objects.select_related("prompt", "model").in_bulk(
        [failure["response"] for failure in last]
    )
    return [
        {
            **failure,
            "response": responses[failure["response"]],
            "label": criterion_label(document, failure["criterion"]),
        }
        for failure in last
        if failure["response"] in responses
    ]


@require_POST
@act_required(ASK_JUDGES)
def ask(request: HttpRequest, name: str) -> HttpResponse:
    """Ask about the responses to a dataset, in a job."""
    person = person_of(request)
    judge = get_open_judge(person, name)
    form = AskForm(request.POST, person=person)
    if form.is_valid():
        try:
            refuse_unlisted_endpoint(judge, settings.ASSAY_ENDPOINTS)
            start_judging(judge=judge, actor=person, **form.cleaned_data)
        except AssayError as error:
            form.add_error(None, error_text(error))
    return redirect("judge", judge.name) if form.is_valid() else _render_judge(request, judge, form)


@require_POST
@act_required(ASK_JUDGES)
def resume(request: HttpRequest, judging_id: int) -> HttpResponse:
    """What was not answered is asked again."""
    person = person_of(request)
    judging = JudgeRun.objects.select_related("judge").filter(pk=parse_int(str(judging_id)) or 0).first()
    if judging is None:
        raise NotFound(N_("There is no such judge run."))
    get_open_judge(person, judging.judge.name)
    refuse_unlisted_endpoint(judging.judge, settings.ASSAY_ENDPOINTS)
    resume_judging(judging, actor=person)
    return redirect("judge", judging.judge.name)


@require_GET
@act_required(READ_JUDGES)
def template(request: HttpRequest, name: str) -> HttpResponse:
    """The versions of a guideline's template, what each changed, and one of them on a sample response."""
    guideline = get_guideline(name)
    number = parse_int(request.GET.get("version", ""))
    current_template = get_template(name, number) if number is not None else find_latest_template(name)
    return _template_page(
        request,
        guideline,
        current_template,
        TemplateForm(initial=_template_texts(guideline, current_template)),
    )


@require_POST
@act_required(ASK_JUDGES)
def save(request: HttpRequest, name: str) -> HttpResponse:
    """Save the next version; or show the form's texts on a sample response, and save nothing."""
    guideline = get_guideline(name)
    form = TemplateForm(request.POST)
    texts = {part: request.POST.get(part, "").replace("\r\n", "\n") for part in ("system", "text")}
    if form.is_valid():
        try:
            check_template(texts["system"], texts["text"])
            if "preview" not in request.POST:
                made = save_template(
                    guideline=guideline, note=form.cleaned_data["note"], actor=person_of(request), **texts
                )
                return redirect(f"{reverse('judge-template', args=[name])}?version={made.number}")
        except AssayError as error:
            form.add_error(None, error_text(error))
    is_sound = form.is_valid()
    return _template_page(
        request,
        guideline,
        find_latest_template(name),
        form,
        preview=texts if is_sound else None,
        status=200 if is_sound else 400,
    )


def _template_page(
    request: HttpRequest,
    guideline: Guideline,
    current_template: JudgeTemplate | None,
    form: TemplateForm,
    *,
    preview: dict[str, str] | None = None,
    status: int = 200,
) -> HttpResponse:
    versions = list_templates(guideline.name)
    texts = preview or _template_texts(guideline, current_template)
    context = {
        "guideline": guideline,
        "crumbs": _crumbs(_("Template of {guideline}").format(guideline=guideline.name)),
        "versions": versions,
        "chosen": current_template,
        "before": (before := _find_previous(versions, current_template)),
        "changes": _changes(before, current_template),
        "form": form,
        "is_preview": preview is not None,
        "shown": texts,
        "preview": _preview(request, guideline, texts),
    }
    return render(request, "benchmark/judges/template.html", context, status=status)


def _template_texts(guideline: Guideline, current_template: JudgeTemplate | None) -> dict[str, str]:
    """Of a version; where there is none yet, of the template made from the guideline."""
    if current_template is not None:
        return {"system": current_template.system, "text": current_template.text}
    language = get_default_language(guideline.document)
    return {"system": get_default_system(language), "text": get_default_text(language)}


def _find_previous(
    versions: list[JudgeTemplate], current_template: JudgeTemplate | None
) -> JudgeTemplate | None:
    return next(
        (
            version
            for version in versions
            if current_template is not None and version.number < current_template.number
        ),
        None,
    )


def _changes(before: JudgeTemplate | None, current_template: JudgeTemplate | None) -> list[dict[str, Any]]:
    """What differs from the version before, part by part."""
    if before is None or current_template is None:
        return []
    parts = [
        (_("System prompt"), before.system, current_template.system),
        (_("Text"), before.text, current_template.text),
    ]
    return [{"label": label, "pieces": text_pieces(old, new)} for label, old, new in parts if old != new]


def _preview(request: HttpRequest, guideline: Guideline, texts: dict[str, str]) -> list[dict[str, str]]:
    """The messages of a sample response; nothing where there is none that the person may read."""
    sample = find_sample_response(person_of(request), guideline)
    if sample is None:
        return []
    document = guideline.document
    criteria = document.countable_at(sample.prompt.dimension or None, sample.prompt.subcomponent)
    if not criteria:
        return []
    return list(
        build_messages(
            texts["system"],
            texts["text"],
            document=document,
            criterion=criteria[0].at_subcomponent(sample.prompt.subcomponent),
            prompt=sample.prompt.text,
            response=response_text(sample.text, sample.turns),
        )
    )


@require_http_methods(["GET", "POST"])
@act_required(READ_JUDGES)
def compare(request: HttpRequest, name: str) -> HttpResponse:
    """Scorers, judges and people beside each other on a gold release; POST has a job compare on a large one."""
    person = person_of(request)
    release = get_release_for(person, name)
    ground = ReleaseComparison(release)
    known_judges = list_judges(ground.guideline.name)
    open_to = set(list_open_scorers(person).values_list("pk", flat=True))
    all_scorers = list_scorers(ground)
    known_scorers = [scorer for scorer in all_scorers if scorer.pk in open_to]
    selected = request.GET.getlist("candidate")
    chosen_judges: list[Judge] = [judge for judge in known_judges if f"judge:{judge.name}" in selected]
    chosen_scorers: list[Scorer] = [scorer for scorer in known_scorers if f"scorer:{scorer.name}" in selected]
    epsilon = request.GET.get("epsilon", "")
    # The same for all who may see all, also once there is another scorer: what is kept is then stale, not gone.
    usual_scorers = None if known_scorers == all_scorers else known_scorers[:MAX_SCORERS]
    comparison_request = ComparisonRequest(
        release,
        judges=chosen_judges if selected else None,
        scorers=chosen_scorers if selected else usual_scorers,
        common=request.GET.get("common") == "1",
        epsilon=EPSILONS.get(epsilon, EPSILON),
    )
    is_large = release.labels > comparison_selectors.MAX_LABELS_AT_ONCE
    if request.method == "POST":
        if is_large:
            start_comparison(comparison_request, actor=person)
        return redirect(request.get_full_path())
    stored = find_stored_comparison(comparison_request) if is_large else None
    document = comparison_request.build_cached() if stored is None else stored.content
    candidates = (
        set(selected)
        if document is None
        else {f"{candidate['kind']}:{candidate['name']}" for candidate in document["candidates"]}
    )
    choices = [
        *(
            {"value": f"scorer:{scorer.name}", "label": scorer.name, "kind": _("scorer")}
            for scorer in known_scorers
        ),
        *(
            {"value": f"judge:{judge.name}", "label": judge.name, "kind": _("judge")}
            for judge in known_judges
        ),
    ]
    context = {
        "release": release,
        "crumbs": _crumbs(_("Compared on {release}").format(release=release.name)),
        "choices": [{**choice, "selected": choice["value"] in candidates} for choice in choices],
        "epsilons": list(EPSILONS),
        "epsilon": epsilon if epsilon in EPSILONS else f"{EPSILON:g}",
        "stored": stored,
        "guideline": ground.guideline,
        **({} if document is None else comparison_context(document, ground.guideline.document)),
    }
    return render(request, "benchmark/judges/comparison.html", context)


def _crumbs(label: str) -> list[dict[str, str]]:
    return [
        {"label": _("Boards"), "url": reverse("runs")},
        {"label": _("Judges"), "url": reverse("judges")},
        {"label": label, "url": ""},
    ]
