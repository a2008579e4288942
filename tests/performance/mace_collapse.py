"""Where MACE trusts nobody on real labels: no task's levels differ in probability by more than a little.

    python -m tests.performance.mace_collapse --data ../shared/data

The sets are published labels of several people, criterion by criterion: Lend an Ear (50 dialogues, six criteria of 1
to 5: the experts together and two by two, the language models, both, the crowd, everybody), XSTest (two people a
model) and PandaLM (three people's preferences). Each is fitted as ``aggregate_labels`` does. A solution has collapsed
where the most probable level of a task, in the mean over tasks, is less than 0.05 above an even one; the table says
how many of these the product called converged, and how many it said of that nobody is trusted. ``as voted``: of the
sets that have not collapsed, the mean share of tasks whose most probable level is one with most votes.
"""

from __future__ import annotations

import argparse
import csv
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from annotation.domain.quality.aggregation import DawidSkene, Ints, Mace, dawid_skene, mace

CRITERIA = (
    "validating_emotions",
    "encouraging_elaboration",
    "demonstrating_understanding",
    "advice_giving",
    "self_oriented",
    "dismissing_emotions",
)
EXPERTS, MODELS = ("expert1", "expert2", "expert3"), ("claude", "gemini", "gpt")
EVEN = 0.05


@dataclass(frozen=True)
class LabelSet:
    """Labels of one criterion: columns (N,), the classes counted from 0."""

    name: str
    criterion: str
    task: Ints
    worker: Ints
    label: Ints
    classes: int


def read_sets(data: Path) -> Iterator[LabelSet]:
    yield from _read_lend_an_ear(data / "lend_an_ear")
    yield from _read_xstest(data / "xstest")
    yield from _read_pandalm(data / "pandalm" / "testset_even.json")


def _build_set(name: str, criterion: str, rows: list[tuple[str, str, int]], classes: int) -> LabelSet:
    tasks, workers, labels = zip(*rows, strict=True)
    return LabelSet(
        name,
        criterion,
        np.unique(tasks, return_inverse=True)[1],
        np.unique(workers, return_inverse=True)[1],
        np.array(labels, dtype=np.int64),
        classes,
    )


def _read_lend_an_ear(folder: Path) -> Iterator[LabelSet]:
    ratings = {
        rater: list(csv.DictReader((folder / f"{rater}_ratings.csv").open(encoding="utf-8")))
        for rater in (*EXPERTS, *MODELS)
    }
    ratings["crowd"] = list(csv.DictReader((folder / "crowd_annotations.csv").open(encoding="utf-8")))
    groups = {"experts": EXPERTS, "experts and models": (*EXPERTS, *MODELS), "models": MODELS}
    groups |= {" and ".join(pair): pair for pair in combinations(EXPERTS, 2)}
    groups |= {"crowd": ("crowd",), "everybody": (*EXPERTS, *MODELS, "crowd")}
    for name, raters in groups.items():
        for criterion in CRITERIA:
            rows = {
                (row["conversation_id"], row.get("user_id", rater)): int(float(row[criterion])) - 1
                for rater in raters
                for row in ratings[rater]
                if row[criterion]
            }
            yield _build_set(
                f"Lend an Ear, {name}", criterion, [(*key, label) for key, label in rows.items()], 5
            )


def _read_xstest(folder: Path) -> Iterator[LabelSet]:
    for path in sorted(folder.glob("xstest_v2_completions_*.csv")):
        if path.stem.endswith("eval"):
            continue  # the same people's labels, beside another judge's
        with path.open(encoding="utf-8") as file:
            records = list(csv.DictReader(file))
        rows = [
            (record["id"], person, int(record[person][0]) - 1)
            for record in records
            for person in ("annotation_1", "annotation_2")
            if record[person]
        ]
        yield _build_set("XSTest", path.stem.removeprefix("xstest_v2_completions_"), rows, 3)


def _read_pandalm(path: Path) -> Iterator[LabelSet]:
    records = json.loads(path.read_text(encoding="utf-8"))
    people = ("annotator1", "annotator2", "annotator3")
    rows = [(str(record["idx"]), person, int(record[person])) for record in records for person in people]
    yield _build_set("PandaLM", "preference", rows, 3)


@dataclass(frozen=True)
class Row:
    """Of one method over all sets."""

    method: str
    sets: int
    collapsed: int
    called_converged: int
    declared: int
    not_converged: int
    as_voted: float
    seconds: float


def fit(method: str, labels: LabelSet) -> DawidSkene | Mace:
    columns: dict[str, Any] = {
        "task": labels.task,
        "worker": labels.worker,
        "label": labels.label,
        "classes": labels.classes,
    }
    if method == "dawid-skene":
        return dawid_skene(**columns)
    return mace(**columns, method="em" if method == "MACE, EM" else "variational")


def is_collapsed(result: DawidSkene | Mace) -> bool:
    return bool(result.posteriors.max(axis=1).mean() < 1 / result.posteriors.shape[1] + EVEN)


def measure_votes(labels: LabelSet, result: DawidSkene | Mace) -> float:
    counts = np.zeros((int(labels.task.max()) + 1, labels.classes))
    np.add.at(counts, (labels.task, labels.label), 1)
    place = result.posteriors.argmax(axis=1)
    return float((counts[np.arange(len(counts)), place] == counts.max(axis=1)).mean())


def measure(method: str, sets: list[LabelSet]) -> Row:
    began = time.perf_counter()
    results = [fit(method, labels) for labels in sets]
    seconds = time.perf_counter() - began
    collapsed = [is_collapsed(result) for result in results]
    return Row(
        method=method,
        sets=len(sets),
        collapsed=sum(collapsed),
        called_converged=sum(
            bad and result.converged for bad, result in zip(collapsed, results, strict=True)
        ),
        declared=sum(bool(getattr(result, "trusts_nobody", False)) for result in results),
        not_converged=sum(not result.converged for result in results),
        as_voted=float(
            np.mean(
                [
                    measure_votes(labels, result)
                    for labels, result, bad in zip(sets, results, collapsed, strict=True)
                    if not bad
                ]
            )
        ),
        seconds=seconds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="the folder of published data")
    options = parser.parse_args()
    sets = list(read_sets(options.data))
    print("| method | sets | collapsed | called converged | says so | not converged | as voted | seconds |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for method in ("MACE, variational", "MACE, EM", "dawid-skene"):
        row = measure(method, sets)
        cells = (row.method, row.sets, row.collapsed, row.called_converged, row.declared, row.not_converged)
        print(f"| {' | '.join(map(str, cells))} | {row.as_voted:.3f} | {row.seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
