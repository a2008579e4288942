"""Criteria of one subcomponent, from the item to the board: nothing is asked, predicted or counted elsewhere."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from annotation.core.errors import AssayError, Unprocessable
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, GoldLabel, Person, Prompt, Response
from annotation.selectors.assignments.items import build_item
from annotation.services.annotations.drafts import save_draft
from annotation.services.annotations.submission import revise, submit
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.releases import cut_release
from benchmark.models import RunItem
from scoring.models import Prediction
from tests.annotation.several_criteria import guideline_of
from tests.annotation.subcomponents import PARTS, ask_of, list_criteria, make_guideline, make_part_corpus
from tests.benchmark.services.test_kinds_of_criteria import run
from tests.support import as_made_by_import, make_batch

pytestmark = pytest.mark.django_db
ASKED = {"homonyms": {"harm", "sense"}, "safe_targets": {"harm", "target"}, "definitions": {"harm"}}
LEVELS = {1: "harmful insult and threat", 2: "careless remark", 3: "kind and helpful advice"}


@pytest.fixture
def batch(lin: Person) -> Batch:
    dataset = make_part_corpus(prompts=30, models=["Secretive-7B", "Hidden-13B"])
    for number, response in enumerate(Response.objects.order_by("pk")):
        response.text = f"{LEVELS[number % 3 + 1]} {response.pk}"
        response.save()
    return make_batch(make_guideline(), dataset, annotators=[lin], policy=Policy(overlap=1))


def label_all(batch: Batch, person: Person) -> None:
    while (claim := claim_next_task(batch=batch, person=person)) is not None:
        item = build_item(claim)
        text = item.turns[0].text
        level = next(value for value, words in LEVELS.items() if text.startswith(words))
        answers = {criterion.name: level for criterion in item.criteria}
        submit(assignment_id=claim.pk, person=person, key=str(uuid4()), work=Submission(answers))


def test_an_item_asks_what_its_subcomponent_asks(batch: Batch, lin: Person) -> None:
    claim = claim_next_task(batch=batch, person=lin)
    assert claim is not None
    item = build_item(claim)
    assert {criterion.name for criterion in item.criteria} == ASKED[item.subcomponent]
    other = next(name for name in ("sense", "target") if name not in ASKED[item.subcomponent])
    answers = dict.fromkeys(ASKED[item.subcomponent], 3)
    with pytest.raises(Unprocessable, match="is not asked here"):
        submit(assignment_id=claim.pk, person=lin, key="a", work=Submission({**answers, other: 3}))
    with pytest.raises(Unprocessable):
        save_draft(assignment_id=claim.pk, person=lin, work=Submission({other: 3}))
    save_draft(assignment_id=claim.pk, person=lin, work=Submission(answers))
    submit(assignment_id=claim.pk, person=lin, key="b", work=Submission(answers))
    revise(assignment_id=claim.pk, person=lin, key="c", work=Submission(answers | {"harm": 1}))
    gold = GoldLabel.objects.filter(task=claim.task_id)
    assert set(gold.values_list("criterion", flat=True)) <= ASKED[item.subcomponent]


def test_the_page_shows_the_definition_and_the_example_of_the_subcomponent(
    batch: Batch, lin: Person, client: Client
) -> None:
    client.force_login(lin)
    pages = {}
    while len(pages) < len(PARTS):
        claim = claim_next_task(batch=batch, person=lin)
        assert claim is not None
        item = build_item(claim)
        pages[item.subcomponent] = client.get(reverse("work-batch", args=[batch.name])).content.decode()
        answers = dict.fromkeys((c.name for c in item.criteria), 2)
        submit(assignment_id=claim.pk, person=lin, key=str(uuid4()), work=Submission(answers))
    assert "It takes the harmless sense." in pages["homonyms"]
    assert "A response, homonyms" in pages["homonyms"]
    assert "A response, safe_targets" not in pages["homonyms"]
    assert "It takes the harmless sense." not in pages["safe_targets"]
    assert "A response, safe_targets" in pages["safe_targets"]


def test_a_batch_is_refused_where_a_subcomponent_has_no_criterion(lin: Person, he: Person) -> None:
    dataset = make_part_corpus(prompts=6, models=["Hidden-13B"])
    Prompt.objects.filter(subcomponent="definitions").update(subcomponent="riddles")
    parts = [part.name for part in make_guideline().document.dimensions[0].subcomponents]
    unsafe = list_criteria()[0] | {"applies_to": {"dimensions": ["unsafe"]}}
    unsafe["scale"] = ask_of("sense")["scale"]
    guideline = guideline_of("narrow", [ask_of("sense", *parts), unsafe], counted=("sense", "harm"))
    with pytest.raises(AssayError, match="safe / riddles"):
        make_batch(guideline, dataset, annotators=[lin], policy=Policy(overlap=1))


def test_a_board_counts_what_each_subcomponent_asks(
    batch: Batch, lin: Person, he: Person, client: Client
) -> None:
    label_all(batch, lin)
    set_state(batch=batch, state="closed")
    cut_release(ReleaseSpec(name="gold", batches=[batch]))
    run("train_scorer", "learned", "--release", "gold")
    run("score_responses", "--scorer", "learned", "--dataset", "parts")
    for rows in (
        Prediction.objects.values_list("response__prompt__subcomponent", "criterion"),
        RunItem.objects.values_list("response__prompt__subcomponent", "criterion"),
    ):
        if rows.model is RunItem:
            run("run_benchmark", "board", "--scorer", "learned", "--dataset", "parts")
        counted = Counter(rows.all())
        assert counted == {(part, name): 20 for part, names in ASKED.items() for name in names}
    # Over all labels: of five labels two are the highest level for one model, one for the other.
    rates = {row["model"]: row["overall"]["top"]["value"] for row in run("leaderboard", "board")["rows"]}
    assert rates == {"Secretive-7B": pytest.approx(0.4), "Hidden-13B": pytest.approx(0.2)}
    client.force_login(he)
    for view in ("", "?view=estimates", "?view=groups", "?view=lineage"):
        assert client.get(f"/runs/board/{view}").status_code == 200


def test_labels_of_a_file_are_checked_by_subcomponent(
    batch: Batch, lin: Person, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_made_by_import(batch)
    call_command("add_person", "ann", "--groups", "annotator")
    path = tmp_path / "labels.csv"
    prompts = dict(Prompt.objects.values_list("subcomponent", "key"))
    fields = ["prompt_id,model,annotator,label.harm,label.sense"]
    fields += [f"{prompts['homonyms']},Hidden-13B,ann,1,2", f"{prompts['definitions']},Hidden-13B,ann,1,"]
    path.write_text("\n".join(fields), encoding="utf-8")
    call_command("import_annotations", str(path), "--batch", batch.name, "--format", "csv")
    path.write_text(f"{fields[0]}\n{prompts['safe_targets']},Hidden-13B,ann,1,2\n", encoding="utf-8")
    with pytest.raises(SystemExit):
        call_command("import_annotations", str(path), "--batch", batch.name, "--format", "csv")
    assert "sense" in capsys.readouterr().err
