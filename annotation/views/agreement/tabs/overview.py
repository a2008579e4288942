"""The first tab: the headline figures, and the findings to look at first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext

from annotation.domain.agreement import Agreement, Statistic
from annotation.selectors.agreement.causes import DisputedPrompts, WeakestGroup, find_weakest_group
from annotation.views.agreement.query import TabQuery
from annotation.views.agreement.tabs import table, trend
from annotation.views.agreement.wording import (
    FACETS,
    POOL_KAPPAS,
    STATISTICS,
    alpha_name,
    find_reading,
    format_effect,
    format_figure,
    format_level_pair,
    format_share,
    list_no_intervals,
)

FINDING_FACETS = (
    "dimension",
    "subcomponent",
    "criterion",
    "model",
    "pair",
    "week",
    "language",
    "attack_method",
    "malice",
)
# A prompt whose tasks are disputed by chance as often as the others' is none to look at.
MIN_TASKS = 3


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
    overall: float | None = None
    groups: int = 0
    n: int = 0
    total: int = 0


def context(tab_query: TabQuery) -> dict[str, Any]:
    choice = tab_query.choice
    return {
        "headline": headline_context(tab_query),
        "findings": list(list_findings(tab_query)),
        "rows_title": gettext("Every figure"),
        **table.table_context(tab_query.overall, tab_query.words, choice),
        **trend.picture_context(tab_query),
        "time_url": choice.page_url(view="time", by="", across=""),
    }


def headline_context(tab_query: TabQuery) -> dict[str, Any] | None:
    """The figures at the top: of the one guideline, its criteria pooled where there are several."""
    headline = tab_query.headline
    if headline is None or not headline.n:
        return None
    names = ("percent_agreement", "cohen_kappa", alpha_name(headline.measurement))
    measured = headline.measure()
    reading_badge = find_reading(measured.statistics[names[-1]].low)
    choice = tab_query.choice
    return {
        "n": measured.n,
        "n_url": choice.tasks_url(),
        "disputed": measured.disputed,
        "disputed_url": choice.tasks_url(replace(choice.narrowing, disputed=True)),
        "prompts": measured.prompts,
        "effect": format_effect(measured),
        "no_intervals": list_no_intervals(measured.statistics[name] for name in names),
        "tiles": list_tiles(tab_query, measured, names),
        "reading": reading_badge,
    }


def list_tiles(tab_query: TabQuery, measured: Agreement, names: Sequence[str]) -> list[dict[str, Any]]:
    """Of a pool of people its own two kappas in the place of Cohen's."""
    tiles = [(STATISTICS[name], measured.statistics[name]) for name in names]
    kappas = tab_query.patterns.measure_kappas(tab_query.headline) if tab_query.headline else None
    if kappas is not None:
        tiles[1:2] = [(label, getattr(kappas, name)) for name, label in POOL_KAPPAS.items()]
    return [build_tile(label, statistic) for label, statistic in tiles]


def build_tile(label: str | Promise, statistic: Statistic) -> dict[str, Any]:
    figure_words = format_figure(statistic)
    return {
        "label": label,
        "value": figure_words.value if figure_words else None,
        "note": figure_words.interval if figure_words else "",
    }


def list_findings(tab_query: TabQuery) -> Iterator[AgreementFinding]:
    headline = tab_query.headline
    if headline is None or not headline.disputed:
        return
    for facet in FINDING_FACETS:
        if facet not in tab_query.choice.narrowing.named:
            weakest_group = find_weakest_group(tab_query.patterns, facet, headline, table.MIN_UNITS)
            if weakest_group is not None:
                yield build_group_finding(tab_query, weakest_group)
    yield from list_level_findings(tab_query)
    yield from list_prompt_findings(tab_query)


def build_group_finding(tab_query: TabQuery, weakest_group: WeakestGroup) -> AgreementFinding:
    choice = tab_query.choice
    inside = choice.narrowing.with_group({weakest_group.facet: weakest_group.name})
    overall = tab_query.overall[0]
    pair = weakest_group.facet == "pair"
    return AgreementFinding(
        code="group",
        kind=str(FACETS[weakest_group.facet]),
        name=tab_query.words.value(weakest_group.facet, weakest_group.name) or "-",
        statistic=weakest_group.statistic,
        overall=overall.value(alpha_name(overall.measurement)),
        groups=weakest_group.groups,
        inside=choice.narrowed_url(inside, view="levels" if pair else "", by="", across=""),
        inside_words=gettext("Labels by person") if pair else gettext("Details"),
        tasks=choice.tasks_url(replace(inside, disputed=True)),
    )


def list_level_findings(tab_query: TabQuery) -> Iterator[AgreementFinding]:
    """The two levels that are most often taken for each other."""
    confusions = tab_query.patterns.confusions()
    if not confusions:
        return
    top, choice = confusions[0], tab_query.choice
    inside = choice.narrowing.with_group({"criterion": top.criterion.name})
    total = sum(confusion.count for confusion in confusions)
    yield AgreementFinding(
        code="levels",
        kind=gettext("Levels"),
        name=format_level_pair(top.criterion, top.low, top.high),
        n=top.count,
        total=total,
        inside=choice.narrowed_url(inside, view="levels", by="", across=""),
        inside_words=gettext("All levels"),
        tasks=choice.tasks_url(inside.between(top.low, top.high)),
    )


def list_prompt_findings(tab_query: TabQuery) -> Iterator[AgreementFinding]:
    for disputed_prompt in DisputedPrompts(tab_query.patterns.labels)[0:1]:
        share = format_share(disputed_prompt.tasks)
        if disputed_prompt.tasks.n >= MIN_TASKS and share is not None:
            choice = tab_query.choice
            yield AgreementFinding(
                code="prompt",
                kind=gettext("Prompt"),
                name=disputed_prompt.prompt.key,
                n=disputed_prompt.tasks.part,
                total=disputed_prompt.tasks.n,
                inside=choice.page_url(view="prompts", by="", across=""),
                inside_words=gettext("All prompts"),
                tasks=choice.tasks_url(
                    replace(choice.narrowing, prompt=disputed_prompt.prompt.pk, disputed=True)
                ),
            )
