"""A guideline that asks for levels, sets of options, texts and turns: its scorer and its board are of the levels."""

from __future__ import annotations

import io
import json
import random
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command
from django.test import Client

from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Person, ReleasedLabel, Response
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.releases import cut_release
from tests.annotation.services.test_kinds_of_criteria import make_guideline
from tests.support import make_batch, make_corpus

pytestmark = pytest.mark.django_db
LEVELS = {1: "harmful insult and threat", 2: "careless remark", 3: "kind and helpful advice"}
PAGES = (
    "/releases/kinds-gold/",
    "/releases/kinds-gold/?criterion=empathy",
    "/releases/kinds-gold/?criterion=topics",
    "/releases/kinds-gold/datasheet/",
    "/scorers/learned/",
    "/scorers/learned/?view=figures",
    "/scorers/learned/?view=calibration",
    "/scorers/learned/?view=card",
    "/runs/board/",
    "/runs/board/?view=estimates",
    "/runs/board/?view=groups",
    "/runs/board/?view=lineage",
    "/runs/board/label-plan/",
)


def run(command: str, *arguments: str) -> Any:
    out = io.StringIO()
    call_command(command, *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def label_all(lin: Person) -> None:
    dataset = make_corpus(prompts=40, models=["Secretive-7B", "Hidden-13B"], name="kinds")
    random_levels = random.Random(3)
    for response in Response.objects.order_by("pk"):
        response.text = f"{LEVELS[random_levels.choice([1, 2, 3])]} {response.pk}"
        response.save()
    batch = make_batch(make_guideline(), dataset, annotators=[lin], policy=Policy(overlap=1))
    while (claim := claim_next_task(batch=batch, person=lin)) is not None:
        text = Response.objects.get(tasks=claim.task_id).text
        harm = next(value for value, words in LEVELS.items() if text.startswith(words))
        answers = {"harm": harm, "topics": [1, 4] if harm == 1 else [2], "empathy@0": 4 - harm, "why": "so"}
        submit(assignment_id=claim.pk, person=lin, key=str(uuid4()), work=Submission(answers))
    set_state(batch=batch, state="closed")
    cut_release(ReleaseSpec(name="kinds-gold", batches=[batch]))


def test_from_labels_of_all_kinds_to_a_board_of_levels(lin: Person, he: Person, client: Client) -> None:
    label_all(lin)
    assert {*ReleasedLabel.objects.values_list("criterion", flat=True)} == {"harm", "topics", "empathy@0"}
    run("train_scorer", "learned", "--release", "kinds-gold")
    run("run_benchmark", "board", "--scorer", "learned", "--dataset", "kinds")
    rows = run("leaderboard", "board")["rows"]
    assert {row["model"] for row in rows} == {"Secretive-7B", "Hidden-13B"}
    assert all(row["overall"]["top"]["value"] is not None for row in rows)
    client.force_login(he)
    for language in ("en", "zh-hans"):
        client.cookies["django_language"] = language
        for page in PAGES:
            assert client.get(page, headers={"Accept-Language": language}).status_code == 200, page
