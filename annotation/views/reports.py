"""The annotation report of batches or of a release: a page, LaTeX and JSON.

The page and LaTeX show the same sections, in the reader's language.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import get_language, gettext_lazy, override
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.documents import DocumentSection, DocumentTable, render_sections
from annotation.core.errors import N_, AssayError
from annotation.core.formatting import UNDEFINED, format_bracketed, format_bracketed_percent
from annotation.core.http import as_attachment
from annotation.core.latex import escape_latex, format_table
from annotation.domain.guidelines.values import NA, order_level
from annotation.domain.permissions import READ_AGREEMENT
from annotation.domain.releases.manifest import index_dimensions
from annotation.domain.releases.origins import count_origins, find_batch_origins, list_import_protocols
from annotation.models import Batch, GoldLabel, Person
from annotation.selectors.access import refuse_sealed_gold
from annotation.selectors.agreement.weights import list_weighings, summarize_weighings
from annotation.selectors.batches import get_batches, list_readable_batches
from annotation.selectors.releases.releases import get_release_for
from annotation.selectors.reports import build_batches_report, build_release_report
from annotation.services.audit import record_file
from annotation.views.access import act_required, person_of

MAX_LEVELS = 6
"""A scale with more levels shows its ends."""
Report = Mapping[str, Any]
Statistic = Mapping[str, Any]
KAPPAS = {
    "cohen_kappa": gettext_lazy("Cohen's kappa"),
    "pairwise_kappa": gettext_lazy("Mean pairwise kappa"),
    "conger_kappa": gettext_lazy("Conger's kappa"),
}
REFERENCES = {
    "cohen_kappa": "Cohen (1960), Educational and Psychological Measurement 20(1), 37–46",
    "conger_kappa": "Conger (1980), Psychological Bulletin 88(2), 322–328",
    "alpha": "Krippendorff (2011), Computing Krippendorff's Alpha-Reliability",
    "gwet_ac1": "Gwet (2008), British Journal of Mathematical and Statistical Psychology 61(1), 29–48",
    "wilson": "Wilson (1927), Journal of the American Statistical Association 22, 209–212",
    "prompts": "Korn & Graubard (1998), Survey Methodology 24(2), 193–201",
}


def render_report(report: Report) -> list[DocumentSection]:
    """In their order on the page; what the report does not know is left out, what is undefined is ``-``."""
    return render_sections("annotation/reports/sections.txt", report_context(report))


def render_notes(report: Report) -> list[str]:
    """How the figures were made."""
    by_prompt = all("prompts" in row for row in report["agreement"] or ())
    return [
        block.text
        for section in render_sections("annotation/reports/notes.txt", {"by_prompt": by_prompt})
        for block in section.blocks
    ]


def list_references() -> list[str]:
    return list(REFERENCES.values())


def report_heading(report: Report) -> str:
    if report["release"]:
        return _("Gold release {name}").format(name=report["release"]["name"])
    return ", ".join(report["batches"])


def report_context(report: Report) -> dict[str, Any]:
    disputes = report["disputes"]
    return {
        "guidelines": [guideline_context(guideline) for guideline in report["guidelines"] or ()],
        "batches": list(list_protocols(report)),
        "files": report["imported"]["files"] if report["imported"] else (),
        "origins": count_origins(report),
        "import_protocols": list(list_protocol_lines(report)),
        "code_version": report["code_version"],
        "people": report["people"],
        "each": report["effort"]["annotations"],
        "seconds": report["effort"]["median_seconds"],
        "agreement": agreement_table(report),
        "weighing": summarize_weighings(list_weighings(report["agreement"] or ())),
        "coverage": report.get("coverage"),
        "disputes": next((row for row in disputes if row["dimension"] is None), None),
        "reasons": [
            reason | {"text": choose_language(reason["words"], reason["reason"])}
            for reason in report["reasons"]
            if reason["reason"]
        ],
        "disputes_by_dimension": disputes_table(report),
        "outcomes": report["outcomes"],
        "gold": gold_context(report),
        "release": report["release"],
    }


def guideline_context(guideline: Mapping[str, Any]) -> dict[str, Any]:
    criteria = guideline.get("criteria", ())
    return {
        "title": choose_language(guideline.get("title"), guideline["name"]),
        "name": guideline["name"],
        "version": guideline["version"],
        "sha256": guideline["sha256"],
        "criteria": [
            {
                "label": choose_language(criterion["label"], criterion["name"]),
                "measurement": measurement_name(criterion["measurement"]),
                "levels": _level_names(criterion["levels"]),
            }
            for criterion in criteria
        ],
    }


def _level_names(levels: Mapping[str, Mapping[str, str] | None]) -> list[str]:
    names = [f"{value} {choose_language(name, '')}".strip() for value, name in levels.items()]
    return [names[0], "…", names[-1]] if len(names) > MAX_LEVELS else names


def measurement_name(name: str) -> str:
    names = {
        "nominal": _("nominal"),
        "ordinal": _("ordinal"),
        "interval": _("interval"),
        "masi": _("sets of options"),
        "text": _("texts"),
    }
    return names.get(name, name)


def list_protocols(report: Report) -> Iterator[dict[str, Any]]:
    """The policy of each batch, and where its labels came from."""
    protocol = report["protocol"] or ()
    for batch in protocol:
        qualifying = batch.get("qualifying")
        yield {
            **batch,
            "term": batch["name"] if len(protocol) > 1 else _("Distribution"),
            "origins": find_batch_origins(batch, report["imported"]),
            "pairing_label": Batch.Pairing(batch["pairing"]).label,
            "qualifying_label": Batch.Qualifying(qualifying).label if qualifying else "",
        }


def list_protocol_lines(report: Report) -> Iterator[dict[str, Any]]:
    """What is recorded of how imported labels were made, each on a line of its own."""
    for protocol in list_import_protocols(report):
        yield {
            "batch": protocol.batch,
            "files": ", ".join(protocol.files),
            "words": " ".join((protocol.words or "").split()),
            "given_there": protocol.given_there,
            "through": ", ".join(protocol.through),
        }


def agreement_table(report: Report) -> DocumentTable | None:
    rows = [
        row for row in report["agreement"] or () if row["n"] and not is_repetition(row, report["agreement"])
    ]
    if not rows:
        return None
    several = len({row["guideline"] for row in rows}) > 1
    levels = list_measurements(report)
    kappas = list_kappas(rows, report)
    head = [
        _("Criterion"),
        _("Units"),
        _("Disputed"),
        _("Percent agreement"),
        *(str(KAPPAS[name]) for name in kappas),
        _("Krippendorff's alpha"),
        _("Gwet's AC1"),
    ]
    cells = [
        [
            row_name(row, report, with_guideline=several),
            str(row["n"]),
            str(row["disputed"]),
            _format_statistic(row["percent_agreement"]),
            *(_format_statistic(find_kappa(row, name, report)) for name in kappas),
            _format_statistic(row[f"alpha_{levels.get((row['guideline'], row['criterion']), 'nominal')}"]),
            _format_statistic(row["gwet_ac1"]),
        ]
        for row in rows
    ]
    return DocumentTable("agreement", _("Agreement between annotators, with 95% intervals"), head, cells)


def list_kappas(rows: Sequence[Mapping[str, Any]], report: Report) -> list[str]:
    """Cohen's where two fixed people judged, and of a pool the mean over pairs of people and Conger's."""
    return [name for name in KAPPAS if any(find_kappa(row, name, report) for row in rows)]


def find_kappa(row: Mapping[str, Any], name: str, report: Report) -> Statistic | None:
    """None where it does not apply. A release of old has Cohen's of the places of a task, whoever took them: it is of
    people only where there were no more than two.
    """
    if name == "cohen_kappa" and "raters" not in row and (report["people"] or {}).get("annotators", 3) > 2:
        return None
    return row.get(name)


def is_repetition(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a group's row says again what the row of its whole criterion says: all units are in this group."""
    overall_row = next(
        (
            other_row
            for other_row in rows
            if not other_row["group"]
            and (other_row["guideline"], other_row["criterion"]) == (row["guideline"], row["criterion"])
        ),
        None,
    )
    return bool(row["group"]) and overall_row is not None and overall_row["n"] == row["n"]


