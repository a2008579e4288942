"""Targets that fail and workers that die: said in place, nothing lost, nothing charged that was not answered."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db.models import F

from annotation.models import Job
from annotation.services import jobs
from benchmark.domain.llm_client import Outcome
from benchmark.models import Attempt, AttemptAnswer, Campaign, CampaignTarget, Proposal
from benchmark.selectors.workbench.bench import list_attempt_rows
from benchmark.services.workbench import attempts
from benchmark.services.workbench.attempts import ask_targets, recover_attempts
from benchmark.services.workbench.proposals import start_proposal
from tests.annotation.views.test_jobs import Workers, wait_for
from tests.benchmark.endpoint import Messages, Reply, build_answer_body, local_endpoint
from tests.benchmark.workbench import ask, check_campaigns, invent_text, make_campaign, write
from tests.support import person

pytestmark = pytest.mark.django_db
KEY = "sk-secret-of-the-endpoint-0123456789"
TEXT = write(invent_text(0))
NO_ANSWER = "The target gave no answer; a manager can see why."
LIMITED = "The target limits the rate of requests; ask again in a while."
NOTHING = "The target answered with nothing."


def complain(status: int, headers: dict[str, str] | None = None, **words: str) -> Reply:
    """An error that tells all that an author must not know."""
    message = f"the model Secretive-7B of http://127.0.0.1/v1 does not take the key {KEY}"
    return status, headers or {}, {"error": {"message": message, **words}}


def begin(url: str, *, timeout: float = 60, **values: Any) -> tuple[Campaign, Proposal]:
    """By default an answer may take as long as a busy machine takes."""
    campaign = make_campaign(targets={"Secretive-7B": url}, is_blind=True, **values)
    CampaignTarget.objects.update(timeout=timeout)
    return campaign, start_proposal(campaign=campaign, person=person("lin"))


def read_refusal(campaign: Campaign, attempt: Attempt) -> str:
    (row,) = list_attempt_rows(campaign, [attempt], with_predictions=True)
    assert not row.is_open
    return row.refusal


def get_job(attempt: Attempt) -> Job:
    assert attempt.job_id is not None
    return Job.objects.get(pk=attempt.job_id)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        pytest.param(complain(429, {"Retry-After": "60"}), LIMITED, id="limited for long"),
        pytest.param(complain(429, {"Retry-After": "0.05"}), LIMITED, id="limited again and again"),
        pytest.param(complain(429, code="insufficient_quota"), LIMITED, id="no money left"),
        pytest.param(complain(401), "(HTTP 401)", id="wrong key"),
        pytest.param(complain(404), "(HTTP 404)", id="unknown model"),
        pytest.param(complain(400), "(HTTP 400)", id="refused"),
        pytest.param(complain(302, {"Location": "http://127.0.0.1/"}), "(HTTP 302)", id="redirected"),
        pytest.param(complain(500), "(HTTP 500)", id="broken"),
        pytest.param(complain(502), "(HTTP 502)", id="gateway"),
        pytest.param(30.0, "o answer", id="hangs"),
        pytest.param("", NOTHING, id="empty"),
        pytest.param(" \n\t ", NOTHING, id="blank"),
        pytest.param((200, {}, build_answer_body(None)), NOTHING, id="null"),
        pytest.param((200, {}, b"<html>Secretive-7B"), NO_ANSWER, id="no JSON"),
        pytest.param((200, {}, {"error": "Secretive-7B"}), NO_ANSWER, id="an error that is a 200"),
        pytest.param((200, {}, b"x" * 20_000_000), NO_ANSWER, id="20 MB"),
    ],
)
def test_a_target_that_fails_is_said_in_place_and_costs_nothing(
    reply: Reply, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "SPARE_SECONDS", 1.0)
    monkeypatch.setattr("benchmark.domain.llm_client.retry.FIRST_PAUSE", 0.05)
    monkeypatch.setattr("benchmark.domain.llm_client.client.retry.compute_backoff", lambda _state: 0.01)
    lin, is_broken = person("lin"), True
    with local_endpoint(lambda _messages, _request: reply if is_broken else "An answer.") as url:
        monkeypatch.setenv(f"ASSAY_KEY_127_0_0_1_{urlsplit(url).port}", KEY)
        campaign, proposal = begin(url, timeout=0.5, requests_per_person=1, max_requests=1)
        (failed,) = ask(proposal, TEXT, [1])
        assert (failed.state, get_job(failed).state) == ("failed", "done")
        refusal = read_refusal(campaign, failed)
        assert words in refusal
        for secret in ("Secretive", "127.0.0.1", "http:", KEY, "sk-", str(urlsplit(url).port)):
            assert secret not in refusal
        assert KEY not in str(failed.error)
        check_campaigns()
        campaign.refresh_from_db()
        assert campaign.requests_used == 0
        proposal.refresh_from_db()
        assert proposal.draft["text"] == TEXT.text
        # It works again, and so does the same attempt.
        is_broken = False
        CampaignTarget.objects.update(timeout=60)
        (answered,) = ask(proposal, TEXT, [1])
        assert (answered.pk, answered.state, answered.error) == (failed.pk, "answered", None)
        assert answered.answer.text == "An answer."
        before = len(url.requests)
        (repeated,) = ask_targets(proposal_id=proposal.pk, person=lin, text=TEXT, places=[1], send=False)
        assert (repeated.pk, len(url.requests)) == (answered.pk, before)
    check_campaigns()
    campaign.refresh_from_db()
    assert campaign.requests_used == 1


def test_nobody_at_the_address_and_a_key_that_may_not_be_sent_tell_no_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("benchmark.domain.llm_client.client.retry.compute_backoff", lambda _state: 0.01)
    campaign, proposal = begin("http://127.0.0.1:9/v1")
    (failed,) = ask(proposal, TEXT, [1])
    assert read_refusal(campaign, failed) == NO_ANSWER
    CampaignTarget.objects.update(endpoint="http://models.example/v1")
    monkeypatch.setenv("ASSAY_KEY_MODELS_EXAMPLE", KEY)
    (failed,) = ask(proposal, TEXT, [1])
    assert read_refusal(campaign, failed) == NO_ANSWER
    assert "MODELS_EXAMPLE" in str(failed.error)  # the manager's part
    assert KEY not in str(failed.error)
    check_campaigns()


@pytest.mark.both_databases
@pytest.mark.parametrize(
    ("answer", "stored"),
    [
        ("a\x00b", "a�b"),
        ("half \ud83d of a pair", "half � of a pair"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("=HYPERLINK(1) \u202e txt", "=HYPERLINK(1) \u202e txt"),
        ("长" * 100_000, "长" * 100_000),
    ],
)
def test_a_hostile_answer_is_stored_as_text(answer: str, stored: str) -> None:
    with local_endpoint(lambda _messages, _request: answer) as url:
        _campaign, proposal = begin(url)
        (answered,) = ask(proposal, TEXT, [1])
    assert answered.answer.text == stored
    check_campaigns()


@pytest.mark.both_databases
def test_a_cancelled_request_is_given_back_once() -> None:
    lin = person("lin")
    with local_endpoint(lambda _messages, _request: "An answer.") as url:
        campaign, proposal = begin(url, requests_per_person=1)
        (attempt,) = ask_targets(proposal_id=proposal.pk, person=lin, text=TEXT, places=[1], send=False)
        assert recover_attempts(proposal) == 0  # its job may still come
        assert attempt.job is not None
        jobs.cancel(job=attempt.job)
        jobs.run(attempt.job.pk)
        assert [recover_attempts(proposal), recover_attempts(proposal)] == [1, 0]
        attempt.refresh_from_db()
        assert read_refusal(campaign, attempt) == "The request was given up before an answer came."
        check_campaigns()
        (answered,) = ask(proposal, TEXT, [1])
    assert (answered.pk, answered.state) == (attempt.pk, "answered")
    check_campaigns()


@pytest.mark.both_databases
def test_a_request_that_is_cancelled_while_it_is_sent_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    def cancel(_attempt: Attempt, _context: jobs.JobContext) -> Outcome:
        raise jobs.Cancelled

    lin = person("lin")
    campaign, proposal = begin("http://127.0.0.1:9/v1", requests_per_person=1)
    monkeypatch.setattr(attempts, "_send", cancel)
    (attempt,) = ask(proposal, TEXT, [1])
    assert (attempt.state, get_job(attempt).state) == ("asked", "cancelled")
    check_campaigns()
    # Asking again recovers it first: else the budget would not suffice.
    (repeated,) = ask_targets(proposal_id=proposal.pk, person=lin, text=TEXT, places=[1], send=False)
    assert (repeated.pk, repeated.state) == (attempt.pk, "asked")
    assert repeated.job_id != attempt.job_id
    check_campaigns()
    campaign.refresh_from_db()
    assert campaign.requests_used == 1


@pytest.mark.both_databases
def test_a_worker_that_was_taken_for_dead_stores_nothing_beside_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send = attempts._send

    def send_too_late(attempt: Attempt, context: jobs.JobContext) -> Any:
        outcome = send(attempt, context)
        Job.objects.filter(pk=context.job.pk).update(state="queued", attempt=F("attempt") + 1)
        return outcome

    with local_endpoint(_count_answers()) as url:
        _campaign, proposal = begin(url, requests_per_person=1)
        with monkeypatch.context() as patch:
            patch.setattr(attempts, "_send", send_too_late)
            (attempt,) = ask(proposal, TEXT, [1])
        assert attempt.state == "asked"
        assert not AttemptAnswer.objects.exists()
        assert attempt.job_id is not None
        jobs.run(attempt.job_id)
        jobs.run(attempt.job_id)
    assert AttemptAnswer.objects.get().text == "Answer 2"
    check_campaigns()


def _count_answers() -> Any:
    number = 0

    def answer(_messages: Messages, _request: Any) -> str:
        nonlocal number
        number += 1
        return f"Answer {number}"

    return answer


@pytest.fixture
def workers() -> Iterator[Workers]:
    at_work = Workers("filesystem://", settings.ASSAY_DATA_DIR / "workers.log")
    yield at_work
    at_work.stop()


@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_a_worker_killed_while_a_slow_target_answers_loses_nothing(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    lin, is_slow = person("lin"), True
    with local_endpoint(lambda _messages, _request: 60.0 if is_slow else "An answer.") as url:
        campaign, proposal = begin(url, requests_per_person=1, max_requests=1)
        (attempt,) = ask_targets(proposal_id=proposal.pk, person=lin, text=TEXT, places=[1])
        worker = workers.start()
        wait_for(lambda: len(url.requests) == 1, worker, seconds=120, log=workers.log)
        workers.kill(worker)
        attempt.refresh_from_db()
        assert attempt.state == "asked"
        check_campaigns()
        is_slow = False
        last = workers.start()
        for name in ("JOB_STALE_SECONDS", "JOB_HEARTBEAT_SECONDS"):
            monkeypatch.setattr(settings, name, 1)

        def is_done() -> bool:
            jobs.sweep()  # as the workers' beat does, less often
            return get_job(attempt).state == "done"

        wait_for(is_done, last, seconds=120, log=workers.log)
        assert len(url.requests) == 2
    assert Attempt.objects.get().state == "answered"
    assert AttemptAnswer.objects.get().text == "An answer."
    assert get_job(attempt).attempt == 2
    campaign.refresh_from_db()
    assert campaign.requests_used == 1
    check_campaigns()
