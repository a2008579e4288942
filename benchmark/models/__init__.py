"""The tables of the benchmark: collecting, runs and their boards, judges, questions with options, what is shown."""

from benchmark.models.choices import ChoiceReport, QuestionForm, ReadAnswer
from benchmark.models.collecting import CollectedResponse, CollectionRun, FailedAsk, PendingAsk
from benchmark.models.judges import Judge, JudgeLabel, JudgeTemplate, Judging
from benchmark.models.runs import BenchmarkRun, BoardPart, Retraining, RunItem
from benchmark.models.showing import LabellingPlan, PublishedTable, ShareLink

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
