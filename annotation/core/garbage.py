"""Long loops that make millions of short-lived objects, and the garbage collector beside them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MANY_OBJECTS = 50_000
"""New objects after which the collector looks for circles among them. There are hardly any: what a loop makes goes as
soon as nothing refers to it.
"""


@contextmanager
def collect_rarely() -> Iterator[None]:
    """Looking for garbage after every 700 new objects, as Python does, takes a seventh of the time of such a loop.

    What was there before is no garbage either, and is not walked. A process that has frozen what it began with is not
    frozen again.
    """
    thresholds, is_frozen = gc.get_threshold(), gc.get_freeze_count() > 0
    gc.set_threshold(max(MANY_OBJECTS, thresholds[0]), *thresholds[1:])
    if not is_frozen:
        gc.freeze()
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        if not is_frozen:
            gc.unfreeze()
