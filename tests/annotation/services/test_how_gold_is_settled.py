"""A batch's plan (a share of overlap, or open until its end), and the policies by which its gold is settled."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from annotation.core.errors import AssayError, Conflict, InputError
from annotation.domain.adjudication import SettlementRules, settle
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy, draw_overlapped
from annotation.domain.formats import Source
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import (
    Batch,
    Draft,
    GoldLabel,
    Guideline,
    Job,
    LabelPosterior,
    Membership,
    Person,
)
from annotation.services import jobs
from annotation.services.annotations.drafts import save_draft
from annotation.services.assignments import claim_next_task
from annotation.services.batches import collection
from annotation.services.batches.batches import set_state
from annotation.services.batches.collection import end_collection
from annotation.services.batches.members import set_member_active
from annotation.services.batches.tasks import restore_tasks, withdraw_tasks
from annotation.services.imports import ImportRequest, import_annotations
from annotation.services.people.people import add_person
from annotation.services.releases import cut_release
from tests.annotation.invariants import Tables, counts_are_right, places_are_right
from tests.annotation.several_criteria import criterion, guideline_of, scale
from tests.support import decide_next, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db

MODEL = "A"
CROWD = Path(__file__).resolve().parents[4] / "shared" / "data" / "lend_an_ear" / "crowd_annotations.csv"
KINDS = ("validating_emotions",)  # what all of them answered


@pytest.fixture
def five_levels() -> Guideline:
    return guideline_of(
        "five", [criterion("kind", scale({value: f"Level {value}" for value in range(1, 6)}))]
    )


@pytest.fixture
def nominal() -> Guideline:
    levels = scale({value: f"Level {value}" for value in range(1, 4)})
    return guideline_of("named", [criterion("kind", levels) | {"measurement": "nominal"}])


def annotators(number: int) -> list[Person]:
    return [add_person(name=f"annotator{place}", roles=["annotator"]) for place in range(number)]


def put(
    tmp_path: Path,
    batch: str,
    rows: Sequence[tuple[str, int, int | str]],
    *,
    final: Mapping[int, int] = {},
    policy: Policy | None = None,
    guideline: str | None = None,
) -> None:
    """Labels as (person, unit, value), and finals by unit."""
    path = tmp_path / "labels.jsonl"
    records: list[dict[str, Any]] = [
        {"prompt_id": f"p{unit}", "model": MODEL, "annotator": name, "labels": {"kind": value}}
        for name, unit, value in rows
    ]
    records += [
        {"prompt_id": f"p{unit}", "model": MODEL, "adjudicator": "expert", "labels": {"kind": value}}
        | {"rationale": "so"}
        for unit, value in final.items()
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    import_annotations(
        source=Source(path, path.name),
        format="jsonl",
        request=ImportRequest(
            batch=batch,
            guideline=guideline,
            dataset="small" if guideline else None,
            policy=policy or Policy(),
        ),
        new_people=True,
    )


def sources(batch: Batch) -> Counter[str]:
    return Counter(GoldLabel.objects.filter(task__batch=batch).values_list("source", flat=True))


def coverage(batch: Batch) -> dict[str, Any]:
    out = StringIO()
    call_command("agreement", "--batch", batch.name, "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer | answer["coverage"]


@pytest.mark.both_databases
def test_a_fifth_labelled_twice_drops_nothing(
    five_levels: Guideline, lin: Person, chen: Person, wu: Person, ma: Person, client: Client
):
    batch = make_batch(
        five_levels,
        make_corpus(prompts=50, models=[MODEL]),
        annotators=[lin, chen],
        adjudicators=[wu],
        policy=Policy(overlap=2, overlap_share=0.2, seed=3),
    )
    assert Counter(batch.tasks.values_list("overlap", flat=True)) == {1: 40, 2: 10}
    for person, value in ((lin, 1), (chen, 1)):
        while label_next(batch, person, value, "kind"):
            pass
    places_are_right(batch, _tables(batch))
    counts_are_right(batch, _tables(batch))
    answer = coverage(batch)
    assert answer["rows"][0]["n"] == 10
    assert answer["items_by_labels"] == {"1": 40, "2": 10}
    assert sources(batch) == {"single": 40, "unanimous": 10}
    client.force_login(ma)
    page = client.get(f"/batches/{batch.name}/").content.decode()
    words = " ".join(page.split())
    assert "40 with 1 label" in words
    assert "10 with 2 labels" in words
    release = cut_release(ReleaseSpec(name="gold", batches=(batch.pk,)), actor=ma)
    assert release.labels == 50
    assert release.manifest["counts"]["by_source"] == {"single": 40, "unanimous": 10}


def _tables(batch: Batch) -> Any:
    batch.refresh_from_db()
    return Tables.read(batch)


def test_the_draw_is_the_same_for_the_same_seed_and_has_its_share():
    first = draw_overlapped(range(50), share=0.2, seed=3)
    assert len(first) == 10
    assert first == draw_overlapped(range(50), share=0.2, seed=3)
    assert first != draw_overlapped(range(50), share=0.2, seed=4)
    assert len(draw_overlapped(range(7), share=0.1, seed=0)) == 1


@pytest.mark.parametrize(
    "fields",
    [
        {"plan": "open", "overlap_share": 0.5},
        {"plan": "open", "pairing": "balanced"},
        {"overlap_share": 0.5, "pairing": "fixed"},
        {"overlap_share": 0},
        {"settling": "luck"},
        {"plan": "luck"},
        {"aggregation_threshold": 0.5},
    ],
)
def test_a_plan_that_cannot_be_is_refused(fields: dict[str, Any]):
    with pytest.raises(AssayError):
        Policy(**fields)


@pytest.mark.parametrize(
    ("settling", "values", "value", "source"),
    [
        ("adjudicate", (1, 1, 2), None, None),
        ("majority", (1, 1, 2), 1, "majority"),
        ("majority", (1, 1, 2, 2), None, None),
        ("majority", (3, 3), 3, "unanimous"),
        ("median", (1, 2, 5), 2, "median"),
        ("median", (1, 4), 1, "median"),
        ("experts", (1, 2), None, None),
    ],
)
def test_a_policy_settles_what_it_may(settling: str, values: tuple[int, ...], value: int | None, source: str):
    outcome = settle([{"kind": each} for each in values], SettlementRules(settling=settling))
    if value is None:
        assert outcome.disputed == ("kind",)
    else:
        assert (outcome.settled["kind"].value, outcome.settled["kind"].source) == (value, source)


def test_names_have_no_median():
    labels = [{"kind": value} for value in (1, 2, 3)]
    assert settle(labels, SettlementRules(settling="median", nominal=frozenset({"kind"}))).disputed == (
        "kind",
    )


@pytest.mark.both_databases
def test_a_majority_of_three_settles_and_without_one_a_third_person_decides(
    five_levels: Guideline, wu: Person
):
    people = annotators(3)
    batch = make_batch(
        five_levels,
        make_corpus(prompts=2, models=[MODEL]),
        annotators=people,
        adjudicators=[wu],
        policy=Policy(overlap=3, settling="majority"),
    )
    for values in ((1, 1, 2), (1, 2, 3)):
        for person, value in zip(people, values, strict=True):
            label_next(batch, person, value, "kind")
    assert sources(batch) == {"majority": 1}
    decide_next(batch, wu, 5, "kind")
    assert sources(batch) == {"majority": 1, "adjudicated": 1}
    counts_are_right(batch, _tables(batch))


@pytest.mark.both_databases
def test_an_open_plan_takes_labels_until_its_end_and_settles_then(five_levels: Guideline, wu: Person):
    people = annotators(7)
    batch = make_batch(
        five_levels,
        make_corpus(prompts=3, models=[MODEL]),
        annotators=people,
        adjudicators=[wu],
        policy=Policy(overlap=2, plan="open"),
    )
    for person in people[:6]:
        label_next(batch, person, 1, "kind")  # all of them the first item: it is never full
    label_next(batch, people[0], 2, "kind")
    label_next(batch, people[1], 3, "kind")
    label_next(batch, people[2], 4, "kind")
    assert sources(batch) == {}
    assert coverage(batch)["items_by_labels"] == {"0": 1, "3": 1, "6": 1}
    late = claim_next_task(batch=batch, person=people[6])
    assert late is not None
    save_draft(assignment_id=late.pk, person=people[6], work=Submission(labels={"kind": 1}))
    with pytest.raises(Conflict, match="End the collection"):
        set_state(batch=batch, state=Batch.State.CLOSED)
    counts = end_collection(batch=batch)
    assert counts == {"agreed": 1, "disputed": 1, "adjudicated": 0, "open": 1}
    assert sources(batch) == {"unanimous": 1}
    assert Draft.objects.filter(assignment=late.pk).exists()
    late.refresh_from_db()
    assert late.state == "released"
    places_are_right(batch, _tables(batch))
    counts_are_right(batch, _tables(batch))
    # The item without labels goes on until it has as many as the plan asks for at least, and settles with the last.
    assert claim_next_task(batch=batch, person=people[6]) is not None
    label_next(batch, people[5], 2, "kind")
    label_next(batch, people[6], 2, "kind")
    assert sources(batch) == {"unanimous": 2}
    assert end_collection(batch=batch)["open"] == 0  # once more changes nothing
    assert sources(batch) == {"unanimous": 2}


def test_an_open_collection_ends_with_the_labels_that_are_there_whatever_slots_they_are_in(
    five_levels: Guideline, wu: Person
):
    first, leaver, last = people = annotators(3)
    batch = make_batch(
        five_levels,
        make_corpus(prompts=1, models=[MODEL]),
        annotators=people,
        adjudicators=[wu],
        policy=Policy(overlap=2, plan="open"),
    )
    label_next(batch, first, 1, "kind")
    assert claim_next_task(batch=batch, person=leaver) is not None
    label_next(batch, last, 2, "kind")
    set_member_active(batch=batch, person=leaver, role="annotator", active=False)
    assert end_collection(batch=batch) == {"agreed": 0, "disputed": 1, "adjudicated": 0, "open": 0}
    places_are_right(batch, _tables(batch))
    (task,) = batch.tasks.all()
    slots = task.assignments.filter(state="submitted").order_by("slot").values_list("slot", flat=True)
    assert (task.overlap, task.slots_taken, list(slots)) == (2, 2, [0, 2])
    decide_next(batch, wu, 2, "kind")
    assert sources(batch) == {"adjudicated": 1}
    places_are_right(batch, _tables(batch))


@pytest.mark.both_databases
def test_the_end_goes_on_where_it_was_killed(
    five_levels: Guideline, lin: Person, chen: Person, monkeypatch: pytest.MonkeyPatch
):
    batch = make_batch(
        five_levels,
        make_corpus(prompts=9, models=[MODEL]),
        annotators=[lin, chen],
        policy=Policy(overlap=1, plan="open"),
    )
    for person in (lin, chen):
        while label_next(batch, person, 1, "kind"):
            pass
    monkeypatch.setattr(collection, "CHUNK", 2)

    def kill(done: float) -> None:
        if done > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        end_collection(batch=batch, report=kill)
    settled = sum(sources(batch).values())
    assert 0 < settled < 9
    end_collection(batch=batch)
    assert sources(batch) == {"unanimous": 9}
    counts_are_right(batch, _tables(batch))


def test_a_withdrawn_item_of_an_open_plan_comes_back_open(five_levels: Guideline, lin: Person, chen: Person):
    batch = make_batch(
        five_levels,
        make_corpus(prompts=1, models=[MODEL]),
        annotators=[lin, chen],
        policy=Policy(overlap=2, plan="open"),
    )
    label_next(batch, lin, 1, "kind")
    label_next(batch, chen, 1, "kind")
    (task,) = batch.tasks.all()
    withdraw_tasks(batch=batch, tasks=[task.pk], reason="so")
    assert coverage(batch)["items_by_labels"] == {}
    restore_tasks(batch=batch, tasks=[task.pk])
    task.refresh_from_db()
    assert task.state == "open"
    assert coverage(batch)["items_by_labels"] == {"2": 1}
    counts_are_right(batch, _tables(batch))


def test_experts_may_overrule_unanimity_where_the_policy_says_so(five_levels: Guideline, tmp_path: Path):
    make_corpus(prompts=3, models=[MODEL])
    labels = [(name, unit, unit + 1) for unit in range(3) for name in ("a", "b")]
    policy = Policy(settling="experts")
    put(tmp_path, "e", labels, final={0: 4}, policy=policy, guideline="five")
    batch = Batch.objects.get(name="e")
    assert sources(batch) == {"unanimous": 2, "expert": 1}
    assert GoldLabel.objects.get(source="expert").value == 4
    counts_are_right(batch, _tables(batch))
    put(tmp_path, "e", labels, final={0: 4})  # the same file once more
    assert sources(batch) == {"unanimous": 2, "expert": 1}
    with pytest.raises(InputError):
        put(tmp_path, "plain", labels, final={0: 4}, guideline="five")


def test_a_final_decision_ends_the_collection_of_its_response(five_levels: Guideline, tmp_path: Path):
    make_corpus(prompts=2, models=[MODEL])
    labels = [("a", 0, 1), ("b", 0, 2), ("c", 0, 2), ("a", 1, 1)]
    put(tmp_path, "o", labels, final={0: 3}, policy=Policy(plan="open", overlap=1), guideline="five")
    batch = Batch.objects.get(name="o")
    assert sources(batch) == {"adjudicated": 1}
    end_collection(batch=batch)
    assert sources(batch) == {"adjudicated": 1, "single": 1}
    places_are_right(batch, _tables(batch))
    counts_are_right(batch, _tables(batch))


@pytest.mark.both_databases
@pytest.mark.parametrize("aggregation", ["dawid-skene", "mace"])
def test_a_model_of_all_labels_settles_what_it_is_sure_of_and_says_so_once(
    nominal: Guideline, wu: Person, tmp_path: Path, aggregation: str
):
    make_corpus(prompts=30, models=[MODEL])
    labels = [
        (f"person{person}", unit, 1 + (unit % 3 if person < 4 else (unit + person) % 3))
        for unit in range(30)
        for person in range(5)
    ]
    policy = Policy(plan="open", overlap=1, settling="aggregate", aggregation=aggregation)
    put(tmp_path, "g", labels, policy=policy, guideline="named")
    batch = Batch.objects.get(name="g")
    assert sources(batch) == {}
    end_collection(batch=batch)
    gold = dict(
        GoldLabel.objects.filter(source="aggregated").values_list("task__response__prompt__key", "value")
    )
    assert gold == {f"p{unit}": 1 + unit % 3 for unit in range(30)}
    stored = list(LabelPosterior.objects.order_by("pk").values("task", "criterion", "probabilities"))
    assert len(stored) == 30
    end_collection(batch=batch)
    assert list(LabelPosterior.objects.order_by("pk").values("task", "criterion", "probabilities")) == stored
    counts_are_right(batch, _tables(batch))


def test_what_the_model_is_not_sure_of_goes_to_a_third_person(nominal: Guideline, wu: Person):
    people = annotators(2)
    batch = make_batch(
        nominal,
        make_corpus(prompts=12, models=[MODEL]),
        annotators=people,
        adjudicators=[wu],
        policy=Policy(overlap=2, settling="aggregate", aggregation_threshold=0.999),
    )
    for place, person in enumerate(people):
        for unit in range(12):
            label_next(batch, person, 1 + (unit + (place if unit % 2 else 0)) % 3, "kind")
    assert sources(batch) == {}
    counts = end_collection(batch=batch)
    assert counts["disputed"] > 0
    before = sum(sources(batch).values())
    decide_next(batch, wu, 3, "kind")
    assert sources(batch)["adjudicated"] == 1
    assert sum(sources(batch).values()) == before + 1


def test_items_with_about_seventy_raters_all_count(nominal: Guideline, tmp_path: Path):
    """The shape of DICES-990, whose file is not among the published data here: items of 69 to 76 raters each. A
    fourth of its items is many times what is written at once.
    """
    units = 240
    make_corpus(prompts=units, models=[MODEL])
    labels = [
        (f"rater{person}", unit, 1 + (unit * 7 + person * person) % 3)
        for unit in range(units)
        for person in range(69 + unit % 8)
    ]
    put(tmp_path, "dices", labels, policy=Policy(plan="open", overlap=1), guideline="named")
    answer = coverage(Batch.objects.get(name="dices"))
    assert answer["rows"][0]["n"] == units
    assert sum(answer["items_by_labels"].values()) == units
    assert sum(int(n) * items for n, items in answer["items_by_labels"].items()) == len(labels)
    assert set(answer["items_by_labels"]) == {str(number) for number in range(69, 77)}


def test_the_crowd_of_lend_an_ear_is_one_batch(tmp_path: Path):
    """196 annotations of 116 people, 2 to 11 for each dialogue."""
    if not CROWD.exists():
        pytest.skip("the crowd's annotations are not at ../shared/data/lend_an_ear")
    rows = list(csv.DictReader(io.StringIO(CROWD.read_text(encoding="utf-8"))))
    guideline_of("crowd", [criterion(name, scale({v: f"Level {v}" for v in range(1, 6)})) for name in KINDS])
    dialogues = sorted({row["conversation_id"] for row in rows})
    make_corpus(prompts=len(dialogues), models=[MODEL])
    path = tmp_path / "crowd.jsonl"
    records = [
        {
            "prompt_id": f"p{dialogues.index(row['conversation_id'])}",
            "model": MODEL,
            "annotator": f"crowd-{row['user_id']}",
            "labels": {name: float(row[name]) for name in KINDS},
        }
        for row in rows
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    import_annotations(
        source=Source(path, path.name),
        format="jsonl",
        request=ImportRequest(
            batch="crowd", guideline="crowd", dataset="small", policy=Policy(plan="open", overlap=1)
        ),
    )
    batch = Batch.objects.get(name="crowd")
    answer = coverage(batch)
    items = {int(labels): number for labels, number in answer["items_by_labels"].items()}
    assert sum(labels * number for labels, number in items.items()) == 196
    assert (min(items), max(items), sum(items.values())) == (2, 11, len(dialogues))
    assert {row["n"] for row in answer["rows"]} == {len(dialogues)}
    assert Membership.objects.filter(batch=batch, role="annotator").count() == 116
    end_collection(batch=batch)
    assert answer["waiting_for_labels"] == len(dialogues)
    assert coverage(batch)["waiting_for_labels"] == 0


def test_the_manager_ends_the_collection_on_the_page_by_a_job(
    five_levels: Guideline, lin: Person, chen: Person, ma: Person, client: Client
):
    batch = make_batch(
        five_levels,
        make_corpus(prompts=2, models=[MODEL]),
        annotators=[lin, chen],
        policy=Policy(overlap=1, plan="open"),
    )
    for person in (lin, chen):
        label_next(batch, person, 1, "kind")
    client.force_login(ma)
    assert "End the collection" in client.get(f"/batches/{batch.name}/").content.decode()
    assert client.post(f"/batches/{batch.name}/end-collection/").status_code == 302
    assert client.post(f"/batches/{batch.name}/end-collection/").status_code == 302  # a double click
    (job,) = Job.objects.filter(kind=collection.JOB_KIND)
    jobs.run(job.pk)
    assert sources(batch) == {"unanimous": 1}
    assert "End the collection" not in client.get(f"/batches/{batch.name}/").content.decode()
