"""Asking an endpoint: retries, limits, time-outs, hostile bodies, and keys that go nowhere else."""

from __future__ import annotations

import heapq
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from annotation.core.errors import AssayError
from benchmark.domain.llm_client import (
    ChatQuestion,
    Endpoint,
    EndpointAnswer,
    EndpointAway,
    EndpointRefuses,
    RequestFailure,
    RequestTotals,
    build_key_name,
    check_endpoint,
    client,
    find_key,
    protocol,
    retry,
    send_requests,
    sending,
)
from benchmark.domain.llm_client.retry import EndpointPace, parse_retry_after
from tests.benchmark.endpoint import (
    SERVED,
    Bucket,
    Messages,
    Reply,
    build_answer_body,
    local_endpoint,
    troubled,
)

Request = Mapping[str, Any]


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first pause between tries; the rule is the same."""
    monkeypatch.setattr(retry, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(
        retry, "_BACKOFF", retry.wait_exponential_jitter(multiplier=0.02, max=0.2, jitter=0.02)
    )


def questions(number: int) -> list[ChatQuestion]:
    return [ChatQuestion(n, ({"role": "user", "content": f"q{n}"},)) for n in range(number)]


def ask(
    url: str,
    number: int = 1,
    *,
    concurrency: int = 8,
    timeout: float = 5,
    settings: Request | None = None,
    **more: Any,
) -> tuple[dict[int, EndpointAnswer | RequestFailure], RequestTotals]:
    outcomes: dict[int, EndpointAnswer | RequestFailure] = {}
    under_way: set[int] = set()

    def sent(keys: Sequence[int]) -> None:
        assert under_way.isdisjoint(keys)
        under_way.update(keys)
        assert len(under_way) <= concurrency

    def done(batch: Sequence[EndpointAnswer | RequestFailure], _totals: RequestTotals) -> None:
        for outcome in batch:
            assert outcome.key not in outcomes
            under_way.remove(outcome.key)
            outcomes[outcome.key] = outcome

    endpoint = Endpoint(url, "m", settings or {}, timeout)
    totals = send_requests(questions(number), endpoint, concurrency=concurrency, sent=sent, done=done, **more)
    assert not under_way
    return outcomes, totals


def in_turn(*replies: Reply) -> Any:
    """Each question gets these in turn, the last one for ever."""
    times: Counter[str] = Counter()

    def policy(messages: Messages, _request: Request) -> Reply:
        text = messages[-1]["content"]
        times[text] += 1
        return replies[min(times[text], len(replies)) - 1]

    return policy


def test_an_answer_and_what_is_told_of_it():
    with local_endpoint(lambda messages, _request: f"to {messages[-1]['content']}") as url:
        outcomes, totals = ask(url, 40, settings={"temperature": 0, "n": 5})
        assert len(url.requests) == 40
        assert url.requests[0].request["temperature"] == 0
        assert "n" not in url.requests[0].request  # one whole answer to each
        assert "authorization" not in url.requests[0].headers
    answer = outcomes[7]
    assert isinstance(answer, EndpointAnswer)
    assert (answer.text, answer.served_model, answer.attempts, answer.finish_reason) == (
        "to q7",
        SERVED,
        1,
        "stop",
    )
    assert answer.answered_at.tzinfo is not None
    assert 0 < answer.seconds < 5
    assert (totals.requests, totals.retries, totals.limited) == (40, 0, 0)


def test_the_callbacks_come_from_the_calling_thread_and_with_each_beat(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sending, "BEAT", 0.1)
    threads: set[threading.Thread] = set()
    calls = 0

    def note(*_arguments: Any) -> None:
        nonlocal calls
        threads.add(threading.current_thread())
        calls += 1

    with local_endpoint(in_turn(1.5, "late")) as url:
        send_requests(questions(1), Endpoint(url, "m", {}, 1), concurrency=1, sent=note, done=note)
    assert threads == {threading.current_thread()}
    assert (
        calls > 5
    )  # sent, done, and while the answer is waited for: fifteen beats, fewer where others take the time


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503, 504, 529])
def test_what_may_pass_is_asked_again(status: int):
    with local_endpoint(in_turn((status, {}, "no"), (status, {}, "no"), "yes")) as url:
        outcomes, totals = ask(url, 3)
    assert all(isinstance(outcome, EndpointAnswer) and outcome.attempts == 3 for outcome in outcomes.values())
    assert totals.retries == 6


@pytest.mark.parametrize("status", [500, 408])
def test_what_does_not_pass_is_a_failure_after_so_many_tries(status: int):
    with local_endpoint(in_turn((status, {}, {"error": {"message": "broken\x00pipe"}}))) as url:
        outcomes, _totals = ask(url, tries=3)
        assert len(url.requests) == 3
    assert outcomes[0] == RequestFailure(0, status, f"HTTP {status}: broken\ufffdpipe", 3)


@pytest.mark.parametrize("status", [400, 402, 413, 422, 301, 307])
def test_what_cannot_pass_is_a_failure_at_once(status: int):
    moved = {"Location": "http://127.0.0.1:9/v1/chat/completions"}
    with local_endpoint(in_turn((status, moved, {"detail": "no"}))) as url:
        outcomes, _totals = ask(url)
        assert len(url.requests) == 1
    assert isinstance(outcomes[0], RequestFailure)
    assert (outcomes[0].status, outcomes[0].attempts) == (status, 1)
    assert ("redirects are not followed" in outcomes[0].error) == (300 <= status < 400)


def test_a_stalled_call_is_given_up_and_asked_again():
    with local_endpoint(in_turn(30.0, "yes")) as url:
        began = time.monotonic()
        outcomes, totals = ask(url, 4, timeout=0.3)
        assert time.monotonic() - began < 30  # nobody waited for the stalled ones
    assert all(isinstance(outcome, EndpointAnswer) and outcome.attempts == 2 for outcome in outcomes.values())
    assert totals.retries == 4


def test_a_call_that_never_ends_is_a_failure():
    with local_endpoint(in_turn(30.0)) as url:
        outcomes, _totals = ask(url, timeout=0.2, tries=2)
    assert outcomes[0] == RequestFailure(0, None, "no answer within 0.2 s", 2)


MALFORMED = [
    b"",
    b"{",
    b"null",
    b"[]",
    b"{}",
    b"\xff\xfe",
    b'{"choices": []}',
    b'{"choices": [1]}',
    b"[" * 200_000,
]
MALFORMED += [
    b'{"choices": [{}]}',
    b'{"choices": [{"message": {"content": 7}}]}',
    b'{"choices": ' + b"9" * 9000 + b"}",
]


@pytest.mark.parametrize("body", MALFORMED, ids=range(len(MALFORMED)))
def test_a_body_that_is_no_answer_is_asked_again_then_a_failure(body: bytes):
    with local_endpoint(in_turn((200, {}, body))) as url:
        outcomes, _totals = ask(url, tries=2)
        assert len(url.requests) == 2
    assert isinstance(outcomes[0], RequestFailure)
    assert outcomes[0].status == 200


def test_an_error_that_says_200_is_told():
    with local_endpoint(in_turn((200, {}, {"error": {"message": "out of memory"}}))) as url:
        outcomes, _totals = ask(url, tries=1)
    assert outcomes[0].error == "no choices in the answer: out of memory"  # type: ignore[union-attr]


def _message(**message: Any) -> dict[str, Any]:
    return build_answer_body("") | {"choices": [{"message": message}], "usage": None}


@pytest.mark.parametrize(
    ("body", "text", "replaced"),
    [
        (_message(content=None), "", 0),
        (_message(content=None, refusal="I cannot."), "I cannot.", 0),
        (_message(content="yes", refusal="I cannot."), "yes", 0),
        (_message(content=[{"type": "text", "text": "a"}, {"type": "x"}, {"text": "b"}]), "ab", 0),
        (_message(content="a\x00\ud800b"), "a\ufffd\ufffdb", 2),
        (_message(content="\ufffd 😀 \r\n"), "\ufffd 😀 \r\n", 0),
    ],
)
def test_what_is_taken_for_the_text(body: dict[str, Any], text: str, replaced: int):
    completion = protocol.parse_answer(json.dumps(body).encode())
    assert (completion.text, completion.replaced, completion.finish_reason, completion.prompt_tokens) == (
        text,
        replaced,
        "",
        None,
    )


@pytest.mark.parametrize(
    ("count", "tokens"),
    [
        *((12, 12), (12.0, 12), (True, None), (-1, None), (2**40, None), ("9", None)),
        *((10**400, None), (float("inf"), None), (float("nan"), None)),
    ],
)
def test_tokens_are_counted_or_undefined(count: Any, tokens: int | None):
    body = build_answer_body("x", usage={"prompt_tokens": count, "completion_tokens": 1.5})
    completion = protocol.parse_answer(json.dumps(body).encode())
    assert (completion.prompt_tokens, completion.completion_tokens) == (tokens, None)


def test_an_answer_without_end_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocol, "MAX_ANSWER_BYTES", 10_000)
    with local_endpoint(in_turn("x" * 20_000)) as url:
        outcomes, _totals = ask(url)
        assert len(url.requests) == 1
    assert outcomes[0] == RequestFailure(0, 200, "the answer is longer than 10000 bytes", 1)


def test_at_a_limit_everything_waits_as_long_as_it_says():
    bucket = Bucket(rate=80, burst=10)
    with local_endpoint(troubled(lambda *_: "yes", fails=0, stalls=0, bucket=bucket, unit=0.5)) as url:
        outcomes, totals = ask(url, 60, concurrency=32)
        limits = [request.at for request in url.requests if request.status == 429]
        # Nothing leaves between a 429 and the end of the time that it asks for, but what was on its way.
        after = [request.at - limits[0] for request in url.requests if 0.25 < request.at - limits[0] < 0.475]
    assert all(isinstance(outcome, EndpointAnswer) for outcome in outcomes.values())
    assert after == []
    assert totals.waited >= 0.5
    assert totals.limited == len(limits)


def test_a_limit_without_an_end_is_a_failure_after_many_tries(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(retry, "LIMITED_TRIES", 5)  # at half the rate after each
    with local_endpoint(in_turn((429, {"Retry-After": "0"}, {"error": {"message": "slow down"}}))) as url:
        outcomes, _totals = ask(url, 2, tries=1)
        assert len(url.requests) == 2 * retry.LIMITED_TRIES
    assert {outcome.status for outcome in outcomes.values()} == {429}  # type: ignore[union-attr]


def test_an_empty_account_is_a_failure_at_once():
    body = {"error": {"message": "You exceeded your quota", "code": "insufficient_quota"}}
    with local_endpoint(in_turn((429, {}, body))) as url:
        outcomes, _totals = ask(url)
        assert len(url.requests) == 1
    assert "exceeded your quota" in outcomes[0].error  # type: ignore[union-attr]


def test_an_endpoint_that_goes_away_is_waited_for():
    with local_endpoint(lambda *_: "yes", latency=0.05) as url:
        timer = threading.Timer(0.2, url.down)
        back = threading.Timer(0.8, url.up)
        timer.start()
        back.start()
        outcomes, totals = ask(url, 150, concurrency=16)
        timer.join()
        back.join()
    assert all(isinstance(outcome, EndpointAnswer) for outcome in outcomes.values())
    assert totals.waited > 0.2
    assert totals.requests < 150 + 60  # and it was not hammered meanwhile


def test_an_endpoint_that_stays_away_is_given_up():
    with pytest.raises(EndpointAway, match="ConnectError"):
        ask("http://127.0.0.1:9/v1", 30, patience=0.3)


def test_an_endpoint_that_refuses_everything_is_not_asked_everything():
    with local_endpoint(in_turn((401, {}, {"error": {"message": "no such key"}}))) as url:
        with pytest.raises(EndpointRefuses, match="no such key"):
            ask(url, 500, concurrency=4)
        assert client.MAX_REFUSALS <= len(url.requests) <= client.MAX_REFUSALS + 4


@pytest.mark.parametrize("where", ["sent", "done", "questions"])
def test_an_exception_of_the_caller_stops_everything(where: str):
    class Stop(Exception):
        pass

    source = iter(questions(500))

    def yield_questions() -> Any:
        for number, question in enumerate(source):
            if where == "questions" and number == 20:
                raise Stop
            yield question

    def note(batch: Sequence[Any], *_totals: Any) -> None:
        if where == "done" and batch:
            raise Stop

    def sent(keys: Sequence[int]) -> None:
        if where == "sent" and max(keys) >= 20:
            raise Stop

    with local_endpoint(lambda *_: "yes", latency=0.05) as url:
        with pytest.raises(Stop):
            send_requests(yield_questions(), Endpoint(url, "m"), concurrency=8, sent=sent, done=note)
        time.sleep(0.3)  # what was on its way arrives
        assert len(url.requests) <= 40
    assert not [thread for thread in threading.enumerate() if thread.name == "asking"]


@pytest.mark.parametrize("number", [0, 513])
def test_so_many_at_once_are_refused(number: int):
    with pytest.raises(AssayError, match="1 to 512"):
        ask("http://127.0.0.1:9/v1", concurrency=number)


def test_connections_are_kept():
    with local_endpoint(lambda *_: "yes") as url:
        server = url._endpoint
        opened: list[int] = []
        serve = server._serve

        async def counted(reader: Any, writer: Any) -> None:
            opened.append(1)
            await serve(reader, writer)

        server._serve = counted  # type: ignore[method-assign]
        server.call(server.close())
        server.call(server.listen())
        ask(url, 100, concurrency=4)
    assert len(opened) <= 4


# The pace.


def simulated(rate: float, burst: float, *, seconds: float, header: bool) -> tuple[float, int]:
    """Answers a second of 64 at once at a token bucket, in virtual time; and how many 429 there were."""
    now, pace, level, at, luck = 0.0, EndpointPace(0.0), burst, 0.0, random.Random(1)
    events: list[tuple[float, int, bool, float, float | None]] = []
    answers = limited = number = 0
    while now < seconds:
        while events and events[0][0] <= now:
            _at, _n, fine, sent, wait = heapq.heappop(events)
            answers, limited = answers + fine, limited + (not fine)
            if fine:
                pace.record_answer(now)
            else:
                pace.record_limit(sent, now, wait)
        after = float("inf")
        while len(events) < 64 and (after := pace.request_departure(now)) <= 0:
            level, at, number = min(burst, level + (now - at) * rate), now, number + 1
            if level >= 1:
                level -= 1
                heapq.heappush(events, (now + luck.uniform(0.1, 0.3), number, True, now, None))
            else:
                wait = float(int((1 - level) / rate) + 1) if header else None
                heapq.heappush(events, (now + 0.005, number, False, now, wait))
        now = max(
            now + 1e-4, min([after + now if len(events) < 64 else 1e9, *(event[0] for event in events[:1])])
        )
    return answers / seconds, limited


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("rate", [5, 25, 50, 100, 200])
def test_the_pace_finds_the_rate_of_a_limit_that_lets_a_second_gather(rate: float, header: bool):
    """What gathers while everything waits goes out after it: nothing is lost."""
    answered, limited = simulated(rate, rate, seconds=60, header=header)
    # At 5 a second most of a minute goes by before 64 at once have learned to be few.
    assert (0.85 if rate == 5 else 0.95) * rate <= answered <= 1.05 * rate
    assert limited < 150


@pytest.mark.parametrize("rate", [50, 100, 200])
def test_it_comes_near_also_where_little_gathers(rate: float):
    """Each 429 costs the second that it asks for, so that the rate must be found and kept to."""
    answered, _limited = simulated(rate, rate / 10, seconds=120, header=True)
    assert answered >= 0.8 * rate


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2", 2.0),
        ("0.25", 0.25),
        ("-3", 0.0),
        ("1e9", 3600.0),
        ("Sun, 06 Nov 2033 08:49:47 GMT", 10.0),
        ("soon", None),
        ("", None),
        ("nan", None),
    ],
)
def test_what_retry_after_says(text: str, seconds: float | None):
    now = datetime(2033, 11, 6, 8, 49, 37, tzinfo=UTC)
    assert parse_retry_after({"retry-after": text}, now) == seconds


# Addresses and keys.


@pytest.mark.parametrize(
    ("url", "address", "name"),
    [
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1", "ASSAY_KEY_127_0_0_1_8000"),
        ("HTTPS://API.Example.com:443/v1", "https://api.example.com/v1", "ASSAY_KEY_API_EXAMPLE_COM"),
        (
            "https://my-host.example/v1/chat/completions",
            "https://my-host.example/v1",
            "ASSAY_KEY_MY__HOST_EXAMPLE",
        ),
        ("http://[::1]:8080", "http://[::1]:8080", "ASSAY_KEY_______1_8080"),
        ("http://localhost:80", "http://localhost", "ASSAY_KEY_LOCALHOST"),
        ("https://example.com.:8443/v1", "https://example.com:8443/v1", "ASSAY_KEY_EXAMPLE_COM_8443"),
    ],
)
def test_an_address_as_it_is_kept_and_the_name_of_its_key(url: str, address: str, name: str):
    assert check_endpoint(url) == address == check_endpoint(address)
    assert build_key_name(url) == name


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "x",
            "http://",
            "http:///v1",
            "file:///etc/passwd",
            "ftp://h/v1",
            "http://h:99999/v1",
            "http://h:x/v1",
        ),
        *(
            "http://u@h/v1",
            "http://u:p@h/v1",
            "http://@h/v1",
            "http://h/v1?k=1",
            "http://h/v1#k",
            "http://h/v1?",
        ),
        *(
            "http://h h/v1",
            "http://h\n/v1",
            "http://h\t/v1",
            "http://h\x00/v1",
            "http://h\\@evil/v1",
            "http://h/é",
        ),
        *(
            "http://[::1/v1",
            "http://a..b/v1",
            "http://-a/v1",
            "http://1.2.3.4.5/v1",
            "http://10.1/v1",
            "http://münchen/v1",
        ),
        "http://h/" + "x" * 500,
    ],
)
def test_what_is_no_address(url: str):
    with pytest.raises(AssayError):
        check_endpoint(url)


def test_no_two_hosts_share_a_key():
    hosts = [
        "a.b",
        "a-b",
        "a.b-c",
        "a-b.c",
        "ab",
        "a--b",
        "a.b.c",
        "[a::b]",
        "[::a:b]",
        "10.0.0.1",
        "xn--a.b",
    ]
    urls = [f"https://{host}{port}" for host in hosts for port in ("", ":8443", ":1")]
    assert len({build_key_name(url) for url in urls}) == len(urls)


def test_a_key_goes_over_https_or_to_this_machine_alone(monkeypatch: pytest.MonkeyPatch):
    for name in ("H_EXAMPLE", "H_EXAMPLE_8000", "127_0_0_1_8000", "LOCALHOST", "A_B_EXAMPLE"):
        monkeypatch.setenv(f"ASSAY_KEY_{name}", " sekret ")
    assert find_key("https://h.example/v1") == "sekret"
    assert find_key("http://127.0.0.1:8000/v1") == "sekret"
    assert find_key("http://localhost/v1") == "sekret"
    assert find_key("https://other.example/v1") is None
    assert find_key("https://a_b.example/v1") is None  # would share its name with a.b.example
    for url in ("http://h.example/v1", "http://h.example:8000/v1"):
        with pytest.raises(AssayError, match="HTTPS or to this machine") as refusal:
            find_key(url)
        assert "sekret" not in str(refusal.value)
    monkeypatch.setenv("ASSAY_KEY_H_EXAMPLE", "sek\nret")
    with pytest.raises(AssayError, match="characters that no key has") as refusal:
        find_key("https://h.example/v1")
    assert "ret" not in str(refusal.value.params)


def test_a_key_is_not_sent_on_and_stands_in_no_error(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    caplog.set_level("DEBUG")
    key = "sk-0123456789abcdef"

    def echo(messages: Messages, _request: Request) -> Reply:
        if messages[-1]["content"] == "q0":
            return 307, {"Location": other + "/chat/completions"}, {"error": {"message": f"Bearer {key}"}}
        return f"The key is {key}."

    with local_endpoint(in_turn("here")) as other, local_endpoint(echo) as url:
        monkeypatch.setenv(build_key_name(url), key)
        outcomes, _totals = ask(url, 2)
        assert other.requests == []
        assert url.requests[0].headers["authorization"] == f"Bearer {key}"
    assert isinstance(outcomes[0], RequestFailure)
    assert outcomes[0].error.startswith("HTTP 307: Bearer [key]")
    assert isinstance(outcomes[1], EndpointAnswer)
    assert outcomes[1].text == "The key is [key]."
    assert key not in caplog.text
    assert key not in repr(Endpoint(url, "m"))


@pytest.mark.parametrize("before", [470, 485, 490, 499, 1990])
@pytest.mark.parametrize("status", [200, 400])
def test_half_a_key_is_in_no_error_either(monkeypatch: pytest.MonkeyPatch, before: int, status: int):
    """What is too long is cut, and the key may stand where."""
    key = "sk-0123456789abcdef"
    words = "." * before + key

    def echo(messages: Messages, _request: Request) -> Reply:
        number = messages[-1]["content"]
        if number == "q0":
            return status, {}, {"error": {"message": words}}
        if number == "q1":
            return 400, {}, words.encode()
        body = build_answer_body("x", model="m" * 190 + key, system_fingerprint="f" * 195 + key)
        body["choices"][0]["finish_reason"] = "r" * 45 + key
        return 200, {}, body

    with local_endpoint(echo) as url:
        monkeypatch.setenv(build_key_name(url), key)
        outcomes, _totals = ask(url, 3, tries=1)
    for outcome in outcomes.values() if isinstance(outcomes, dict) else outcomes:
        assert "sk-" not in repr(outcome)


def test_no_proxy_of_the_environment_reads_a_request(monkeypatch: pytest.MonkeyPatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with local_endpoint(in_turn("yes")) as url:
        outcomes, _totals = ask(url)
    assert isinstance(outcomes[0], EndpointAnswer)
    assert client._find_proxy("https://api.example.com/v1") == "http://127.0.0.1:9"
    assert client._find_proxy("http://api.example.com/v1") is None
    monkeypatch.setenv("NO_PROXY", "example.com")
    assert client._find_proxy("https://api.example.com/v1") is None
