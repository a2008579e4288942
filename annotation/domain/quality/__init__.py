"""What is wrong with an annotator: guessing, severity, drift, copying, haste. Pure.

Nobody knows the truth, so everybody is judged by the others, and everybody's faults disturb the others' figures. Each
figure therefore comes from a model of all people together, in which one person's fault is that person's parameter.
``build_profiles`` runs all of these models over one table of labels. The formulas, their sources, the corrections and
how small a fault is found stand in ``docs/quality.md``."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from annotation.domain.quality.aggregation import estimate_truths
from annotation.domain.quality.carelessness import (
    MAX_READ,
    measure_following,
    measure_guessing,
    measure_reading_floor,
    measure_speeds,
)
from annotation.domain.quality.copying import find_copying
from annotation.domain.quality.drift import measure_drifts
from annotation.domain.quality.findings import RISKS, Copying, Finding, Kind, Profile, Profiles, flag_findings
from annotation.domain.quality.labels import Labels, LabelScale, build_table
from annotation.domain.quality.severity import measure_severities


def build_profiles(labels: Labels) -> Profiles:
    """What is found of every person and every pair in ``labels``. The order of the rows changes nothing.

    Raises ``AssayError`` for columns of different lengths, a label off its scale, and two of one person on one unit.
    """
    table = build_table(labels)
    if not table.people:
        return Profiles({}, ())
    pairs, truths = table.pairs, estimate_truths(table)
    agreement = measure_following(pairs)
    random = flag_findings(measure_guessing(pairs, agreement), RISKS["random"])
    severity = flag_findings(measure_severities(pairs), RISKS["severity"])
    guessers = np.array([random[person].flagged for person in range(table.people)], dtype=np.bool_)
    drift = measure_drifts(pairs, truths, guessers)
    speed = measure_speeds(table)
    flagged = flag_findings({person: result.finding for person, result in speed.items()}, RISKS["speed"])
    people = {
        int(number): Profile(
            random=random[person],
            severity=severity[person],
            drift=drift[person],
            speed=flagged[person],
            pace=speed[person].pace,
            instant=speed[person].instant,
            unread=speed[person].unread,
        )
        for person, number in enumerate(table.ids)
    }
    copiers = [
        replace(pair, first=int(table.ids[pair.first]), second=int(table.ids[pair.second]))
        for pair in find_copying(pairs, truths)
    ]
    return Profiles(people=people, copying=copiers)


__all__ = [
    "MAX_READ",
    "Copying",
    "Finding",
    "Kind",
    "LabelScale",
    "Labels",
    "Profile",
    "Profiles",
    "build_profiles",
    "measure_reading_floor",
]
