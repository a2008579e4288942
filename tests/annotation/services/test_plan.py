"""Plans in the database: even, the same for the same seed, planned again only where a place came back."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from annotation.core.errors import AssayError
from annotation.domain.batch_spec import AnnotatorShare, BatchSpec, Policy
from annotation.models import Batch, Guideline, Panel, Person, Task
from annotation.selectors.batches.needs import list_needs
from annotation.services.assignments import claim_next_task, expire_leases, release_assignment
from annotation.services.batches.batches import create_batch, set_state
from annotation.services.batches.members import join_batch, set_limits, set_member_active
from annotation.services.batches.tasks import assign_tasks
from annotation.services.people.people import add_person
from tests.annotation.invariants import nothing_is_broken
from tests.support import label, label_next, make_batch, make_corpus

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
Plan = dict[int, frozenset[str]]


def people(number: int) -> list[Person]:
    return [add_person(name=f"p{n}", roles=["annotator"]) for n in range(number)]


def plan_of(batch: Batch) -> Plan:
    """The names of those whom each task is planned for, by the task's position."""
    rows = batch.tasks.values_list("position", "panel__members__person__username")
    pairs: dict[int, set[str]] = {}
    for position, name in rows:
        pairs.setdefault(position, set()).update([name] if name else [])
    return {position: frozenset(names) for position, names in pairs.items()}


def loads(plan: Plan) -> Counter[str]:
    return Counter(name for names in plan.values() for name in names)


def shared(plan: Plan) -> Counter[tuple[str, ...]]:
    return Counter(pair for names in plan.values() for pair in combinations(sorted(names), 2))


def spread(counts: Counter[str] | Counter[tuple[str, ...]], number: int) -> int:
    """Between the most and the least of ``number``, of which some may have none."""
    all_of_them = [*counts.values(), *[0] * (number - len(counts))]
    return max(all_of_them) - min(all_of_them)


def balanced(
    guideline: Guideline,
    cast: list[Person],
    prompts: int,
    *,
    overlap: int = 2,
    seed: int = 0,
    name: str = "b",
) -> Batch:
    dataset = make_corpus(prompts=prompts, models=["A"], name=f"corpus of {name}")
    policy = Policy(overlap=overlap, pairing="balanced", seed=seed)
    return make_batch(guideline, dataset, annotators=cast, name=name, policy=policy)


