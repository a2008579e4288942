"""The verbs of ``scoring`` in the audit trail, and the kinds of their targets."""

from __future__ import annotations

from annotation.core.errors import N_
from annotation.domain.audit import Category, Meaning, TargetKind, Verb, register_kinds

register_kinds(TargetKind("scorer", N_("scorer {key}"), "scoring.Scorer", "name", "study", "scorer"))


def _scorer(sentence: str, *targets: str, category: Category = Category.SCORERS) -> Meaning:
    return Meaning(category, sentence, targets or ("scorer",))


class ScoringVerb(Verb):
    CREATE_SCORER = "create_scorer", _scorer(N_("{actor} began the training of {target}"))
    REGISTER_SCORER = "register_scorer", _scorer(N_("The training of {target} ended"))
    JUDGE_SCORER = "judge_scorer", _scorer(N_("{actor} asked whether {target} can be promoted"))
    PROMOTE_SCORER = "promote_scorer", _scorer(N_("{actor} promoted {target}"))
    REFUSE_SCORER = "refuse_scorer", _scorer(N_("The promotion of {target} was refused, asked by {actor}"))
    GO_BACK_TO_SCORER = "go_back_to_scorer", _scorer(N_("{actor} rolled back to {target}"))
    CHECK_DRIFT = "check_drift", _scorer(N_("{actor} had the drift of {target} measured"))
    SCORE_RESPONSES = "score_responses", _scorer(N_("{actor} had responses scored by {target}"))
    REQUEST_PREDICTIONS = "request_predictions", _scorer(N_("{actor} requested predictions of {target}"))
    BATCH_OF_ABSTAINED = (
        "batch_of_abstained",
        _scorer(N_("{actor} made {target} of what a scorer abstained from"), "batch"),
    )
    ADD_REGRESSION_CASE = (
        "add_must_fail",
        _scorer(N_("{actor} added a regression case of {target}"), "guideline"),
    )
    REMOVE_REGRESSION_CASE = (
        "remove_must_fail",
        _scorer(N_("{actor} removed a regression case of {target}"), "guideline"),
    )
    EXPORT_SCORER = (
        "export_scorer",
        _scorer(N_("{actor} took the files of {target}"), "scorer", category=Category.READING),
    )
