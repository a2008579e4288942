"""The tables of the benchmark: collecting, runs and their boards, judges, questions with options, what is shown,
the prompt workbench.
"""

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
from benchmark.models.texts import TextBand, TextEmbedding, TextIndex
from benchmark.models.workbench import (
    AttackMethod,
    Attempt,
    AttemptAnswer,
    Campaign,
    CampaignMember,
    CampaignTarget,
    Proposal,
    ProposalRevision,
    Quota,
    Review,
)

__all__ = [
    "AttackMethod",
    "Attempt",
    "AttemptAnswer",
    "BenchmarkRun",
    "BoardPart",
    "Campaign",
    "CampaignMember",
    "CampaignTarget",
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
    "Proposal",
    "ProposalRevision",
    "PublishedTable",
    "QuestionVariant",
    "Quota",
    "Retraining",
    "Review",
    "RunItem",
    "ShareLink",
    "TextBand",
    "TextEmbedding",
    "TextIndex",
]
