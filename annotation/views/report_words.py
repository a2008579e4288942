"""The report in the words of its reader's language: the same sections for the page and for LaTeX."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.utils.translation import get_language
from django.utils.translation import gettext as _

from annotation.core.documents import Section, Table, render_sections
from annotation.core.formatting import UNDEFINED, format_bracketed, format_bracketed_percent
from annotation.declared import dimensions_of, imported_into
from annotation.models import Batch, GoldLabel

MAX_LEVELS = 6
"""A scale with more levels shows its ends."""
Report = Mapping[str, Any]
Statistic = Mapping[str, float | None]
REFERENCES = {
    "cohen_kappa": "Cohen (1960), Educational and Psychological Measurement 20(1), 37–46",
    "alpha": "Krippendorff (2011), Computing Krippendorff's Alpha-Reliability",
    "gwet_ac1": "Gwet (2008), British Journal of Mathematical and Statistical Psychology 61(1), 29–48",
    "wilson": "Wilson (1927), Journal of the American Statistical Association 22, 209–212",
    "bootstrap": "Efron & Tibshirani (1993), An Introduction to the Bootstrap",
}


def render_report(report: Report) -> list[Section]:
    """In their order on the page; what the report does not know is left out, what is undefined is ``-``."""
    return render_sections("annotation/report/sections.txt", _context(report))


def render_notes() -> list[str]:
    """How the figures were made."""
    return [
        block.text
        for section in render_sections("annotation/report/notes.txt", {})
        for block in section.blocks
    ]


def references() -> list[str]:
    return list(REFERENCES.values())


def heading(report: Report) -> str:
    if report["release"]:
        return _("Gold release {name}").format(name=report["release"]["name"])
    return ", ".join(report["batches"])


def _context(report: Report) -> dict[str, Any]:
    disputes = report["disputes"]
    return {
        "guidelines": [_guideline(guideline) for guideline in report["guidelines"] or ()],
        "batches": list(_batches(report)),
        "files": report["imported"]["files"] if report["imported"] else (),
        "code_version": report["code_version"],
        "people": report["people"],
        "each": report["effort"]["annotations"],
        "seconds": report["effort"]["median_seconds"],
        "agreement": _agreement(report),
        "disputes": next((row for row in disputes if row["dimension"] is None), None),
        "reasons": [
            reason | {"text": _choose(reason["words"], reason["reason"])}
            for reason in report["reasons"]
            if reason["reason"]
        ],
        "disputes_by_dimension": _by_dimension(report),
        "outcomes": report["outcomes"],
        "gold": _gold(report),
        "release": report["release"],
    }


def _guideline(guideline: Mapping[str, Any]) -> dict[str, Any]:
    criteria = guideline.get("criteria", ())
    return {
        "title": _choose(guideline.get("title"), guideline["name"]),
        "name": guideline["name"],
        "version": guideline["version"],
        "sha256": guideline["sha256"],
        "criteria": [
            {
                "label": _choose(criterion["label"], criterion["name"]),
                "measurement": _measurement(criterion["measurement"]),
                "levels": _level_names(criterion["levels"]),
            }
            for criterion in criteria
        ],
    }


def _level_names(levels: Mapping[str, Mapping[str, str] | None]) -> list[str]:
    names = [f"{value} {_choose(name, '')}".strip() for value, name in levels.items()]
    return [names[0], "…", names[-1]] if len(names) > MAX_LEVELS else names


def _measurement(name: str) -> str:
    return {"nominal": _("nominal"), "ordinal": _("ordinal"), "interval": _("interval")}.get(name, name)


def _batches(report: Report) -> Iterator[dict[str, Any]]:
    """The protocol of each batch. How people worked is known of those alone that were not imported whole."""
    protocol = report["protocol"] or ()
    for batch in protocol:
        imported, qualifying = imported_into(batch["name"], report["imported"]), batch.get("qualifying")
        yield {
            **batch,
            "term": batch["name"] if len(protocol) > 1 else _("Distribution"),
            "imported": imported,
            "given": batch["annotations"] - imported,
            "annotated_here": not imported or imported < batch["annotations"],
            "pairing_label": Batch.Pairing(batch["pairing"]).label,
            "qualifying_label": Batch.Qualifying(qualifying).label if qualifying else "",
        }


def _agreement(report: Report) -> Table | None:
    rows = [row for row in report["agreement"] or () if row["n"] and not _repeats(row, report["agreement"])]
    if not rows:
        return None
    several = len({row["guideline"] for row in rows}) > 1
    levels = _levels(report)
    head = [
        _("Criterion"),
        _("Units"),
        _("Disputed"),
        _("Percent agreement"),
        _("Cohen's kappa"),
        _("Krippendorff's alpha"),
        _("Gwet's AC1"),
    ]
    cells = [
        [
            _called(row, report, with_guideline=several),
            str(row["n"]),
            str(row["disputed"]),
            _format_statistic(row["percent_agreement"]),
            _format_statistic(row["cohen_kappa"]),
            _format_statistic(row[f"alpha_{levels.get((row['guideline'], row['criterion']), 'nominal')}"]),
            _format_statistic(row["gwet_ac1"]),
        ]
        for row in rows
    ]
    return Table("agreement", _("Agreement between annotators, with 95% intervals"), head, cells)


def _repeats(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a group's row says again what the row of its whole criterion says: all units are in this group."""
    whole = next(
        (
            one
            for one in rows
            if not one["group"]
            and (one["guideline"], one["criterion"]) == (row["guideline"], row["criterion"])
        ),
        None,
    )
    return bool(row["group"]) and whole is not None and whole["n"] == row["n"]


