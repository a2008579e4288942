"""Everything together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from annotation.raters.copying import copying
from annotation.raters.drift import drifts
from annotation.raters.findings import RISKS, Profile, Profiles, corrected
from annotation.raters.following import following, guessing
from annotation.raters.labels import Labels, table_of
from annotation.raters.severity import severities
from annotation.raters.speed import speeds
from annotation.raters.truth import truths_of


def profiles(labels: Labels) -> Profiles:
    """What is found of every person and every pair in ``labels``. The order of the rows changes nothing.

    Raises ``AssayError`` for columns of different lengths, a label off its scale, and two of one person on one unit.
    """
    table = table_of(labels)
    if not table.people:
        return Profiles({}, ())
    pairs, truths = table.pairs, truths_of(table)
    found = following(pairs)
    random = corrected(guessing(pairs, found), RISKS["random"])
    severity = corrected(severities(pairs), RISKS["severity"])
    guessers = np.array([random[one].flagged for one in range(table.people)], dtype=np.bool_)
    drift = drifts(pairs, truths, guessers)
    speed = speeds(table)
    flagged = corrected({one: found.finding for one, found in speed.items()}, RISKS["speed"])
    people = {
        int(number): Profile(
            random=random[one],
            severity=severity[one],
            drift=drift[one],
            speed=flagged[one],
            pace=speed[one].pace,
            instant=speed[one].instant,
        )
        for one, number in enumerate(table.ids)
    }
    named = [
        replace(one, one=int(table.ids[one.one]), other=int(table.ids[one.other]))
        for one in copying(pairs, truths)
    ]
    return Profiles(people=people, copying=named)
