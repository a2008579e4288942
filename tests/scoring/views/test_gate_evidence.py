"""What the gate takes for evidence, and what it does where there is none."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from annotation.models import GoldRelease, Guideline, Person, Prompt, Response
from annotation.services.guidelines import load_guideline
from scoring.domain.gate import REFUSALS
from scoring.selectors.scorers import find_current_scorer
from scoring.selectors.training import build_training_set
from scoring.services import add_must_fail
from tests.scoring.gate_support import FAIRNESS, SAFETY, judged, labelled_release, promoted, scorer_that_says
from tests.support import FLAMES_GUIDELINE

pytestmark = pytest.mark.django_db


def card(**states: str) -> dict[str, Any]:
    return {"heads": {criterion: {"state": state} for criterion, state in states.items()}}


@pytest.mark.parametrize("known", ["learned", "constant"])
def test_a_scorer_that_tells_nothing_of_what_the_current_one_can_tell_is_refused(
    graded: GoldRelease, flames: Guideline, lin: Person, he: Person, always: Any, known: str
) -> None:
    """No label of safety is left to find it worse on: without this, one criterion alone would replace two."""
    safety = [
        example.content_key
        for example in build_training_set(graded, flames).examples
        if example.dimension == SAFETY
    ]
    both = card(fairness="learned", safety=known, morality="empty")
    old = scorer_that_says(graded, flames, name="old", learned=safety, card=both)
    judged(old)
    always(-1, unlearned=["safety"])
    later = labelled_release(flames, lin, name="later", dimensions=[FAIRNESS])
    fairness_card = card(fairness="learned", safety="empty", morality="empty")
    result = judged(scorer_that_says(later, flames, name="one", card=fairness_card))
    assert [reason for reason in result["verdict"]["reasons"] if reason["code"] in REFUSALS] == [
        {"code": "cannot_tell", "criterion": "safety"}
    ]
    assert result["verdict"]["refused"]
    assert find_current_scorer("flames") == old
    # what the current one cannot tell either keeps nobody out
    always(-1)
    assert promoted(scorer_that_says(later, flames, name="two", card=both), he)["promoted"]


def test_a_must_fail_item_that_a_scorer_tells_nothing_of_stops_it(
    graded: GoldRelease, flames: Guideline, lin: Person, always: Any
) -> None:
    """Also the first of its guideline, which is compared with none."""
    labelled_release(flames, lin, name="other", dimensions=[SAFETY], test=1, train=0)
    add_must_fail(guideline_name="flames", response=Response.objects.get(prompt__dataset__name="other-data"))
    always(0, unlearned=["safety"])
    result = judged(scorer_that_says(graded, flames, name="one"))
    assert result["verdict"]["reasons"] == [{"code": "must_fail_untold", "count": 1}]
    assert [(item["given"], item["passed"]) for item in result["verdict"]["must_fail"]] == [(None, False)]
    always(0)
    assert judged(scorer_that_says(graded, flames, name="two"))["promoted"]


def test_a_label_whose_prompt_was_learned_from_another_dataset_is_no_evidence(
    graded: GoldRelease, flames: Guideline, lin: Person, always: Any
) -> None:
    """The split hangs on dataset and id, so that one text may be for testing here and for training there."""
    judged(scorer_that_says(graded, flames, name="old"))
    later = labelled_release(flames, lin, name="later", dimensions=[SAFETY], test=1, train=6)
    tested = [
        example.prompt for example in build_training_set(graded, flames).examples if example.split == "test"
    ]
    safety = [text for text in tested if Prompt.objects.get(text=text).dimension == SAFETY]
    taught = [example for example in build_training_set(later, flames).examples if example.split == "train"]
    for example, text in zip(taught, safety, strict=True):
        dataset, _slash, key = example.prompt_key.partition("/")
        Prompt.objects.filter(dataset__name=dataset, key=key).update(text=f"  {text.upper()}")
    loaded = always(-1)
    result = judged(scorer_that_says(later, flames, name="new"))
    # Eight of fairness; of safety the two that the old one has learned, and the later release's seven. The six of the
    # test split were learned under other ids, and no fold of the new one has said anything of them.
    (rival,) = result["verdict"]["rivals"]
    assert {row["criterion"]: (row["n"], row["test"]) for row in rival["criteria"]} == {
        "fairness": (8, 6),
        "safety": (9, 1),
    }
    assert (rival["labels"], rival["labels_left_out"]) == (17, 6)
    assert sorted(len(scorer.content_keys) for scorer in loaded) == [7, 10]


def test_a_criterion_whose_scale_has_changed_is_told_from_one_without_labels(
    graded: GoldRelease, flames: Guideline, lin: Person, he: Person, client: Client, always: Any
) -> None:
    """There are labels of it; but the current scorer cannot be asked on the new scale."""
    judged(scorer_that_says(graded, flames, name="old"))
    text = FLAMES_GUIDELINE.path.read_text(encoding="utf-8").replace('version: "1.3"', 'version: "1.4"')
    before, safety, after = re.split(r"(?=  - name: safety\n)|(?=  - name: morality\n)", text)
    counted = after.replace("Safety: [1, 2]", "Safety: [1, 2.5]")
    changed = before + safety.replace("- value: 2", "- value: 2.5") + counted
    second = load_guideline(text=changed, path="second.yaml", publish=True)
    later = labelled_release(second, lin, name="later", dimensions=[FAIRNESS, SAFETY])
    always(-1)
    new = scorer_that_says(later, second, name="new")
    verdict = judged(new)["verdict"]
    (rival,) = verdict["rivals"]
    assert [row["criterion"] for row in rival["criteria"]] == ["fairness"]
    assert rival["rescaled"] == ["safety"]
    assert (rival["silent"], rival["unjudged"]) == (["data_protection", "legality", "morality"], [])
    client.force_login(he)
    page = re.sub(r"\s+", " ", client.get("/scorers/new/?view=gate").content.decode())
    assert "old was trained on has another scale for them, or lacks them: Safety." in page
    match = re.search(r"neither had a label of them to learn from: ([^.]*)\.", page)
    assert match is not None
    assert "Safety" not in match[1]
