"""A release's datasheet in English and in Chinese: its sentences stand in templates, its tables are made here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, override, pgettext, pgettext_lazy

from annotation.core.documents import DocumentSection, render_sections
from annotation.core.formatting import (
    UNDEFINED,
    format_bracketed,
    format_compact,
    format_grouped,
    format_part,
)
from annotation.domain.releases.datasheet import (
    TASK_STATES,
    BatchPolicy,
    GuidelineTexts,
    Manifest,
    Statistic,
    count_left_out,
    count_settled,
    list_agreement,
    list_files,
    list_levels,
    list_policies,
    list_same_texts,
    list_subcomponents,
)
from annotation.domain.releases.manifest import order_manifest
from annotation.domain.releases.origins import LabelOrigins, count_origins, list_import_protocols
from annotation.domain.releases.selection import describe_selection
from annotation.selectors.agreement.weights import list_weighings, summarize_weighings

LANGUAGES = {"en": "en", "zh": "zh-hans"}
"""The datasheet's languages, with the translation that each of them takes."""
SECTIONS = "annotation/releases/datasheet_sections.txt"
MARKDOWN = "annotation/releases/datasheet_markdown.txt"
SAME_TEXT = "annotation/releases/_same_text.txt"

SOURCE_LABELS: Mapping[str, str | Promise] = {
    "single": gettext_lazy("one annotator"),
    "unanimous": gettext_lazy("all annotators alike"),
    "within_tolerance": gettext_lazy("annotators within the tolerance: the lower median"),
    "majority": gettext_lazy("the majority of the annotators"),
    "median": gettext_lazy("the median of the annotators"),
    "aggregated": gettext_lazy("a model of all labels"),
    "adjudicated": pgettext_lazy("datasheet", "adjudicator"),
    "expert": pgettext_lazy("datasheet", "expert"),
}
SPLIT_LABELS: Mapping[str, str | Promise] = {
    "train": pgettext_lazy("split", "training"),
    "validation": pgettext_lazy("split", "validation"),
    "test": pgettext_lazy("split", "test"),
}
PAIRING_LABELS: Mapping[str, str | Promise] = {
    "pool": gettext_lazy("anybody of the pool"),
    "fixed": gettext_lazy("named pairs"),
    "balanced": gettext_lazy("every pair as often"),
}
CHANNEL_LABELS: Mapping[str, str | Promise] = {
    "page": pgettext_lazy("channel", "page"),
    "token": pgettext_lazy("channel", "token"),
    "unknown": gettext_lazy("page or token"),
    # Of a manifest that does not tell the channels of what was not imported.
    "here": gettext_lazy("page or token"),
    "import": pgettext_lazy("channel", "import"),
}
STATE_LABELS: Mapping[str, str | Promise] = {
    "agreed": gettext_lazy("Agreed"),
    "adjudicated": gettext_lazy("Adjudicated"),
    "disputed": gettext_lazy("Disputed still"),
    "open": pgettext_lazy("datasheet", "Open"),
    "withdrawn": gettext_lazy("Withdrawn"),
}


