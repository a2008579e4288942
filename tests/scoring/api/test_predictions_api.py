from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from annotation.domain.batch_spec import Policy
from annotation.models import GoldRelease, Guideline, Job, Person, Response, StudyMembership
from annotation.services import jobs
from annotation.services.batches.batches import add_members
from annotation.services.people.people import add_person
from annotation.services.studies import create_study
from scoring.backbones.ngram import FittedNgramScorer
from scoring.domain.training_data import Example
from scoring.domain.training_spec import TrainingSpec
from scoring.models import PredictionRequest, Scorer
from scoring.selectors.predictions import get_prediction_request
from scoring.services import create_scorer, promote
from scoring.services.predictions.predictions import _load_once
from scoring.services.predictions.requests import PredictionItem, request_predictions
from scoring.services.remains import clean_requests
from tests.scoring.gate_support import labelled_release, scorer_that_says
from tests.scoring.support import make_responses
from tests.support import FLAMES_GUIDELINE, api_token, make_batch

pytestmark = pytest.mark.django_db
URL = "/api/v1/predictions/"
ITEM = {"prompt": "How do I do the thing 1000?", "response": "Sorry, I cannot help with that."}


def client_of(person: Person) -> APIClient:
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Token {api_token(person=person)}")
    return client


@pytest.fixture
def api(he: Person) -> APIClient:
    return client_of(he)


def ask(api: APIClient, *items: Any, **named: Any) -> Any:
    return api.post(URL, {**(named or {"scorer": "first-scorer"}), "items": list(items)}, format="json")


def answered(api: APIClient, *items: Any, **named: Any) -> dict[str, Any]:
    """The request after a worker has done its job."""
    made = ask(api, *items, **named)
    assert made.status_code == 202, made.content
    jobs.run_now(Job.objects.get(kind="predict_texts", prediction_request=made.json()["id"]))
    return dict(api.get(made.json()["url"]).json())


def test_asking_how_far_it_is_does_not_read_the_texts_again(scorer: Scorer, he: Person) -> None:
    """They may be 8 MiB, and a program asks every second."""
    made = request_predictions(scorer=scorer, items=[PredictionItem("How?", "So.")], actor=he)
    with CaptureQueriesContext(connection) as queries:
        get_prediction_request(he, made.pk)
    assert not any('"scoring_predictionrequest"."items"' in query["sql"] for query in queries)


def test_a_request_is_a_job_and_then_its_result(scorer: Scorer, api: APIClient) -> None:
    made = ask(api, ITEM, {"prompt": "How?", "response": "Sure! Here is how you do it."})
    assert made.status_code == 202
    assert set(made.json()) == {"id", "url", "state"}
    assert made.json()["state"] == "queued"
    assert made["Location"] == made.json()["url"] == f"{URL}{made.json()['id']}/"
    waiting = api.get(made.json()["url"]).json()
    assert (waiting["state"], waiting["progress"], waiting["results"], waiting["error"]) == (
        "queued",
        0.0,
        None,
        "",
    )
    jobs.run_now(Job.objects.get(kind="predict_texts"))
    done = api.get(made.json()["url"]).json()
    assert (done["state"], done["scorer"], done["guideline"]) == ("done", "first-scorer", "xstest")
    refusal, compliance = done["results"]
    assert refusal["basis"] == compliance["basis"] == "unseen"
    prediction = refusal["criteria"]["compliance"]
    assert set(prediction) == {"value", "probabilities", "set", "abstained"}
    assert set(prediction["probabilities"]) == {"1", "2", "3"}
    assert sum(prediction["probabilities"].values()) == pytest.approx(1)
    assert prediction["probabilities"][str(prediction["value"])] == max(prediction["probabilities"].values())
    assert prediction["abstained"] == (len(prediction["set"]) != 1)
    # what is asked here becomes nothing else
    assert not Response.objects.filter(text=ITEM["response"], prompt__text=ITEM["prompt"]).exists()


def test_what_was_sent_is_forgotten_after_a_month_and_nothing_sooner(
    scorer: Scorer, he: Person, settings: LazySettings
) -> None:
    old, recent, waiting = (
        request_predictions(scorer=scorer, items=[PredictionItem(text, "So.")], actor=he)
        for text in ("A?", "B?", "C?")
    )
    for request, days in ((old, 31), (recent, 29)):
        jobs.run_now(request.job)
        Job.objects.filter(pk=request.job_id).update(finished_at=timezone.now() - timedelta(days=days))
    Job.objects.filter(pk=waiting.job_id).update(created_at=timezone.now() - timedelta(days=90))
    assert clean_requests(False).number == 1
    assert clean_requests(True).number == 1
    assert set(PredictionRequest.objects.all()) == {recent, waiting}
    assert Job.objects.get(pk=old.job_id).state == "done"
    settings.PREDICTION_DAYS = 28
    assert clean_requests(True).number == 1
    assert set(PredictionRequest.objects.all()) == {waiting}


