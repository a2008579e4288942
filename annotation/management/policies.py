"""The arguments of a batch's collection and of how its gold is settled, for the commands that make one."""

from __future__ import annotations

from argparse import ArgumentParser

from annotation.domain.batch_spec import USUAL_POLICY
from annotation.models import Batch


def add_settling_arguments(parser: ArgumentParser, *, is_usual: bool = True) -> None:
    """``is_usual``: what is not said has its usual value here; else it is None, and known to be not said."""
    usual = USUAL_POLICY if is_usual else None
    parser.add_argument(
        "--settling",
        default=usual and usual.settling,
        help=f"how gold is settled: {', '.join(Batch.Settling.values)} (default {USUAL_POLICY.settling})",
    )
    parser.add_argument(
        "--aggregation",
        default=usual and usual.aggregation,
        help=f"the model of --settling aggregate: {', '.join(Batch.Aggregation.values)}"
        f" (default {USUAL_POLICY.aggregation})",
    )
    parser.add_argument(
        "--aggregation-threshold",
        type=float,
        default=usual and usual.aggregation_threshold,
        metavar="P",
        help=f"the probability from which the model settles (default {USUAL_POLICY.aggregation_threshold})",
    )
    parser.add_argument(
        "--tolerance",
        type=float,
        default=usual and usual.tolerance,
        help=f"distance that still settles (default {USUAL_POLICY.tolerance})",
    )
