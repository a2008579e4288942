"""What this process worked out of batches, kept for as long as their labels and gold stay as they are."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from django.db import connection

from annotation.models import Batch
from annotation.selectors.units import marks_of

T = TypeVar("T")


class Shelf(Generic[T]):
    """The last results of ``make``, by the database and by the marks of the batches; ``most`` in all by ``weight``."""

    def __init__(
        self, make: Callable[[Sequence[Batch]], T], *, most: int, weight: Callable[[T], int]
    ) -> None:
        self._make, self._most, self._weight = make, most, weight
        self._lock = threading.Lock()
        self._kept: OrderedDict[Any, T] = OrderedDict()
        SHELVES.append(self)

    def of(self, batches: Sequence[Batch]) -> T:
        """The marks are read before anything else: what comes in between makes the next look read again."""
        key = str(connection.settings_dict["NAME"]), marks_of(batches)
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        found = self._make(batches)
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > 1 and sum(map(self._weight, self._kept.values())) > self._most:
                self._kept.popitem(last=False)
        return found

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()


SHELVES: list[Shelf[Any]] = []


def forget() -> None:
    """Nothing is known any more; for tests, whose databases go back in time."""
    for shelf in SHELVES:
        shelf.clear()