def _levels(report: Report) -> dict[tuple[str, str], str]:
    """The measurement of each criterion; the weakest where versions of a guideline differ."""
    order = ("interval", "ordinal", "nominal")
    found: dict[tuple[str, str], str] = {}
    for guideline in report["guidelines"] or ():
        for criterion in guideline.get("criteria", ()):
            key = (guideline["name"], criterion["name"])
            known = found.get(key, "interval")
            found[key] = max(known, criterion["measurement"], key=order.index)
    return found


def _called(row: Mapping[str, Any], report: Report, *, with_guideline: bool) -> str:
    labels = {
        (one["name"], criterion["name"]): _choose(criterion["label"], criterion["name"])
        for one in report["guidelines"] or ()
        for criterion in one.get("criteria", ())
    }
    name = row["criterion"]
    parts = [row["guideline"]] if with_guideline else []
    parts.append(
        _("all criteria pooled") if name is None else labels.get((row["guideline"], name), str(name))
    )
    parts += [_dimension(report, value) for value in row["group"].values()]
    return " · ".join(parts)


def _dimension(report: Report, name: str | None) -> str:
    """What the guidelines call it; what they do not know, and a release of old, has its bare name."""
    known = dimensions_of(report["guidelines"] or ()).get(name or "")
    return _choose(known["label"], "") if known else name or UNDEFINED


def _by_dimension(report: Report) -> Table | None:
    rows = [row for row in report["disputes"] if row["dimension"] is not None]
    if not rows:
        return None
    return Table(
        "disputes",
        _("Disputed responses by dimension"),
        [_("Dimension"), _("Responses"), _("Disputed"), _("Share")],
        [
            [
                _dimension(report, row["dimension"]),
                str(row["tasks"]),
                str(row["disputed"]),
                _format_share(row["share"]),
            ]
            for row in rows
        ],
    )


def _gold(report: Report) -> dict[str, Any]:
    gold = report["gold"]
    return {
        "labels": gold["labels"],
        "sources": [f"{GoldLabel.Source(name).label} {count}" for name, count in gold["by_source"].items()],
        "criteria": [
            {"label": _criterion_name(report, name), "levels": sorted(counts.items(), key=_by_value)}
            for name, counts in gold["by_level"].items()
        ],
        "splits": gold["splits"],
    }


def _by_value(item: tuple[str, int]) -> float:
    return float(item[0])


def _criterion_name(report: Report, name: str) -> str:
    for guideline in report["guidelines"] or ():
        for criterion in guideline.get("criteria", ()):
            if criterion["name"] == name:
                return _choose(criterion["label"], name)
    return name


def _choose(words: Mapping[str, str] | None, otherwise: str) -> str:
    """In the reader's language, else in any that there is."""
    if not words:
        return otherwise
    language = (get_language() or "en").split("-")[0]
    return words.get(language) or words.get("en") or next(iter(words.values()), otherwise) or otherwise


def _format_statistic(statistic: Statistic | None) -> str:
    value, low, high = _parts(statistic)
    return format_bracketed(value, low, high)


def _format_share(share: Statistic | None) -> str:
    value, low, high = _parts(share)
    return format_bracketed_percent(value, low, high)


def _parts(statistic: Statistic | None) -> tuple[float | None, float | None, float | None]:
    return (statistic["value"], statistic["low"], statistic["high"]) if statistic else (None, None, None)
