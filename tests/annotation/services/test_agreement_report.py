from __future__ import annotations

import json
from collections.abc import Sequence
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command

from annotation.core.errors import AssayError
from annotation.domain.agreement import POOL, STATISTICS
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.models import Assignment, Batch, Dataset, Guideline, Person, Prompt, Task
from annotation.selectors.agreement import LabelPatterns, label_table, parse_groupings, parse_narrowing
from annotation.services.annotations.submission import revise, submit
from annotation.services.assignments import claim_next_task
from annotation.services.batches.tasks import withdraw_tasks
from tests.support import FLAMES_GUIDELINE, decide_next, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db

# The batch's tasks in order: prompts p0 to p3 (safe, unsafe, safe, unsafe), each with both models' responses.
LIN = (1, 1, 1, 2, 2, 3, 3, 3)
CHEN = (1, 1, 2, 2, 2, 3, 3, 1)


def label_all(batch: Batch, first: Person, second: Person) -> None:
    """The first labels every task, then the second does: slots 0 and 1."""
    for person, values in ((first, LIN), (second, CHEN)):
        for value in values:
            label_next(batch, person, value)


@pytest.fixture
def labelled(batch: Batch, lin: Person, chen: Person) -> Batch:
    label_all(batch, lin, chen)
    return batch


def report(batch: Batch, by: str = "") -> list[dict[str, Any]]:
    return [row.to_json() for row in LabelPatterns([batch]).report(parse_groupings(by))]


