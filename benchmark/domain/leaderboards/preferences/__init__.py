"""A board of comparisons: models ranked by which of two responses to a prompt people prefer. Pure.

docs/preferences.md says what each number is. ``comparisons`` is what was judged, ``strengths`` fits the models of
Bradley and Terry and of Davidson, ``resampling`` draws prompts anew, ``board`` puts the numbers together.
"""

from benchmark.domain.leaderboards.preferences.board import PreferenceBoard, build_preference_board
from benchmark.domain.leaderboards.preferences.comparisons import PairwiseComparisons, WinTable, count_wins
from benchmark.domain.leaderboards.preferences.strengths import (
    PreferenceTerms,
    StrengthFit,
    compute_elo,
    fit_bradley_terry,
    fit_davidson,
    fit_strengths,
)

__all__ = [
    "PairwiseComparisons",
    "PreferenceBoard",
    "PreferenceTerms",
    "StrengthFit",
    "WinTable",
    "build_preference_board",
    "compute_elo",
    "count_wins",
    "fit_bradley_terry",
    "fit_davidson",
    "fit_strengths",
]
