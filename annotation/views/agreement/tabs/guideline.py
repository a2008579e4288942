"""What the guideline has to do with it: its clauses, its versions, and what adjudicators say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.utils.translation import gettext

from annotation.domain.agreement import Statistic
from annotation.selectors.agreement.causes import Clause, ReasonCount, VersionRow, clauses, reasons, versions
from annotation.selectors.guidelines import criterion_label, level_text
from annotation.views.agreement.query import Asked
from annotation.views.agreement.wording import STATISTICS, alpha_of, figure, percent, reasons_by_key

OTHERS = 2
REASONS = 2


def context(asked: Asked) -> dict[str, Any]:
    said = reasons_by_key()
    patterns = asked.patterns
    changes = versions(patterns, asked.choice.statistic if _fits_all(asked) else "")
    latest = {guideline.name: guideline for guideline in patterns.guidelines.values()}
    return {
        "clauses": [_clause(clause, asked, said) for clause in clauses(patterns.labels, asked.person)],
        "versions": [_version(change, asked) for change in changes],
        "compared": any(change.change is not None for change in changes),
        "reasons": [_reason(reason, asked, said) for reason in reasons(patterns.labels)],
        "guidelines": list(latest.values()),
    }


def _fits_all(asked: Asked) -> bool:
    """Whether every row has the statistic: alpha of one level of scale is undefined on others."""
    return not asked.choice.statistic.startswith("alpha_") or all(
        alpha_of(one.measurement) == asked.choice.statistic for one in asked.overall
    )


def _clause(one: Clause, asked: Asked, said: dict[str, str]) -> dict[str, Any]:
    choice = asked.choice
    guideline = next(g for g in reversed(list(asked.patterns.guidelines.values())) if g.name == one.guideline)
    several = {"guideline": one.guideline} if asked.words.several else {}
    inside = choice.narrowing.with_group({"criterion": one.criterion.name, **several})
    given = replace(inside, level=one.value)
    return {
        "guideline": guideline,
        "criterion": criterion_label(guideline.document, one.criterion.name),
        "level": level_text(one.criterion, one.value),
        "n": one.disputed.n,
        "disputed": one.disputed.part,
        "share": percent(one.disputed),
        "tasks": choice.tasks(given),
        "disputes": choice.tasks(replace(given, disputed=True)),
        "others": [
            {
                "words": level_text(one.criterion, other),
                "n": n,
                "url": choice.tasks(inside.between(min(one.value, other), max(one.value, other))),
            }
            for other, n in one.others[:OTHERS]
        ],
        "reasons": [
            {
                "words": said.get(key, key),
                "n": n,
                "url": choice.tasks(replace(given, disputed=True, reason=key)),
            }
            for key, n in one.reasons[:REASONS]
        ],
        "notes": one.notes,
        "open_notes": one.open_notes,
    }


def _version(one: VersionRow, asked: Asked) -> dict[str, Any]:
    counted, choice = one.counted, asked.choice
    name = choice.statistic if _fits_all(asked) else alpha_of(counted.measurement)
    measured = counted.measured((name,))
    criterion = {"criterion": counted.criterion} if counted.criterion is not None else {}
    inside = choice.narrowing.with_group({"guideline_version": one.version, **criterion})
    return {
        "version": one.version,
        "criterion": asked.words.criterion(counted.guideline, counted.criterion),
        "statistic": STATISTICS[name],
        "n": measured.n,
        "disputed": measured.disputed,
        "figure": figure(measured.statistics[name]),
        "since": one.since,
        "change": _change(one.change),
        "tasks": choice.tasks(inside),
        "disputes": choice.tasks(replace(inside, disputed=True)),
    }


def _change(found: Statistic | None) -> dict[str, Any] | None:
    """With its direction where the interval leaves out 0, and a word for it."""
    if found is None or found.value is None:
        return None
    direction, words = "", gettext("no sure change")
    if found.low is not None and found.low > 0:
        direction, words = "up", gettext("better")
    elif found.high is not None and found.high < 0:
        direction, words = "down", gettext("worse")
    return {"statistic": found, "direction": direction, "words": words}


def _reason(one: ReasonCount, asked: Asked, said: dict[str, str]) -> dict[str, Any]:
    choice = asked.choice
    return {
        "words": said.get(one.key, one.key),
        "n": one.tasks.part,
        "share": percent(one.tasks),
        "url": choice.tasks(replace(choice.narrowing, reason=one.key)),
    }
