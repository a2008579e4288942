"""A batch of some subcomponents alone: experts are given the prompts of their own domain, and one release has all."""

from __future__ import annotations

import io
import json
from typing import Any
from uuid import uuid4

import pytest
from django.core.management import call_command

from annotation.domain.annotations import Submission
from annotation.models import Batch, Person, ReleasedLabel
from annotation.selectors.assignments.items import build_item
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import set_state
from tests.annotation.subcomponents import PARTS, make_guideline, make_part_corpus

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> Any:
    out = io.StringIO()
    call_command(*arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


@pytest.fixture
def corpus() -> tuple[str, ...]:
    """The options of a batch of all responses."""
    dataset = make_part_corpus(prompts=6, models=["Secretive-7B", "Hidden-13B"])
    return "--guideline", make_guideline().name, "--dataset", dataset.name, "--overlap", "1"


def test_an_expert_is_given_the_prompts_of_their_domain_alone(
    corpus: tuple[str, ...], lin: Person, chen: Person
) -> None:
    experts = {PARTS[0]: lin, PARTS[1]: chen}
    for part, expert in experts.items():
        made = run("create_batch", part, *corpus, "--subcomponents", part, "--annotators", expert.username)
        assert made["tasks"] == 4
        batch = Batch.objects.get(name=part)
        while (claim := claim_next_task(batch=batch, person=expert)) is not None:
            item = build_item(claim)
            assert item.subcomponent == part
            answers = {criterion.name: 2 for criterion in item.criteria}
            submit(assignment_id=claim.pk, person=expert, key=str(uuid4()), work=Submission(answers))
        set_state(batch=batch, state="closed")
    run("release_gold", "gold", "--batches", *experts)
    released = ReleasedLabel.objects.values_list("task__response__prompt__subcomponent", flat=True)
    assert set(released) == set(experts)


def test_several_subcomponents_are_one_batch(corpus: tuple[str, ...]) -> None:
    made = run("create_batch", "two", *corpus, "--draft", "--subcomponents", ",".join(PARTS[:2]))
    assert made["tasks"] == 8


def test_an_unknown_subcomponent_is_refused_with_the_known_ones(
    corpus: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        call_command("create_batch", "none", *corpus, "--draft", "--subcomponents", "riddles")
    error = capsys.readouterr().err
    assert "No response is to a prompt of the subcomponent riddles; there are some of: definitions" in error
    assert not Batch.objects.exists()
