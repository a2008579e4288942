"""The verbs of ``benchmark`` in the audit trail, and the kinds of their targets."""

from __future__ import annotations

from annotation.core.errors import N_
from annotation.domain.audit import Category, Meaning, TargetKind, Verb, register_kinds

register_kinds(
    TargetKind("run", N_("board {key}"), "benchmark.BenchmarkRun", "name", "study", "run"),
    TargetKind("benchmarkrun", N_("board {key}"), "benchmark.BenchmarkRun", "name", "study", "run"),
    TargetKind("judge", N_("judge {key}"), "benchmark.Judge", "name", "study", "judge"),
    TargetKind(
        "collecting",
        N_("response collection {key}"),
        "benchmark.CollectionRun",
        study="dataset__study",
        page="collecting-run",
    ),
    TargetKind(
        "dialogues",
        N_("dialogue run {key}"),
        "benchmark.DialogueRun",
        study="dataset__study",
        page="dialogue-run",
    ),
    TargetKind("publishedtable", N_("published table {key}")),
    TargetKind("choicereport", N_("multiple-choice report {key}")),
    TargetKind("published", N_("published table {key}"), "benchmark.PublishedTable", study="study"),
    TargetKind(
        "choice_report", N_("report {key}"), "benchmark.ChoiceReport", "name", "study", "choice-report"
    ),
    TargetKind("campaign", N_("campaign {key}"), "benchmark.Campaign", "name", "study", "campaign"),
    TargetKind("proposal", N_("proposal {key}"), "benchmark.Proposal", study="campaign__study"),
    TargetKind("attack_method", N_("attack method {key}")),
)


def _board(sentence: str, *targets: str) -> Meaning:
    return Meaning(Category.BOARDS, sentence, targets or ("run",))


def _campaign(sentence: str, *targets: str, category: Category = Category.CAMPAIGNS) -> Meaning:
    return Meaning(category, sentence, targets or ("campaign",))


class BenchmarkVerb(Verb):
    # Boards.
    CREATE_RUN = "create_run", _board(N_("{actor} began {target}"))
    END_RUN = "end_run", _board(N_("{target} is done"))
    RETRAIN = (
        "retrain",
        _board(N_("{actor} trained a scorer on {target} and began its boards again"), "release"),
    )
    LABEL_NEXT = "label_next", _board(N_("{actor} made {target} from a label plan"), "batch")
    SHARE_RUN = "share_run", _board(N_("{actor} shared {target} by a link"))
    REVOKE_LINK = "revoke_link", _board(N_("{actor} revoked a link to {target}"))
    ADD_PUBLISHED_TABLE = "add_published_table", _board(N_("{actor} entered {target}"), "published")
    PLACE_PUBLISHED_TABLE = (
        "place_published_table",
        _board(N_("{actor} said what dataset {target} is about"), "published"),
    )
    REMOVE_PUBLISHED_TABLE = "remove_published_table", _board(N_("{actor} removed {target}"), "published")
    CREATE_CHOICE_REPORT = "create_choice_report", _board(N_("{actor} made {target}"), "choice_report")

    # Endpoints.
    COLLECT_RESPONSES = "collect_responses", _board(N_("{actor} began {target}"), "collecting")
    MAKE_DIALOGUES = "make_dialogues", _board(N_("{actor} began {target}"), "dialogues")
    CREATE_JUDGE = "create_judge", _board(N_("{actor} set up {target}"), "judge")
    SAVE_JUDGE_TEMPLATE = (
        "save_judge_template",
        _board(N_("{actor} saved a judge's template for {target}"), "guideline"),
    )
    JUDGE_RESPONSES = "judge_responses", _board(N_("{actor} asked {target} for judgements"), "judge")
    IMPORT_JUDGE_LABELS = "import_judge_labels", _board(N_("{actor} imported labels of {target}"), "judge")

    # Campaigns.
    CREATE_CAMPAIGN = "create_campaign", _campaign(N_("{actor} made {target}"))
    SET_CAMPAIGN_STATE = "set_campaign_state", _campaign(N_("{actor} set the state of {target}"))
    ADD_CAMPAIGN_MEMBERS = "add_campaign_members", _campaign(N_("{actor} added people to {target}"))
    REMOVE_CAMPAIGN_MEMBER = (
        "remove_campaign_member",
        _campaign(N_("{actor} took somebody out of {target}")),
    )
    JOIN_CAMPAIGN = "join_campaign", _campaign(N_("{actor} joined {target}"))
    SET_QUOTA = "set_quota", _campaign(N_("{actor} set a quota of {target}"))
    SAVE_ATTACK_METHOD = "save_attack_method", _campaign(N_("{actor} saved the {target}"), "attack_method")
    SUBMIT_PROPOSAL = "submit_proposal", _campaign(N_("{actor} submitted {target}"), "proposal")
    DISCARD_PROPOSAL = "discard_proposal", _campaign(N_("{actor} discarded {target}"), "proposal")
    ASK_TARGETS = "ask_targets", _campaign(N_("{actor} asked the models about {target}"), "proposal")
    REVIEW_PROPOSAL = "review_proposal", _campaign(N_("{actor} reviewed {target}"), "proposal")
    RELEASE_REVIEW = "release_review", _campaign(N_("{actor} gave the review of {target} back"), "proposal")
    EXPIRE_REVIEW = "expire_review", _campaign(N_("The review of {target} expired"), "proposal")
    IMPORT_PROPOSALS = "import_proposals", _campaign(N_("{actor} imported proposals into {target}"))
    IMPORT_PROPOSAL = "import_proposal", _campaign(N_("{actor} imported {target}"), "proposal")
    MAKE_RESPONSES = "make_responses", _campaign(N_("{actor} took responses over from {target}"))
    EXPORT_CAMPAIGN = (
        "export_campaign",
        _campaign(N_("{actor} took the files of {target}"), category=Category.READING),
    )