def list_measurements(report: Report) -> dict[tuple[str, str], str]:
    """The measurement of each criterion; the weakest where versions of a guideline differ."""
    order = ("interval", "ordinal", "masi", "nominal", "text")
    measurements: dict[tuple[str, str], str] = {}
    for guideline in report["guidelines"] or ():
        for criterion in guideline.get("criteria", ()):
            key = (guideline["name"], criterion["name"])
            known = measurements.get(key, "interval")
            measurements[key] = max(known, criterion["measurement"], key=order.index)
    return measurements


def row_name(row: Mapping[str, Any], report: Report, *, with_guideline: bool) -> str:
    labels = {
        (guideline["name"], criterion["name"]): choose_language(criterion["label"], criterion["name"])
        for guideline in report["guidelines"] or ()
        for criterion in guideline.get("criteria", ())
    }
    name = row["criterion"]
    parts = [row["guideline"]] if with_guideline else []
    parts.append(
        _("all criteria pooled") if name is None else labels.get((row["guideline"], name), str(name))
    )
    parts += [dimension_name(report, value) for value in row["group"].values()]
    return " · ".join(parts)


def dimension_name(report: Report, name: str | None) -> str:
    """What the guidelines call it; what they do not know, and a release of old, has its bare name."""
    known = index_dimensions(report["guidelines"] or ()).get(name or "")
    return choose_language(known["label"], "") if known else name or UNDEFINED