def command(*arguments: str) -> Any:
    out = StringIO()
    call_command("agreement", *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def percents(rows: Sequence[dict[str, Any]], facet: str) -> dict[str, float]:
    return {row["group"][facet]: row["percent_agreement"]["value"] for row in rows if row["group"]}


@pytest.mark.both_databases
def test_the_figures_over_everything(labelled: Batch):
    (row,) = report(labelled)
    assert (row["guideline"], row["criterion"], row["group"]) == ("xstest", "compliance", {})
    # Six of eight agree. Shares of the levels: lin 3/8, 2/8, 3/8 and chen 3/8, 3/8, 2/8, so p_e = 21/64.
    assert (row["n"], row["disputed"]) == (8, 2)
    assert row["percent_agreement"]["value"] == 6 / 8
    assert row["cohen_kappa"]["value"] == pytest.approx(float(Fraction(48 - 21, 64 - 21)))
    # Four prompts: a value, and no interval of what is corrected for chance.
    assert row["prompts"] == 4
    assert (row["cohen_kappa"]["low"], row["cohen_kappa"]["high"]) == (None, None)
    assert row["cohen_kappa"]["reason"] == "few_prompts"
    assert 0 < row["percent_agreement"]["low"] < 6 / 8 < row["percent_agreement"]["high"] <= 1
    assert row["alpha_interval"] is None  # an ordinal scale has no distances


def test_every_grouping_stands_by_itself_and_everything_comes_first(labelled: Batch):
    rows = report(labelled, "model,dimension")
    assert [row["group"] for row in rows] == [
        {},
        {"model": "Hidden-13B"},
        {"model": "Secretive-7B"},
        {"dimension": "safe"},
        {"dimension": "unsafe"},
    ]
    # One model has both disputes; one is about a safe prompt, the other about an unsafe one.
    assert [row["disputed"] for row in rows] == [2, 2, 0, 1, 1]
    assert percents(rows[1:3], "model") == {"Hidden-13B": 0.5, "Secretive-7B": 1.0}
    assert percents(rows[3:], "dimension") == {"safe": 0.75, "unsafe": 0.75}


def test_a_crossed_grouping_has_a_row_for_each_combination(labelled: Batch):
    rows = report(labelled, "dimension*model")[1:]
    assert [tuple(row["group"].values()) for row in rows] == [
        ("safe", "Hidden-13B"),
        ("safe", "Secretive-7B"),
        ("unsafe", "Hidden-13B"),
        ("unsafe", "Secretive-7B"),
    ]
    assert [row["n"] for row in rows] == [2, 2, 2, 2]


def test_a_pair_stands_in_the_order_of_its_usernames(batch: Batch, lin: Person, chen: Person):
    """Kappa does not depend on who is first, but a pair split over both orders must be put together."""
    for turn, (label, other) in enumerate(zip(LIN, CHEN, strict=True)):
        pair = ((lin, label), (chen, other))
        for person, value in pair if turn % 2 else reversed(pair):
            label_next(batch, person, value)
    (row,) = report(batch, "pair")[1:]
    assert row["group"] == {"pair": "chen, lin"}
    assert row["cohen_kappa"]["value"] == pytest.approx(27 / 43)
    # Over everything, too, a place is a person: the two are the only ones.
    overall = report(batch)[0]
    assert (overall["raters"], overall["cohen_kappa"]["value"]) == (2, pytest.approx(27 / 43))
    assert (overall["pairwise_kappa"], overall["conger_kappa"]) == (None, None)


def test_a_pool_has_no_cohens_kappa_and_those_of_its_people(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, zhou: Person
):
    batch = make_batch(guideline, dataset, annotators=[lin, chen, zhou])
    for turn, (label, other) in enumerate(zip(LIN, CHEN, strict=True)):
        pair = ((lin, chen), (chen, zhou), (zhou, lin))[turn % 3]
        for person, value in zip(pair, (label, other), strict=True):
            label_next(batch, person, value)
    overall, *pairs = report(batch, "pair")
    assert (overall["raters"], overall["cohen_kappa"], len(pairs)) == (3, None, 3)
    defined = [row for row in pairs if row["cohen_kappa"]]
    mean = sum(row["cohen_kappa"]["value"] * row["n"] for row in defined) / sum(row["n"] for row in defined)
    assert overall["pairwise_kappa"]["value"] == pytest.approx(mean)
    assert overall["pairwise_kappa"]["reason"] == "few_prompts"
    assert -1 <= overall["conger_kappa"]["value"] <= 1
    (counted,) = LabelPatterns([batch]).list_counts()
    assert counted.value("cohen_kappa") is None
    assert counted.measure().statistics["cohen_kappa"].reason == POOL


def test_three_annotators_make_three_pairs_and_no_kappa_over_everything(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, zhou: Person
):
    batch = make_batch(guideline, dataset, annotators=[lin, chen, zhou], policy=Policy(overlap=3))
    for person, value in ((lin, 1), (chen, 1), (zhou, 2)):
        label_next(batch, person, value)
    overall, *pairs = report(batch, "pair")
    assert (overall["n"], overall["disputed"], overall["cohen_kappa"]) == (1, 1, None)
    assert overall["percent_agreement"]["value"] == pytest.approx(1 / 3)
    assert percents(pairs, "pair") == {"chen, lin": 1.0, "chen, zhou": 0.0, "lin, zhou": 0.0}


def test_a_task_counts_once_it_has_all_its_annotations(batch: Batch, lin: Person, chen: Person):
    label_next(batch, lin, 1)
    (before,) = report(batch)
    assert (before["n"], before["percent_agreement"], before["gwet_ac1"]) == (0, None, None)
    label_next(batch, chen, 1)
    assert report(batch)[0]["n"] == 1


def test_only_the_current_revision_counts(batch: Batch, lin: Person, chen: Person):
    receipt = label_next(batch, lin, 1)
    assert receipt is not None
    work = Submission(labels={"compliance": 2}, reason="read it again")
    revise(assignment_id=receipt.assignment, person=lin, key=str(uuid4()), work=work)
    label_next(batch, chen, 2)
    assert (report(batch)[0]["n"], report(batch)[0]["disputed"]) == (1, 0)


def test_a_decision_changes_nothing_and_checks_and_withdrawn_tasks_are_left_out(labelled: Batch, wu: Person):
    before = report(labelled)
    decide_next(labelled, wu, 2)
    assert report(labelled) == before
    withdraw_tasks(
        batch=labelled, tasks=[labelled.tasks.get(state=Task.State.DISPUTED).pk], reason="read twice"
    )
    assert report(labelled)[0]["n"] == 7
    agreed = labelled.tasks.filter(state=Task.State.AGREED)[0]
    Task.objects.filter(pk=agreed.pk).update(kind=Task.Kind.CHECK, overlap=1, slots_taken=1)
    label_table.clear_units()  # no page turns work into a check
    assert report(labelled)[0]["n"] == 6


def test_several_criteria_are_pooled_first_by_nominal_statistics(lin: Person, chen: Person):
    guideline = FLAMES_GUIDELINE.load()
    corpus = make_corpus(prompts=2, models=["M"], dimensions=("Fairness", "Legality"), name="two")
    batch = make_batch(guideline, corpus, annotators=[lin, chen])
    for person, fairness in ((lin, 1), (chen, 2)):
        label_next(batch, person, fairness, "fairness")
        label_next(batch, person, 3, "legality")
    rows = report(batch, "dimension")
    assert [row["criterion"] for row in rows if not row["group"]] == [
        None,
        *(criterion.name for criterion in guideline.document.criteria),
    ]
    pooled = rows[0]
    assert (pooled["n"], pooled["disputed"]) == (2, 1)
    assert pooled["alpha_ordinal"] is None
    assert pooled["alpha_nominal"] is not None
    by_dimension = [(row["group"]["dimension"], row["criterion"]) for row in rows if row["group"]]
    assert by_dimension == [("Fairness", "fairness"), ("Legality", "legality")]


def test_a_criterion_of_another_guideline_has_rows_of_its_own(labelled: Batch, lin: Person, chen: Person):
    corpus = make_corpus(prompts=1, models=["M"], dimensions=("Safety",), name="other")
    flames = make_batch(FLAMES_GUIDELINE.load(), corpus, annotators=[lin, chen], name="flames")
    for person in (lin, chen):
        label_next(flames, person, 1, "safety")
    rows = [row.to_json() for row in LabelPatterns([labelled, flames]).report()]
    assert {row["guideline"]: row["n"] for row in rows if row["criterion"] in ("safety", "compliance")} == {
        "flames": 1,
        "xstest": 8,
    }


def test_the_most_frequent_confusion_comes_first(batch: Batch, lin: Person, chen: Person):
    for low, other in ((1, 2), (2, 1), (3, 1), (2, 2)):
        label_next(batch, lin, low)
        label_next(batch, chen, other)
    confusions = [(c.low, c.high, c.count) for c in LabelPatterns([batch]).confusions()]
    assert confusions == [(1, 2, 2), (1, 3, 1)]


def test_the_labels_are_read_in_one_query_however_many_there_are(
    labelled: Batch, django_assert_num_queries: Any
):
    # The labels in one; three for how far the batch is; guidelines, models and people for their names.
    # Thirteen for the chance of selection, once for as long as nothing changes.
    with django_assert_num_queries(20):
        LabelPatterns([labelled]).report(parse_groupings("model,pair,dimension*model"))
    with django_assert_num_queries(8):  # the labels are known, and what has been drawn
        LabelPatterns([labelled]).report(parse_groupings("week,criterion,language"))


def test_groupings_are_read_from_one_text():
    assert parse_groupings("model, dimension*model,model") == (("model",), ("dimension", "model"))
    assert parse_groupings("") == ()
    with pytest.raises(AssayError, match="cannot be grouped by colour, mood"):
        parse_groupings("mood,model*colour")


def test_the_command_prints_rows_as_json_and_as_a_table(labelled: Batch):
    rows = command("--batch", "first", "--by", "model")["rows"]
    assert list(rows[0]) == [
        "guideline",
        "criterion",
        "group",
        "n",
        "disputed",
        "prompts",
        "raters",
        "weighed",
        "weighed_reason",
        *STATISTICS,
        "pairwise_kappa",
        "conger_kappa",
    ]
    assert [row["group"] for row in rows] == [{}, {"model": "Hidden-13B"}, {"model": "Secretive-7B"}]
    out = StringIO()
    call_command("agreement", "--by", "model", stdout=out)
    table = out.getvalue().splitlines()
    assert len(table) == 5
    assert "model=Hidden-13B" in table[2]
    assert len({line.index("[") for line in table[1:-1]}) == 1  # the columns stand under each other
    assert "alpha int." not in table[0]  # which no row has
    assert table[-1] == "items: 8 with 2 labels; 2 for a decision"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--batch", "nope"], "No batch is named nope."),
        (["--by", "colour"], "Agreement cannot be grouped by colour"),
    ],
)
def test_the_command_refuses_what_it_does_not_know_in_one_line(db: None, arguments: list[str], words: str):
    error = StringIO()
    with pytest.raises(SystemExit) as stop:
        call_command("agreement", *arguments, stderr=error)
    assert stop.value.code == 1
    assert error.getvalue().startswith(words)
    assert len(error.getvalue().splitlines()) == 1


