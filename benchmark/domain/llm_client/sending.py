"""Questions to one endpoint or several, and the answers to them, which may lead to further questions.

The caller's callbacks run in the caller's thread: they write to a database, which a running event loop may not do.
Meanwhile requests go on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from queue import Empty, SimpleQueue

from annotation.core.errors import N_, AssayError
from benchmark.domain.llm_client import retry
from benchmark.domain.llm_client.client import BEAT, Outcome, RequestLoop
from benchmark.domain.llm_client.protocol import ChatQuestion, Endpoint, RequestTotals

MAX_CONCURRENCY = 512


@dataclass(frozen=True)
class DirectedQuestion:
    """A question to the endpoint of this name."""

    endpoint: str
    question: ChatQuestion


def send_requests(
    questions: Iterable[ChatQuestion],
    endpoint: Endpoint,
    *,
    concurrency: int,
    sent: Callable[[Sequence[int]], None],
    done: Callable[[Sequence[Outcome], RequestTotals], None],
    tries: int = retry.TRIES,
    patience: float = retry.PATIENCE,
) -> RequestTotals:
    """Ask every question, at most ``concurrency`` at once, and report what came of each exactly once.

    ``sent(keys)`` is called before these are asked, ``done(batch, totals)`` with what came back: as soon as anything
    did, and at least once a second, then with an empty batch. Both are called from this thread. An exception from
    either, or from ``questions``, stops everything: nothing more is sent, what is under way is given up, the exception
    passes on.

    Asked again, with exponential backoff and jitter: time-outs, 408, 409, 5xx and bodies that are no answer, up to
    ``tries`` times; what was refused by 429, as long as that rate lasts; what found nobody, for ``patience`` seconds.
    After that, and for any other status, it is a RequestFailure. Raises EndpointAway and EndpointRefuses, where going
    on with other questions would be of no use.
    """

    def report(batch: Sequence[Outcome], totals: RequestTotals) -> tuple[()]:
        done(batch, totals)
        return ()

    return send_conversations(
        (DirectedQuestion("", question) for question in questions),
        {"": endpoint},
        concurrency=concurrency,
        sent=sent,
        done=report,
        tries=tries,
        patience=patience,
    )


def send_conversations(
    openings: Iterable[DirectedQuestion],
    endpoints: Mapping[str, Endpoint],
    *,
    concurrency: int,
    sent: Callable[[Sequence[int]], None],
    done: Callable[[Sequence[Outcome], RequestTotals], Iterable[DirectedQuestion]],
    tries: int = retry.TRIES,
    patience: float = retry.PATIENCE,
) -> RequestTotals:
    """As ``send_requests``, to several endpoints; ``done`` returns the questions to which the answers lead.

    Each opening begins a conversation, of which at most ``concurrency`` are open at once. A conversation has one key
    and at most one question at a time; it is over when its answer leads to no other. Where one endpoint is away or
    refuses everything, nothing more is sent to any.
    """
    if not 1 <= concurrency <= MAX_CONCURRENCY:
        raise AssayError(
            N_("Ask 1 to {most} at once, not {number}."), most=MAX_CONCURRENCY, number=concurrency
        )
    outcomes: SimpleQueue[Outcome | None] = SimpleQueue()
    with ExitStack() as stack:
        loops = {
            name: stack.enter_context(RequestLoop(endpoint, outcomes, tries, patience))
            for name, endpoint in endpoints.items()
        }
        line, waiting = _QuestionLine(iter(openings)), 0
        while (refusal := _find_refusal(loops)) is None or waiting:
            fresh = [] if refusal else line.take(loops, concurrency - waiting)
            if fresh:
                sent([directed.question.key for directed in fresh])
                for name, loop in loops.items():
                    loop.queue_questions([each.question for each in fresh if each.endpoint == name])
                waiting += len(fresh)
            if not waiting and line.is_empty:
                break
            batch = _take_outcomes(outcomes)
            waiting -= len(batch)
            line.follow_up(done(batch, _sum_totals(loops)))
        if refusal:
            raise refusal
        return _sum_totals(loops)


class _QuestionLine:
    """The questions that wait: those to which answers led, before those that begin a conversation."""

    def __init__(self, openings: Iterator[DirectedQuestion]) -> None:
        self._openings = openings
        self._follow_ups: deque[DirectedQuestion] = deque()
        self._next: DirectedQuestion | None = None
        self._is_exhausted = False

    @property
    def is_empty(self) -> bool:
        """Nothing waits, and no opening comes any more."""
        return self._is_exhausted and self._next is None and not self._follow_ups

    def follow_up(self, questions: Iterable[DirectedQuestion]) -> None:
        self._follow_ups.extend(questions)

    def take(self, loops: Mapping[str, RequestLoop], free: int) -> list[DirectedQuestion]:
        """Those for which their endpoint has room; an opening only where so many conversations may be open."""
        room = {name: loop.count_room(free) for name, loop in loops.items()}
        fresh = []
        for directed in [self._follow_ups.popleft() for _ in range(len(self._follow_ups))]:
            if room[directed.endpoint] > 0:
                room[directed.endpoint] -= 1
                fresh.append(directed)
            else:
                self._follow_ups.append(directed)
        free -= len(fresh) + len(self._follow_ups)
        while free > 0 and (opening := self._peek()) is not None and room[opening.endpoint] > 0:
            room[opening.endpoint] -= 1
            free -= 1
            fresh.append(opening)
            self._next = None
        return fresh

    def _peek(self) -> DirectedQuestion | None:
        if self._next is None and not self._is_exhausted:
            self._next = next(self._openings, None)
            self._is_exhausted = self._next is None
        return self._next


def _find_refusal(loops: Mapping[str, RequestLoop]) -> AssayError | None:
    return next((loop.refusal for loop in loops.values() if loop.refusal is not None), None)


def _take_outcomes(outcomes: SimpleQueue[Outcome | None]) -> list[Outcome]:
    """What came back; waits for the first for at most a beat, or until there is room for more questions."""
    batch: list[Outcome | None] = []
    try:
        batch.append(outcomes.get(timeout=BEAT))
        while True:
            batch.append(outcomes.get_nowait())
    except Empty:
        return [outcome for outcome in batch if outcome is not None]


def _sum_totals(loops: Mapping[str, RequestLoop]) -> RequestTotals:
    totals = [loop.read_totals() for loop in loops.values()]
    return RequestTotals(
        requests=sum(each.requests for each in totals),
        retries=sum(each.retries for each in totals),
        waited=sum(each.waited for each in totals),
        limited=sum(each.limited for each in totals),
        pause=next((each.pause for each in totals if each.pause), ""),
    )
