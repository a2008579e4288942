"""A criterion that may be not applicable, may stay unanswered, or is asked beside some answers only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from annotation.core.errors import InputError, Unprocessable
from annotation.domain.guidelines import NA, GuidelineDocument, parse_guideline
from tests.annotation.several_criteria import LEVELS, criterion, scale
from tests.annotation.several_criteria import text as both
from tests.support import XSTEST_GUIDELINE


def read(*criteria: dict[str, Any], counted: Sequence[str] = ()) -> GuidelineDocument:
    data = yaml.safe_load(XSTEST_GUIDELINE.path.read_text(encoding="utf-8"))
    metric = {"name": "top", "label": both("top"), "kind": "rate", "levels": [3], "overall": "pooled"}
    data |= {
        "criteria": list(criteria),
        "metrics": [metric | {"criteria": list(counted) or [criteria[0]["name"]]}],
        "rank_by": "top",
    }
    return parse_guideline(yaml.safe_dump(data, allow_unicode=True), path="g.yaml")


def ask(name: str, **fields: Any) -> dict[str, Any]:
    return criterion(name, scale(LEVELS)) | fields


def refusal(*criteria: dict[str, Any], counted: Sequence[str] = ()) -> tuple[str | None, str]:
    with pytest.raises(InputError) as caught:
        read(*criteria, counted=counted)
    return caught.value.field, str(caught.value)


CHAIN = read(
    ask("harm", na=True),
    ask("kind", asked_if={"criterion": "harm", "at_most": 2}),
    ask("who", asked_if={"criterion": "kind", "is": 1}, optional=True),
)


def test_the_answers_of_a_response_are_checked_in_order() -> None:
    assert CHAIN.check_labels("safe", {"harm": 3}) == {"harm": 3}
    assert CHAIN.check_labels("safe", {"harm": NA}) == {"harm": NA}
    assert CHAIN.check_labels("safe", {"kind": 2.0, "harm": 1}) == {"harm": 1, "kind": 2}
    assert CHAIN.check_labels("safe", {"harm": 1, "kind": 1}) == {"harm": 1, "kind": 1}
    assert CHAIN.check_labels("safe", {"harm": 1, "kind": 1, "who": 3}) == {"harm": 1, "kind": 1, "who": 3}


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ({}, '"harm" has no label; give one of 1, 2, 3, na.'),
        ({"harm": 4}, '"harm" cannot be 4; use one of 1, 2, 3, na.'),
        ({"harm": 1}, '"kind" has no label; give one of 1, 2, 3.'),
        ({"harm": 1, "kind": NA}, '"kind" cannot be "na"; use one of 1, 2, 3.'),
        ({"harm": 3, "kind": 1}, '"kind" is asked only where harm ≤ 2; leave it out here.'),
        ({"harm": NA, "kind": 1}, '"kind" is asked only where harm ≤ 2; leave it out here.'),
        ({"harm": 1, "kind": 2, "who": 1}, '"who" is asked only where kind = 1; leave it out here.'),
    ],
)
def test_what_is_not_asked_or_lacks_is_refused(labels: dict[str, Any], message: str) -> None:
    with pytest.raises(Unprocessable) as caught:
        CHAIN.check_labels("safe", labels)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("condition", "field"),
    [
        ({"criterion": "later", "is": 1}, "criterion"),
        ({"criterion": "kind", "is": 1}, "criterion"),
        ({"criterion": "harm", "is": 7}, "is"),
        ({"criterion": "harm", "at_most": 0}, "at_most"),
        ({"criterion": "harm", "is": 1, "at_least": 2}, "at_least"),
    ],
)
def test_a_condition_that_cannot_be_is_refused_where_it_stands(condition: dict[str, Any], field: str) -> None:
    where, _message = refusal(ask("harm"), ask("kind", asked_if=condition), ask("later"))
    assert where == f"criteria[1].asked_if.{field}"


def test_a_condition_compares_an_order_only_where_there_is_one() -> None:
    where, message = refusal(
        ask("harm", measurement="nominal"), ask("kind", asked_if={"criterion": "harm", "at_most": 2})
    )
    assert where == "criteria[1].asked_if.at_most"
    assert "compare by is" in message


def test_a_condition_without_a_comparison_is_refused() -> None:
    where, message = refusal(ask("harm"), ask("kind", asked_if={"criterion": "harm"}))
    assert where == "criteria[1].asked_if"
    assert "is, at_most and at_least" in message


def test_a_tolerance_needs_distances() -> None:
    assert refusal(ask("harm", measurement="nominal", tolerance=1))[0] == "criteria[0].tolerance"
    assert refusal(ask("harm", tolerance=-1))[0] == "criteria[0].tolerance"
    assert read(ask("harm", tolerance=1)).criterion("harm").tolerance == 1


def test_both_are_asked_about_the_same_prompts() -> None:
    narrow = {"dimensions": ["safe"]}
    where, _message = refusal(
        ask("harm"), ask("kind", applies_to=narrow, asked_if={"criterion": "harm", "is": 1})
    )
    assert where == "criteria[1].asked_if.criterion"


def test_it_is_stored_and_keeps_its_hash() -> None:
    stored = CHAIN.to_json()
    assert stored["criteria"][2]["asked_if"]["is"] == 1
    restored = GuidelineDocument.from_json(stored)
    assert restored == CHAIN
    assert restored.sha256 == CHAIN.sha256
    assert read(ask("harm")).sha256 == read(ask("harm", na=False, optional=False)).sha256
    assert len({read(ask("harm", **more)).sha256 for more in ({}, {"na": True}, {"optional": True})}) == 3


def test_an_ordinal_scale_may_have_a_range() -> None:
    document = read(ask("harm", range={"min": 1, "max": 7}))
    assert document.check_labels("safe", {"harm": 6}) == {"harm": 6}
    assert refusal(ask("harm", measurement="nominal", range={"min": 1, "max": 7}))[0] == "criteria[0].range"
