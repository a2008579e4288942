"""What it is worth on a model that nobody labelled, how models differ, and what further labels would bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from annotation.models import Job, Person
from scoring.forms.predictions import DriftForm
from scoring.models import Scorer
from scoring.selectors.scorers import list_drift_checks, list_scorer_rows
from scoring.views.scorers.charts import curve_chart
from scoring.views.scorers.wording import at, statistic

MOST_DRIFTS = 20
MUCH_REPEATED = 0.05
STEPS = 24
"""Places on the drawn curve."""


def context(scorer: Scorer, person: Person) -> dict[str, Any]:
    checks = list_drift_checks(person, scorer)
    return {
        "models": _models(scorer),
        "has_left_out": "leave_one_model_out" in scorer.evaluation,
        "left_out": statistic(at(scorer.evaluation.get("leave_one_model_out"), ()).get("accuracy")),
        "drifts": _drifts(checks),
        "drifting": next((job for job in checks if not job.is_over), None),
        "drift_failed": checks[0] if checks and checks[0].state == Job.State.FAILED else None,
        "drift_form": DriftForm(person=person, learned=scorer.card["models"]),
        "adaptation": _adaptation(scorer),
        "adaptations": _adaptations(scorer, person),
        "curve": _curve(scorer),
    }


def _models(scorer: Scorer) -> list[dict[str, Any]]:
    """A line for each model that it learned from, the one that was lost most without labels first."""
    by_model = scorer.evaluation["grouped"]["by_model"]
    left_out = scorer.evaluation.get("leave_one_model_out", {}).get("by_model", {})
    drift = scorer.card.get("drift", {}).get("models", {})
    found = [_model(name, one, left_out.get(name, {}), drift.get(name, {})) for name, one in by_model.items()]
    return sorted(found, key=lambda one: (one["order"], one["name"]))


def _model(
    name: str, grouped: Mapping[str, Any], left_out: Mapping[str, Any], drift: Mapping[str, Any]
) -> dict[str, Any]:
    without, lost = statistic(left_out.get("accuracy")), drift.get("accuracy_lost")
    repeated = drift.get("repeated", {})
    characters = drift.get("characters")
    return {
        "name": name,
        "n": grouped["n"],
        "accuracy": statistic(grouped["accuracy"]),
        "left_out": without,
        "lost": None if lost is None else -lost,
        "auc": drift.get("auc"),
        "repeated": repeated.get("share"),
        "commonest": _worth_reading(repeated.get("commonest")),
        "characters": characters[1] if characters else None,
        "confidence": drift.get("confidence"),
        "order": without.value if without else 1.0,
    }


def _worth_reading(commonest: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A text that a model repeats; two alike by chance are none."""
    return commonest if commonest is not None and commonest["share"] >= MUCH_REPEATED else None


def _drifts(checks: Sequence[Job]) -> list[dict[str, Any]]:
    """What was compared last of each model and dataset, the newest first."""
    found: dict[tuple[str, str | None], dict[str, Any]] = {}
    for job in checks[:MOST_DRIFTS]:
        if job.state == Job.State.DONE:
            key = job.result["model"], job.result["dataset"]
            found.setdefault(key, _drift(job.result, job.finished_at))
    return list(found.values())


def _drift(result: Mapping[str, Any], when: Any) -> dict[str, Any]:
    found = result["drift"]
    new = found["new"]
    return {
        "model": result["model"],
        "dataset": result["dataset"],
        "when": when,
        "n": new["n"],
        "auc": new["auc"],
        "shared": new["auc_prompts"] == "shared",
        "repeated": new["repeated"]["share"],
        "commonest": new["repeated"]["commonest"],
        "confidence": new["confidence"],
        "length": found["shift"]["length"],
        "scripts": found["shift"]["scripts"],
        "known_prompts": found["known_prompts"],
        "known_texts": found["known_texts"],
        "most_different": found["most_different"],
    }


def _adaptation(scorer: Scorer) -> dict[str, Any] | None:
    """What the labels of the model that it was adapted to brought."""
    found = scorer.evaluation.get("adaptation")
    if not found:
        return None
    return {
        "model": found["model"],
        "n": found["n"],
        "labels": found["labels"],
        "lines": [
            (figure, *(statistic(found[side][name]) for side in ("without", "with", "difference")))
            for name, figure in (("accuracy", "accuracy"), ("macro_f1", "macro_f1"))
        ],
    }


def _adaptations(scorer: Scorer, person: Person) -> list[dict[str, Any]]:
    """The scorers that were adapted from this one, as far as the person may open them."""
    theirs = {one.scorer.pk for one in list_scorer_rows(person) if not one.sealed}
    found = scorer.adaptations.filter(pk__in=theirs).select_related("adapted_to", "job")
    return [
        {
            "scorer": one,
            "difference": statistic(
                at(one.evaluation.get("adaptation"), ("difference",)).get("accuracy")
                if one.is_ready
                else None
            ),
        }
        for one in found
    ]


def _curve(scorer: Scorer) -> dict[str, Any] | None:
    found = scorer.evaluation.get("learning_curve")
    if not found:
        return None
    ahead = found["next"] or {}
    return {
        "chart": curve_chart(found["points"], _fitted(found)),
        "points": [
            {
                "share": one["share"],
                "prompts": one["prompts"],
                "labels": one["labels"],
                "accuracy": statistic(one["accuracy"]),
                "macro_f1": statistic(one["macro_f1"]),
            }
            for one in found["points"]
        ],
        "labels": ahead.get("labels"),
        "next": [
            {"name": name, **{end: statistic(ahead[name][end]) for end in ("now", "then", "gain")}}
            for name in ("accuracy", "macro_f1")
            if name in ahead
        ],
    }


def _fitted(found: Mapping[str, Any]) -> list[tuple[float, float]]:
    """The fitted curve from the first point to as many labels ahead as it is trusted for."""
    law = (found["fit"] or {}).get("accuracy")
    ahead = found["next"]
    if law is None or ahead is None:
        return []
    first, last = found["points"][0]["labels"], found["points"][-1]["labels"]
    stop = last / found["points"][-1]["share"] + ahead["labels"]
    step = (stop - first) / STEPS
    places = [first + step * place for place in range(STEPS + 1)]
    return [(labels, 1 - law["a"] * labels ** -law["b"]) for labels in places if labels > 0]
