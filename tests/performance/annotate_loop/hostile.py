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
        others = [other for name, other in list(self.held.items()) if name != worker.person.name]
        if others:
            other = self.chance.choice(others)
            stolen = replace(item, path=item.path.replace(item.assignment, other.assignment))
            answer = worker.again(lambda: worker.post(worker.client, stolen, other.key))
            _expect(worker, "another's item", answer, {404})
        worker.submit(item)


def same_key(worker: Worker, item: Item) -> None:
    """Four times at once, as a nervous double click and its retries send it: taken once, one receipt."""
    answers = _at_once(worker, [(item, item.key)] * AT_ONCE)
    taken = [
        worker.taken(answer) for answer in answers if _expect(worker, "same key", answer, {200, 201, 302})
    ]
    _expect_one(worker, {one.receipt for one in taken}, "receipts for one key")
    if sum(one.status == 201 for one in taken) > 1:
        worker.ledger.surprise(f"{item.assignment} was made more than once under one key")
    if taken:
        worker.keep(item, item.key, taken[0])


def different_keys(worker: Worker, item: Item) -> None:
    """Four times at once under four keys, as from four windows: one is taken, all hear its receipt."""
    keys = [item.key, *(str(uuid4()) for _ in range(AT_ONCE - 1))]
    answers = _at_once(worker, [(item, key) for key in keys])
    taken: dict[str, Taken] = {}
    for key, answer in zip(keys, answers, strict=True):
        if _expect(worker, "different keys", answer, {200, 201, 302, 409}):
            taken[key] = worker.taken(answer)
    # A page that says the same again hears that it was taken, with the receipt of the first; a program hears 409.
    accepted = {key: one for key, one in taken.items() if one.status != 409}
    if sum(one.status == 201 for one in accepted.values()) > 1:
        worker.ledger.surprise(f"{item.assignment} was made more than once under different keys")
    _expect_one(worker, {one.receipt for one in taken.values()}, "receipts told of one item")
    for key, one in list(accepted.items())[:1]:
        worker.keep(item, key, one)


def repeated_next(worker: Worker, item: Item) -> None:
    """Asking again and again gives what one has."""
    for _ in range(AT_ONCE):
        again = worker.ask_again()
        if again is None or again.assignment != item.assignment:
            worker.ledger.surprise(f"next gave {again and again.assignment} beside {item.assignment}")
    worker.submit(item)


def _at_once(worker: Worker, what: list[tuple[Item, str]]) -> list[Answer]:
    clients = [worker.new_client() for _ in what]

    def send(client: Client, item: Item, key: str) -> Answer:
        try:
            return worker.again(lambda: worker.post(client, item, key))
        finally:
            client.close()

    with ThreadPoolExecutor(len(what)) as pool:
        sent = [pool.submit(send, client, *one) for client, one in zip(clients, what, strict=True)]
        return [one.result() for one in sent]


def _expect(worker: Worker, what: str, answer: Answer, wanted: set[int]) -> bool:
    worker.ledger.answers[what, answer.status] += 1
    if answer.status not in wanted:
        worker.ledger.surprise(f"{what}: {answer.status} {answer.body[:200]!r}")
    return answer.status in wanted


def _expect_one(worker: Worker, found: object, what: str) -> None:
    if len(found) != 1:  # type: ignore[arg-type]
        worker.ledger.surprise(f"not one of the {what}: {found}")