@dataclass(frozen=True)
class SheetTable:
    """A table of the datasheet. ``numbers`` are the places of the columns that hold numbers."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[int] = frozenset()


def render_markdown(manifest: Manifest, language: str) -> str:
    """The datasheet as Markdown, with a line feed at its end. ``language`` is ``en``, ``zh`` or a kind of these."""
    context = {"manifest": manifest, "sections": render_datasheet(manifest, language)}
    with override(_translation(language)):
        return render_to_string(MARKDOWN, context).rstrip("\n") + "\n"


def render_datasheet(manifest: Manifest, language: str) -> list[DocumentSection]:
    """Each question with its answers, in the order in which they are asked."""
    with override(_translation(language)):
        return render_sections(
            SECTIONS, _context(order_manifest(manifest), GuidelineTexts(manifest, language))
        )


def render_warnings(manifest: Manifest) -> list[str]:
    """What whoever uses the release should mind, in the active language."""
    return [
        render_to_string(SAME_TEXT, {"warning": warning}).strip() for warning in list_same_texts(manifest)
    ]


def splits_table(manifest: Manifest) -> SheetTable | None:
    """In the active language, like the other tables."""
    if "splits" not in manifest:
        return None
    rows = [
        (
            f"{SPLIT_LABELS[split]} ({split})",
            *(format_grouped(count[kind]) for kind in ("prompts", "rows", "labels")),
        )
        for split, count in order_manifest(manifest)["splits"].items()
    ]
    head = (_("Split"), _("Prompts"), _("Responses"), _label_count())
    return SheetTable(_("Splits by prompt"), head, rows, frozenset({1, 2, 3}))


def files_table(manifest: Manifest) -> SheetTable | None:
    rows = [
        (
            file["file"],
            file["format"],
            file["sha256"][:16],
            file["batch"],
            *(format_grouped(file[kind]) for kind in ("annotations", "adjudications")),
        )
        for file in list_files(manifest)
    ]
    head = (
        _("File"),
        _("Format"),
        "sha256",
        _("Batch"),
        pgettext("datasheet", "Annotations"),
        pgettext("datasheet", "Decisions"),
    )
    return SheetTable(_("Imported labels"), head, rows, frozenset({4, 5})) if rows else None


def agreement_table(manifest: Manifest, texts: GuidelineTexts) -> SheetTable | None:
    if not manifest.get("agreement"):
        return None
    rows = [
        (
            figures.guideline,
            _("all together") if figures.criterion is None else texts.criterion(figures.criterion),
            _list_names(texts.dimension(name) or UNDEFINED for name in figures.group) or _("all"),
            format_grouped(figures.tasks),
            format_grouped(figures.disputed),
            *map(format_statistic, figures.statistics),
        )
        for figures in list_agreement(manifest, texts)
    ]
    head = (
        _("Guideline"),
        _("Criterion"),
        _("Of"),
        _("Tasks"),
        _("Disputed"),
        pgettext("datasheet", "Agreement"),
        pgettext("datasheet", "Krippendorff's alpha"),
        pgettext("datasheet", "Gwet's AC1"),
    )
    return SheetTable(_("Agreement of the annotators"), head, rows, frozenset(range(3, 8)))


def format_statistic(statistic: Statistic | None) -> str:
    """``0.743 [0.690, 0.790]``; “-” where it is undefined."""
    if not statistic:
        return UNDEFINED
    return format_bracketed(statistic["value"], statistic["low"], statistic["high"])


def _translation(language: str) -> str:
    return LANGUAGES["zh" if language.lower().startswith("zh") else "en"]


def _context(manifest: Manifest, texts: GuidelineTexts) -> dict[str, Any]:
    counts, protocol = manifest["counts"], manifest.get("protocol")
    return {
        "manifest": manifest,
        "counts": counts,
        "guidelines": _list_names(
            f"{texts.guideline(guideline)} ({guideline['name']}@{guideline['version']})"
            for guideline in manifest["guidelines"]
        ),
        "datasets": _list_names(manifest["datasets"]),
        "batches": _list_names(manifest["batches"]),
        "compositions": list(_composition_tables(manifest, texts)),
        "same_texts": list_same_texts(manifest),
        "selection": describe_selection(manifest.get("selection")),
        "origins": count_origins(manifest),
        "import_protocols": [
            {
                "batch": paragraph.batch,
                "files": _list_names(paragraph.files),
                "words": paragraph.words,
                "given_there": paragraph.given_there,
                "through": _list_names(paragraph.through),
            }
            for paragraph in list_import_protocols(manifest)
        ],
        "settled": count_settled(manifest),
        "left_out": count_left_out(manifest),
        "files": files_table(manifest),
        "policies": _policies_table(manifest) if protocol else None,
        "work": _work_table(protocol) if protocol else None,
        "languages": _languages_table(manifest.get("people") or {}),
        "agreement": agreement_table(manifest, texts),
        "weighing": summarize_weighings(list_weighings(manifest.get("agreement") or ())),
        "knows_weighing": all("weighed" in row for row in manifest.get("agreement") or ()),
        "coverage": _coverage_table(manifest.get("coverage")),
        "agreement_by_prompt": all("prompts" in row for row in manifest.get("agreement") or ()),
        "adjudicated_percent": format_part(counts["adjudicated"], counts["labels"]),
        "reasons": _reasons_table(manifest, texts),
    }


def _composition_tables(manifest: Manifest, texts: GuidelineTexts) -> Iterator[SheetTable | None]:
    yield _levels_table(manifest, texts)
    yield _shares_table(_("Dimension"), manifest, "by_dimension", texts.dimension)
    yield _shares_table(_("Model"), manifest, "by_model")
    yield _shares_table(_("Language"), manifest, "by_language")
    yield _subcomponents_table(manifest, texts)
    sources = {source: str(label) for source, label in SOURCE_LABELS.items()}
    yield _shares_table(
        _("Where the label comes from"), manifest, "by_source", lambda source: sources.get(source, source)
    )
    yield splits_table(manifest)


def _levels_table(manifest: Manifest, texts: GuidelineTexts) -> SheetTable:
    rows = [
        (texts.criterion(criterion), texts.level(criterion, value), format_grouped(count))
        for criterion, value, count in list_levels(manifest)
    ]
    head = (_("Criterion"), _("Level"), _label_count())
    return SheetTable(_("Labels by criterion and level"), head, rows, frozenset({2}))


def _shares_table(
    title: str, manifest: Manifest, key: str, label: Callable[[str], str] = str
) -> SheetTable | None:
    counts = manifest["counts"]
    rows = [
        (label(name) or UNDEFINED, format_grouped(count), format_part(count, counts["labels"]))
        for name, count in counts.get(key, {}).items()
    ]
    return SheetTable(title, (title, _label_count(), "%"), rows, frozenset({1, 2})) if rows else None


def _subcomponents_table(manifest: Manifest, texts: GuidelineTexts) -> SheetTable | None:
    rows = [
        (
            texts.dimension(dimension) or UNDEFINED,
            texts.subcomponent(dimension, part) or UNDEFINED,
            format_grouped(count),
        )
        for dimension, part, count in list_subcomponents(manifest)
    ]
    head = (_("Dimension"), _("Subcomponent"), _label_count())
    return SheetTable(_("Subcomponent"), head, rows, frozenset({2})) if rows else None


def _policies_table(manifest: Manifest) -> SheetTable:
    rows = [
        (
            policy.batch,
            policy.guideline,
            str(policy.overlap),
            _pairing_label(policy),
            format_compact(policy.tolerance),
            _format_channels(policy.origins),
            _format_days(policy.origins),
        )
        for policy in list_policies(manifest)
    ]
    head = (
        _("Batch"),
        _("Guideline"),
        _("Annotators for each response"),
        pgettext("datasheet", "Pairing"),
        _("Tolerance"),
        _("Labels and decisions by channel"),
        pgettext("datasheet", "Submitted here"),
    )
    return SheetTable(_("Policy of the batches"), head, rows, frozenset({2, 4}))


def _pairing_label(policy: BatchPolicy) -> str:
    if policy.pairing is None:
        return UNDEFINED
    return str(PAIRING_LABELS.get(policy.pairing, policy.pairing))


def _format_channels(origins: LabelOrigins) -> str:
    """“page 120, import 40”: every channel by which something came."""
    if origins.imported is None or origins.imported_decisions is None:
        return UNDEFINED
    counts: dict[str, int] = dict(origins.channels or {})
    counts["import"] = origins.imported + origins.imported_decisions
    if origins.channels is None and origins.given_here:
        counts["here"] = origins.given_here
    names = [
        f"{CHANNEL_LABELS[channel]} {format_grouped(counts[channel])}"
        for channel in CHANNEL_LABELS
        if counts.get(channel)
    ]
    return _list_names(names) or UNDEFINED


def _format_days(origins: LabelOrigins) -> str:
    first, last = origins.first_day, origins.last_day
    if first is None or last is None:
        return UNDEFINED
    return first if first == last else f"{first} – {last}"


def _work_table(protocol: Sequence[Mapping[str, Any]]) -> SheetTable:
    rows = [
        (
            batch["name"],
            *(format_grouped(batch["tasks"][state]) for state in TASK_STATES),
            *(format_grouped(batch[kind]) for kind in ("annotations", "annotators", "adjudicators")),
        )
        for batch in protocol
    ]
    head = (
        _("Batch"),
        *(str(STATE_LABELS[state]) for state in TASK_STATES),
        pgettext("datasheet", "Annotations"),
        _("Annotators"),
        _("Adjudicators"),
    )
    title = _("Tasks by state when the release was cut")
    return SheetTable(title, head, rows, frozenset(range(1, len(head))))


def _coverage_table(coverage: Mapping[str, Any] | None) -> SheetTable | None:
    if not coverage:
        return None
    head = (_("Labels"), _("Responses"))
    rows = [(labels, format_grouped(items)) for labels, items in coverage["items_by_labels"].items()]
    return SheetTable(_("Labels per response"), head, rows, frozenset({0, 1}))


def _languages_table(people: Mapping[str, Any]) -> SheetTable | None:
    if not people.get("languages"):
        return None
    rows = [(name, format_grouped(count)) for name, count in people["languages"].items()]
    if people["languages_unknown"]:
        rows.append((_("not recorded"), format_grouped(people["languages_unknown"])))
    head = (_("Language"), _("Annotators"))
    return SheetTable(_("Languages of the annotators"), head, rows, frozenset({1}))


def _reasons_table(manifest: Manifest, texts: GuidelineTexts) -> SheetTable | None:
    rows = [
        (
            texts.choose(reason["words"], reason["reason"] or _("not recorded")),
            format_grouped(reason["decisions"]),
        )
        for reason in manifest.get("adjudication_reasons") or ()
    ]
    head = (_("Why the annotators differed"), pgettext("datasheet", "Decisions"))
    return SheetTable(_("Reasons of the adjudicators"), head, rows, frozenset({1})) if rows else None


def _label_count() -> str:
    return pgettext("datasheet", "Labels")


def _list_names(names: Iterable[str]) -> str:
    return _(", ").join(names)
