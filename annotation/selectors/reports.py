"""What the appendix of a paper says of some batches, or of a gold release: the report (``docs/agreement.md``).

Plain values, as ``report --json`` prints them; undefined is None. Nobody is named. A release's report shows what the
manifest froze as it was frozen, and disputes and decisions as they are now.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from django.db.models import Count, F, Q

from annotation.core.proportions import wilson
from annotation.core.version import code_version
from annotation.domain.adjudication import SOURCES
from annotation.domain.guidelines.values import strip_turn
from annotation.domain.releases.canonical import number
from annotation.domain.releases.manifest import order_by_declaration, order_manifest
from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Batch,
    DisputeReason,
    GoldLabel,
    GoldRelease,
    Task,
)
from annotation.selectors.agreement import LabelPatterns, applicability_to_json, parse_groupings
from annotation.selectors.agreement.slates import list_slate_agreement
from annotation.selectors.counts import count_by_stratum
from annotation.selectors.origins import add_origins, count_imported_work
from annotation.selectors.quality.adjudicators import (
    measure_adjudicator_agreement,
    measure_intra_rater_agreement,
)
from annotation.selectors.releases.manifest import (
    describe_guidelines,
    describe_people,
    describe_protocol,
    list_submitted,
)

FROZEN = ("guidelines", "protocol", "people", "imported", "agreement", "coverage")
"""What a manifest has as the report has it."""
CHUNK = 2000
Labels = Mapping[str, Any]


def build_batches_report(batches: Sequence[Batch]) -> dict[str, Any]:
    """Of these batches as they stand now; they come with their guidelines."""
    ordered = sorted(batches, key=lambda batch: batch.name)
    guidelines = describe_guidelines(ordered)
    patterns = LabelPatterns(ordered)
    return {
        "release": None,
        "batches": [batch.name for batch in ordered],
        "code_version": code_version(),
        "guidelines": guidelines,
        "protocol": [describe_protocol(batch) for batch in ordered],
        "people": describe_people(ordered),
        "imported": count_imported_work(ordered),
        "agreement": [row.to_json() for row in patterns.report([("dimension",)])],
        "coverage": patterns.labels.coverage.to_json(),
        "not_applicable": [applicability_to_json(row) for row in patterns.list_applicability()],
        **_describe_present(ordered),
        "gold": _count_gold(
            ordered, [criterion["name"] for guideline in guidelines for criterion in guideline["criteria"]]
        ),
    }


def build_release_report(release: GoldRelease) -> dict[str, Any]:
    """Of a release; what an older manifest lacks is None."""
    manifest = order_manifest(add_origins(release))
    counts = manifest.get("counts", {})
    batches = list(release.batches.select_related("guideline").order_by("name"))
    return {
        "release": {"name": release.name, "sha256": release.sha256, "created": manifest.get("created")},
        "batches": manifest.get("batches", [batch.name for batch in batches]),
        "code_version": manifest.get("code_version"),
        **{name: manifest.get(name) for name in FROZEN},
        **_describe_present(batches),
        "gold": {
            "labels": release.labels,
            "by_source": counts.get("by_source", {}),
            "by_level": counts.get("by_level", {}),
            "splits": manifest.get("splits"),
        },
    }


def _describe_present(batches: Sequence[Batch]) -> dict[str, Any]:
    return {
        "effort": _measure_effort(batches),
        "disputes": _count_disputes(batches),
        "reasons": _count_reasons(batches),
        "outcomes": _count_outcomes(batches),
    }


def _measure_effort(batches: Sequence[Batch]) -> dict[str, Any]:
    """Annotations of each annotator (fewest, median, most) and the median of the seconds that one took."""
    submitted = list_submitted(batches).filter(slot__lt=ADJUDICATION_SLOT)
    counts = sorted(submitted.values("person").annotate(n=Count("pk")).values_list("n", flat=True))
    return {
        "annotations": {
            "fewest": counts[0] if counts else None,
            "median": number(median(counts)) if counts else None,
            "most": counts[-1] if counts else None,
        },
        "median_seconds": _find_median_seconds(batches),
    }


def _find_median_seconds(batches: Sequence[Batch]) -> float | None:
    """Of what was given here. Found by its place in the order, so that the database hands over two numbers at most."""
    timed = Annotation.objects.filter(
        Q(assignment__imported=None) | Q(revision__gt=1),
        current=True,
        seconds__isnull=False,
        assignment__batch__in=[batch.pk for batch in batches],
        assignment__slot__lt=ADJUDICATION_SLOT,
        assignment__task__kind=Task.Kind.WORK,
    ).order_by("seconds")
    n = timed.count()
    middle = timed.values_list("seconds", flat=True)[max(0, (n - 1) // 2) : n // 2 + 1]
    return median(seconds for seconds in middle if seconds is not None) if n else None


def _count_disputes(batches: Sequence[Batch]) -> list[dict[str, Any]]:
    """Tasks with all their annotations, and how many of them were disputed: in all, and by dimension."""
    complete: Counter[str] = Counter()
    disputed: Counter[str] = Counter()
    for stratum, counts in count_by_stratum([batch.pk for batch in batches]).items():
        differing = counts[Task.State.DISPUTED] + counts[Task.State.ADJUDICATED]
        complete[stratum.dimension] += counts[Task.State.AGREED] + differing
        disputed[stratum.dimension] += differing
    dimensions = sorted(name for name in complete if complete[name])
    rows = [(name, disputed[name], complete[name]) for name in dimensions]
    total = (None, disputed.total(), complete.total())
    return [
        {"dimension": name, "tasks": n, "disputed": part, "share": _share_to_json(part, n)}
        for name, part, n in ([total, *rows] if len(rows) > 1 else [total])
    ]


def _share_to_json(part: int, n: int) -> dict[str, float] | None:
    if not n:
        return None
    low, high = wilson(part, n)
    return {"value": part / n, "low": low, "high": high}


def _list_decided(batches: Sequence[Batch]) -> Any:
    ids = [batch.pk for batch in batches]
    decided = Adjudication.objects.filter(assignment__batch__in=ids, task__kind=Task.Kind.WORK)
    return decided.exclude(task__state=Task.State.WITHDRAWN)


def _count_reasons(batches: Sequence[Batch]) -> list[dict[str, Any]]:
    """Why the annotators had differed, the most frequent first; without a reason it was decided elsewhere."""
    counted = _list_decided(batches).order_by().values(key=F("reason__key")).annotate(n=Count("pk"))
    counts = {row["key"]: row["n"] for row in counted}
    words = dict(DisputeReason.objects.filter(key__in=list(filter(None, counts))).values_list("key", "words"))
    return [
        {"reason": key, "words": words.get(key), "decisions": counts[key]}
        for key in sorted(counts, key=lambda key: (-counts[key], key or ""))
    ]


def _count_outcomes(batches: Sequence[Batch]) -> dict[str, Any]:
    """What became of disputed criteria: settled as the first annotator had them, as the second, as a further one, or
    as none; how many decisions differ from what the adjudicator had thought unseen; and how many were made alike
    when they were read a second time.
    """
    sides: Counter[str] = Counter()
    judged = changed = 0
    for decision, verdict, annotator_labels in _iterate_decisions(batches):
        sides.update(
            _name_side(value, [labels.get(name) for labels in annotator_labels])
            for name, value in decision.items()
        )
        if verdict is not None:
            judged += 1
            changed += any(verdict.get(name, value) != value for name, value in decision.items())
    intra_rater = [row for batch in batches for row in measure_intra_rater_agreement(batch)]
    n, same = sum(row.rate.n for row in intra_rater), sum(row.rate.equal for row in intra_rater)
    return {
        "decided": sides.total(),
        **{side: sides[side] for side in ("first", "second", "other", "neither")},
        "verdicts": judged,
        "changed": changed,
        "changed_share": _share_to_json(changed, judged),
        "read_twice": n,
        "decided_alike": same,
        "alike_share": _share_to_json(same, n),
    }


def _name_side(value: Any, values: Sequence[Any]) -> str:
    """Whose label the decision was: of the first in the order of the slots who had it."""
    if value not in values:
        return "neither"
    return ("first", "second", "other")[min(values.index(value), 2)]


def _iterate_decisions(batches: Sequence[Batch]) -> Iterator[tuple[Labels, Labels | None, list[Labels]]]:
    """Each decision, the verdict before it, and the annotators' labels in the order of the slots."""
    rows = list(
        _list_decided(batches).order_by("pk").values_list("task", "labels", "assignment__verdict__labels")
    )
    for start in range(0, len(rows), CHUNK):
        chunk = rows[start : start + CHUNK]
        annotations = Annotation.objects.filter(
            current=True,
            assignment__task__in=[task for task, *_rest in chunk],
            assignment__slot__lt=ADJUDICATION_SLOT,
        ).order_by("assignment__slot")
        annotator_labels: dict[int, list[Labels]] = defaultdict(list)
        for task, labels in annotations.values_list("assignment__task", "labels"):
            annotator_labels[task].append(labels)
        for task, decision, verdict in chunk:
            yield decision, verdict, annotator_labels[task]


