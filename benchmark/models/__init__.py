"""The tables of the benchmark: collecting, runs and their boards, judges, questions with options, what is shown."""

from benchmark.models.collection import CollectedResponse, CollectionRun, FailedAsk, PendingAsk
from benchmark.models.judges import Judge, JudgeLabel, JudgeTemplate, Judging
from benchmark.models.leaderboards import (
    BenchmarkRun,
    BoardPart,
    LabellingPlan,
    PublishedTable,
    Retraining,
    RunItem,
    ShareLink,
)
from benchmark.models.multiple_choice import ChoiceReport, QuestionForm, ReadAnswer

__all__ = [
    "BenchmarkRun",
    "BoardPart",
    "ChoiceReport",
    "CollectedResponse",
    "CollectionRun",
    "FailedAsk",
    "Judge",
    "JudgeLabel",
    "JudgeTemplate",
    "Judging",
    "LabellingPlan",
    "PendingAsk",
    "PublishedTable",
    "QuestionForm",
    "ReadAnswer",
    "Retraining",
    "RunItem",
    "ShareLink",
]
