"""The first tab: can this be trusted, and if not, what should be looked at first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext

from annotation.domain.agreement import Statistic
from annotation.selectors.agreement.causes import Prompts, Weakest, weakest
from annotation.views.agreement.query import Asked
from annotation.views.agreement.tabs import table, trend
from annotation.views.agreement.wording import (
    FACETS,
    STATISTICS,
    alpha_of,
    figure,
    level_pair,
    percent,
    reading,
)

LOOKED_AT = ("dimension", "subcomponent", "criterion", "model", "pair", "week", "language")
# A prompt whose tasks are disputed by chance as often as the others' is none to look at.
LEAST_TASKS = 3


@dataclass(frozen=True)
class AgreementFinding:
    """Something to look at first, and where to go on. The template says what stands out from ``code`` and figures:
    of a ``group`` its statistic beside that of the ``whole``; of ``levels`` and a ``prompt`` that ``n`` of ``total``.
    """

    code: str
    kind: str
    name: str
    inside: str
    inside_words: str
    tasks: str
    statistic: Statistic | None = None
    whole: float | None = None
    groups: int = 0
    n: int = 0
    total: int = 0


def context(asked: Asked) -> dict[str, Any]:
    choice = asked.choice
    return {
        "headline": _headline(asked),
        "findings": list(_findings(asked)),
        "lines_title": gettext("Every figure"),
        **table.table(asked.overall, asked.words, choice),
        **trend.picture(asked),
        "time_url": choice.address(view="time", by="", across=""),
    }


def _headline(asked: Asked) -> dict[str, Any] | None:
    """The figures at the top: of the one guideline, its criteria pooled where there are several."""
    one = asked.headline
    if one is None or not one.n:
        return None
    names = ("percent_agreement", "cohen_kappa", alpha_of(one.measurement))
    measured = one.measured()
    found = reading(measured.statistics[names[-1]])
    choice = asked.choice
    return {
        "n": measured.n,
        "n_url": choice.tasks(),
        "disputed": measured.disputed,
        "disputed_url": choice.tasks(replace(choice.narrowing, disputed=True)),
        "tiles": [_tile(name, measured.statistics[name]) for name in names],
        "reading": found,
    }


def _tile(name: str, statistic: Statistic) -> dict[str, Any]:
    shown = figure(statistic)
    return {
        "label": STATISTICS[name],
        "value": shown.value if shown else None,
        "note": shown.interval if shown else "",
    }


def _findings(asked: Asked) -> Iterator[AgreementFinding]:
    one = asked.headline
    if one is None or not one.disputed:
        return
    for facet in LOOKED_AT:
        if facet not in asked.choice.narrowing.named:
            found = weakest(asked.patterns, facet, one, table.LEAST)
            if found is not None:
                yield _group(asked, found)
    yield from _levels(asked)
    yield from _prompt(asked)


def _group(asked: Asked, found: Weakest) -> AgreementFinding:
    choice = asked.choice
    inside = choice.narrowing.with_group({found.facet: found.name})
    overall = asked.overall[0]
    pair = found.facet == "pair"
    return AgreementFinding(
        code="group",
        kind=str(FACETS[found.facet]),
        name=asked.words.value(found.facet, found.name) or "-",
        statistic=found.statistic,
        whole=overall.value(alpha_of(overall.measurement)),
        groups=found.groups,
        inside=choice.narrowed(inside, view="levels" if pair else "", by="", across=""),
        inside_words=gettext("Who says what") if pair else gettext("Look inside"),
        tasks=choice.tasks(replace(inside, disputed=True)),
    )


def _levels(asked: Asked) -> Iterator[AgreementFinding]:
    """The two levels that are most often taken for each other."""
    found = asked.patterns.confusions()
    if not found:
        return
    top, choice = found[0], asked.choice
    inside = choice.narrowing.with_group({"criterion": top.criterion.name})
    total = sum(one.count for one in found)
    yield AgreementFinding(
        code="levels",
        kind=gettext("Levels"),
        name=level_pair(top.criterion, top.low, top.high),
        n=top.count,
        total=total,
        inside=choice.narrowed(inside, view="levels", by="", across=""),
        inside_words=gettext("All levels"),
        tasks=choice.tasks(inside.between(top.low, top.high)),
    )


def _prompt(asked: Asked) -> Iterator[AgreementFinding]:
    for one in Prompts(asked.patterns.labels)[0:1]:
        shown = percent(one.tasks)
        if one.tasks.n >= LEAST_TASKS and shown is not None:
            choice = asked.choice
            yield AgreementFinding(
                code="prompt",
                kind=gettext("Prompt"),
                name=one.prompt.key,
                n=one.tasks.part,
                total=one.tasks.n,
                inside=choice.address(view="prompts", by="", across=""),
                inside_words=gettext("All prompts"),
                tasks=choice.tasks(replace(choice.narrowing, prompt=one.prompt.pk, disputed=True)),
            )
