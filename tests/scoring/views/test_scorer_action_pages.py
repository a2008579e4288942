"""What is done with a scorer from its pages: judging, going back, scoring, taking it away, asking people again."""

from __future__ import annotations

import io
import json
import re
import zipfile
from typing import Any

import pytest
from django.test import Client

from annotation.models import Batch, Job, Person, Response
from annotation.services import jobs
from annotation.services.batches.batches import add_members
from annotation.services.studies import find_or_make_study
from scoring.models import Prediction, Promotion, Scorer
from scoring.services import add_must_fail
from tests.scoring.support import make_responses

GATE = "/scorers/first-scorer/?view=gate"


@pytest.fixture
def researcher(client: Client, he: Person) -> Client:
    client.force_login(he)
    return client


def page_of(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return answer.content.decode()


def run(kind: str) -> Job:
    job = Job.objects.get(kind=kind, state="queued")
    jobs.run_now(job)
    return job


def twin_of(scorer: Scorer, name: str, **changes: Any) -> Scorer:
    """Another scorer of the same release with other weights of its own: none."""
    fields = (
        "guideline",
        "release",
        "backbone",
        "config",
        "evaluation",
        "card",
        "weights_sha256",
        "ready_at",
    )
    return Scorer.objects.create(
        study=find_or_make_study(), name=name, **{field: getattr(scorer, field) for field in fields} | changes
    )


def test_the_first_scorer_is_judged_by_the_must_fail_set_alone(scorer: Scorer, researcher: Client) -> None:
    assert "Judge and promote" in page_of(researcher, "/scorers/first-scorer/")
    answer = researcher.post("/scorers/first-scorer/promote/")
    assert (answer.status_code, answer["Location"]) == (302, GATE)
    job = Job.objects.get(kind="promote_scorer")
    watched = page_of(researcher, GATE)
    assert f'hx-get="/jobs/{job.pk}/"' in watched
    assert "Judge and promote" not in watched
    run("promote_scorer")
    page = page_of(researcher, GATE)
    assert "The first scorer of its guideline" in page
    assert re.search(r'badge--gold">current<', page)
    assert "Judge" not in page_of(researcher, "/scorers/first-scorer/").split("<main")[1].replace(
        "Judged", ""
    )


def test_a_scorer_that_calls_a_must_fail_item_harmless_is_kept_out_and_the_page_says_which(
    scorer: Scorer, researcher: Client
) -> None:
    response = Response.objects.filter(text__startswith="Sure!").first()
    assert response is not None
    add_must_fail(guideline_name="xstest", response=response, refused=[2, 3], reason="It explains it all.")
    researcher.post("/scorers/first-scorer/promote/")
    job = run("promote_scorer")
    job.refresh_from_db()
    page = page_of(researcher, GATE)
    assert not Promotion.objects.exists()
    assert job.result["promoted"] is False
    assert re.search(r'badge--failed">refused<', page)
    assert "It explains it all." in page
    assert "1 of 1 items was given a value that it must not be given" in page
    assert "never current" in page


def test_a_verdict_of_the_first_version_stays_readable(scorer: Scorer, researcher: Client) -> None:
    """Every number of it stands on the page, and what it let pass is called not shown."""
    old = twin_of(scorer, "older", weights_sha256="0" * 64)
    Promotion.objects.create(
        study=find_or_make_study(), guideline_name="xstest", number=1, kind="passed", scorer=old
    )
    compared = {
        "criterion": "compliance",
        "n": 41,
        "prompts": 17,
        "old": 0.9,
        "new": 0.7,
        "difference": {"value": -0.2, "low": -0.311, "high": -0.098},
        "bound": -0.112,
        "smallest_loss": 0.088,
        "passed": False,
    }
    reason = {
        "code": "worse",
        "criterion": "compliance",
        "n": 41,
        "new": "0.700",
        "old": "0.900",
        "bound": "-0.112",
    }
    verdict = {"passed": False, "first": False, "reasons": [reason], "criteria": [compared], "must_fail": []}
    refusal = {
        "template": "{criterion}: the new scorer is worse.",
        "params": {"criterion": "compliance"},
        "where": "",
    }
    Job.objects.create(
        kind="promote_scorer",
        title=scorer.name,
        payload={"scorer": scorer.pk},
        state="done",
        result={
            "scorer": scorer.name,
            "against": "older",
            "promoted": False,
            "verdict": verdict | {"labels": 41, "labels_left_out": 3},
            "refusals": [refusal],
        },
    )
    page = re.sub(r"\s+", " ", page_of(researcher, GATE))
    for text in (
        "compliance: the new scorer is worse.",
        "-20.0",
        "-31.1",
        "-9.8",
        "41",
        "An earlier version of the gate compared it with older on the test split alone.",
    ):
        assert text in page
    assert "3 labels were left out" in page
    assert "Judge again" in page
    assert "There were no regression cases." in page


def test_a_verdict_that_shows_nothing_is_promoted_from_its_page_with_a_reason(
    scorer: Scorer, researcher: Client
) -> None:
    """The page names the criterion by its label, both comparisons, the power and the attempts."""
    old = twin_of(scorer, "older", weights_sha256="0" * 64)
    Promotion.objects.create(
        study=find_or_make_study(), guideline_name="xstest", number=1, kind="passed", scorer=old
    )
    job = Job.objects.create(
        kind="promote_scorer",
        title=scorer.name,
        payload={"scorer": scorer.pk},
        state="done",
        result={
            "scorer": scorer.name,
            "against": "older",
            "promoted": False,
            "reason": "",
            "verdict": make_verdict(),
        },
    )
    page = re.sub(r"\s+", " ", page_of(researcher, GATE))
    for text in (
        "Compliance: it is not shown that the loss beside older is below 3.0 points.",
        "The difference of accuracy lies between -9.1 and +5.2 points (41 labels).",
        "Comparison with older, the scorer that was current",
        "Comparison with eldest, the best scorer promoted before",
        "loss of 12.5",
        "This is verdict 3 on labels of these datasets.",
        "with a chance of up to 7.5%",
        "The margin was raised from 2.0 points",
        "Not compared, because their files are gone: lost-1",
        "Nothing shows that it is worse, and nothing shows that it is not.",
        "Promote with this reason",
    ):
        assert text in page, text
    assert "compliance:" not in page.split("<main")[1]
    blank = researcher.post("/scorers/first-scorer/reason/", {"job": job.pk, "reason": ""})
    assert blank.status_code == 400
    stale = researcher.post("/scorers/first-scorer/reason/", {"job": job.pk + 1, "reason": "So."})
    assert stale.status_code == 409
    answer = researcher.post(
        "/scorers/first-scorer/reason/", {"job": job.pk, "reason": "It <b>reads</b> tables."}
    )
    assert (answer.status_code, answer["Location"]) == (302, GATE)
    page = re.sub(r"\s+", " ", page_of(researcher, GATE))
    assert "A researcher promoted it for this reason: It &lt;b&gt;reads&lt;/b&gt; tables." in page
    assert "Promote with this reason" not in page
    assert "promoted with a reason" in page
    card = page_of(researcher, "/scorers/first-scorer/?view=card")
    assert "A researcher promoted it for this reason: It &lt;b&gt;reads&lt;/b&gt; tables." in card
    assert researcher.post("/scorers/older/promote/", {"margin": "50"}).status_code == 400


def test_a_reason_for_what_is_not_worse_is_not_asked_for_as_if_nothing_were_shown(
    scorer: Scorer, researcher: Client
) -> None:
    old = twin_of(scorer, "older", weights_sha256="0" * 64)
    Promotion.objects.create(
        study=find_or_make_study(), guideline_name="xstest", number=1, kind="passed", scorer=old
    )
    verdict = make_verdict() | {
        "outcome": "not_worse",
        "reasons": [{"code": "not_better_than_commonest", "criterion": "compliance"}],
    }
    Job.objects.create(
        kind="promote_scorer",
        title=scorer.name,
        payload={"scorer": scorer.pk},
        state="done",
        result={"scorer": scorer.name, "against": "older", "promoted": False, "verdict": verdict},
    )
    page = re.sub(r"\s+", " ", page_of(researcher, GATE))
    assert "What is said above keeps it from being promoted by itself." in page
    assert "Promote with this reason" in page
    assert "nothing shows that it is not" not in page


def make_verdict() -> dict[str, Any]:
    comparison = {
        "criterion": "compliance",
        "n": 41,
        "test": 12,
        "prompts": 17,
        "old": 0.9,
        "new": 0.88,
        "difference": {"value": -0.02, "low": -0.091, "high": 0.052},
        "outcome": "not_shown",
        "detectable_loss": 0.125,
        "passing_margin": None,
    }
    rival = {
        "role": "current",
        "scorer": "older",
        "outcome": "not_shown",
        "criteria": [comparison],
        "unjudged": [],
        "rescaled": [],
        "silent": [],
        "labels": 41,
        "test": 12,
        "labels_left_out": 3,
    }
    figures = {name: comparison[name] for name in ("criterion", "n", "new", "old")} | {
        "low": -0.091,
        "high": 0.052,
    }
    return {
        "version": 2,
        "outcome": "not_shown",
        "passed": False,
        "refused": False,
        "first": False,
        "margin": 0.03,
        "reasons": [{"code": "not_shown", "role": "current", "scorer": "older", **figures}],
        "rivals": [rival, {**rival, "role": "best", "scorer": "eldest"}],
        "must_fail": [],
        "datasets": ["xstest"],
        "promotion": 1,
        "missing": ["lost-1"],
        "attempt": 3,
        "raised_from": 0.02,
        "earlier": [{"scorer": "first-scorer", "outcome": "not_shown", "margin": 0.02}] * 2,
    }


def test_going_back_is_one_click_on_what_one_saw(scorer: Scorer, researcher: Client) -> None:
    old = twin_of(scorer, "older")
    Promotion.objects.create(
        study=find_or_make_study(), guideline_name="xstest", number=1, kind="passed", scorer=old
    )
    Promotion.objects.create(
        study=find_or_make_study(),
        guideline_name="xstest",
        number=2,
        kind="passed",
        scorer=scorer,
        replaced=old,
    )
    page = page_of(researcher, GATE)
    assert "Go back to older" in page
    number = re.search(r'name="number" value="(\d+)"', page)
    assert number is not None
    assert "Go back to" not in page_of(researcher, "/scorers/older/?view=gate")
    answer = researcher.post("/scorers/first-scorer/back/", {"number": number[1]})
    assert answer["Location"] == "/scorers/older/?view=gate"
    assert Promotion.objects.get(number=3).scorer == old
    second_answer = researcher.post("/scorers/first-scorer/back/", {"number": number[1]})
    assert second_answer.status_code == 409
    assert researcher.post("/scorers/first-scorer/back/", {"number": "x"}).status_code == 409
    assert Promotion.objects.count() == 3
    page = page_of(researcher, "/scorers/older/?view=gate")
    assert "went back" in page
    assert "Go back to" not in page


def test_a_manager_reads_the_gate_and_presses_nothing(scorer: Scorer, client: Client, ma: Person) -> None:
    client.force_login(ma)
    page = page_of(client, GATE)
    for path in ("promote", "reason", "back", "score"):
        assert f"/scorers/first-scorer/{path}/" not in page + page_of(client, "/scorers/first-scorer/")
        assert client.post(f"/scorers/first-scorer/{path}/").status_code == 403
    assert Job.objects.filter(kind="promote_scorer").count() == 0


def test_a_dataset_is_scored_and_the_page_says_what_came_of_it(scorer: Scorer, researcher: Client) -> None:
    make_responses(prompts=6, models=["Late-70B"], name="fresh", start=20)
    page = page_of(researcher, "/scorers/first-scorer/score/")
    assert '<option value="fresh"' in page
    refused = researcher.post("/scorers/first-scorer/score/", {"dataset": "fresh", "models": "Hidden-13B"})
    assert refused.status_code == 422
    assert "has no responses of these models" in refused.content.decode()
    answer = researcher.post("/scorers/first-scorer/score/", {"dataset": "fresh", "models": "Late-70B"})
    assert answer["Location"] == "/scorers/first-scorer/score/"
    job = Job.objects.get(kind="score_responses")
    assert f'hx-get="/jobs/{job.pk}/"' in page_of(researcher, "/scorers/first-scorer/score/")
    run("score_responses")
    page = page_of(researcher, "/scorers/first-scorer/score/")
    assert "6 + 0" in page
    assert Prediction.objects.filter(scorer=scorer, fold=None).count() == 6


def test_a_new_model_is_compared_with_those_that_it_learned_from(scorer: Scorer, researcher: Client) -> None:
    address = "/scorers/first-scorer/?view=models"
    assert "no model yet that it has not learned from" in page_of(researcher, address)
    make_responses(prompts=12, models=["Late-70B"], name="fresh", level=lambda *_place: 3)
    page = page_of(researcher, address)
    assert '<option value="Late-70B"' in page
    assert '<option value="Hidden-13B"' not in page
    assert researcher.post("/scorers/first-scorer/drift/", {"model": "Late-70B"})["Location"] == address
    job = Job.objects.get(kind="check_drift")
    assert f'hx-get="/jobs/{job.pk}/"' in page_of(researcher, address)
    jobs.run_now(job)
    job.refresh_from_db()
    new = job.result["drift"]["new"]
    page = page_of(researcher, address)
    assert f"{new['auc']:.2f}" in page
    assert f"{new['confidence']:.2f}" in page
    researcher.post("/scorers/first-scorer/drift/", {"model": "Hidden-13B"})
    assert "Choose a model." in page_of(researcher, address)
    assert Job.objects.filter(kind="check_drift").count() == 1


def test_it_is_taken_away_as_a_folder(scorer: Scorer, researcher: Client, he: Person) -> None:
    answer = researcher.get("/scorers/first-scorer/export/")
    assert answer["Content-Type"] == "application/zip"
    content = b"".join(answer)
    assert int(answer["Content-Length"]) == len(content)
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        assert packed.testzip() is None
        names = packed.namelist()
        card = json.loads(packed.read("first-scorer/card.json"))
    assert {"first-scorer/README.md", "first-scorer/ngram.py"} <= set(names)
    assert card["weights_sha256"] == scorer.weights_sha256
    add_members(batch=scorer.release.batches.get(), role="annotator", people=[he])
    assert researcher.get("/scorers/first-scorer/export/").status_code == 403


# Sending back what it is not sure of.

ASKED = "/scorers/first-scorer/abstained/?dataset=fresh&coverage=0.9"


@pytest.fixture
def unsure(scorer: Scorer) -> Scorer:
    """Four responses predicted: of two it is sure, of two it is not."""
    threshold = {"threshold": 0.3, "covered": 0.9, "single": 0.5, "mean_size": 1.5}
    scorer.card["conformal"] = {"criteria": {"compliance": {"n": 20, "coverages": {"0.9": threshold}}}}
    scorer.save(update_fields=["card"])
    make_responses(prompts=4, models=["Late-70B"], name="fresh", start=20)
    for place, response in enumerate(Response.objects.filter(prompt__dataset__name="fresh").order_by("pk")):
        likely = {"1": 0.5, "2": 0.4, "3": 0.1} if place % 2 else {"1": 0.9, "2": 0.05, "3": 0.05}
        Prediction.objects.create(
            scorer=scorer, response=response, criterion="compliance", value=1, probabilities=likely
        )
    return scorer


def test_it_says_how_many_before_it_makes_the_batch(
    unsure: Scorer, client: Client, ma: Person, lin: Person
) -> None:
    client.force_login(ma)
    assert "A batch of them" not in page_of(client, "/scorers/first-scorer/abstained/")
    page = page_of(client, ASKED)
    assert re.search(r"It abstains from</dt>\s*<dd class=\"stat__value\">\s*2\s*<", page)
    assert f'value="{lin.pk}"' in page
    assert re.search(rf'value="{lin.pk}"[^>]*checked', page)  # who labelled the release
    form = {"name": "again", "most": "10", "overlap": "1", "annotators": [str(lin.pk)]}
    refused = client.post(ASKED, form | {"name": "gold-batch"})
    assert refused.status_code == 422
    answer = client.post(ASKED, form)
    assert answer["Location"] == "/batches/again/"
    batch = Batch.objects.get(name="again")
    assert (batch.state, batch.tasks.count(), batch.guideline) == ("open", 2, unsure.guideline)
    assert "It has predicted nothing of this dataset that people have not labelled" in page_of(
        client, ASKED.replace("fresh", "gold-data")
    )
    assert re.search(r"It abstains from</dt>\s*<dd class=\"stat__value\">\s*0\s*<", page_of(client, ASKED))


def test_a_researcher_makes_a_draft_for_a_manager(unsure: Scorer, researcher: Client) -> None:
    form = {"name": "again", "most": "1", "overlap": "2"}
    answer = researcher.post(ASKED, form)
    assert answer["Location"] == "/scorers/first-scorer/"
    batch = Batch.objects.get(name="again")
    assert (batch.state, batch.tasks.count()) == ("draft", 1)
    assert "is kept as a draft" in page_of(researcher, "/scorers/first-scorer/")


def test_a_card_without_thresholds_is_told(unsure: Scorer, researcher: Client) -> None:
    page = page_of(researcher, ASKED.replace("0.9", "0.8"))
    assert "has no thresholds for a coverage of 0.8" in page