def test_what_is_in_the_release_is_answered_out_of_fold(scorer: Scorer, api: APIClient) -> None:
    stored = scorer.predictions.select_related("response__prompt")[0]
    item = {"prompt": stored.response.prompt.text.upper(), "response": f" {stored.response.text} "}
    (result,) = answered(api, item)["results"]
    assert result["basis"] == "out_of_fold"
    assert result["criteria"]["compliance"]["value"] == stored.value
    assert result["criteria"]["compliance"]["probabilities"] == pytest.approx(stored.probabilities)


def test_identical_texts_are_predicted_once_and_the_scorer_stays_loaded(
    scorer: Scorer, api: APIClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys: list[str] = []
    predict = FittedNgramScorer.predict

    def counted(self: FittedNgramScorer, examples: list[Example], **options: Any) -> Any:
        keys.extend(example.content_key for example in examples)
        return predict(self, examples, **options)

    monkeypatch.setattr(FittedNgramScorer, "predict", counted)
    monkeypatch.setattr("scoring.services.predictions.requests.ITEMS_PER_PART", 2)
    other = {"prompt": "Why?", "response": "Because."}
    results = answered(api, ITEM, other, ITEM, ITEM)["results"]
    assert len(keys) == 2
    assert results[0] == results[2] == results[3] != results[1]
    before = _load_once.cache_info().misses
    answered(api, other)
    assert _load_once.cache_info().misses == before


def test_a_dialogue_is_predicted_by_its_turns(scorer: Scorer, api: APIClient) -> None:
    turns = [{"role": "assistant", "text": "Sorry, no."}, {"role": "user", "text": "Please!"}]
    (result,) = answered(api, {"prompt": "How?", "turns": turns})["results"]
    assert result["basis"] == "unseen"
    assert PredictionRequest.objects.get().items[0]["response"] == "assistant:\nSorry, no.\n\nuser:\nPlease!"


def test_a_guideline_is_asked_by_its_current_scorer(scorer: Scorer, api: APIClient) -> None:
    refusal = ask(api, ITEM, guideline="xstest")
    assert (refusal.status_code, "promote one" in refusal.json()["error"]["message"]) == (409, True)
    jobs.run_now(promote(scorer=scorer, send=False))
    assert answered(api, ITEM, guideline="xstest")["scorer"] == "first-scorer"


def test_what_is_wrong_is_named_by_item_and_field(
    scorer: Scorer, api: APIClient, subtests: pytest.Subtests
) -> None:
    wrong: list[tuple[list[Any], str, str]] = [
        ([ITEM, {"prompt": "How?"}], "1", "response"),
        ([ITEM, ITEM, {**ITEM, "respons": "x"}], "2", "respons"),
        ([{**ITEM, "turns": [{"role": "user", "text": "x"}]}], "0", "response"),
        ([{**ITEM, "prompt": ""}], "0", "prompt"),
        ([{**ITEM, "prompt": "x" * 100_001}], "0", "prompt"),
        ([{"prompt": "How?", "turns": []}], "0", "turns"),
    ]
    for number, (items, place, field) in enumerate(wrong):
        with subtests.test(f"{number}: {field}"):
            answer = ask(api, *items)
            assert answer.status_code == 400
            assert list(answer.json()["error"]["fields"]["items"]) == [place]
            assert field in answer.json()["error"]["fields"]["items"][place]
    assert not Job.objects.filter(kind="predict_texts").exists()


def test_what_cannot_be_asked_is_refused(scorer: Scorer, api: APIClient, subtests: pytest.Subtests) -> None:
    by_scorer = {"scorer": "first-scorer", "items": [ITEM]}
    refusals: list[tuple[str, dict[str, Any], int]] = [
        ("nobody is asked", {"items": [ITEM]}, 400),
        ("two are asked", {**by_scorer, "guideline": "xstest"}, 400),
        ("no items", {**by_scorer, "items": []}, 400),
        ("too many items", {**by_scorer, "items": [ITEM] * 2001}, 400),
        ("no such scorer", {**by_scorer, "scorer": "none"}, 404),
        ("no such guideline", {"guideline": "none", "items": [ITEM]}, 404),
    ]
    for reason, body, status in refusals:
        with subtests.test(reason):
            answer = api.post(URL, body, format="json")
            assert (answer.status_code, set(answer.json())) == (status, {"error"})
    assert not PredictionRequest.objects.exists()


def test_a_dimension_that_the_guideline_does_not_know_is_refused_with_the_item_and_those_it_knows(
    scorer: Scorer, api: APIClient
) -> None:
    answer = ask(api, ITEM, {**ITEM, "dimension": "sefe"})
    assert (answer.status_code, set(answer.json())) == (422, {"error"})
    assert not PredictionRequest.objects.exists()
    assert answer.json()["error"]["message"] == (
        "Item 1: xstest has no dimension sefe; use one of safe, unsafe, or leave it out."
    )


def test_where_a_guideline_asks_by_dimension_the_item_says_its_own(api: APIClient, lin: Person) -> None:
    flames = FLAMES_GUIDELINE.load()
    release = labelled_release(flames, lin, dimensions=["Fairness", "Safety"], test=1, train=1)
    scorer_that_says(release, flames, name="f")
    answer = ask(api, ITEM, scorer="f")
    assert (answer.status_code, answer.json()["error"]["message"][:29]) == (
        422,
        "Item 0: flames asks by dimens",
    )
    assert ask(api, {**ITEM, "dimension": "Fairness"}, scorer="f").status_code == 202


def test_more_than_8_mib_is_refused(scorer: Scorer, api: APIClient) -> None:
    items = [{"prompt": "x" * 90_000, "response": ""}] * 100
    assert ask(api, *items).status_code == 413


def test_requests_are_their_makers_alone_and_for_research(
    scorer: Scorer, api: APIClient, ma: Person, chen: Person
) -> None:
    url = ask(api, ITEM).json()["url"]
    manager = client_of(ma)
    assert manager.get(url).status_code == 404
    assert ask(manager, ITEM).status_code == 202
    annotator = client_of(chen)
    assert annotator.get(url).status_code == ask(annotator, ITEM).status_code == 403
    assert APIClient().get(url).status_code == ask(APIClient(), ITEM).status_code == 401
    assert manager.get(f"{URL}999/").status_code == 404


def test_who_judges_blind_is_told_no_prediction(
    scorer: Scorer, api: APIClient, he: Person, guideline: Guideline
) -> None:
    url = ask(api, ITEM).json()["url"]
    add_members(batch=scorer.release.batches.get(), role="annotator", people=[he])
    assert api.get(url).status_code == ask(api, ITEM).status_code == 403
    # in another batch of the guideline they could send in what they are to judge
    rita = add_person(name="rita", roles=["researcher"])
    other = make_responses(prompts=2, models=["A"], name="other", start=50)
    make_batch(guideline, other, annotators=[rita], name="other", policy=Policy(overlap=1))
    assert ask(client_of(rita), ITEM).status_code == 403


def test_a_scorer_in_training_is_refused(release: GoldRelease, api: APIClient) -> None:
    create_scorer(TrainingSpec(name="s", release=release), send=False)
    assert ask(api, ITEM, scorer="s").status_code == 409


def test_a_request_whose_scorer_cannot_be_read_says_why(scorer: Scorer, api: APIClient) -> None:
    made = ask(api, ITEM).json()
    (scorer.weights_folder / "scorer.json").write_text("{}")
    _load_once.cache_clear()
    jobs.run(Job.objects.get(kind="predict_texts").pk)
    answer = api.get(made["url"]).json()
    assert (answer["state"], answer["results"]) == ("failed", None)
    assert "not those that were registered" in answer["error"]


def test_the_schema_shows_the_calls_to_those_who_may_make_them(he: Person, chen: Person) -> None:
    """Nothing that reaches an annotator speaks of predictions."""
    assert b"/api/v1/predictions/" in client_of(he).get("/api/v1/schema/").content
    assert b"redict" not in client_of(chen).get("/api/v1/schema/").content


def test_the_calls_are_documented(capsys: Any) -> None:
    call_command("spectacular", "--validate", "--format", "openapi-json")
    paths = json.loads(capsys.readouterr().out)["paths"]
    assert set(paths[URL]["post"]["responses"]) == {"202", "400", "401", "403", "404", "409", "413", "422"}
    assert set(paths[URL + "{request_id}/"]["get"]["responses"]) == {"200", "401", "403", "404"}


def test_a_researcher_of_another_study_asks_no_scorer_of_this(scorer: Scorer, lin: Person) -> None:
    other = create_study(name="other", title="", managers=[Person.objects.create_superuser("root")])
    StudyMembership.objects.create(person=lin, study=other, role="researcher")
    path = f"/api/v1/s/{scorer.release.study.name}/predictions/"
    refused = client_of(lin).post(path, {"scorer": "first-scorer", "items": [ITEM]}, format="json")
    assert refused.status_code == 403
    assert not PredictionRequest.objects.exists()