def _count_gold(batches: Sequence[Batch], criteria: Sequence[str]) -> dict[str, Any]:
    settled = (
        GoldLabel.objects.filter(task__batch__in=[batch.pk for batch in batches], task__kind=Task.Kind.WORK)
        .exclude(task__state=Task.State.WITHDRAWN)
        .order_by()
    )
    by_level: dict[str, dict[str, int]] = defaultdict(dict)
    levels = settled.values_list("criterion", "value").annotate(n=Count("pk")).order_by("criterion", "value")
    for criterion, value, n in levels:
        # What is asked of each turn is counted over all turns.
        counts, level = by_level[strip_turn(criterion)], str(number(value))
        counts[level] = counts.get(level, 0) + n
    by_source = dict(settled.values_list("source").annotate(n=Count("pk")))
    return {
        "labels": sum(by_source.values()),
        "by_source": order_by_declaration(by_source, SOURCES),
        "by_level": order_by_declaration(by_level, criteria),
        "splits": None,
    }


def build_agreement(batches: Iterable[Batch], by: str) -> dict[str, Any]:
    """The agreement in these batches, each response of them once, as ``agreement --json`` prints it; ``by`` are its
    groupings.
    """
    groupings = parse_groupings(by)
    decided_twice = measure_adjudicator_agreement(list(batches))
    patterns = LabelPatterns(batches)
    return {
        "rows": [row.to_json() for row in patterns.report(groupings)],
        "not_applicable": [applicability_to_json(row) for row in patterns.list_applicability()],
        "slates": [row.to_json() for row in list_slate_agreement(patterns)],
        "intra_rater": [row.row().to_json() for row in patterns.list_intra_rater()],
        "coverage": patterns.labels.coverage.to_json(),
        "adjudicators": {
            "drawn": decided_twice.drawn,
            "waiting": decided_twice.waiting,
            "rows": [row.to_json() for row in decided_twice.rows],
        },
    }
