"""What it is worth on a model that nobody labelled, how models differ, and what further labels would bring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from annotation.models import Job, Person
from scoring.forms.predictions import DriftForm
from scoring.models import Scorer
from scoring.selectors.scorers import list_drift_checks, list_scorer_rows
from scoring.views.scorers.charts import curve_chart
from scoring.views.scorers.wording import find_group_metrics, to_figure

MAX_DRIFTS = 20
MIN_REPEATED_SHARE = 0.05
STEPS = 24
"""Places on the drawn curve."""


def build_context(scorer: Scorer, person: Person) -> dict[str, Any]:
    checks = list_drift_checks(person, scorer)
    return {
        "models": _list_models(scorer),
        "has_left_out": "leave_one_model_out" in scorer.evaluation,
        "left_out": to_figure(
            find_group_metrics(scorer.evaluation.get("leave_one_model_out"), ()).get("accuracy")
        ),
        "drifts": _list_drifts(checks),
        "drifting": next((job for job in checks if not job.is_over), None),
        "drift_failed": checks[0] if checks and checks[0].state == Job.State.FAILED else None,
        "drift_form": DriftForm(person=person, learned=scorer.card["models"]),
        "adaptation": _describe_adaptation(scorer),
        "adaptations": _list_adaptations(scorer, person),
        "curve": _describe_curve(scorer),
    }


def _list_models(scorer: Scorer) -> list[dict[str, Any]]:
    """A line for each model that it learned from, the one that was lost most without labels first."""
    by_model = scorer.evaluation["grouped"]["by_model"]
    left_out = scorer.evaluation.get("leave_one_model_out", {}).get("by_model", {})
    drift = scorer.card.get("drift", {}).get("models", {})
    rows = [
        _describe_model(name, figures, left_out.get(name, {}), drift.get(name, {}))
        for name, figures in by_model.items()
    ]
    return sorted(rows, key=lambda row: (row["order"], row["name"]))


def _describe_model(
    name: str, grouped: Mapping[str, Any], left_out: Mapping[str, Any], drift: Mapping[str, Any]
) -> dict[str, Any]:
    without, lost = to_figure(left_out.get("accuracy")), drift.get("accuracy_lost")
    repeated = drift.get("repeated", {})
    characters = drift.get("characters")
    return {
        "name": name,
        "n": grouped["n"],
        "accuracy": to_figure(grouped["accuracy"]),
        "left_out": without,
        "lost": None if lost is None else -lost,
        "auc": drift.get("auc"),
        "repeated": repeated.get("share"),
        "commonest": _find_repeated_text(repeated.get("commonest")),
        "characters": characters[1] if characters else None,
        "confidence": drift.get("confidence"),
        "order": without.value if without else 1.0,
    }


def _find_repeated_text(commonest: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """A text that a model repeats; two alike by chance are none."""
    return commonest if commonest is not None and commonest["share"] >= MIN_REPEATED_SHARE else None


def _list_drifts(checks: Sequence[Job]) -> list[dict[str, Any]]:
    """What was compared last of each model and dataset, the newest first."""
    latest: dict[tuple[str, str | None], dict[str, Any]] = {}
    for job in checks[:MAX_DRIFTS]:
        if job.state == Job.State.DONE:
            key = job.result["model"], job.result["dataset"]
            latest.setdefault(key, _describe_drift(job.result, job.finished_at))
    return list(latest.values())


def _describe_drift(result: Mapping[str, Any], when: Any) -> dict[str, Any]:
    drift = result["drift"]
    new = drift["new"]
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
        "length": drift["shift"]["length"],
        "scripts": drift["shift"]["scripts"],
        "known_prompts": drift["known_prompts"],
        "known_texts": drift["known_texts"],
        "most_different": drift["most_different"],
    }


def _describe_adaptation(scorer: Scorer) -> dict[str, Any] | None:
    """What the labels of the model that it was adapted to brought."""
    adaptation = scorer.evaluation.get("adaptation")
    if not adaptation:
        return None
    return {
        "model": adaptation["model"],
        "n": adaptation["n"],
        "labels": adaptation["labels"],
        "lines": [
            (figure, *(to_figure(adaptation[side][name]) for side in ("without", "with", "difference")))
            for name, figure in (("accuracy", "accuracy"), ("macro_f1", "macro_f1"))
        ],
    }


def _list_adaptations(scorer: Scorer, person: Person) -> list[dict[str, Any]]:
    """The scorers that were adapted from this one, as far as the person may open them."""
    open_scorers = {row.scorer.pk for row in list_scorer_rows(person) if not row.sealed}
    adapted_scorers = scorer.adaptations.filter(pk__in=open_scorers).select_related("adapted_to", "job")
    return [
        {
            "scorer": adapted,
            "difference": to_figure(
                find_group_metrics(adapted.evaluation.get("adaptation"), ("difference",)).get("accuracy")
                if adapted.is_ready
                else None
            ),
        }
        for adapted in adapted_scorers
    ]


def _describe_curve(scorer: Scorer) -> dict[str, Any] | None:
    curve = scorer.evaluation.get("learning_curve")
    if not curve:
        return None
    extrapolation = curve["next"] or {}
    return {
        "chart": curve_chart(curve["points"], _list_curve_points(curve)),
        "points": [
            {
                "share": point["share"],
                "prompts": point["prompts"],
                "labels": point["labels"],
                "accuracy": to_figure(point["accuracy"]),
                "macro_f1": to_figure(point["macro_f1"]),
            }
            for point in curve["points"]
        ],
        "labels": extrapolation.get("labels"),
        "next": [
            {"name": name, **{end: to_figure(extrapolation[name][end]) for end in ("now", "then", "gain")}}
            for name in ("accuracy", "macro_f1")
            if name in extrapolation
        ],
    }


def _list_curve_points(curve: Mapping[str, Any]) -> list[tuple[float, float]]:
    """The fitted curve from the first point to as many labels ahead as it is trusted for."""
    law = (curve["fit"] or {}).get("accuracy")
    extrapolation = curve["next"]
    if law is None or extrapolation is None:
        return []
    first, last = curve["points"][0]["labels"], curve["points"][-1]["labels"]
    stop = last / curve["points"][-1]["share"] + extrapolation["labels"]
    step = (stop - first) / STEPS
    places = [first + step * place for place in range(STEPS + 1)]
    return [(labels, 1 - law["a"] * labels ** -law["b"]) for labels in places if labels > 0]
