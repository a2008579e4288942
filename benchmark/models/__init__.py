"""The tables of the benchmark: collecting, runs and their boards, judges, questions with options, what is shown."""

from benchmark.models.collection import (
    CollectedResponse,
    CollectionRun,
    EndpointRun,
    FailedRequest,
    PendingRequest,
)
from benchmark.models.dialogues import DialogueRun, DialogueTurn, FailedTurn, PendingTurn
from benchmark.models.judges import Judge, JudgeComparison, JudgeLabel, JudgeRun, JudgeTemplate
from benchmark.models.leaderboards import (
    BenchmarkRun,
    BoardPart,
    LabelPlan,
    PublishedTable,
    Retraining,
    RunItem,
    ShareLink,
)
from benchmark.models.multiple_choice import ChoiceReport, ParsedAnswer, QuestionVariant

__all__ = [
    "BenchmarkRun",
    "BoardPart",
    "ChoiceReport",
    "CollectedResponse",
    "CollectionRun",
    "DialogueRun",
    "DialogueTurn",
    "EndpointRun",
    "FailedRequest",
    "FailedTurn",
    "Judge",
    "JudgeComparison",
    "JudgeLabel",
    "JudgeRun",
    "JudgeTemplate",
    "LabelPlan",
    "ParsedAnswer",
    "PendingRequest",
    "PendingTurn",
    "PublishedTable",
    "QuestionVariant",
    "Retraining",
    "RunItem",
    "ShareLink",
]
