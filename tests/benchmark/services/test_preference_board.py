"""Boards of comparisons of a release: PandaLM's people against the published data, and what people read first."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from annotation.core.errors import AssayError
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, Collection, GoldRelease, Person
from annotation.selectors.assignments.items import build_item
from annotation.services import jobs
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_task
from annotation.services.releases import cut_release
from benchmark.selectors.preferences import build_comparison, build_query, list_judges_on_slates
from benchmark.services.judges.judges import create_judge, start_judging
from scoring.domain.training_spec import TrainingSpec
from scoring.services.scorers.scorers import create_scorer
from tests.annotation.slates import MODELS, SET, load_shipped, make_slate_batch
from tests.benchmark.endpoint import local_endpoint
from tests.support import add_role, label_next, make_batch, make_corpus

pytestmark = pytest.mark.django_db
# Of the 453 majorities that are no tie, by an independent fit (Zermelo's iteration), centred.
BRADLEY_TERRY = {
    "bloom-7b": 0.021141,
    "cerebras-gpt-6.7B": -0.469645,
    "llama-7b": 0.648325,
    "opt-7b": -0.276591,
    "pythia-6.9b": 0.076770,
}


def run(*arguments: str) -> Any:
    out = io.StringIO()
    call_command(*arguments, "--json", stdout=out, stderr=io.StringIO())
    return json.loads(out.getvalue())


def judge(batch: Batch, person: Person, choose: Callable[[list[str]], int]) -> None:
    """The person judges all their slates; ``choose`` gets the models in the order of reading, and gives a position from
    0, or -1 for a tie.
    """
    while (claim := claim_next_task(batch=batch, person=person)) is not None:
        item = build_item(claim)
        entries = {
            entry.place: entry.response.model.name
            for entry in claim.task.response.slate.entries.select_related("response__model")
        }
        position = choose([entries[place] for place in item.order.places])
        value = -1 if position < 0 else item.order.places[position]
        submit(
            assignment_id=claim.pk, person=person, key=str(uuid4()), work=Submission(labels={"best": value})
        )


def cut(batch: Batch) -> GoldRelease:
    return cut_release(ReleaseSpec(name=f"{batch.name}-1", batches=[batch.pk]))


def test_pandalm_is_ranked_as_published(shared: Path) -> None:
    load_shipped("preference")
    file = str(shared / "pandalm" / "testset_even.json")
    run("import_prompts", file, "--dataset", "pandalm", "--format", "pandalm")
    run("import_responses", file, "--dataset", "pandalm", "--format", "pandalm")
    run("make_slates", "pairs", "--dataset", "pandalm", "--pairs", "all", "--keep-same")
    run(
        *("import_annotations", file, "--batch", "pandalm", "--format", "pandalm", "--settling", "majority"),
        *("--guideline", "preference", "--dataset", "pandalm", "--slates", "pairs", "--overlap", "3"),
    )
    run("release_gold", "pandalm-1", "--batches", "pandalm")
    board = run("preference_board", "pandalm-1")
    assert (board["labels"], board["comparisons"], board["prompts"]) == (500, 500, 500)
    assert sum(pair["ties"] for pair in board["pairs"]) / 2 == 47
    assert board["bradley_terry"] == pytest.approx(BRADLEY_TERRY, abs=1e-5)
    assert next(row["model"] for row in board["rows"]) == "llama-7b"
    assert all(row["rank"]["low"] <= row["rank"]["value"] <= row["rank"]["high"] for row in board["rows"])
    assert sum(row["strength"]["value"] for row in board["rows"]) == pytest.approx(0)
    assert board["ties"]["value"] > 0
    people = run("preference_board", "pandalm-1", "--labels", "people", "--length")
    assert people["comparisons"] == 1500
    assert people["terms"] == {"ties": True, "position": False, "length": True}
    pairs = {
        row["group"]["pair"]: row
        for row in run("agreement", "--batch", "pandalm", "--by", "pair")["rows"][1:]
    }
    assert pairs["pandalm-annotator1, pandalm-annotator2"]["disputed"] == 47


def test_judges_are_taken_from_files_and_asked_both_ways_round(
    lin: Person, chen: Person, tmp_path: Path
) -> None:
    batch = make_slate_batch(
        load_shipped("preference"), annotators=[lin, chen], prompts=30, models=MODELS[:2]
    )
    for person in (lin, chen):
        judge(batch, person, lambda models: models.index(MODELS[0]))
    release = cut(batch)
    compared = " | ".join(sorted(MODELS[:2]))
    # As the gold on 27 of 30; the other way round otherwise on 6 more of them, and on no other.
    for name, wrong in (("j", range(3)), ("j-swapped", range(9))):
        answers = [MODELS[1] if number in wrong else MODELS[0] for number in range(29)] + ["tie"]
        lines = [
            json.dumps({"prompt_id": f"p{number}", "model": compared, "label": answer})
            for number, answer in enumerate(answers)
        ]
        path = tmp_path / f"{name}.jsonl"
        path.write_text("\n".join(lines), encoding="utf-8")
        run(
            *("import_judge_labels", str(path), "--judge", name, "--guideline", "preference"),
            *("--format", "jsonl", "--dataset", "of-first", "--collection", f"{SET}-first"),
        )
    (row,) = list_judges_on_slates(release, build_query(release))
    assert (row.judge, row.n, row.equal, row.swapped, row.flips) == ("j", 30, 26, 30, 6)
    assert row.flip_rate == pytest.approx(0.2)


def test_a_scorer_is_not_trained_on_slates(lin: Person, chen: Person) -> None:
    batch = make_slate_batch(load_shipped("preference"), annotators=[lin, chen], prompts=4, models=MODELS[:2])
    for person in (lin, chen):
        judge(batch, person, lambda models: models.index(MODELS[0]))
    with pytest.raises(AssayError, match="judges single responses"):
        create_scorer(TrainingSpec(name="s", release=cut(batch).pk))


def test_position_bias_is_measured_and_corrected(lin: Person, chen: Person) -> None:
    """People who prefer what they read first by 20 points more than chance, of two models of which one is better."""
    batch = make_slate_batch(
        load_shipped("preference"), annotators=[lin, chen], prompts=150, models=MODELS[:2]
    )
    generator = random.Random(5)

    def choose(models: list[str]) -> int:
        chance = 0.5 + 0.2 + (0.15 if models[0] == MODELS[0] else -0.15)
        return 0 if generator.random() < chance else 1

    for person in (lin, chen):
        judge(batch, person, choose)
    release = cut(batch)
    result = build_comparison(release, build_query(release, basis="people"))
    share = result.ranking.position.share
    assert result.has_positions
    assert result.ranking.terms.position
    assert share.low is not None
    assert share.high is not None
    assert share.low < 0.7 < share.high
    assert result.ranking.rows[0].model == MODELS[0]
    gold = build_comparison(release, build_query(release))
    assert not gold.ranking.terms.position


def test_models_are_compared_only_where_labels_compare_them(lin: Person) -> None:
    batch = make_slate_batch(
        load_shipped("cvalues_best"), annotators=[lin], prompts=3, policy=Policy(overlap=1)
    )
    while (claim := claim_next_task(batch=batch, person=lin)) is not None:
        labels = {"best": 0, "own_answer": "Mine"}
        submit(assignment_id=claim.pk, person=lin, key=str(uuid4()), work=Submission(labels=labels))
    release = cut(batch)
    with pytest.raises(AssayError, match="compares two models"):
        build_comparison(release, build_query(release))


def test_a_model_that_never_lost_has_no_strength(
    lin: Person, chen: Person, client: Client, he: Person
) -> None:
    batch = make_slate_batch(
        load_shipped("preference"), annotators=[lin, chen], prompts=25, models=MODELS[:2]
    )
    for person in (lin, chen):
        judge(batch, person, lambda models: models.index(MODELS[0]))
    release = cut(batch)
    board = build_comparison(release, build_query(release)).to_json()
    assert {row["strength"]["value"] for row in board["rows"]} == {None}
    assert board["undefined"][0]["part"] == "strengths"
    add_role(he, "researcher")
    client.force_login(he)
    page = client.get(reverse("preference-board", args=[release.name]))
    assert page.status_code == 200
    assert "are undefined" in page.content.decode()


def test_the_page_and_its_file_say_the_same(lin: Person, chen: Person, client: Client, he: Person) -> None:
    batch = make_slate_batch(load_shipped("preference"), annotators=[lin, chen], prompts=30)
    generator = random.Random(3)
    for person in (lin, chen):
        judge(batch, person, lambda models: generator.choice([*range(len(models)), -1]))
    release = cut(batch)
    add_role(he, "researcher")
    client.force_login(he)
    address = reverse("preference-board", args=[release.name])
    page = client.get(address, {"labels": "people"}).content.decode()
    document = client.get(address, {"labels": "people", "json": "1"}).json()
    assert document["sha256"] == release.sha256
    for row in document["rows"]:
        assert row["model"] in page
        assert f"{row['strength']['value']:.3f}" in page
    assert release.name in client.get(reverse("preference-boards")).content.decode()
    assert client.get(address, {"criterion": "nothing"}).status_code == 400


def test_a_release_of_single_responses_is_no_board(guideline: Any, lin: Person) -> None:
    batch = make_batch(
        guideline, make_corpus(prompts=1, models=MODELS[:1]), annotators=[lin], policy=Policy(overlap=1)
    )
    label_next(batch, lin, 3)
    release = cut(batch)
    with pytest.raises(AssayError, match="has no slates"):
        build_query(release)


@pytest.mark.parametrize(("first_always", "flip_rate"), [(True, 1.0), (False, 0.0)])
def test_judges_are_asked_both_ways_round(
    lin: Person, chen: Person, first_always: bool, flip_rate: float
) -> None:
    """By its place, or by the text of Hidden-13B's responses, which begin with "Answer 1"."""
    guideline = load_shipped("preference")
    batch = make_slate_batch(guideline, annotators=[lin, chen], prompts=6, models=MODELS[:2])
    for person in (lin, chen):
        judge(batch, person, lambda models: models.index(MODELS[1]))
    release = cut(batch)

    def answer(messages: Any, _request: Any) -> str:
        text = messages[-1]["content"]
        at = [text.index(f"[{number}]\n") for number in (1, 2)]
        is_first = "Answer 1 to" in text[at[0] : at[1]]
        return '{"label": 1}' if first_always or is_first else '{"label": 2}'

    dataset = batch.tasks.all()[0].prompt.dataset
    with local_endpoint(answer) as url:
        for name in ("j", "j-swapped"):
            own = create_judge(
                guideline=guideline, name=name, endpoint=str(url), served_model="m", settings={}
            )
            of_set = Collection.objects.get(name=f"{SET}-first")
            judging = start_judging(judge=own, dataset=dataset, collection=of_set, send=False, timeout=5)
            assert judging.job is not None
            jobs.run_now(judging.job)
        assert len(url.requests) == 12
    (row,) = list_judges_on_slates(release, build_query(release))
    assert row.flip_rate == flip_rate
    assert (row.n, row.swapped) == (6, 6)
    if not first_always:
        assert row.agreement[0] == 1
