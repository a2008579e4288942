"""What people do that they should not, by mistake or on purpose. It must change nothing twice and nothing of others."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

from tests.performance.annotate_loop.client import Answer, Client
from tests.performance.annotate_loop.people import Item, Taken, Worker

OFTEN = 0.1
AT_ONCE = 4


class Mischief:
    """``held`` is what everybody has before them now: what one could send although it is another's."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.held: dict[str, Item] = {}

    def submit(self, worker: Worker, item: Item) -> None:
        """Submit ``item``; now and then in a way that is wrong."""
        self.held[worker.person.name] = item
        if self.chance.random() >= OFTEN:
            worker.submit(item)
        else:
            wrong = self.chance.choice((same_key, different_keys, self._somebody_elses, repeated_next))
            worker.ledger.mischief[wrong.__name__.strip("_")] += 1
            wrong(worker, item)
        self.held.pop(worker.person.name, None)

    def _somebody_elses(self, worker: Worker, item: Item) -> None:
        other_items = [other for name, other in list(self.held.items()) if name != worker.person.name]
        if other_items:
            other = self.chance.choice(other_items)
            stolen = replace(item, path=item.path.replace(item.assignment, other.assignment))
            answer = worker.repeat_call(lambda: worker.post(worker.client, stolen, other.key))
            _expect(worker, "another's item", answer, {404})
        worker.submit(item)


def same_key(worker: Worker, item: Item) -> None:
    """Four times at once, as a nervous double click and its retries send it: taken once, one receipt."""
    answers = _at_once(worker, [(item, item.key)] * AT_ONCE)
    results = [
        worker.read_result(answer)
        for answer in answers
        if _expect(worker, "same key", answer, {200, 201, 302})
    ]
    _expect_one(worker, {result.receipt for result in results}, "receipts for one key")
    if sum(result.status == 201 for result in results) > 1:
        worker.ledger.record_surprise(f"{item.assignment} was made more than once under one key")
    if results:
        worker.keep(item, item.key, results[0])


def different_keys(worker: Worker, item: Item) -> None:
    """Four times at once under four keys, as from four windows: one is taken, all hear its receipt."""
    keys = [item.key, *(str(uuid4()) for _ in range(AT_ONCE - 1))]
    answers = _at_once(worker, [(item, key) for key in keys])
    results: dict[str, Taken] = {}
    for key, answer in zip(keys, answers, strict=True):
        if _expect(worker, "different keys", answer, {200, 201, 302, 409}):
            results[key] = worker.read_result(answer)
    # A page that says the same again hears that it was taken, with the receipt of the first; a program hears 409.
    accepted = {key: result for key, result in results.items() if result.status != 409}
    if sum(result.status == 201 for result in accepted.values()) > 1:
        worker.ledger.record_surprise(f"{item.assignment} was made more than once under different keys")
    _expect_one(worker, {result.receipt for result in results.values()}, "receipts told of one item")
    for key, result in list(accepted.items())[:1]:
        worker.keep(item, key, result)


def repeated_next(worker: Worker, item: Item) -> None:
    """Asking again and again gives what one has."""
    for _ in range(AT_ONCE):
        repeated = worker.ask_again()
        if repeated is None or repeated.assignment != item.assignment:
            worker.ledger.record_surprise(
                f"next gave {repeated and repeated.assignment} beside {item.assignment}"
            )
    worker.submit(item)


def _at_once(worker: Worker, submissions: list[tuple[Item, str]]) -> list[Answer]:
    clients = [worker.new_client() for _ in submissions]

    def send(client: Client, item: Item, key: str) -> Answer:
        try:
            return worker.repeat_call(lambda: worker.post(client, item, key))
        finally:
            client.close()

    with ThreadPoolExecutor(len(submissions)) as pool:
        sent = [
            pool.submit(send, client, *submission)
            for client, submission in zip(clients, submissions, strict=True)
        ]
        return [future.result() for future in sent]


def _expect(worker: Worker, call: str, answer: Answer, expected: set[int]) -> bool:
    worker.ledger.answers[call, answer.status] += 1
    if answer.status not in expected:
        worker.ledger.record_surprise(f"{call}: {answer.status} {answer.body[:200]!r}")
    return answer.status in expected


def _expect_one(worker: Worker, values: object, name: str) -> None:
    if len(values) != 1:  # type: ignore[arg-type]
        worker.ledger.record_surprise(f"not one of the {name}: {values}")
