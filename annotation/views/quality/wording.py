"""The figures and flags of annotators in words, and the addresses of the items behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from annotation.core.formatting import (
    format_day,
    format_duration,
    format_interval_percent,
    format_percent,
    format_typographic,
    format_typographic_signed,
)
from annotation.core.proportions import Rate
from annotation.domain.quality import Copying, Finding, Profile
from annotation.models import Batch, Person
from annotation.selectors.quality import Overview


def part_url(batch: Batch | None, person: Person) -> str:
    """The person's part in the batch; without one their own page, which lists their parts."""
    if batch is None:
        return reverse("person", args=[person.username])
    return reverse("batch-quality-person", args=[batch.name, person.username])


def items_url(batch: Batch, person: Person, **filters: Any) -> str:
    page = reverse("batch-quality-items", args=[batch.name, person.username])
    return f"{page}?{urlencode(filters)}" if filters else page


RANDOM, SEVERITY, DRIFT, COPYING, SPEED = FAULTS = ("random", "severity", "drift", "copying", "speed")
FAULT_LABELS: Mapping[str, str | Promise] = {
    RANDOM: gettext_lazy("At random"),
    SEVERITY: pgettext_lazy("of labels", "Severity"),
    DRIFT: gettext_lazy("Drift"),
    COPYING: gettext_lazy("Unusually high agreement"),
    SPEED: gettext_lazy("Speed"),
}
# What the figures of the faults are called: they say something of everybody, and of most nothing bad.
FIGURE_LABELS: Mapping[str, str | Promise] = {
    RANDOM: gettext_lazy("Follows the others"),
    SEVERITY: pgettext_lazy("of labels", "Severity"),
    DRIFT: gettext_lazy("Drift"),
    SPEED: gettext_lazy("Median time"),
}
FINDINGS: Mapping[str, Callable[[Profile], Finding]] = {
    RANDOM: lambda profile: profile.random,
    SEVERITY: lambda profile: profile.severity,
    DRIFT: lambda profile: profile.drift,
    SPEED: lambda profile: profile.speed,
}


FLAG_LABELS: Mapping[str, str | Promise] = {
    RANDOM: gettext_lazy("as if at random"),
    SEVERITY: gettext_lazy("off the others' level"),
    DRIFT: gettext_lazy("changed"),
    COPYING: gettext_lazy("unusually high agreement"),
    SPEED: gettext_lazy("very fast"),
}


@dataclass(frozen=True)
class QualityFlag:
    """One thing that stands out. ``person`` and ``other`` (of copying) are primary keys.

    The sentence about it stands in a template: ``kind`` says which one it is, ``figures`` are those that it names.
    """

    fault: str
    person: int
    name: str
    kind: str
    figures: Mapping[str, Any]
    other: int | None = None
    other_name: str = ""

    @property
    def label(self) -> str:
        return str(FLAG_LABELS[self.fault])


@dataclass(frozen=True)
class QualityFigure:
    """A figure as it is shown; ``words`` say what it means where its sign does not. Ordered by its ``place``."""

    value: str
    interval: str = ""
    n: int | None = None
    words: str = ""
    place: float = 0.0


def list_flags(overview: Overview, people: Mapping[int, Person]) -> list[QualityFlag]:
    """Everything that the corrected tests flag, person by person, and pairs first."""
    copied = [flag_copying(pair, people) for pair in overview.copying if pair.flagged]
    single = [
        QualityFlag(
            fault, row.person, str(people[row.person]), *_describe(fault, overview, row.person, row.profile)
        )
        for row in overview.rows.values()
        if row.profile
        for fault, finding_of in FINDINGS.items()
        if finding_of(row.profile).flagged
    ]
    by_fault = sorted(single, key=lambda flag: (FAULTS.index(flag.fault), people[flag.person].username))
    return [*copied, *by_fault]


def flag_copying(pair: Copying, people: Mapping[int, Person]) -> QualityFlag:
    figures = {
        "alike": round(pair.observed * pair.n),
        "n": pair.n,
        "expected": round(pair.expected * pair.n),
    }
    names = str(people[pair.first]), str(people[pair.second])
    return QualityFlag(COPYING, pair.first, names[0], "copied", figures, pair.second, names[1])


def _describe(fault: str, overview: Overview, person: int, profile: Profile) -> tuple[str, dict[str, Any]]:
    """The kind of a flag and its figures."""
    if fault == RANDOM:
        usual = overview.find_usual(lambda other: other.random.value, but=person)
        value = format_typographic(profile.random.value)
        return "random", {"value": value, "usual": format_typographic(usual)}
    if fault == SEVERITY:
        return _describe_severity(overview, profile.severity)
    return _describe_drift(overview, profile.drift) if fault == DRIFT else _describe_speed(profile)


