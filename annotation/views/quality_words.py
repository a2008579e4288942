"""What stands out, in sentences: what was seen and what to do next. Kind and exact: a figure may have a good reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from django.utils.formats import date_format
from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from annotation.core.formatting import format_duration
from annotation.models import Person
from annotation.raters import Copying, Finding, Profile
from annotation.rates import Rate
from annotation.selectors.quality import Overview, Row

RANDOM, SEVERITY, DRIFT, COPYING, SPEED = FAULTS = ("random", "severity", "drift", "copying", "speed")
FAULT_LABELS: Mapping[str, str | Promise] = {
    RANDOM: gettext_lazy("At random"),
    SEVERITY: pgettext_lazy("of labels", "Severity"),
    DRIFT: gettext_lazy("Drift"),
    COPYING: gettext_lazy("Copying"),
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
    RANDOM: lambda one: one.random,
    SEVERITY: lambda one: one.severity,
    DRIFT: lambda one: one.drift,
    SPEED: lambda one: one.speed,
}


@dataclass(frozen=True)
class Flag:
    """One thing that stands out. ``person`` and ``other`` (of copying) are primary keys; ``word`` is the badge's."""

    fault: str
    person: int
    other: int | None
    word: str
    sentence: str


@dataclass(frozen=True)
class Figure:
    """A figure as it is shown; ``words`` say what it means where its sign does not. Ordered by its ``place``."""

    value: str
    interval: str = ""
    n: int | None = None
    words: str = ""
    place: float = 0.0


def flags_of(overview: Overview, people: Mapping[int, Person]) -> list[Flag]:
    """Everything that the corrected tests flag, person by person, and pairs first."""
    copied = [
        Flag(COPYING, one.one, one.other, _word(COPYING), _copied(one, people))
        for one in overview.copying
        if one.flagged
    ]
    single = [
        Flag(fault, row.person, None, _word(fault), _sentence(fault, overview, row, people[row.person]))
        for row in overview.rows.values()
        if row.profile
        for fault, of in FINDINGS.items()
        if of(row.profile).flagged
    ]
    return [*copied, *sorted(single, key=lambda one: (FAULTS.index(one.fault), people[one.person].username))]


def _word(fault: str) -> str:
    words = {
        RANDOM: _("as if at random"),
        SEVERITY: _("off the others' level"),
        DRIFT: _("changed"),
        COPYING: _("alike beyond chance"),
        SPEED: _("very fast"),
    }
    return words[fault]


def _copied(pair: Copying, people: Mapping[int, Person]) -> str:
    return _(
        "{one} and {other} gave the same label {alike} of {n} times where {expected} times were expected. That looks "
        "copied, by one of them or by talking while they worked."
    ).format(
        one=people[pair.one],
        other=people[pair.other],
        alike=round(pair.observed * pair.n),
        n=pair.n,
        expected=round(pair.expected * pair.n),
    )


def _sentence(fault: str, overview: Overview, row: Row, person: Person) -> str:
    assert row.profile is not None
    if fault == RANDOM:
        return _random(overview, row.profile, person)
    if fault == SEVERITY:
        return _severity(overview, row.profile.severity, person)
    return _drift(overview, row.profile.drift, person) if fault == DRIFT else _speed(row.profile, person)


def _random(overview: Overview, profile: Profile, person: Person) -> str:
    usual = overview.usual(lambda one: one.random.value, but=person.pk)
    return _(
        "The labels of {name} hardly follow the others': {value}, where 0 is guessing and 1 is as far as labels can; "
        "the others have {usual} in the middle. Read some items together: is the guideline clear to them?"
    ).format(name=person, value=number(profile.random.value), usual=number(usual))


def _severity(overview: Overview, finding: Finding, person: Person) -> str:
    value = finding.value or 0.0
    sentence = {
        1: _(
            "{name} is more lenient than the others: by {value} of a level ({low} to {high}). Go through the borders "
            "between the levels together."
        ),
        -1: _(
            "{name} is stricter than the others: by {value} of a level ({low} to {high}). Go through the borders "
            "between the levels together."
        ),
    }.get(overview.lenient * (1 if value > 0 else -1))
    if sentence is None and value > 0:
        sentence = _(
            "{name} gives higher levels than the others: by {value} of a level ({low} to {high}). Go through the "
            "borders between the levels together."
        )
    if sentence is None:
        sentence = _(
            "{name} gives lower levels than the others: by {value} of a level ({low} to {high}). Go through the "
            "borders between the levels together."
        )
    ends = sorted((abs(finding.low or 0.0), abs(finding.high or 0.0)))
    return sentence.format(name=person, value=number(abs(value)), low=number(ends[0]), high=number(ends[1]))


