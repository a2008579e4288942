"""The tab of the guideline: its clauses, its versions, and the reasons that adjudicators name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.utils.translation import gettext

from annotation.domain.agreement import Statistic
from annotation.selectors.agreement.causes import (
    ClauseDisagreement,
    ReasonCount,
    VersionRow,
    list_clauses,
    list_reason_counts,
    list_version_rows,
)
from annotation.selectors.guidelines import criterion_label, level_text
from annotation.views.agreement.query import TabQuery
from annotation.views.agreement.wording import (
    STATISTICS,
    alpha_name,
    format_figure,
    format_share,
    list_no_intervals,
    reasons_by_key,
)

MAX_OTHER_LEVELS = 2
MAX_REASONS = 2


def context(tab_query: TabQuery) -> dict[str, Any]:
    reason_names = reasons_by_key()
    patterns = tab_query.patterns
    changes = list_version_rows(
        patterns, tab_query.choice.statistic if is_defined_everywhere(tab_query) else ""
    )
    guidelines = {guideline.name: guideline for guideline in patterns.guidelines.values()}
    return {
        "clauses": [
            clause_row(clause, tab_query, reason_names)
            for clause in list_clauses(patterns.labels, tab_query.person)
        ],
        "versions": [version_row(change, tab_query) for change in changes],
        "no_intervals": list_no_intervals(change.change for change in changes if change.change is not None),
        "compared": any(change.change is not None for change in changes),
        "reasons": [
            reason_row(reason, tab_query, reason_names) for reason in list_reason_counts(patterns.labels)
        ],
        "guidelines": list(guidelines.values()),
    }


def is_defined_everywhere(tab_query: TabQuery) -> bool:
    """Whether every row has the statistic: alpha of one level of scale is undefined on others."""
    return not tab_query.choice.statistic.startswith("alpha_") or all(
        alpha_name(row.measurement) == tab_query.choice.statistic for row in tab_query.overall
    )


def clause_row(
    clause: ClauseDisagreement, tab_query: TabQuery, reason_names: dict[str, str]
) -> dict[str, Any]:
    choice = tab_query.choice
    guideline = next(
        g for g in reversed(list(tab_query.patterns.guidelines.values())) if g.name == clause.guideline
    )
    several = {"guideline": clause.guideline} if tab_query.words.several else {}
    criterion_narrowing = choice.narrowing.with_group({"criterion": clause.criterion.name, **several})
    level_narrowing = replace(criterion_narrowing, level=clause.value)
    return {
        "guideline": guideline,
        "criterion": criterion_label(guideline.document, clause.criterion.name),
        "level": level_text(clause.criterion, clause.value),
        "n": clause.disputed.n,
        "disputed": clause.disputed.part,
        "share": format_share(clause.disputed),
        "tasks": choice.tasks_url(level_narrowing),
        "disputes": choice.tasks_url(replace(level_narrowing, disputed=True)),
        "others": [
            {
                "words": level_text(clause.criterion, other),
                "n": n,
                "url": choice.tasks_url(
                    criterion_narrowing.between(min(clause.value, other), max(clause.value, other))
                ),
            }
            for other, n in clause.other_levels[:MAX_OTHER_LEVELS]
        ],
        "reasons": [
            {
                "words": reason_names.get(key, key),
                "n": n,
                "url": choice.tasks_url(replace(level_narrowing, disputed=True, reason=key)),
            }
            for key, n in clause.reasons[:MAX_REASONS]
        ],
        "notes": clause.notes,
        "open_notes": clause.open_notes,
    }


def version_row(version: VersionRow, tab_query: TabQuery) -> dict[str, Any]:
    counted, choice = version.counted, tab_query.choice
    name = choice.statistic if is_defined_everywhere(tab_query) else alpha_name(counted.measurement)
    measured = counted.measure((name,))
    criterion = {"criterion": counted.criterion} if counted.criterion is not None else {}
    inside = choice.narrowing.with_group({"guideline_version": version.version, **criterion})
    return {
        "version": version.version,
        "criterion": tab_query.words.criterion(counted.guideline, counted.criterion),
        "statistic": STATISTICS[name],
        "n": measured.n,
        "disputed": measured.disputed,
        "figure": format_figure(measured.statistics[name]),
        "since": version.since,
        "change": change_row(version.change),
        "tasks": choice.tasks_url(inside),
        "disputes": choice.tasks_url(replace(inside, disputed=True)),
    }


def change_row(change: Statistic | None) -> dict[str, Any] | None:
    """With its direction where the interval leaves out 0, and a word for it; without an interval nothing is known."""
    if change is None or change.value is None:
        return None
    if change.low is None or change.high is None:
        return {"statistic": change, "direction": "", "words": gettext("not known")}
    direction, words = "", gettext("no sure change")
    if change.low > 0:
        direction, words = "up", gettext("better")
    elif change.high < 0:
        direction, words = "down", gettext("worse")
    return {"statistic": change, "direction": direction, "words": words}


def reason_row(reason: ReasonCount, tab_query: TabQuery, reason_names: dict[str, str]) -> dict[str, Any]:
    choice = tab_query.choice
    return {
        "words": reason_names.get(reason.key, reason.key),
        "n": reason.tasks.part,
        "share": format_share(reason.tasks),
        "url": choice.tasks_url(replace(choice.narrowing, reason=reason.key)),
    }