def disputes_table(report: Report) -> DocumentTable | None:
    rows = [row for row in report["disputes"] if row["dimension"] is not None]
    if not rows:
        return None
    return DocumentTable(
        "disputes",
        _("Disputed responses by dimension"),
        [_("Dimension"), _("Responses"), _("Disputed"), _("Share")],
        [
            [
                dimension_name(report, row["dimension"]),
                str(row["tasks"]),
                str(row["disputed"]),
                _format_share(row["share"]),
            ]
            for row in rows
        ],
    )


def gold_context(report: Report) -> dict[str, Any]:
    gold = report["gold"]
    return {
        "labels": gold["labels"],
        "sources": [f"{GoldLabel.Source(name).label} {count}" for name, count in gold["by_source"].items()],
        "criteria": [
            {
                "label": _criterion_name(report, name),
                "levels": [
                    (_level_word(report, name, value), n)
                    for value, n in sorted(counts.items(), key=lambda item: order_level(item[0]))
                ],
            }
            for name, counts in gold["by_level"].items()
        ],
        "splits": gold["splits"],
    }


def _criterion_name(report: Report, name: str) -> str:
    criterion = _find_criterion(report, name)
    return choose_language(criterion["label"], name) if criterion else name


def _level_word(report: Report, name: str, value: str) -> str:
    """The number of a level, as the scale above names them; the options of a set by their names."""
    criterion = _find_criterion(report, name)
    if value == NA:
        return _("Not applicable")
    if criterion is None or criterion["measurement"] != "masi":
        return value
    options = [
        choose_language(words, option)
        for option, words in criterion["levels"].items()
        if option != NA and int(option) & int(value)
    ]
    return " + ".join(options) or value


def _find_criterion(report: Report, name: str) -> Mapping[str, Any] | None:
    for guideline in report["guidelines"] or ():
        for criterion in guideline.get("criteria", ()):
            if criterion["name"] == name:
                return cast("Mapping[str, Any]", criterion)
    return None


def choose_language(words: Mapping[str, str] | None, otherwise: str) -> str:
    """In the reader's language, else in any that there is."""
    if not words:
        return otherwise
    language = (get_language() or "en").split("-")[0]
    return words.get(language) or words.get("en") or next(iter(words.values()), otherwise) or otherwise


def _format_statistic(statistic: Statistic | None) -> str:
    value, low, high = split_statistic(statistic)
    return format_bracketed(value, low, high)


def _format_share(share: Statistic | None) -> str:
    value, low, high = split_statistic(share)
    return format_bracketed_percent(value, low, high)


