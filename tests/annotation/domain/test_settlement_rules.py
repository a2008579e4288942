"""What settles a task where a criterion is not applicable, optional, or hangs on another."""

from __future__ import annotations

import pytest

from annotation.core.errors import Unprocessable
from annotation.domain.adjudication import Labels, SettlementRules, resolve_dispute, settle
from annotation.domain.guidelines import NA, AskedIf

DEEPER = AskedIf.model_validate({"criterion": "harm", "at_most": 2})
DEEPEST = AskedIf.model_validate({"criterion": "kind", "is": 1})
RULES = SettlementRules(
    tolerance=1,
    nominal=frozenset({"kind"}),
    tolerances={"exact": 0},
    conditions={"kind": DEEPER, "who": DEEPEST},
    optional=frozenset({"note"}),
)


def settle_values(*annotations: Labels) -> dict[str, tuple[object, str]]:
    return {name: (s.value, s.source) for name, s in settle(annotations, RULES).settled.items()}


def list_disputed(*annotations: Labels) -> tuple[str, ...]:
    return settle(annotations, RULES).disputed


def test_not_applicable_is_a_value_that_is_near_itself_alone() -> None:
    assert settle_values({"harm": NA}, {"harm": NA}) == {"harm": (NA, "unanimous")}
    assert settle_values({"harm": NA}) == {"harm": (NA, "single")}
    assert list_disputed({"harm": NA}, {"harm": 3}) == ("harm", "kind", "who")
    assert list_disputed({"exact": NA}, {"exact": 1}) == ("exact",)


def test_a_criterion_has_a_tolerance_of_its_own() -> None:
    assert settle_values({"calm": 1}, {"calm": 2}) == {"calm": (1, "within_tolerance")}
    assert list_disputed({"exact": 1}, {"exact": 2}) == ("exact",)


def test_of_what_is_optional_those_count_who_answered() -> None:
    assert settle_values({"calm": 1}, {"calm": 1}) == {"calm": (1, "unanimous")}
    assert settle_values({"calm": 1, "note": 5}, {"calm": 1})["note"] == (5, "single")
    assert settle_values({"note": 5}, {}, {"note": 5})["note"] == (5, "unanimous")
    assert list_disputed({"note": 1}, {}, {"note": 5}) == ("note",)


def test_what_nobody_was_asked_has_no_gold() -> None:
    assert settle_values({"harm": 3}, {"harm": 4}) == {"harm": (3, "within_tolerance")}


def test_what_hangs_on_a_dispute_is_disputed_with_it() -> None:
    assert list_disputed({"harm": 1, "kind": 1, "who": 2}, {"harm": 5}) == ("harm", "kind", "who")
    assert list_disputed({"harm": 3}, {"harm": 5}) == ("harm", "kind", "who")


def test_whom_the_settled_value_would_have_asked_somebody_must_ask() -> None:
    """2 and 3 settle as 2: there ``kind`` is asked, and one of the two never was."""
    assert settle_values({"harm": 2, "kind": 0}, {"harm": 3}) == {"harm": (2, "within_tolerance")}
    assert list_disputed({"harm": 2, "kind": 0}, {"harm": 3}) == ("kind", "who")
    assert list_disputed({"harm": 2, "kind": 1, "who": 1}, {"harm": 2, "kind": 1, "who": 3}) == ("who",)
    assert list_disputed({"harm": 2, "kind": 0}, {"harm": 1, "kind": 0}) == ()


def test_the_decision_says_what_else_is_asked() -> None:
    disputed = ("harm", "kind", "who")
    decided = resolve_dispute(disputed, {"harm": 4}, RULES)
    assert {name: label.value for name, label in decided.items()} == {"harm": 4}
    assert set(resolve_dispute(disputed, {"harm": 1, "kind": 0}, RULES)) == {"harm", "kind"}
    assert set(resolve_dispute(disputed, {"harm": NA}, RULES)) == {"harm"}
    with pytest.raises(Unprocessable, match="lacks kind"):
        resolve_dispute(disputed, {"harm": 1}, RULES)
    with pytest.raises(Unprocessable, match="kind is not asked beside"):
        resolve_dispute(disputed, {"harm": 4, "kind": 0}, RULES)


def test_what_is_optional_may_be_left_open() -> None:
    assert resolve_dispute(("note",), {}, RULES) == {}
