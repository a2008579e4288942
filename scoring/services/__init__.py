"""Writes: ``create_scorer`` makes a scorer and the job that trains it, ``score`` stores its predictions.

``promote`` has the gate judge a scorer, ``go_back`` undoes a promotion; ``request_predictions`` answers programs.
"""

from scoring.services.predictions.abstention import create_abstained_batch
from scoring.services.predictions.predictions import ScoringCounts, create_scoring, score
from scoring.services.predictions.requests import request_predictions
from scoring.services.progress import build_job_report
from scoring.services.regression_cases import add_must_fail, import_must_fail, remove_must_fail
from scoring.services.scorers.drift import check_drift
from scoring.services.scorers.export import export_scorer
from scoring.services.scorers.promotion import promote, promote_with_reason, roll_back
from scoring.services.scorers.scorers import create_scorer
from scoring.services.training import remove_work_files, train

__all__ = [
    "ScoringCounts",
    "add_must_fail",
    "build_job_report",
    "check_drift",
    "create_abstained_batch",
    "create_scorer",
    "create_scoring",
    "export_scorer",
    "import_must_fail",
    "promote",
    "promote_with_reason",
    "remove_must_fail",
    "remove_work_files",
    "request_predictions",
    "roll_back",
    "score",
    "train",
]