def _describe_severity(overview: Overview, finding: Finding) -> tuple[str, dict[str, Any]]:
    value = finding.value or 0.0
    kinds = {1: "lenient", -1: "strict"} if overview.lenient else {1: "high", -1: "low"}
    ends = sorted((abs(finding.low or 0.0), abs(finding.high or 0.0)))
    return kinds[(overview.lenient or 1) * (1 if value > 0 else -1)], {
        "value": format_typographic(abs(value)),
        "low": format_typographic(ends[0]),
        "high": format_typographic(ends[1]),
    }


def _describe_drift(overview: Overview, finding: Finding) -> tuple[str, dict[str, Any]]:
    value = finding.value or 0.0
    subject = "levels" if finding.kind == "severity" else "following"
    figures = {"day": format_day(overview.find_day(finding)), "value": format_typographic(abs(value))}
    return f"{subject} {'up' if value > 0 else 'down'}", figures


def _describe_speed(profile: Profile) -> tuple[str, dict[str, Any]]:
    if profile.speed.kind == "unread":
        return "unread", {"share": format_percent(profile.unread, 0)}
    if profile.speed.kind == "instant":
        return "instant", {"share": format_percent(profile.instant, 0)}
    seconds = format_duration(profile.speed.value)
    return "fast", {"seconds": seconds, "share": format_percent(profile.pace, 0)}


def build_figure(fault: str, overview: Overview, profile: Profile | None) -> QualityFigure | None:
    """None where it is undefined."""
    if profile is None:
        return None
    finding = FINDINGS[fault](profile)
    if finding.value is None:
        return None
    if fault == RANDOM:
        return QualityFigure(
            format_typographic(finding.value), format_finding_interval(finding, format_typographic), finding.n
        )
    if fault == SPEED:
        words = (
            _("{share} of the usual").format(share=format_percent(profile.pace, 0)) if profile.pace else ""
        )
        return QualityFigure(format_duration(finding.value), "", finding.n, words)
    words = (
        describe_direction(finding.value, finding.low, finding.high, overview.lenient)
        if fault == SEVERITY
        else describe_drift_figure(overview, finding)
    )
    interval = format_finding_interval(finding, format_typographic_signed)
    return QualityFigure(format_typographic_signed(finding.value), interval, finding.n, words)


def describe_direction(value: float, low: float | None, high: float | None, lenient: int) -> str:
    """What a distance in levels means, from its sign and from which end of the scale is the lenient one; of a
    distance whose interval reaches over 0, that it may be none.
    """
    if low is None or high is None or low <= 0 <= high:
        return _("within chance")
    if lenient:
        return _("more lenient") if value * lenient > 0 else _("stricter")
    return _("higher levels") if value > 0 else _("lower levels")


def describe_drift_figure(overview: Overview, finding: Finding) -> str:
    subject = _("levels") if finding.kind == "severity" else _("following the others")
    day = overview.find_day(finding) if finding.flagged else None
    return subject if day is None else _("{what}, from {day} on").format(what=subject, day=format_day(day))


def rate_figure(rate: Rate) -> QualityFigure | None:
    if rate.value is None or rate.low is None or rate.high is None:
        return None
    interval = format_interval_percent(rate.low, rate.high)
    return QualityFigure(format_percent(rate.value), interval, rate.n, place=rate.value)


def level_figure(
    value: float, low: float | None, high: float | None, n: int | None, lenient: int
) -> QualityFigure:
    """A distance in levels, with what it means."""
    ends = [format_typographic_signed(end) for end in (low, high)]
    interval = "" if low is None else " – ".join(ends)
    return QualityFigure(
        format_typographic_signed(value), interval, n, describe_direction(value, low, high, lenient)
    )


def format_finding_interval(finding: Finding, format_end: Callable[[float | None], str]) -> str:
    if finding.low is None or finding.high is None:
        return ""
    return f"{format_end(finding.low)} – {format_end(finding.high)}"


def list_undefined_reasons(overview: Overview) -> Sequence[str]:
    """Why figures are undefined, each reason once."""
    reasons = [
        find(row.profile).reason
        for row in overview.rows.values()
        if row.profile
        for find in FINDINGS.values()
    ]
    return [_(reason) for reason in dict.fromkeys(reasons) if reason]
