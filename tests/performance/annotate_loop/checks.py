"""Was all right? Counted from the database, whatever the clients believe."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.performance.annotate_loop.ledger import Ledger, Promise


@dataclass(frozen=True)
class Check:
    """``wrong`` is in how many places ``rule`` does not hold, ``example`` one of them."""

    rule: str
    wrong: int
    example: str

    @classmethod
    def of(cls, rule: str, violations: Iterable[object]) -> Check:
        violation_texts = [str(violation) for violation in violations]
        return cls(rule, len(violation_texts), violation_texts[0] if violation_texts else "")


@dataclass(frozen=True)
class Batches:
    """Batches by name; ``drained`` says that nothing may be left in them."""

    names: tuple[str, ...]
    overlap: int
    drained: bool


def check_batches(batches: Batches, ledgers: Sequence[Ledger]) -> list[Check]:
    rows = _rows(batches)
    return [
        *_labels(rows, batches),
        *_promises(rows, ledgers),
        *_claims(rows, batches, ledgers),
        *_counters(rows),
        *_counts(batches),
    ]


@dataclass(frozen=True)
class Rows:
    """What the tables hold of the batches: tasks by id, live and submitted places, annotations, decisions."""

    tasks: dict[int, Any]
    assignments: list[Any]
    annotations: list[Any]
    decisions: list[Any]
    repeats: list[Any]  # repeat adjudications, which are answered like decisions
    gold: Counter[int]

    def of_annotators(self) -> list[Any]:
        from annotation.models import ADJUDICATION_SLOT

        return [assignment for assignment in self.assignments if assignment["slot"] != ADJUDICATION_SLOT]


def _rows(batches: Batches) -> Rows:
    from annotation.models import Adjudication, Annotation, Assignment, GoldLabel, Task

    names = batches.names
    annotations = Annotation.objects.filter(assignment__batch__name__in=names, current=True)
    decisions = Adjudication.objects.filter(task__batch__name__in=names)
    of = (
        "assignment_id",
        "assignment__task_id",
        "assignment__person_id",
        "receipt",
        "idempotency_key",
        "labels",
    )
    gold = GoldLabel.objects.filter(task__batch__name__in=names).values_list("task_id", flat=True)
    return Rows(
        tasks={
            row["pk"]: row
            for row in Task.objects.filter(batch__name__in=names, kind="work").values(
                "pk", "state", "slots_taken", "overlap"
            )
        },
        assignments=list(
            Assignment.objects.filter(batch__name__in=names).values(
                "pk", "task_id", "person__username", "slot", "state", "batch__name"
            )
        ),
        annotations=list(annotations.values(*of)),
        decisions=list(decisions.exclude(task__kind="repeat").values(*of)),
        repeats=list(decisions.filter(task__kind="repeat").values(*of)),
        gold=Counter(gold),
    )


def _labels(rows: Rows, batches: Batches) -> Iterable[Check]:
    people: dict[int, list[int]] = defaultdict(list)
    for row in rows.annotations:
        people[row["assignment__task_id"]].append(row["assignment__person_id"])
    counts = {task: len(people[task]) for task in rows.tasks}
    if batches.drained:
        rule = f"every task has exactly {batches.overlap} annotations"
        wrong = [f"task {task}: {count}" for task, count in counts.items() if count != batches.overlap]
    else:
        rule = f"no task has more than {batches.overlap} annotations"
        wrong = [f"task {task}: {count}" for task, count in counts.items() if count > batches.overlap]
    yield Check.of(rule, wrong)
    twice = [f"task {task}" for task, labeller in people.items() if len(set(labeller)) != len(labeller)]
    yield Check.of("nobody annotated a task twice", twice)
    judged = [
        f"task {row['assignment__task_id']}"
        for row in rows.decisions
        if row["assignment__person_id"] in people[row["assignment__task_id"]]
    ]
    yield Check.of("nobody decided a dispute of their own", judged)
    yield Check.of("every task's state follows from its labels", _wrong_states(rows))
    settled = {task for task, row in rows.tasks.items() if row["state"] in {"agreed", "adjudicated"}}
    bare = [f"task {task}" for task in settled if not rows.gold[task]]
    early = [f"task {task}" for task in rows.gold if rows.tasks[task]["state"] == "open"]
    yield Check.of("gold stands where a task is settled, and only there", bare + early)


def _wrong_states(rows: Rows) -> Iterable[str]:
    """At no tolerance: agreed where all say the same, disputed or adjudicated elsewhere."""
    labels: dict[int, list[Any]] = defaultdict(list)
    for row in rows.annotations:
        labels[row["assignment__task_id"]].append(row["labels"])
    decided = {row["assignment__task_id"] for row in rows.decisions}
    for task, row in rows.tasks.items():
        task_labels = labels[task]
        if len(task_labels) < row["overlap"]:
            state = "open"
        elif all(row == task_labels[0] for row in task_labels):
            state = "agreed"
        else:
            state = "adjudicated" if task in decided else "disputed"
        if row["state"] != state:
            yield f"task {task} is {row['state']}, not {state}"


def _promises(rows: Rows, ledgers: Sequence[Ledger]) -> Iterable[Check]:
    stored = {_row(row, decision=False) for row in rows.annotations}
    stored |= {_row(row, decision=True) for row in [*rows.decisions, *rows.repeats]}
    receipts = {(promise.assignment, promise.receipt, promise.decision) for promise in stored}
    promises = [promise for ledger in ledgers for promise in ledger.promises]
    promise_keys = {(promise.assignment, promise.receipt, promise.decision) for promise in promises}
    yield Check.of("every receipt that was given is in the database", promise_keys - receipts)
    yield Check.of("nothing is stored that nobody was told of", receipts - promise_keys)


def _row(row: Any, *, decision: bool) -> Promise:
    return Promise(str(row["assignment_id"]), row["idempotency_key"], str(row["receipt"]), decision)


def _claims(rows: Rows, batches: Batches, ledgers: Sequence[Ledger]) -> Iterable[Check]:
    live = [assignment for assignment in rows.assignments if assignment["state"] == "claimed"]
    if batches.drained:
        yield Check.of(
            "no claim is left", [f"{claim['pk']} of {claim['person__username']}" for claim in live]
        )
        return
    handed: dict[str, set[str]] = defaultdict(set)
    for ledger in ledgers:
        handed[ledger.person] |= ledger.handed
    unknown = [claim["pk"] for claim in live if str(claim["pk"]) not in handed[claim["person__username"]]]
    yield Check.of("every live claim was handed to its holder", unknown)
    held = Counter((claim["batch__name"], claim["person__username"]) for claim in live)
    yield Check.of(
        "nobody holds more than two items", [holder for holder, count in held.items() if count > 2]
    )


def _counters(rows: Rows) -> Iterable[Check]:
    claimed_slots = Counter(
        assignment["task_id"]
        for assignment in rows.of_annotators()
        if assignment["state"] in {"claimed", "submitted"}
    )
    wrong = [
        f"task {task}: {row['slots_taken']}, not {claimed_slots[task]}"
        for task, row in rows.tasks.items()
        if row["slots_taken"] != claimed_slots[task]
    ]
    yield Check.of("slots_taken is the number of places taken", wrong)
    submitted = Counter(
        assignment["pk"] for assignment in rows.assignments if assignment["state"] == "submitted"
    )
    answered = Counter(row["assignment_id"] for row in [*rows.annotations, *rows.decisions, *rows.repeats])
    odd = (submitted - answered) + (answered - submitted)
    yield Check.of("what is submitted has one answer, and what has an answer is submitted", odd)


def _counts(batches: Batches) -> Iterable[Check]:
    """What is counted along, by stratum and by member, against what the rows say."""
    from django.db.models import Count, Sum

    from annotation.models import ADJUDICATION_SLOT, Assignment, MemberCounts, Stratum, Task

    names = ("open", "agreed", "disputed", "adjudicated", "withdrawn", "submitted")
    sums = [Sum(name) for name in names]
    counted: Counter[tuple[Any, ...]] = Counter()
    for rows in (
        Stratum.objects.filter(batch__name__in=batches.names).values_list("pk", *names),
        MemberCounts.objects.filter(stratum__batch__name__in=batches.names)
        .order_by()
        .values_list("stratum")
        .annotate(*sums),
    ):
        for stratum, *numbers in rows:
            counted.update({(stratum, name): n for name, n in zip(names, numbers, strict=True)})
    true: Counter[tuple[Any, ...]] = Counter()
    tasks = Task.objects.filter(batch__name__in=batches.names).order_by()
    true.update({row[:2]: row[2] for row in tasks.values_list("stratum", "state").annotate(Count("pk"))})
    done = Assignment.objects.filter(
        batch__name__in=batches.names, state="submitted", slot__lt=ADJUDICATION_SLOT
    ).order_by()
    by_stratum = done.values_list("task__stratum").annotate(n=Count("pk"))
    true.update({(stratum, "submitted"): n for stratum, n in by_stratum})
    wrong = [
        f"stratum {key}: {counted[key]}, not {true[key]}"
        for key in counted | true
        if counted[key] != true[key]
    ]
    yield Check.of("what is counted along is what the rows say, by stratum", wrong)

    tallies = MemberCounts.objects.filter(
        stratum__batch__name__in=batches.names, membership__role="annotator"
    ).order_by()
    member_rows = tallies.values_list("membership__batch", "membership__person").annotate(n=Sum("submitted"))
    members = {row[:2]: row[2] for row in member_rows}
    people = {row[:2]: row[2] for row in done.values_list("batch", "person").annotate(n=Count("pk"))}
    odd = [f"{key}: {members.get(key, 0)}, not {people.get(key, 0)}" for key in members | people
           if members.get(key, 0) != people.get(key, 0)]  # fmt: skip
    yield Check.of("and by member", odd)
