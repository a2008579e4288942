"""Who may open the pages of collecting, what they take in, and that they ask no address but those of the settings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from annotation.models import Batch, Collection, Dataset, Job, Person, Prompt
from annotation.services import jobs
from annotation.services.people.people import set_roles
from annotation.services.studies import find_or_make_study
from benchmark.models import CollectionRun, FailedRequest, PendingRequest
from benchmark.selectors.collection import compute_rates
from benchmark.services.collection import start_collection
from tests.benchmark.endpoint import Messages, Reply, build_answer_body, local_endpoint
from tests.support import make_corpus

pytestmark = pytest.mark.django_db
CLOSED = "http://127.0.0.1:9/v1"


def policy(messages: Messages, _request: Any) -> Reply:
    text = messages[-1]["content"]
    if text == "Question number 3?":
        return 400, {}, {"error": {"message": "<b>not this</b>"}}
    body = build_answer_body("<script>alert(1)</script> " + text)
    body["choices"][0]["finish_reason"] = "length" if text == "Question number 2?" else "stop"
    return 200, {}, body


@pytest.fixture
def prompt_dataset(db: None) -> Dataset:
    dataset = Dataset.objects.create(study=find_or_make_study(), name="asked")
    for number in range(6):
        Prompt.objects.create(
            dataset=dataset, key=f"p{number}", text=f"Question number {number}?", language="en"
        )
    return dataset


@pytest.fixture
def run(prompt_dataset: Dataset, settings: Any) -> CollectionRun:
    with local_endpoint(policy) as url:
        settings.ASSAY_ENDPOINTS = {"local": url}
        made = start_collection(
            model="Asked-7B",
            dataset=prompt_dataset,
            endpoint=url,
            settings={"temperature": 0.25, "system": "Be <i>brief</i>."},
            send=False,
        )
        jobs.run(made.job.pk)
    made.refresh_from_db()
    return made


def form(**changes: Any) -> dict[str, Any]:
    fields = {"endpoint": "local", "served_model": "asked-7b", "model": "Asked-7B", "collection": "second"}
    return fields | {"concurrency": "4", "timeout": "30"} | changes


def test_the_list_the_run_and_its_live_part(run: CollectionRun, he: Person, client: Client):
    client.force_login(he)
    listed = client.get(reverse("collecting")).content.decode()
    assert "Asked-7B" in listed
    assert "5 of 6" in listed
    page = client.get(reverse("collecting-run", args=[run.pk])).content.decode()
    assert "&lt;b&gt;not this&lt;/b&gt;" in page
    assert "<script>alert" not in page
    assert "1 response was cut off by the limit of tokens" in page
    assert "Continue with 1 prompt" in page
    assert "Be &lt;i&gt;brief" in page
    assert "0.25" in page
    live = client.get(reverse("collecting-progress", args=[run.pk]))
    assert live.headers["HX-Refresh"] == "true"


def test_go_on_from_the_page(run: CollectionRun, he: Person, ma: Person, client: Client):
    client.force_login(ma)
    url = reverse("collecting-run", args=[run.pk])
    assert "Continue with" not in client.get(url).content.decode()  # a manager reads
    assert client.post(reverse("collecting-again", args=[run.pk])).status_code == 403
    client.force_login(he)
    assert client.post(reverse("collecting-again", args=[run.pk])).headers["Location"] == url
    run.refresh_from_db()
    assert run.job.state == "queued"
    page = client.get(url).content.decode()
    assert "Continue with" not in page
    assert reverse("job-cancel", args=[run.job.pk]) in page
    assert "HX-Refresh" not in client.get(reverse("collecting-progress", args=[run.pk])).headers
    assert client.post(reverse("collecting-again", args=[run.pk])).status_code == 409


def test_what_a_dead_worker_left_under_way_is_shown_as_lost(run: CollectionRun, he: Person, client: Client):
    PendingRequest.objects.create(run=run, prompt=FailedRequest.objects.get().prompt)
    CollectionRun.objects.update(lost=41)
    client.force_login(he)
    page = client.get(reverse("collecting-run", args=[run.pk])).content.decode()
    assert '<dd class="stat__value">42</dd>' in page


def test_a_new_one_from_the_page(
    prompt_dataset: Dataset, he: Person, client: Client, settings: Any, monkeypatch: Any
):
    settings.ASSAY_ENDPOINTS = {"local": CLOSED, "plain": "http://gpu.example:8000/v1"}
    monkeypatch.setenv("ASSAY_KEY_127_0_0_1_9", "sk-very-secret-0123456789")
    monkeypatch.setenv("ASSAY_KEY_GPU_EXAMPLE_8000", "sk-other-secret")
    client.force_login(he)
    page = client.get(reverse("collecting-new")).content.decode()
    assert "key is set" in page
    assert "ASSAY_KEY_127_0_0_1_9" in page
    assert "HTTPS or to this machine" in page  # the other's
    assert "secret" not in page.replace("secretary", "")
    fields = form(
        dataset=prompt_dataset.pk,
        temperature="0",
        seed="-3",
        stop="###\nEnd\n",
        system=" Be\r\nbrief. ",
        extra='{"top_k": 4}',
    )
    answer = client.post(reverse("collecting-new"), fields)
    made = CollectionRun.objects.get()
    assert answer.headers["Location"] == reverse("collecting-run", args=[made.pk])
    assert made.settings == {
        "temperature": 0.0,
        "seed": -3,
        "stop": ["###", "End"],
        "system": " Be\nbrief. ",
        "top_k": 4,
    }
    assert (made.endpoint, made.served_model, made.created_by, made.concurrency) == (
        CLOSED,
        "asked-7b",
        he,
        4,
    )
    assert made.job.state == "queued"
    refusal = client.post(reverse("collecting-new"), fields)
    assert refusal.status_code == 422
    assert "being collected now" in refusal.content.decode()


HUGE = "9" * 5000


HOSTILE: list[dict[str, str]] = [
    {"endpoint": "http://169.254.169.254/latest"},
    {"endpoint": "other"},
    {"endpoint": ""},
    {"model": ".."},
    {"model": "x" * 101},
    {"model": "\x00"},
    {"served_model": "\x00"},
    {"collection": ".."},
    {"dataset": HUGE},
    {"dataset": "-1"},
    {"dataset": "\x00"},
    {"temperature": "nan"},
    {"temperature": "1e999"},
    {"temperature": "-1"},
    {"top_p": "7"},
    {"max_tokens": "0"},
    {"max_tokens": HUGE},
    {"seed": HUGE},
    {"seed": "1.5"},
    {"extra": "[1]"},
    {"extra": "{"},
    {"extra": "[" * 15_000},
    {"extra": '{"x": NaN}'},
    {"extra": '{"x": 1e999}'},
    {"extra": '{"seed": 1}'},
    {"extra": '{"api_key": "x"}'},
    {"extra": '{"x": "\\u0000"}'},
    {"extra": '{"x": "\\ud800"}'},
    {"extra": '{"messages": []}'},
    {"concurrency": "0"},
    {"concurrency": HUGE},
    {"timeout": "0"},
    {"timeout": "inf"},
    {"system": "x" * 40_001},
    {"stop": "\x00"},
    {"samples": "0"},
    {"samples": "101"},
    {"samples": HUGE},
    {"samples": "1.5"},
    {"samples": "2", "collection": ""},
    {"samples": "2", "temperature": "0"},
]


def test_hostile_forms_are_refused(prompt_dataset: Dataset, he: Person, client: Client, settings: Any):
    settings.ASSAY_ENDPOINTS = {"local": CLOSED}
    client.force_login(he)
    for changes in HOSTILE:
        answer = client.post(reverse("collecting-new"), form(dataset=prompt_dataset.pk) | changes)
        assert answer.status_code == 422, str(changes)[:60]
        assert not CollectionRun.objects.exists()
        assert not Job.objects.exists()
        assert not Collection.objects.filter(name__startswith="second").exists()


@pytest.mark.parametrize(
    ("language", "label", "refusal"),
    [
        ("en", "Samples of each prompt", "At temperature 0 all samples of a prompt are the same"),
        ("zh-hans", "每条提示的采样数", "温度为 0 时"),
    ],
)
def test_samples_from_the_page(
    prompt_dataset: Dataset,
    he: Person,
    client: Client,
    settings: Any,
    language: str,
    label: str,
    refusal: str,
):
    client.force_login(he)
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
    with local_endpoint(policy) as url:
        settings.ASSAY_ENDPOINTS = {"local": url}
        assert label in client.get(reverse("collecting-new")).content.decode()
        fields = form(dataset=prompt_dataset.pk, samples="3", temperature="0", seed="5")
        assert refusal in client.post(reverse("collecting-new"), fields).content.decode()
        answer = client.post(reverse("collecting-new"), fields | {"temperature": "1"})
        runs = list(CollectionRun.objects.order_by("sample"))
        assert answer.headers["Location"] == reverse("collecting-run", args=[runs[0].pk])
        assert [(run.collection.name, run.settings["seed"]) for run in runs] == [
            ("second-1", 5),
            ("second-2", 6),
            ("second-3", 7),
        ]
        jobs.run(runs[0].job.pk)
    for run in runs:
        page = client.get(reverse("collecting-run", args=[run.pk])).content.decode()
        # Of each sample one prompt got no answer; the bar and the button are of all of them.
        assert 'value="15" max="18"' in page
        assert all(other == run or reverse("collecting-run", args=[other.pk]) in page for other in runs)
        if language == "en":
            assert "15 of 18" in page
            assert "Continue with 3 prompts" in page
    before = Job.objects.count()
    client.post(reverse("collecting-again", args=[runs[1].pk]))
    assert Job.objects.count() == before + 1
    assert len({run.job_id for run in CollectionRun.objects.all()}) == 1


def test_numbers_that_are_none_are_not_found(he: Person, client: Client):
    client.force_login(he)
    for number in ("0", "7777", HUGE, "x", "-1", "%00", "²"):
        for page in ("", "progress/"):
            assert client.get(f"/runs/-/collection/{number}/{page}").status_code == 404, number[:9]
        assert client.post(f"/runs/-/collection/{number}/again/").status_code == 404, number[:9]


@pytest.mark.parametrize(
    ("name", "command"), [("collecting-new", "collect_responses"), ("judge-new", "judge_responses")]
)
@pytest.mark.parametrize(("language", "words"), [("en", "No endpoint yet"), ("zh-hans", "还没有接口")])
def test_without_an_endpoint_the_page_says_what_to_set(
    he: Person, client: Client, settings: Any, name: str, command: str, language: str, words: str
):
    settings.ASSAY_ENDPOINTS = {}
    client.force_login(he)
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
    page = client.get(reverse(name)).content.decode()
    assert words in page
    assert "ASSAY_ENDPOINTS=local=http://" in page
    assert command in page
    assert '<form class="form"' not in page


def test_who_judges_the_dataset_blind_sees_nothing_of_it(
    batch: Batch, dataset: Dataset, lin: Person, client: Client, settings: Any
):
    settings.ASSAY_ENDPOINTS = {"local": CLOSED}
    made = start_collection(model="Hidden-99B", dataset=dataset, endpoint=CLOSED, send=False)
    Job.objects.update(state="done")
    set_roles(person=lin, roles=["annotator", "researcher"])
    client.force_login(lin)
    assert "Hidden-99B" not in client.get(reverse("collecting")).content.decode()
    assert client.get(reverse("collecting-run", args=[made.pk])).status_code == 403
    assert client.get(reverse("collecting-progress", args=[made.pk])).status_code == 403
    assert client.post(reverse("collecting-again", args=[made.pk])).status_code == 403
    page = client.get(reverse("collecting-new")).content.decode()
    assert "Secretive-7B" not in page
    answer = client.post(reverse("collecting-new"), form(dataset=dataset.pk))
    assert answer.status_code == 422
    assert CollectionRun.objects.count() == 1


def test_the_rate_over_time_leaves_long_pauses_out():
    begin = datetime(2026, 1, 1, tzinfo=UTC)
    first = [begin + timedelta(seconds=n / 2) for n in range(120)]
    second = [begin + timedelta(hours=9, seconds=n) for n in range(60)]
    rates = compute_rates([*first, *second])
    assert sum(rate.answers for rate in rates) == 180
    assert {rate.stretch for rate in rates} == {0, 1}
    assert rates[0].per_second == pytest.approx(2, rel=0.3)
    later = [rate for rate in rates if rate.stretch == 1]
    assert sum(rate.answers for rate in later) / sum(rate.seconds for rate in later) == pytest.approx(
        1, rel=0.1
    )
    assert rates[-1].at < 3
    assert compute_rates([]) == []
    assert [(rate.answers, rate.seconds) for rate in compute_rates([begin])] == [(1, 1.0)]


def test_a_page_goes_on_only_at_an_endpoint_of_the_settings(
    prompt_dataset: Dataset, he: Person, settings: Any
):
    """A command may have begun anywhere; a page is no way to reach that address again."""
    with local_endpoint(policy) as url:
        made = start_collection(model="M", dataset=prompt_dataset, endpoint=url, send=False)
        Job.objects.filter(pk=made.job.pk).update(state="done")
        browser = Client()
        browser.force_login(he)
        page = reverse("collecting-run", args=[made.pk])
        again_url = reverse("collecting-again", args=[made.pk])
        settings.ASSAY_ENDPOINTS = {"other": "http://127.0.0.1:9/v1"}
        assert again_url not in browser.get(page).content.decode()
        assert "The settings do not name this endpoint" in browser.get(page).content.decode()
        assert browser.post(again_url).status_code == 409
        assert Job.objects.count() == 1
        settings.ASSAY_ENDPOINTS = {"local": f"{url}/"}
        assert again_url in browser.get(page).content.decode()
        assert browser.post(again_url).status_code == 302
        assert Job.objects.count() == 2
        assert url.requests == []


def test_what_is_asked_for_every_two_seconds_looks_into_no_text(
    run: CollectionRun, he: Person, django_assert_max_num_queries: Any
):
    browser = Client()
    browser.force_login(he)
    with django_assert_max_num_queries(30) as queries:
        browser.get(reverse("collecting-progress", args=[run.pk]))
    assert not [
        query["sql"]
        for query in queries.captured_queries
        if 'annotation_response"."text' in query["sql"].replace("`", '"')
    ]


@pytest.mark.parametrize(("language", "words"), [("en", "No questions yet"), ("zh-hans", "还没有题目")])
def test_without_questions_the_page_says_how_they_come_in(
    client: Client, he: Person, settings: Any, language: str, words: str
):
    make_corpus(prompts=1, models=["M"])  # prompts without options
    client.force_login(he)
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = language
    page = client.get(reverse("choice-report-new")).content.decode()
    assert words in page
    assert "import_questions" in page
    assert '<form class="form"' not in page
