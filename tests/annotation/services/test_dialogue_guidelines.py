"""A guideline for dialogues: what may be judged by it, and the role card that its annotators open or never see."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse

from annotation.core.errors import AssayError
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.models import Batch, Dataset, Guideline, Person, Response
from annotation.selectors.batches.plan import find_fitting_guideline, plan_responses
from annotation.services.annotations.drafts import save_draft
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_task
from annotation.services.guidelines import load_guideline
from tests.support import FIXTURES, make_batch, make_corpus

pytestmark = pytest.mark.django_db
CARD = "Question number"
TURNS = [
    {"role": "user", "text": "I lost my bicycle."},
    {"role": "assistant", "text": "When did you see it last?"},
]
ANSWERS = dict.fromkeys(
    ("fluency", "expression", "empathy", "information", "skill", "humanoid", "overall"), 3
)


def publish(prompt_shown: str, unit: str = "dialogue") -> Guideline:
    text = (FIXTURES / "guidelines" / "esc_eval.yaml").read_text(encoding="utf-8")
    text = text.replace("prompt_shown: folded", f"prompt_shown: {prompt_shown}")
    text = text.replace("unit: dialogue", f"unit: {unit}").replace(
        "name: esc_eval", f"name: {unit}-{prompt_shown}"
    )
    return load_guideline(text=text, path="g.yaml", publish=True)


@pytest.fixture
def dialogues() -> Dataset:
    dataset = make_corpus(prompts=4, models=["Hidden-13B"])
    Response.objects.update(turns=TURNS, text="")
    return dataset


def make(guideline: Guideline, dataset: Dataset, person: Person) -> Batch:
    return make_batch(guideline, dataset, annotators=[person], policy=Policy(overlap=1))


def test_a_batch_of_another_unit_is_refused(dialogues: Dataset, lin: Person) -> None:
    with pytest.raises(AssayError, match="is for plain responses, and some of these are dialogues"):
        make(publish("folded", unit="response"), dialogues, lin)
    Response.objects.filter(pk=Response.objects.order_by("pk")[0].pk).update(turns=[], text="plain")
    with pytest.raises(AssayError, match="is for dialogues, and some of these responses are plain texts"):
        make(publish("folded"), dialogues, lin)
    assert not Batch.objects.exists()


def test_a_guideline_of_another_unit_is_not_filled_in_and_the_plan_says_so(
    dialogues: Dataset, lin: Person, he: Person, client: Client
) -> None:
    plain, fitting = publish("folded", unit="response"), publish("folded")
    assert find_fitting_guideline(dialogues) == fitting
    Guideline.objects.filter(pk=fitting.pk).update(published_at=None)
    assert find_fitting_guideline(dialogues) is None
    responses = Response.objects.filter(prompt__dataset=dialogues)
    for guideline, other in ((plain, True), (fitting, False)):
        plan = plan_responses(
            responses, guideline=guideline, overlap=1, annotators=[lin], adjudicators=[], seconds=None
        )
        assert plan.has_other_units is other


def read_pages(client: Client, batch: Batch, person: Person) -> dict[str, str]:
    """All that an annotator receives of two items: one with a draft, one submitted."""
    client.force_login(person)
    pages = {"work": client.get(reverse("work-batch", args=[batch.name])).content.decode()}
    item = client.post(f"/api/v1/batches/{batch.name}/next/", {}, content_type="application/json").json()
    pages["api"] = json.dumps(item)
    save_draft(assignment_id=item["assignment"], person=person, work=Submission({"fluency": 1}))
    pages["my work"] = client.get(reverse("history")).content.decode()
    pages["home"] = client.get(reverse("home")).content.decode()
    submit(assignment_id=item["assignment"], person=person, key=str(uuid4()), work=Submission(dict(ANSWERS)))
    pages["history"] = client.get(reverse("history")).content.decode()
    search = client.get(reverse("history"), {"words": "Question number"})
    pages["search"] = search.content.decode().replace('value="Question number"', "")
    pages["item"] = client.get(reverse("history-item", args=[item["assignment"]])).content.decode()
    return pages


def test_a_hidden_prompt_is_on_no_page_of_its_annotators(
    dialogues: Dataset, lin: Person, client: Client
) -> None:
    pages = read_pages(client, make(publish("no"), dialogues, lin), lin)
    assert [name for name, page in pages.items() if CARD in page] == []
    assert "I lost my bicycle." in pages["work"]
    assert json.loads(pages["api"])["prompt"] == ""


def test_a_folded_prompt_is_opened(dialogues: Dataset, lin: Person, client: Client) -> None:
    batch = make(publish("folded"), dialogues, lin)
    client.force_login(lin)
    page = client.get(reverse("work-batch", args=[batch.name])).content.decode()
    start = page.index(CARD, page.index("data-read"))
    fold = page[page.rindex("<details", 0, start) : start]
    assert "Show the prompt" in fold
    assert "</details>" not in fold
    assert claim_next_task(batch=batch, person=lin) is not None