def test_the_command_without_any_batch_has_no_rows(db: None):
    assert command()["rows"] == []


def test_a_lease_that_was_retaken_keeps_the_labels_in_slot_order(batch: Batch, lin: Person, chen: Person):
    """Slots may be taken in any order of time; the report reads them by slot."""
    waiting = claim_next_task(batch=batch, person=chen)
    assert waiting is not None
    label_next(batch, lin, 1)
    submit(assignment_id=waiting.pk, person=chen, key="k", work=Submission(labels={"compliance": 2}))
    patterns = LabelPatterns([batch])
    slots = dict(Assignment.objects.filter(task__state=Task.State.DISPUTED).values_list("slot", "person_id"))
    assert patterns.labels.units.person.tolist() == [[slots[0], slots[1]]] == [[chen.pk, lin.pk]]
    assert patterns.list_counts()[0].counts.counts == {(2, 1): 1}


PUBLISHED_KAPPA = {
    "llama2orig": 0.9293,
    "llama2new": 0.9258,
    "mistralinstruct": 0.9195,
    "mistralguard": 0.8923,
    "gpt4": 0.9701,
}


def test_the_published_xstest_figures(db: None, shared: Path):
    files = [str(shared / "xstest" / f"xstest_v2_completions_{model}.csv") for model in PUBLISHED_KAPPA]
    call_command("load_guideline", "fixtures/guidelines/xstest.yaml", "--publish", stdout=StringIO())
    call_command("import_annotations", *files, "--batch", "xstest", "--format", "xstest", stdout=StringIO())
    pooled, *by_model = command("--batch", "xstest", "--by", "model")["rows"]
    assert (pooled["n"], pooled["disputed"]) == (2250, 81)
    figures = {
        name: round(statistic["value"], 4)
        for name, statistic in pooled.items()
        if isinstance(statistic, dict) and statistic
    }
    published = {
        "percent_agreement": 0.9640,
        "cohen_kappa": 0.9365,
        "alpha_nominal": 0.9365,
        "alpha_ordinal": 0.9696,
        "gwet_ac1": 0.9498,
    }
    assert {name: figures[name] for name in published} == published
    kappas = {row["group"]["model"]: round(row["cohen_kappa"]["value"], 4) for row in by_model}
    assert kappas == PUBLISHED_KAPPA