def split_statistic(statistic: Statistic | None) -> tuple[float | None, float | None, float | None]:
    return (statistic["value"], statistic["low"], statistic["high"]) if statistic else (None, None, None)


def render_latex(report: Mapping[str, Any], language: str) -> str:
    """A part of a document that uses the package booktabs; for Chinese text the document needs xeCJK or ctex."""
    with override(language):
        parts = [
            "% \\usepackage{booktabs}" + ("  % \\usepackage{ctex}" if language.startswith("zh") else ""),
            rf"\section*{{{escape_latex(_('Annotation report: {name}').format(name=report_heading(report)))}}}",
            *(latex_section(section) for section in render_report(report)),
            rf"\paragraph{{{escape_latex(_('Notes'))}}} {escape_latex(' '.join(render_notes(report)))}",
            rf"\paragraph{{{escape_latex(_('References'))}}} {escape_latex('; '.join(list_references()))}.",
        ]
        return "\n\n".join(parts) + "\n"


def latex_section(section: DocumentSection) -> str:
    facts = " ".join(
        f"\\emph{{{escape_latex(fact.term)}}}: {end_sentence(escape_latex(fact.text))}"
        for fact in section.facts
    )
    paragraph = [rf"\paragraph{{{escape_latex(section.title)}}} {facts}".rstrip()] if facts else []
    return "\n\n".join([*paragraph, *([latex_table(section.table)] if section.table else [])])


def end_sentence(text: str) -> str:
    return text if text.endswith((".", "。")) else f"{text}."


def latex_table(source: DocumentTable) -> str:
    numbers = len(source.head) - source.words
    return format_table(
        columns="l" * source.words + "r" * numbers,
        head=source.head,
        rows=source.rows,
        caption=source.caption,
        label=f"tab:{source.name}",
    ).rstrip("\n")


FORMATS = ("html", "json", "latex")


@require_GET
@never_cache
@act_required(READ_AGREEMENT)
def report(request: HttpRequest) -> HttpResponseBase:
    """``?batch=..`` (once or more) or ``?release=..``, and ``&format=json`` or ``latex``; without any, a choice."""
    person = person_of(request)
    batches, release = request.GET.getlist("batch"), request.GET.get("release", "")
    kind = request.GET.get("format", "html")
    if kind not in FORMATS:
        raise AssayError(
            N_("{value} cannot be chosen here; choose one of: {known}."), value=kind, known=", ".join(FORMATS)
        )
    if not batches and not release:
        return render(request, "annotation/reports/choose.html", {"batches": list_reportable_batches(person)})
    content = build_report(person, batches, release)
    if kind != "html":
        file = "report.json" if kind == "json" else "report.tex"
        target = f"release:{release}" if release else "page:report"
        record_file(actor=person, target=target, file=file)
    if kind == "json":
        return as_attachment(
            HttpResponse(render_json(content), content_type="application/json"), "report.json"
        )
    if kind == "latex":
        text = render_latex(content, get_language() or "en")
        return as_attachment(
            HttpResponse(text, content_type="application/x-tex; charset=utf-8"), "report.tex"
        )
    context = {
        "heading": report_heading(content),
        "release": release,
        "sections": render_report(content),
        "notes": render_notes(content),
        "references": list_references(),
        "links": {name: report_url(batches, release, name) for name in FORMATS[1:]},
    }
    return render(request, "annotation/reports/page.html", context)


def render_json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, ensure_ascii=False, indent=1) + "\n"


def build_report(person: Person, batches: Sequence[str], release: str) -> dict[str, Any]:
    if release:
        return build_release_report(get_release_for(person, release))
    chosen_batches = get_batches(batches)
    refuse_sealed_gold(person, chosen_batches)
    return build_batches_report(chosen_batches)


def list_reportable_batches(person: Person) -> Sequence[Batch]:
    """Those whose report the person may open."""
    return list(list_readable_batches(person).exclude(state=Batch.State.DRAFT).order_by("name"))


def report_url(batches: Sequence[str], release: str, kind: str) -> str:
    parameters = {"release": release} if release else {"batch": list(batches)}
    return reverse("report") + "?" + urlencode({**parameters, "format": kind}, doseq=True)
