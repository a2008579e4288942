"""The numbers of subcomponents, attack methods and languages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from annotation.core.proportions import wilson
from benchmark.domain.leaderboards.board import BoardFigures
from benchmark.domain.leaderboards.responses import CountedResponse, group_prompt, split_crossed
from tests.benchmark.domain.test_pairs import CRITERIA, FLAMES, XSTEST
from tests.support import examples


def row(model: str, prompt: int, scope: str, level: int, **groups: str) -> CountedResponse:
    criterion = CRITERIA.get(scope, "compliance")
    return CountedResponse(model, prompt, scope, ((criterion, level),), groups=groups)


def cells(groups: dict[str, Any], model: str) -> list[Any]:
    model_cells: list[Any] = next(group["cells"] for group in groups["rows"] if group["model"] == model)
    return model_cells


def test_a_subcomponent_stands_within_its_dimension_in_the_guidelines_order():
    rows = [
        row("A", 1, "Fairness", 3, subcomponent="Toxic language"),
        row("A", 2, "Fairness", 1, subcomponent="Bias and discrimination"),
        row("A", 3, "Fairness", 3, subcomponent="Bias and discrimination"),
        row("A", 4, "Fairness", 3, subcomponent="Another"),
        row("A", 5, "Safety", 3, subcomponent="Another"),
        row("A", 6, "Safety", 3),
    ]
    groups = BoardFigures(FLAMES, rows).groups
    assert set(groups) == {"subcomponent"}  # nothing here has a language or an attack method
    assert [
        (column["scope"], column["name"], column["n_prompts"]) for column in groups["subcomponent"]["columns"]
    ] == [
        ("Fairness", "Bias and discrimination", 2),
        ("Fairness", "Toxic language", 1),
        ("Fairness", "Another", 1),
        ("Safety", "Another", 1),
    ]
    first = cells(groups["subcomponent"], "A")[0]
    assert first["n"] == 2
    low, high = wilson(1, 2)
    assert first["harmless_rate"] == {"value": 0.5, "low": low, "high": high}
    assert first["harmless_score"]["value"] == pytest.approx(100 * 4 / 6)


def test_a_language_pools_the_dimensions():
    rows = [
        row("A", 1, "Fairness", 3, language="zh"),
        row("A", 2, "Safety", 2, language="zh"),
        row("A", 3, "Safety", 1, language="zh"),
        row("A", 4, "Legality", 3, language="en"),
        row("B", 4, "Legality", 1, language="en"),
    ]
    languages = BoardFigures(FLAMES, rows).groups["language"]
    assert [(column["name"], column["scope"], column["n_prompts"]) for column in languages["columns"]] == [
        ("en", None, 1),
        ("zh", None, 3),
    ]
    english, chinese = cells(languages, "A")
    assert (chinese["n"], chinese["harmless_rate"]["value"]) == (3, pytest.approx(1 / 3))
    assert chinese["harmless_score"]["value"] == pytest.approx(100 * 6 / 9)
    assert english["harmless_rate"]["value"] == 1
    assert cells(languages, "B") == [{"n": 1, "ground": "gold", "reason": None, **_numbers(0, 1)}, None]


def _numbers(counted: int, n: int) -> dict[str, Any]:
    low, high = wilson(counted, n)
    return {
        "harmless_rate": {"value": counted / n, "low": low, "high": high},
        "harmless_score": {"value": pytest.approx(100 / 3), "low": None, "high": None},
        "attack_success_rate": {"value": 1 - counted / n, "low": 1 - high, "high": 1 - low},
    }


def test_a_guideline_without_overall_numbers_shows_each_over_its_own_columns():
    rows = [
        row("A", 1, "safe", 3, attack_method="disguise"),
        row("A", 2, "unsafe", 1, attack_method="disguise"),
        row("A", 3, "unsafe", 3, attack_method="disguise"),
    ]
    (cell,) = cells(BoardFigures(XSTEST, rows).groups["attack_method"], "A")
    assert cell["n"] == 3
    assert cell["full_compliance_rate"]["value"] == 1
    assert cell["full_refusal_rate"]["value"] == 0.5


def test_attack_methods_are_crossed_with_malice_where_a_prompt_has_both():
    rows = [
        row("A", 1, "Fairness", 1, attack_method="disguise", malice="implicit"),
        row("A", 2, "Legality", 3, attack_method="disguise", malice="implicit"),
        row("A", 3, "Safety", 2, attack_method="disguise", malice="explicit"),
        row("A", 4, "Safety", 3, malice="explicit"),
    ]
    groups = BoardFigures(FLAMES, [replace(each, groups=group_prompt(each.groups)) for each in rows]).groups
    names = {by: [column["name"] for column in groups[by]["columns"]] for by in groups}
    assert names == {
        "attack_method": ["disguise"],
        "malice": ["explicit", "implicit"],
        "attack_method*malice": ["disguise*explicit", "disguise*implicit"],
    }
    # of Fairness 1 counts, of Legality 3 does not
    rates = [cell["attack_success_rate"]["value"] for cell in cells(groups["malice"], "A")]
    assert rates == [1 / 2, 1 / 2]
    rates = [cell["attack_success_rate"]["value"] for cell in cells(groups["attack_method*malice"], "A")]
    assert rates == [1, 1 / 2]
    assert split_crossed("role * play*implicit") == ("role * play", "implicit")


def test_groups_of_prompts_that_nobody_knows_are_not_counted_as_prompts():
    rows = [
        CountedResponse("A", None, "safe", (("compliance", level),), groups={"language": "en"})
        for level in (1, 3)
    ]
    languages = BoardFigures(XSTEST, rows).groups["language"]
    assert languages["columns"] == [{"name": "en", "scope": None, "n_prompts": None}]
    assert cells(languages, "A")[0]["n"] == 2


GROUPED = st.lists(
    st.tuples(
        st.sampled_from(["A", "B"]),
        st.sampled_from(["Fairness", "Safety", "Morality"]),
        st.sampled_from([1, 2, 3]),
        st.sampled_from(["one", "two", "three"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=examples(12), deadline=None)
@given(GROUPED)
def test_the_groups_add_up_to_the_board(rows: list[tuple[str, str, int, str, bool]]):
    """Responses, and labels at the counted level, of every column; of pooled groups over all columns."""
    figures = BoardFigures(
        FLAMES,
        [
            CountedResponse(
                model,
                number if known else None,
                scope,
                ((CRITERIA[scope], level),),
                groups={"subcomponent": group, "language": group},
            )
            for number, (model, scope, level, group, known) in enumerate(rows)
        ],
    )
    for board_row in figures.board["rows"]:
        parts = figures.groups["subcomponent"]
        for scope, cell in board_row["dimensions"].items():
            own = [
                group_cell
                for column, group_cell in zip(parts["columns"], cells(parts, board_row["model"]), strict=True)
                if group_cell is not None and column["scope"] == scope
            ]
            assert sum(group_cell["n"] for group_cell in own) == cell["n"]
            counted = sum(group_cell["n"] * group_cell["harmless_rate"]["value"] for group_cell in own)
            assert counted == pytest.approx(cell["n"] * (cell["harmless_rate"]["value"] or 0))
        languages = [
            cell for cell in cells(figures.groups["language"], board_row["model"]) if cell is not None
        ]
        assert sum(language["n"] for language in languages) == board_row["n"]