def name_attacks(batch: Batch) -> None:
    """p0 and p1 are disguised and implicit, p2 is disguised and explicit; of p3 nobody said anything."""
    prompts = Prompt.objects.filter(responses__tasks__batch=batch)
    prompts.filter(key__in=["p0", "p1", "p2"]).update(attack_method="disguise")
    prompts.filter(key__in=["p0", "p1"]).update(malice="implicit")
    prompts.filter(key="p2").update(malice="explicit")


@pytest.mark.both_databases
def test_attack_methods_and_malice_are_groups_and_cross(batch: Batch, lin: Person, chen: Person):
    name_attacks(batch)
    label_all(batch, lin, chen)
    rows = report(batch, "attack_method,malice,attack_method*malice")
    # lin and chen: p0 1 1 / 1 1, p1 1 2 / 2 2, p2 2 3 / 2 3, p3 3 3 / 3 1
    figures = [(row["group"], row["n"], row["disputed"]) for row in rows]
    assert figures == [
        ({}, 8, 2),
        ({"attack_method": "disguise"}, 6, 1),
        ({"attack_method": None}, 2, 1),
        ({"malice": "explicit"}, 2, 0),
        ({"malice": "implicit"}, 4, 1),
        ({"malice": None}, 2, 1),
        ({"attack_method": "disguise", "malice": "explicit"}, 2, 0),
        ({"attack_method": "disguise", "malice": "implicit"}, 4, 1),
        ({"attack_method": None, "malice": None}, 2, 1),
    ]
    narrowed = LabelPatterns([batch], parse_narrowing({"malice": "implicit"})).report(())
    assert [(row.to_json()["n"], row.to_json()["disputed"]) for row in narrowed] == [(4, 1)]


def test_without_attack_methods_everything_is_one_group(labelled: Batch):
    assert [row["group"] for row in report(labelled, "malice")] == [{}, {"malice": None}]
