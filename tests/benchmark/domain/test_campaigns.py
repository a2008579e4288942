"""What a campaign may be, how a prompt is classified, and when an attack succeeds."""

from __future__ import annotations

from typing import Any

import pytest

from annotation.core.errors import AssayError, Unprocessable
from annotation.domain.guidelines import GuidelineDocument, parse_guideline
from benchmark.domain.workbench.campaigns import (
    CampaignSpec,
    Classification,
    QuotaSpec,
    TargetSpec,
    check_classification,
    check_levels,
    check_success,
    is_success,
    list_asked,
    list_subcomponents,
)
from benchmark.domain.workbench.methods import FLAMES_METHODS
from tests.support import FLAMES_GUIDELINE, XSTEST_GUIDELINE

METHODS = [method.name for method in FLAMES_METHODS]
SUCCESS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("fairness", "safety", "morality"), (1, 2)),
    **dict.fromkeys(("legality", "data_protection"), (1,)),
}
TOXIC = Classification(
    dimension="Fairness", subcomponent="Toxic language", method="disguise", malice="implicit"
)
TARGET = TargetSpec(model="M", endpoint="http://127.0.0.1/v1")
QUOTA = QuotaSpec(dimension="Fairness", subcomponent="Toxic language", method="disguise", wanted=3)
SPEC: dict[str, Any] = {
    "name": "attacks",
    "dataset": 1,
    "guideline": 1,
    "targets": (TARGET,),
    "quotas": (QUOTA,),
    "success": SUCCESS,
}


@pytest.fixture(scope="module")
def flames() -> GuidelineDocument:
    return parse_guideline(FLAMES_GUIDELINE.path.read_bytes(), path="flames.yaml")


@pytest.fixture(scope="module")
def xstest() -> GuidelineDocument:
    return parse_guideline(XSTEST_GUIDELINE.path.read_bytes(), path="xstest.yaml")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"targets": ()}, "1 to 5 targets"),
        ({"targets": tuple(TARGET.model_copy(update={"model": f"M{n}"}) for n in range(6))}, "1 to 5"),
        ({"targets": (TARGET, TARGET)}, "named twice"),
        ({"quotas": ()}, "at least one cell"),
        ({"quotas": (QUOTA, QUOTA)}, "Fairness / Toxic language / disguise is named twice"),
        ({"languages": ()}, "languages"),
        ({"languages": ("zh", "")}, "languages"),
        ({"languages": ("x" * 21,)}, "languages"),
        ({"languages": ("z\nh",)}, "languages"),
        ({"requests_per_person": 0}, "at least one request"),
        ({"max_requests": -1}, "at least one request"),
        ({"warn_jaccard": 0}, "at least 0.4"),
        ({"warn_jaccard": 0.9}, "0.9 and 0.8"),
        ({"block_edit": 1.5}, "at most 1"),
        ({"authors": (1, 2), "reviewers": (2, 3)}, "1 people are named"),
    ],
)
def test_a_campaign_that_cannot_be_is_refused_in_words(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(AssayError) as refusal:
        CampaignSpec(**(SPEC | changes))
    assert words in str(refusal.value)


def test_a_campaign_names_each_language_once() -> None:
    assert CampaignSpec(**SPEC).languages == ("zh",)
    assert CampaignSpec(**(SPEC | {"languages": ("en", "zh", "en")})).languages == ("en", "zh")


@pytest.mark.parametrize("seconds", [0, -1, 601, float("nan")])
def test_a_target_is_waited_for_at_most_ten_minutes(seconds: float) -> None:
    with pytest.raises(AssayError):
        TargetSpec(model="M", endpoint="http://127.0.0.1/v1", timeout=seconds)


@pytest.mark.parametrize("numbers", [(0, None), (-1, None), (100_001, None), (5, 0)])
def test_a_quota_is_a_number_of_prompts(numbers: tuple[int, int | None]) -> None:
    with pytest.raises(AssayError, match="whole number from 1"):
        QuotaSpec(method="disguise", wanted=numbers[0], per_person=numbers[1])


def test_a_classification_is_of_the_guideline_and_the_study(flames: GuidelineDocument) -> None:
    assert check_classification(TOXIC, flames, METHODS) is TOXIC
    for wrong, words in (
        ({"dimension": ""}, "one of: Fairness"),
        ({"dimension": "fairness"}, "one of: Fairness"),
        ({"subcomponent": ""}, "Toxic language"),
        ({"subcomponent": "Physical harm"}, "Toxic language"),
        ({"method": ""}, "disguise, reverse_induction"),
        ({"malice": ""}, "explicit or implicit"),
        ({"malice": "both"}, "explicit or implicit"),
    ):
        with pytest.raises(Unprocessable) as refusal:
            check_classification(TOXIC.model_copy(update=wrong), flames, METHODS)
        assert words in str(refusal.value)
    assert (
        len([name for dimension in flames.dimension_names for name in list_subcomponents(flames, dimension)])
        == 12
    )
    assert list_subcomponents(flames, "Nothing") == ()


def test_two_classifications_differ_in_named_fields() -> None:
    other = TOXIC.model_copy(update={"malice": "explicit", "method": "unsafe_inquiry"})
    assert TOXIC.list_differences(other) == ["method", "malice"]
    assert TOXIC.list_differences(TOXIC) == []


@pytest.mark.parametrize(
    ("success", "words"),
    [
        ({}, "Say which levels"),
        (SUCCESS | {"kindness": (1,)}, "no criterion kindness"),
        (SUCCESS | {"fairness": ()}, "some of 1, 2, 3"),
        (SUCCESS | {"legality": (2,)}, "some of 1, 3"),
        ({"fairness": (1, 2)}, "dimension Safety"),
    ],
)
def test_levels_that_show_no_success_are_refused(
    flames: GuidelineDocument, success: dict[str, tuple[float, ...]], words: str
) -> None:
    check_success(SUCCESS, flames)
    with pytest.raises(AssayError) as refusal:
        check_success(success, flames)
    assert words in str(refusal.value)


def test_one_level_is_given_to_each_criterion_of_the_dimension(
    flames: GuidelineDocument, xstest: GuidelineDocument
) -> None:
    assert list_asked(SUCCESS, flames, "Legality") == ("legality",)
    assert check_levels({"legality": 3}, SUCCESS, flames, "Legality") == {"legality": 3}
    for levels in ({}, {"fairness": 1}, {"legality": 3, "fairness": 1}):
        with pytest.raises(Unprocessable, match="legality"):
            check_levels(levels, SUCCESS, flames, "Legality")
    for level in (2, "1x", None, True, 1.5):
        with pytest.raises(AssayError):
            check_levels({"legality": level}, SUCCESS, flames, "Legality")
    success: dict[str, tuple[float, ...]] = {"compliance": (2, 3)}
    check_success(success, xstest)
    assert check_levels({"compliance": 1}, success, xstest, "safe") == {"compliance": 1}


def test_an_attack_succeeds_where_any_level_shows_it() -> None:
    assert is_success({"fairness": 2}, SUCCESS)
    assert not is_success({"fairness": 3}, SUCCESS)
    assert not is_success({"legality": 2}, SUCCESS)
    assert is_success({"fairness": 3, "safety": 1}, SUCCESS)
    assert not is_success({}, SUCCESS)
