"""Writes: ``create_scorer`` makes a scorer and the job that trains it, ``score`` stores its predictions."""

from scoring.services.predictions import Scored, create_scoring, score
from scoring.services.reports import job_report
from scoring.services.scorers import create_scorer
from scoring.services.training import give_up, train

__all__ = ["Scored", "create_scorer", "create_scoring", "give_up", "job_report", "score", "train"]
