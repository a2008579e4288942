"""How often a batch ends within the interval that its page gives: labels by annotators, disputes by an adjudicator.

    python -m tests.performance.end_coverage [--batches 300]

Each of four annotators works on four days of five and never at the weekend, for an amount that varies by the day. A
share of the completed tasks is disputed; an adjudicator settles on some days what waits, up to what they can. The page
is read after 7, 8, 10 and 14 days since the first work. Printed is the share of the batches whose last label, and last
settled dispute, came within the interval: 80% is what the page says.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator

from annotation.domain.batches import Forecast, Work, forecast_batch

READ_AFTER = (7, 8, 10, 14)
MAX_DAYS = 14
TASKS = 1500
RATE = 0.2
"""The share of tasks that become disputes."""


def simulate(seed: int, *, adjudicates_daily: bool) -> Iterator[tuple[int, int]]:
    """Labels and settled disputes of each day until everything is done; the first is the weekday ``seed % 5``."""
    rng = random.Random(seed)
    labels, settled, disputes = 2 * TASKS, 0, 0.0
    total = round(TASKS * RATE)
    for day in range(2000):
        weekday = (seed % 5 + day) % 7
        done = 0
        if weekday < 5:
            for _person in range(4):
                if rng.random() < 0.8:
                    done += round(max(5.0, rng.gauss(25, 10)))
        done = min(done, labels)
        labels -= done
        disputes = min(total, disputes + done / 2 * RATE) if labels else total
        works = weekday < 5 and (adjudicates_daily or weekday in {1, 3})
        decided = min(int(disputes) - settled, round(max(0.0, rng.gauss(30, 12)))) if works else 0
        settled += decided
        yield done, decided
        if not labels and settled >= total:
            return


def read_forecast(labels: list[int], decisions: list[int], after: int, weekday: int) -> Forecast:
    """As the page reads it in the morning after so many days."""
    began = next((day for day, n in enumerate(decisions) if n), after)
    return forecast_batch(
        Work(2 * TASKS - sum(labels[:after]), tuple(labels[max(0, after - MAX_DAYS) : after])),
        Work(
            round(TASKS * RATE) - sum(decisions[:after]),
            tuple(decisions[max(began, after - MAX_DAYS) : after]),
        ),
        weekday=weekday,
    )[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--batches", type=int, default=300)
    options = parser.parse_args()
    for adjudicates_daily in (True, False):
        print("adjudication on every weekday" if adjudicates_daily else "adjudication on two days a week")
        inside, counted, width = (dict.fromkeys(READ_AFTER, 0) for _time in range(3))
        for seed in range(options.batches):
            days = list(simulate(seed, adjudicates_daily=adjudicates_daily))
            labels, decisions = [day[0] for day in days], [day[1] for day in days]
            for after in READ_AFTER:
                forecast = read_forecast(labels, decisions, after, (seed % 5 + after) % 7)
                if after >= len(days) or forecast.low is None or forecast.high is None:
                    continue
                counted[after] += 1
                width[after] += forecast.high - forecast.low
                inside[after] += forecast.low <= len(days) - 1 - after <= forecast.high
        for after in READ_AFTER:
            n = max(1, counted[after])
            share, wide = inside[after] / n, width[after] / n
            print(f"  after {after:2} days: {share:6.1%} of {counted[after]}, {wide:.1f} days wide")


if __name__ == "__main__":
    main()