@pytest.mark.parametrize(("number", "tasks"), [(3, 10), (4, 25), (5, 23), (8, 61)])
def test_at_overlap_two_all_pairs_share_as_many_tasks_but_for_one(
    guideline: Guideline, number: int, tasks: int
):
    plan = plan_of(balanced(guideline, people(number), tasks))
    assert len(plan) == tasks
    assert {len(names) for names in plan.values()} == {2}
    assert spread(shared(plan), number * (number - 1) // 2) <= 1
    assert spread(loads(plan), number) <= 1


def test_at_overlap_three_seven_people_form_a_complete_design(guideline: Guideline):
    plan = plan_of(balanced(guideline, people(7), 70, overlap=3))
    assert set(shared(plan).values()) == {10}  # 70 tasks x 3 pairs each / 21 pairs
    assert set(loads(plan).values()) == {30}  # 70 x 3 / 7


def test_the_panels_tell_how_many_tasks_are_planned_for_them(guideline: Guideline):
    batch = balanced(guideline, people(4), 13)
    real = Counter(batch.tasks.values_list("panel", flat=True))
    assert dict(Panel.objects.filter(batch=batch).values_list("pk", "tasks_planned")) == real


def test_the_same_seed_gives_the_same_plan_and_another_seed_another(guideline: Guideline):
    cast = people(6)
    first, repeated, other = (
        plan_of(balanced(guideline, cast, 40, seed=seed, name=name))
        for seed, name in ((3, "first"), (3, "again"), (4, "other"))
    )
    assert first == repeated
    assert first != other


def test_a_draft_is_planned_when_it_opens_and_nothing_counts_as_come_back(guideline: Guideline):
    cast = people(4)
    corpus = make_corpus(prompts=12, models=["A"])
    policy = Policy(pairing="balanced", seed=5)
    draft, opened = (
        create_batch(
            BatchSpec(
                name=name,
                guideline=guideline,
                dataset=corpus,
                annotators=cast,
                policy=policy,
                open_now=name == "opened",
            )
        )
        for name in ("draft", "opened")
    )
    assert set(plan_of(draft).values()) == {frozenset()}
    set_state(batch=draft, state="open")
    assert plan_of(draft) == plan_of(opened)
    assert not Task.objects.filter(requeued=True).exists()


def test_fixed_gives_each_task_to_one_named_pair_and_each_pair_as_many(guideline: Guideline):
    cast = people(4)
    pairs = [cast[:2], cast[2:], [cast[0], cast[3]]]
    dataset = make_corpus(prompts=12, models=["A"])
    batch = make_batch(guideline, dataset, annotators=cast, pairs=pairs, policy=Policy(pairing="fixed"))
    named = {frozenset(person.username for person in pair) for pair in pairs}
    assert Counter(plan_of(batch).values()) == dict.fromkeys(named, 4)


def test_a_plan_keeps_to_what_is_ruled_out_for_somebody(guideline: Guideline):
    cast = people(4)
    batch = create_batch(
        BatchSpec(
            name="b",
            guideline=guideline,
            dataset=make_corpus(prompts=20, models=["A"]),
            annotators=cast,
            shares={cast[0]: AnnotatorShare(excluded_dimensions=["safe"])},
            policy=Policy(pairing="balanced"),
        )
    )
    safe = set(batch.tasks.filter(stratum__dimension="safe").values_list("position", flat=True))
    plan = plan_of(batch)
    assert len(safe) == 10
    assert not any("p0" in plan[position] for position in safe)
    assert any("p0" in names for names in plan.values())


def test_a_skip_plans_that_one_place_again_and_nothing_else(guideline: Guideline):
    cast = people(5)
    batch = balanced(guideline, cast, 20)
    before = plan_of(batch)
    item = claim_next_task(batch=batch, person=cast[0])
    assert item is not None
    release_assignment(assignment_id=item.pk, person=cast[0], skip_reason="I know the author")
    after, position = plan_of(batch), item.task.position
    assert {place for place in before if before[place] != after[place]} == {position}
    assert before[position] - after[position] == {"p0"}
    assert len(after[position]) == 2
    # To one who had least to do, before: 20 x 2 / 5 each.
    assert set(loads(before).values()) == {8}
    nothing_is_broken(batch)


def test_a_skip_of_what_was_given_to_others_meanwhile_leaves_their_plan(guideline: Guideline):
    cast = people(5)
    batch = balanced(guideline, cast, 10)
    item = claim_next_task(batch=batch, person=cast[0])
    assert item is not None
    assign_tasks(batch=batch, tasks=[item.task_id], people=cast[1:3])
    release_assignment(assignment_id=item.pk, person=cast[0], skip_reason="I know the author")
    assert plan_of(batch)[item.task.position] == {"p1", "p2"}
    nothing_is_broken(batch)


def test_whoever_leaves_has_only_their_untaken_places_planned_again(guideline: Guideline):
    cast = people(5)
    batch = balanced(guideline, cast, 40)
    for _item in range(3):
        label_next(batch, cast[0], 3)
    held = claim_next_task(batch=batch, person=cast[1])
    assert held is not None
    before = plan_of(batch)
    done = {
        assignment.task.position for assignment in batch.assignments.filter(person=cast[0], state="submitted")
    }
    set_member_active(batch=batch, person=cast[0], role="annotator", active=False)
    after = plan_of(batch)
    assert len(done) == 3
    for position, names in before.items():
        if "p0" not in names or position in done:
            assert after[position] == names
        else:
            assert names - after[position] == {"p0"}
            assert len(after[position]) == 2
    rest = loads({position: names - {"p0"} for position, names in after.items()})
    assert spread(rest, 4) <= 1
    assert batch.assignments.get(pk=held.pk).state == "claimed"
    nothing_is_broken(batch)


def test_whoever_joins_changes_no_plan_and_gets_what_needed_a_person(guideline: Guideline, lin: Person):
    cast = people(2)
    batch = balanced(guideline, cast, 6)
    item = claim_next_task(batch=batch, person=cast[0])
    assert item is not None
    release_assignment(assignment_id=item.pk, person=cast[0], skip_reason="I know the author")
    before = plan_of(batch)
    assert join_batch(batch=batch, role="annotator", people=[lin]) == 1
    after = plan_of(batch)
    assert {place for place in before if before[place] != after[place]} == {item.task.position}
    assert after[item.task.position] == {"p1", "lin"}
    claimed = claim_next_task(batch=batch, person=lin)
    assert claimed is not None
    assert claimed.task_id == item.task_id
    nothing_is_broken(batch)


def test_whoever_joins_gets_all_the_places_of_who_left_with_nobody_to_take_them(
    guideline: Guideline, lin: Person
):
    cast = people(2)
    batch = balanced(guideline, cast, 6)
    label_next(batch, cast[0], 3)
    set_member_active(batch=batch, person=cast[0], role="annotator", active=False)
    assert list_needs(batch, limit=10) == []  # the other one may take each of them
    assert join_batch(batch=batch, role="annotator", people=[lin]) == 5
    for person in (lin, cast[1]):
        while label_next(batch, person, 3) is not None:
            pass
    assert set(batch.tasks.values_list("state", flat=True)) == {"agreed"}
    assert batch.assignments.filter(person=lin).count() == 5
    nothing_is_broken(batch)


def test_a_place_goes_to_nobody_whose_quota_is_reached(guideline: Guideline):
    cast = people(4)
    batch = balanced(guideline, cast, 12)
    for person in cast[1:3]:
        for _item in range(2):
            label_next(batch, person, 3)
        set_limits(batch=batch, person=person, role="annotator", quota=2)
    before = plan_of(batch)
    own_positions = {position for position, names in before.items() if "p0" in names and "p3" not in names}
    tasks = Task.objects.filter(batch=batch, position__in=own_positions)
    set_member_active(batch=batch, person=cast[0], role="annotator", active=False)
    for task in tasks.filter(state="open").exclude(assignments__person=cast[0]):
        assert {"p3"} <= set(plan_of(batch)[task.position])
    nothing_is_broken(batch)


def test_a_plan_beyond_somebodys_quota_is_refused_and_makes_nothing(guideline: Guideline):
    cast = people(2)
    with pytest.raises(AssayError, match="quota"):
        create_batch(
            BatchSpec(
                name="b",
                guideline=guideline,
                dataset=make_corpus(prompts=6, models=["A"]),
                annotators=cast,
                shares={cast[0]: AnnotatorShare(quota=5)},
                policy=Policy(pairing="balanced"),
            )
        )


def test_where_a_lease_ran_out_the_place_stays_planned_for_the_same_person(guideline: Guideline):
    cast = people(3)
    batch = balanced(guideline, cast, 9)
    before = plan_of(batch)
    item = claim_next_task(batch=batch, person=cast[0])
    assert item is not None
    assert expire_leases(batch=batch, now=item.lease_expires.replace(year=item.lease_expires.year + 1)) == 1
    assert plan_of(batch) == before
    assert claim_next_task(batch=batch, person=cast[0]) == item
    assert label(item, cast[0], 3).created


def test_a_task_can_be_planned_for_more_people_than_a_key_can_name(guideline: Guideline):
    cast = people(120)
    batch = make_batch(guideline, make_corpus(prompts=2, models=["A"]), annotators=cast)
    task = batch.tasks.order_by("rank")[0]
    for _twice in range(2):
        assign_tasks(batch=batch, tasks=[task.pk], people=cast)
    assert plan_of(batch)[task.position] == {person.username for person in cast}
    assert Panel.objects.filter(batch=batch).count() == 1
    nothing_is_broken(batch)
