"""What never breaks, read from the rows of a batch and worked out by none of the product's rules."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from annotation.domain.assignments.eligibility import list_slots
from annotation.models import (
    ADJUDICATION_SLOT,
    Adjudication,
    Annotation,
    Assignment,
    Batch,
    GoldLabel,
    LabelPosterior,
    MemberCounts,
    Membership,
    Panel,
    Person,
    Qualification,
    Stratum,
    Task,
)
from annotation.selectors.batches.needs import list_needs

LIVE = ("claimed", "submitted")
STATES = ("open", "agreed", "disputed", "adjudicated", "withdrawn")


def nothing_is_broken(batch: Batch, *, and_needs: bool = True) -> Tables:
    """Assert all of it; the tables as they were read for it. The needs take as long as all else together."""
    batch.refresh_from_db()
    now = Tables.read(batch)
    places_are_right(batch, now)
    annotations_are_right(now)
    gold_is_right(batch, now)
    known_items_are_right(now)
    repeats_are_right(now)
    counts_are_right(batch, now)
    nobody_is_passed_over(batch, now)
    if and_needs and batch.state != Batch.State.CLOSED:
        needs_are_right(batch, now)
    return now


@dataclass
class Tables:
    """The batch as its rows stand."""

    tasks: dict[int, dict[str, Any]]
    assignments: list[dict[str, Any]]
    annotations: list[dict[str, Any]]
    members: list[dict[str, Any]]
    panels: dict[int, set[int]]
    planned: dict[int, int]
    own_models: set[tuple[int, int]]
    failed: set[int]

    @classmethod
    def read(cls, batch: Batch) -> Tables:
        tasks = Task.objects.filter(batch=batch).values(
            *(
                "pk",
                "kind",
                "state",
                "overlap",
                "slots_taken",
                "rank",
                "requeued",
                "panel",
                "stratum",
                "prompt",
            ),
            *("settled_at", "repeats", "stratum__dimension", "stratum__language", "stratum__model"),
        )
        panels: dict[int, set[int]] = defaultdict(set)
        planned = {}
        for panel, number, member in Panel.objects.filter(batch=batch).values_list(
            "pk", "tasks_planned", "members"
        ):
            panels[panel].add(member)
            planned[panel] = number
        own = Person.own_models.through.objects.values_list("person", "evaluatedmodel")
        return cls(
            tasks={task["pk"]: task for task in tasks},
            assignments=list(Assignment.objects.filter(batch=batch).values()),
            annotations=list(Annotation.objects.filter(assignment__batch=batch).values()),
            members=list(
                Membership.objects.filter(batch=batch).values(
                    *("pk", "person", "role", "active", "quota", "excluded_dimensions", "cursor"),
                    *("last_prompt", "person__languages", "person__opted_out"),
                )
            ),
            panels=panels,
            planned=planned,
            own_models=set(own),
            failed={
                qualification.person_id
                for qualification in Qualification.objects.filter(batch=batch, state="failed")
                if not qualification.batch.qualifications.filter(
                    person=qualification.person_id, attempt__gt=qualification.attempt
                ).exists()
            },
        )

    def member(self, person: int, role: str = "annotator") -> dict[str, Any]:
        return next(member for member in self.members if (member["person"], member["role"]) == (person, role))

    def past(self, task: int, person: int) -> dict[str, Any] | None:
        own_assignments = (
            assignment
            for assignment in self.assignments
            if (assignment["task_id"], assignment["person_id"]) == (task, person)
        )
        return next(own_assignments, None)

    def ruled_out(self, member: dict[str, Any], task: dict[str, Any]) -> bool:
        language, reads = task["stratum__language"], member["person__languages"]
        return (
            task["stratum__dimension"] in (*member["excluded_dimensions"], *member["person__opted_out"])
            or (member["person"], task["stratum__model"]) in self.own_models
            or bool(language and reads and language not in reads)
        )

    def planned_for(self, member: dict[str, Any], task: dict[str, Any], batch: Batch) -> bool:
        if task["panel"] is None:
            return batch.pairing == Batch.Pairing.POOL
        return member["pk"] in self.panels[task["panel"]]

    def submitted_by(self, person: int) -> int:
        """What counts for the quota: also what stands on withdrawn tasks, and checks."""
        own_assignments = (assignment for assignment in self.assignments if assignment["person_id"] == person)
        own_assignments = (
            assignment
            for assignment in own_assignments
            if self.tasks[assignment["task_id"]]["kind"] != "qualification"
        )
        return sum(
            assignment["state"] == "submitted" and assignment["slot"] < ADJUDICATION_SLOT
            for assignment in own_assignments
        )

    def free(self) -> Iterator[dict[str, Any]]:
        """The tasks of work; a known item is for nobody but the one who was given it."""
        for task in self.tasks.values():
            if task["kind"] == "work" and task["state"] == "open" and task["slots_taken"] < task["overlap"]:
                yield task

    def may(self, member: dict[str, Any], task: dict[str, Any], batch: Batch) -> bool:
        """Whether an annotator may be given a place of this task, leaving aside what they hold of others."""
        past = self.past(task["pk"], member["person"])
        return (
            member["active"]
            and member["person"] not in self.failed
            and (member["quota"] is None or self.submitted_by(member["person"]) < member["quota"])
            and self.planned_for(member, task, batch)
            and not self.ruled_out(member, task)
            and (past is None or not (past["state"] in LIVE or past["skip_reason"]))
        )

    def may_decide(self, member: dict[str, Any], task: dict[str, Any]) -> bool:
        past = self.past(task["pk"], member["person"])
        return (
            member["active"]
            and not self.ruled_out(member, task)
            and (
                past is None
                or not (past["state"] in LIVE or past["skip_reason"] or past["slot"] < ADJUDICATION_SLOT)
            )
        )

    def held_disputes(self) -> set[int]:
        return {
            assignment["task_id"]
            for assignment in self.assignments
            if assignment["slot"] == ADJUDICATION_SLOT and assignment["state"] in LIVE
        }

    def of_role(self, role: str) -> list[dict[str, Any]]:
        return [member for member in self.members if member["role"] == role]


def places_are_right(batch: Batch, now: Tables) -> None:
    live: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for assignment in now.assignments:
        if assignment["state"] in LIVE:
            live[assignment["task_id"]].append(assignment)
        if assignment["skip_reason"]:
            assert assignment["state"] == "released"
    for pk, task in now.tasks.items():
        annotating = [assignment for assignment in live[pk] if assignment["slot"] < ADJUDICATION_SLOT]
        deciding = [assignment for assignment in live[pk] if assignment["slot"] == ADJUDICATION_SLOT]
        assert task["slots_taken"] == len(annotating) <= task["overlap"]
        slots = {assignment["slot"] for assignment in annotating}
        assert len(slots) == len(annotating)
        # The end of an open collection lowers the overlap to the labels that are there, whatever slots they are in:
        # somebody who left may have freed a lower one.
        if batch.plan == Batch.Plan.FIXED:
            assert slots <= set(list_slots(task["overlap"]))
        assert len({assignment["person_id"] for assignment in live[pk]}) == len(live[pk])
        assert len(deciding) <= 1
        if task["kind"] not in ("repeat", "second") and task["state"] not in ("open", "withdrawn"):
            assert [assignment["state"] for assignment in annotating] == ["submitted"] * task["overlap"]
    held = Counter(
        (assignment["person_id"], assignment["slot"] == ADJUDICATION_SLOT)
        for assignment in now.assignments
        if assignment["state"] == "claimed"
    )
    assert all(number <= (1 if deciding else 2) for (_person, deciding), number in held.items())
    if batch.state == Batch.State.CLOSED:
        assert not held


def annotations_are_right(now: Tables) -> None:
    """Whoever submitted has one current annotation, and nobody else has any."""
    submitted = [
        assignment["id"]
        for assignment in now.assignments
        if assignment["state"] == "submitted" and assignment["slot"] < ADJUDICATION_SLOT
    ]
    assert sorted(
        annotation["assignment_id"] for annotation in now.annotations if annotation["current"]
    ) == sorted(submitted)


def gold_is_right(batch: Batch, now: Tables) -> None:
    """Every criterion that somebody answered has the gold that follows from the labels, the decision and the policy;
    of a dispute those that nobody has to decide.
    """
    over = {pk for pk, task in now.tasks.items() if task["state"] in ("agreed", "adjudicated")}
    assert {pk for pk, task in now.tasks.items() if task["settled_at"] is not None} == over
    stored: dict[int, dict[str, tuple[Any, str]]] = defaultdict(dict)
    rows = GoldLabel.objects.filter(task__batch=batch).values_list("task", "criterion", "value", "source")
    for pk, criterion, value, source in rows:
        stored[pk][criterion] = ("na" if value is None else value, source)
    answers = _read_answers(batch, now)
    for pk, task in now.tasks.items():
        if task["kind"] != "work" or task["state"] == "open":
            assert pk not in stored
            continue
        expected = {name: gold for name in answers[pk].names if (gold := answers[pk].settle(name, batch))}
        if task["state"] == "withdrawn":  # before it was settled, or from a dispute
            assert stored[pk] in ({}, expected)
        else:
            assert stored[pk] == expected
            assert (expected.keys() == answers[pk].names) == (pk in over)


@dataclass
class Answers:
    """What was said of a task: by the annotators, by whom it was decided, and by the model of all labels."""

    labels: list[dict[str, Any]]
    decided: dict[str, Any]
    probabilities: dict[str, dict[str, float]]

    @property
    def names(self) -> set[str]:
        return {name for labels in self.labels for name in labels}

    def settle(self, name: str, batch: Batch) -> tuple[Any, str] | None:
        """The value and its source; None where a third person has to decide. No batch here has a tolerance."""
        values = [labels[name] for labels in self.labels if name in labels]
        if name in self.decided:
            return self.decided[name], "expert" if batch.settling == "experts" else "adjudicated"
        if self.probabilities:
            level, chance = max(self.probabilities[name].items(), key=lambda item: item[1])
            return (float(level), "aggregated") if chance >= batch.aggregation_threshold else None
        if len(set(values)) == 1:
            return values[0], "single" if len(values) == 1 else "unanimous"
        (commonest, n), *_rest = Counter(values).most_common()
        if batch.settling == "majority" and 2 * n > len(values):
            return commonest, "majority"
        if batch.settling == "median" and "na" not in values:
            return sorted(values)[(len(values) - 1) // 2], "median"
        return None


def _read_answers(batch: Batch, now: Tables) -> dict[int, Answers]:
    answers = {pk: Answers([], {}, {}) for pk in now.tasks}
    task_of = {assignment["id"]: assignment["task_id"] for assignment in now.assignments}
    for annotation in now.annotations:
        if annotation["current"]:
            answers[task_of[annotation["assignment_id"]]].labels.append(annotation["labels"])
    for pk, labels in Adjudication.objects.filter(task__batch=batch).values_list("task", "labels"):
        answers[pk].decided = labels
    stored = LabelPosterior.objects.filter(task__batch=batch)
    for pk, criterion, probabilities in stored.values_list("task", "criterion", "probabilities"):
        answers[pk].probabilities[criterion] = probabilities
    return answers


def known_items_are_right(now: Tables) -> None:
    """Each was given to one person, is in no plan and in no dispute, and skipped it is over."""
    of: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for assignment in now.assignments:
        of[assignment["task_id"]].append(assignment)
    for pk, task in now.tasks.items():
        if task["kind"] in ("check", "qualification"):
            assert (task["overlap"], task["panel"]) == (1, None)
            assert len(of[pk]) == 1
            assert task["state"] in ("open", "agreed", "withdrawn")
            assert not of[pk][0]["skip_reason"] or task["state"] == "withdrawn"


def repeats_are_right(now: Tables) -> None:
    """A repeat is its adjudicator's alone, stands beside a dispute that they decided, and skipped it is over. A second
    adjudication is for anybody who had no part in the dispute.
    """
    claims: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for assignment in now.assignments:
        claims[assignment["task_id"]].append(assignment)
    for pk, task in now.tasks.items():
        if task["kind"] == "second":
            dispute, involved = now.tasks[task["repeats"]], claims[task["repeats"]]
            assert (dispute["kind"], dispute["state"]) == ("work", "adjudicated")
            assert (task["overlap"], task["slots_taken"], task["panel"]) == (1, 0, None)
            assert all(claim["slot"] == ADJUDICATION_SLOT for claim in claims[pk])
            # Nobody who labelled or decided it has ever been given it.
            had_part = {claim["person_id"] for claim in involved if claim["state"] == "submitted"}
            assert had_part.isdisjoint(claim["person_id"] for claim in claims[pk])
            states = [claim["state"] for claim in claims[pk]]
            assert (task["state"] == "adjudicated") == (states.count("submitted") == 1)
            assert task["state"] in ("disputed", "adjudicated")
        if task["kind"] == "repeat":
            dispute = now.tasks[task["repeats"]]
            (decided,) = (
                claim["person_id"]
                for claim in claims[task["repeats"]]
                if claim["slot"] == ADJUDICATION_SLOT and claim["state"] == "submitted"
            )
            assert (dispute["kind"], dispute["state"]) == ("work", "adjudicated")
            assert (task["overlap"], task["slots_taken"], task["panel"]) == (1, 0, None)
            assert all(claim["person_id"] == decided for claim in claims[pk])
            assert all(claim["slot"] == ADJUDICATION_SLOT for claim in claims[pk])
            states = [claim["state"] for claim in claims[pk]]
            assert (task["state"] == "adjudicated") == (states == ["submitted"])
            assert (task["state"] == "withdrawn") == any(claim["skip_reason"] for claim in claims[pk])


def counts_are_right(batch: Batch, now: Tables) -> None:
    """What is counted along is what is there."""
    counted: dict[int, Counter[str]] = {}
    needed: Counter[int] = Counter()
    for row in Stratum.objects.filter(batch=batch).values():
        counted[row["id"]] = Counter({name: row[name] for name in (*STATES, "submitted")})
        needed[row["id"]] = row["labels_needed"]
    by_member: Counter[tuple[int, str]] = Counter()
    for row in MemberCounts.objects.filter(stratum__batch=batch).values():
        counted[row["stratum_id"]].update({name: row[name] for name in (*STATES, "submitted")})
        for name in ("submitted", "adjudicated", "skipped"):
            by_member[row["membership_id"], name] += row[name]
    real: dict[int, Counter[str]] = {pk: Counter() for pk in counted}
    real_of: Counter[tuple[int, str]] = Counter()
    for task in now.tasks.values():
        real[task["stratum"]][task["state"]] += 1
        if task["kind"] == "work" and task["state"] != "withdrawn":
            needed[task["stratum"]] -= batch.overlap if batch.plan == "open" else task["overlap"]
    assert not +needed
    assert not -needed
    for assignment in now.assignments:
        task, decides = now.tasks[assignment["task_id"]], assignment["slot"] == ADJUDICATION_SLOT
        member = now.member(assignment["person_id"], "adjudicator" if decides else "annotator")["pk"]
        if assignment["state"] == "submitted":
            real_of[member, "adjudicated" if decides else "submitted"] += 1
            if not decides and task["state"] != "withdrawn":
                real[task["stratum"]]["submitted"] += 1
        real_of[member, "skipped"] += bool(assignment["skip_reason"])
    assert {pk: +numbers for pk, numbers in counted.items()} == {pk: +n for pk, n in real.items()}
    assert all(number >= 0 for numbers in counted.values() for number in numbers.values())
    assert +by_member == +real_of
    planned = Counter(task["panel"] for task in now.tasks.values() if task["panel"] is not None)
    assert +Counter(now.planned) == planned


def nobody_is_passed_over(batch: Batch, now: Tables) -> None:
    """What somebody may take stands from their cursor on, or is marked as having come back."""
    for member in now.of_role("annotator"):
        for task in now.free():
            never_had = now.past(task["pk"], member["person"]) is None
            if never_had and now.planned_for(member, task, batch) and not now.ruled_out(member, task):
                assert task["requeued"] or task["rank"] >= member["cursor"]


def needs_are_right(batch: Batch, now: Tables) -> None:
    listed = [(need.role, need.task.pk) for need in list_needs(batch, limit=100)]
    expected = {
        ("annotator", task["pk"])
        for task in now.free()
        # An open plan needs nobody beyond its floor.
        if batch.plan == "fixed" or task["slots_taken"] < batch.overlap
        if not any(now.may(member, task, batch) for member in now.of_role("annotator"))
    } | {
        ("adjudicator", pk)
        for pk, task in now.tasks.items()
        if task["kind"] == "work" and task["state"] == "disputed" and pk not in now.held_disputes()
        if not any(now.may_decide(member, task) for member in now.of_role("adjudicator"))
    }
    assert sorted(listed) == sorted(expected)
