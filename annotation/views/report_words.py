"""The report in the words of its reader's language: the same sections for the page and for LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import get_language, ngettext
from django.utils.translation import gettext as _

from annotation.declared import dimensions_of, imported_into
from annotation.models import Batch, GoldLabel

UNDEFINED = "-"
Report = Mapping[str, Any]
REFERENCES = {
    "cohen_kappa": "Cohen (1960), Educational and Psychological Measurement 20(1), 37–46",
    "alpha": "Krippendorff (2011), Computing Krippendorff's Alpha-Reliability",
    "gwet_ac1": "Gwet (2008), British Journal of Mathematical and Statistical Psychology 61(1), 29–48",
    "wilson": "Wilson (1927), Journal of the American Statistical Association 22, 209–212",
    "bootstrap": "Efron & Tibshirani (1993), An Introduction to the Bootstrap",
}


@dataclass(frozen=True)
class Fact:
    term: str
    text: str


@dataclass(frozen=True)
class Table:
    """The first ``words`` columns are text, the others numbers. ``name`` is for LaTeX's label and the page's id.

    ``below`` are groups of rows from elsewhere, each under a rule; the ``notes`` under the table say whence.
    """

    name: str
    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1
    below: Sequence[Sequence[Sequence[str]]] = ()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Section:
    title: str
    facts: Sequence[Fact] = ()
    table: Table | None = None


def sections(report: Report) -> list[Section]:
    """In their order on the page; what the report does not know is left out, what is undefined is ``-``."""
    made = [
        Section(_("Protocol"), list(_protocol(report))),
        Section(_("People"), list(_people(report))),
        Section(_("Agreement"), (), _agreement(report)),
        Section(_("Disputes"), list(_disputes(report)), _by_dimension(report)),
        Section(_("Adjudication"), list(_outcomes(report["outcomes"]))),
        Section(_("Gold"), list(_gold(report))),
    ]
    return [one for one in made if one.facts or one.table]


def notes(report: Report) -> list[str]:
    """How the figures were made."""
    return [
        _(
            "A unit is one criterion of one response with all its annotations. Intervals of agreement are 95% "
            "bootstrap intervals over units (BCa, 1,000 resamples), those of shares Wilson's. A dash is undefined."
        ),
        _("Alpha is Krippendorff's at the level of the scale; several criteria pooled are nominal."),
    ]


def references() -> list[str]:
    return list(REFERENCES.values())


def heading(report: Report) -> str:
    if report["release"]:
        return _("Gold release {name}").format(name=report["release"]["name"])
    return ", ".join(report["batches"])


def _protocol(report: Report) -> Iterator[Fact]:
    for one in report["guidelines"] or ():
        name = f"{_said(one.get('title'), one['name'])}, {one['name']}@{one['version']}"
        yield Fact(_("Guideline"), f"{name}, sha256 {one['sha256'][:16]}")
        for criterion in one.get("criteria", ()):
            yield Fact(_said(criterion["label"], criterion["name"]), _scale(criterion))
    for one in report["protocol"] or ():
        several = len(report["protocol"]) > 1
        policy = "; ".join(_policy(one, imported_into(one["name"], report["imported"])))
        yield Fact(one["name"] if several else _("Distribution"), policy)
    if report["imported"] and report["imported"]["files"]:
        yield Fact(_("Imported labels"), "; ".join(map(_file, report["imported"]["files"])))
    if report["code_version"]:
        yield Fact(_("Software"), f"Assay {report['code_version']}")


def _scale(criterion: Mapping[str, Any]) -> str:
    levels = [f"{value} {_said(name, '')}".strip() for value, name in criterion["levels"].items()]
    if len(levels) > 6:
        levels = [levels[0], "…", levels[-1]]
    return f"{_measurement(criterion['measurement'])}: {', '.join(levels)}"


def _measurement(name: str) -> str:
    return {"nominal": _("nominal"), "ordinal": _("ordinal"), "interval": _("interval")}.get(name, name)


def _file(one: Mapping[str, Any]) -> str:
    return _(
        "{file} (sha256 {sha256}): {annotations} of the annotations, {decisions} of the decisions"
    ).format(
        file=one["file"],
        sha256=one["sha256"][:16],
        annotations=one["annotations"],
        decisions=one["adjudications"],
    )


def _policy(one: Mapping[str, Any], imported: int) -> Iterator[str]:
    """Of imported annotations nobody here knows whether those who made them knew of each other or of the model."""
    yield _annotators(one, imported)
    if one["overlap"] > 1:
        yield _("where they differed a third person decided")
    if one["tolerance"]:
        yield _("labels within {n} of each other settled as their lower median").format(n=one["tolerance"])
    if not imported or imported < one["annotations"]:
        yield from _work(one)


def _work(one: Mapping[str, Any]) -> Iterator[str]:
    """How people worked here; of a batch that was imported whole there is nothing to tell."""
    yield _("who got what: {pairing}").format(pairing=Batch.Pairing(one["pairing"]).label)
    if one.get("qualifying"):
        yield _("before, a round of known items had to be passed ({by}, at least {threshold})").format(
            by=Batch.Qualifying(one["qualifying"]).label, threshold=_number(one["qualifying_threshold"])
        )
    if one.get("check_share"):
        yield _("{share} of the items given were to be gold checks").format(
            share=_percent(one["check_share"])
        )
    if one.get("second_reading_share"):
        yield _("{share} of the decisions were to be read a second time").format(
            share=_percent(one["second_reading_share"])
        )
    if one.get("first_submitted"):
        yield _("{first} to {last}").format(first=one["first_submitted"], last=one["last_submitted"])


def _annotators(one: Mapping[str, Any], imported: int) -> str:
    amounts = {"n": one["overlap"], "imported": imported, "given": one["annotations"] - imported}
    if not imported:
        words = ngettext(
            "{n} annotator judged each response",
            "{n} annotators judged each response, not knowing of each other or of the model",
            one["overlap"],
        )
    elif not amounts["given"]:
        words = ngettext(
            "{n} annotator judged each response elsewhere, and how is not recorded: all {imported} annotations were"
            " imported",
            "{n} annotators judged each response elsewhere, and how is not recorded: all {imported} annotations were"
            " imported",
            one["overlap"],
        )
    else:
        words = ngettext(
            "{n} annotator judged each response; {imported} annotations were imported, and how they were made is not"
            " recorded; {given} were given here",
            "{n} annotators judged each response; {imported} annotations were imported, and how they were made is not"
            " recorded; {given} were given here by annotators who did not know of each other or of the model",
            one["overlap"],
        )
    return words.format(**amounts)


def _people(report: Report) -> Iterator[Fact]:
    people = report["people"]
    if people:
        yield Fact(_("Annotators"), str(people["annotators"]))
        yield Fact(_("Adjudicators"), str(people["adjudicators"]))
        spoken = ", ".join(f"{name} ({n})" for name, n in people["languages"].items())
        if spoken:
            yield Fact(_("Languages they read"), spoken)
    each, seconds = report["effort"]["annotations"], report["effort"]["median_seconds"]
    if each["median"] is not None:
        text = _("{median} (from {fewest} to {most})").format(**each)
        yield Fact(_("Annotations by each, median"), text)
    if seconds is not None:
        yield Fact(_("Median time of one"), _("{n} s").format(n=f"{seconds:.0f}"))


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
            _figure(row["percent_agreement"]),
            _figure(row["cohen_kappa"]),
            _figure(row[f"alpha_{levels.get((row['guideline'], row['criterion']), 'nominal')}"]),
            _figure(row["gwet_ac1"]),
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
        (one["name"], criterion["name"]): _said(criterion["label"], criterion["name"])
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
    return _said(known["label"], "") if known else name or UNDEFINED


def _disputes(report: Report) -> Iterator[Fact]:
    every = next((row for row in report["disputes"] if row["dimension"] is None), None)
    if every and every["tasks"]:
        text = _("{disputed} of {tasks} responses, {share}").format(
            disputed=every["disputed"], tasks=every["tasks"], share=_rate(every["share"])
        )
        yield Fact(_("Disputed"), text)
    reasons = [one for one in report["reasons"] if one["reason"]]
    if reasons:
        text = "; ".join(f"{_said(one['words'], one['reason'])} {one['decisions']}" for one in reasons)
        yield Fact(_("Why, as the adjudicators said"), text)


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
                _rate(row["share"]),
            ]
            for row in rows
        ],
    )


def _outcomes(found: Mapping[str, Any]) -> Iterator[Fact]:
    if not found["decided"]:
        return
    sides: dict[str, Callable[[int], str]] = {
        "first": lambda n: _("as the first annotator {n}").format(n=n),
        "second": lambda n: _("as the second {n}").format(n=n),
        "other": lambda n: _("as a further one {n}").format(n=n),
        "neither": lambda n: _("as none of them {n}").format(n=n),
    }
    told = [say(found[side]) for side, say in sides.items() if found[side] or side != "other"]
    yield Fact(_("Decided"), f"{found['decided']}: {', '.join(told)}")
    if found["verdicts"]:
        text = _("{part} of {n} whose adjudicator had judged unseen before, {share}").format(
            part=found["changed"], n=found["verdicts"], share=_rate(found["changed_share"])
        )
        yield Fact(_("Changed on seeing the labels"), text)
    if found["read_twice"]:
        text = _("{part} of {n}, {share}").format(
            part=found["decided_alike"], n=found["read_twice"], share=_rate(found["alike_share"])
        )
        yield Fact(_("Decided alike when read again"), text)


def _gold(report: Report) -> Iterator[Fact]:
    gold = report["gold"]
    if not gold["labels"]:
        return
    sources = [f"{GoldLabel.Source(name).label} {n}" for name, n in gold["by_source"].items()]
    yield Fact(_("Labels"), f"{gold['labels']}: {', '.join(sources)}")
    for name, counts in gold["by_level"].items():
        levels = ", ".join(f"{value}: {n}" for value, n in sorted(counts.items(), key=_by_value))
        yield Fact(_criterion_name(report, name), levels)
    if gold["splits"]:
        yield Fact(
            _("Splits"), ", ".join(f"{name} {counts['labels']}" for name, counts in gold["splits"].items())
        )
    if report["release"]:
        yield Fact("sha256", report["release"]["sha256"])


def _by_value(item: tuple[str, int]) -> float:
    return float(item[0])


def _criterion_name(report: Report, name: str) -> str:
    for guideline in report["guidelines"] or ():
        for criterion in guideline.get("criteria", ()):
            if criterion["name"] == name:
                return _said(criterion["label"], name)
    return name


def _said(words: Mapping[str, str] | None, otherwise: str) -> str:
    """In the reader's language, else in any that there is."""
    if not words:
        return otherwise
    language = (get_language() or "en").split("-")[0]
    return words.get(language) or words.get("en") or next(iter(words.values()), otherwise) or otherwise


def _figure(one: Mapping[str, float | None] | None) -> str:
    if one is None or one["value"] is None:
        return UNDEFINED
    if one["low"] is None or one["high"] is None:
        return f"{one['value']:.3f}"
    return f"{one['value']:.3f} [{one['low']:.3f}, {one['high']:.3f}]"


def _rate(one: Mapping[str, float] | None) -> str:
    if one is None:
        return UNDEFINED
    return f"{100 * one['value']:.1f}% [{100 * one['low']:.1f}, {100 * one['high']:.1f}]"


def _percent(share: float) -> str:
    return f"{100 * share:g}%"


def _number(value: float | None) -> str:
    return UNDEFINED if value is None else f"{value:g}"