def _drift(overview: Overview, finding: Finding, person: Person) -> str:
    value, when = finding.value or 0.0, day_words(overview.when(finding))
    mend = _("Ask what changed then, and read items from before and after.")
    if finding.kind == "severity":
        sentence = (
            _("From {day} on {name} gives higher levels than before: by {value} of a level.")
            if value > 0
            else _("From {day} on {name} gives lower levels than before: by {value} of a level.")
        )
    elif value > 0:
        sentence = _("From {day} on the labels of {name} follow the others' more than before: by {value}.")
    else:
        sentence = _("From {day} on the labels of {name} follow the others' less than before: by {value}.")
    said = sentence.format(name=person, day=when, value=number(abs(value)))
    return f"{said} {mend}"


def _speed(profile: Profile, person: Person) -> str:
    if profile.speed.kind == "instant":
        return _(
            "{name} gave {share} of the labels in less than a fifth of the usual time. Read some of the fastest ones."
        ).format(name=person, share=whole_percent(profile.instant))
    return _(
        "{name} takes {seconds} for an item in the middle, {share} of the usual time. Read some of the fastest ones."
    ).format(name=person, seconds=format_duration(profile.speed.value), share=whole_percent(profile.pace))


def figure_of(fault: str, overview: Overview, profile: Profile | None) -> Figure | None:
    """None where it is undefined."""
    if profile is None:
        return None
    finding = FINDINGS[fault](profile)
    if finding.value is None:
        return None
    if fault == RANDOM:
        return Figure(number(finding.value), interval(finding, number), finding.n)
    if fault == SPEED:
        words = _("{share} of the usual").format(share=whole_percent(profile.pace)) if profile.pace else ""
        return Figure(format_duration(finding.value), "", finding.n, words)
    words = (
        direction(finding.value, finding.low, finding.high, overview.lenient)
        if fault == SEVERITY
        else _drift_words(overview, finding)
    )
    return Figure(signed(finding.value), interval(finding, signed), finding.n, words)


def direction(value: float, low: float | None, high: float | None, lenient: int) -> str:
    """What a distance in levels means, from its sign and from which end of the scale is the lenient one; of a
    distance whose interval reaches over 0, that it may be none.
    """
    if low is None or high is None or low <= 0 <= high:
        return _("within chance")
    if lenient:
        return _("more lenient") if value * lenient > 0 else _("stricter")
    return _("higher levels") if value > 0 else _("lower levels")


def _drift_words(overview: Overview, finding: Finding) -> str:
    what = _("levels") if finding.kind == "severity" else _("following the others")
    when = overview.when(finding) if finding.flagged else None
    return what if when is None else _("{what}, from {day} on").format(what=what, day=day_words(when))


def rate_figure(rate: Rate) -> Figure | None:
    if rate.value is None or rate.low is None or rate.high is None:
        return None
    return Figure(
        percent(rate.value), f"{100 * rate.low:.1f} – {100 * rate.high:.1f}", rate.n, place=rate.value
    )


def interval(finding: Finding, words: Callable[[float | None], str]) -> str:
    if finding.low is None or finding.high is None:
        return ""
    return f"{words(finding.low)} – {words(finding.high)}"


def number(value: float | None) -> str:
    return "-" if value is None else _with_minus(f"{value:z.2f}")


def signed(value: float | None) -> str:
    """With a plus where it is above 0."""
    if value is None:
        return "-"
    words = f"{value:+z.2f}"
    return "0.00" if words == "+0.00" else _with_minus(words)


def _with_minus(words: str) -> str:
    """With the sign that is as wide as a plus."""
    return words.replace("-", "\N{MINUS SIGN}")


def percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f}%"


def whole_percent(share: float | None) -> str:
    return "-" if share is None else f"{share:.0%}"


def day_words(ordinal: int | None) -> str:
    return "-" if ordinal is None else date_format(date.fromordinal(ordinal))


def reasons_of(overview: Overview) -> Sequence[str]:
    """Why figures are undefined, each reason once."""
    found = [
        of(row.profile).reason for row in overview.rows.values() if row.profile for of in FINDINGS.values()
    ]
    return [_(reason) for reason in dict.fromkeys(found) if reason]
