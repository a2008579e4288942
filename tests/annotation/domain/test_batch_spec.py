from __future__ import annotations

from datetime import date
from typing import Any, get_args

import pytest

from annotation.core.errors import AssayError
from annotation.domain import batch_spec
from annotation.domain.batch_spec import AnnotatorShare, BatchSpec, Policy, Terms
from annotation.models import Batch

SPEC = BatchSpec(
    name="july",
    guideline=1,
    dataset=2,
    models=(3, 4),
    collection="",
    annotators=(5,),
    adjudicators=(8,),
    pairs=((5, 6), (6, 7)),
    shares={5: AnnotatorShare(quota=9, excluded_dimensions=("Safety",))},
    policy=Policy(pairing="fixed", due_date=date(2026, 7, 1), check_share=0.05, agreement_threshold=0.6),
    open_now=False,
)
EARLIER = {
    "name": "july",
    "guideline": 1,
    "dataset": 2,
    "models": [3, 4],
    "collection": "",
    "annotators": [5, 6, 7],
    "adjudicators": [8],
    "pairs": [[5, 6], [6, 7]],
    "shares": [[5, {"quota": 9, "excluded_dimensions": ["Safety"]}]],
    "policy": {
        "lease_seconds": 1800,
        "due_date": "2026-07-01",
        "agreement_threshold": 0.6,
        "alarm_action": "tell",
        "second_reading_share": 0.05,
        "second_reading_days": 14,
        "check_share": 0.05,
        "check_feedback": False,
        "qualifying": "",
        "qualifying_threshold": None,
        "overlap": 2,
        "pairing": "fixed",
        "order": "prompts",
        "seed": 0,
        "tolerance": 0,
    },
    "open_now": False,
}
"""The parameters of a job as the version before this spec wrote them."""


def test_a_spec_comes_back_from_the_json_of_its_job() -> None:
    assert BatchSpec.model_validate_json(SPEC.model_dump_json()) == SPEC
    assert BatchSpec.model_validate(SPEC.model_dump(mode="json")) == SPEC


def test_a_job_of_the_version_before_is_read() -> None:
    assert BatchSpec.model_validate(EARLIER) == SPEC


def test_whoever_is_in_a_pair_is_an_annotator() -> None:
    assert SPEC.annotators == (5, 6, 7)


def test_a_quota_is_for_every_annotator_whose_share_has_none() -> None:
    shares = {1: AnnotatorShare(quota=9), 2: AnnotatorShare(excluded_dimensions=("Safety",))}
    spec = BatchSpec(name="b", guideline=1, dataset=2, annotators=(1, 2, 3), quota=5, shares=shares)
    assert [spec.build_share(person).quota for person in (1, 2, 3)] == [9, 5, 5]
    assert spec.build_share(2).excluded_dimensions == ("Safety",)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"overlap": 0}, "The overlap is 0; choose 1 to 10000."),
        ({"pairing": "x"}, "There is no pairing x; choose one of: pool, fixed, balanced."),
        ({"order": "x"}, "There is no order x; choose one of: prompts, shuffled."),
        ({"seed": -1}, "The seed is a whole number from 0 to 2147483647."),
        ({"tolerance": float("nan")}, "The tolerance is 0 or more."),
        ({"lease_seconds": 0}, "The lease is at least one second."),
        ({"agreement_threshold": 2}, "The agreement threshold is 2.0; choose -1 to 1, as in 0.667."),
        ({"alarm_action": "x"}, "There is no alarm x; choose one of: tell, pause."),
        ({"second_reading_share": 2}, "The share of repeat adjudications is from 0 to 1."),
        ({"second_reading_days": 366}, "A repeat adjudication waits from 0 to 365 days."),
        ({"check_share": 0.6}, "The share of gold checks is from 0 to 0.5."),
        ({"qualifying": "x"}, "There is no qualification by x; choose one of: accuracy, kappa."),
        ({"qualifying": "kappa"}, "A qualification needs both"),
        ({"qualifying": "accuracy", "qualifying_threshold": -0.5}, "is -0.5; choose 0 to 1, as in 0.8."),
    ],
)
def test_a_policy_that_cannot_be_is_refused_in_words(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(AssayError) as refused:
        Policy(**fields)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"annotators": (1,)}, "An overlap of 2 needs at least 2 annotators; 1 are named."),
        ({"policy": {"qualifying": "kappa", "qualifying_threshold": 0.5}}, "begins as a draft"),
        ({"name": "a/b"}, "cannot be a name"),
    ],
)
def test_a_batch_that_cannot_open_is_refused_in_words(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(AssayError, match=words):
        BatchSpec.model_validate({"name": "b", "guideline": 1, "dataset": 2, "annotators": (1, 2)} | fields)


def test_the_choices_and_the_defaults_are_the_tables() -> None:
    for field in ("pairing", "order", "alarm_action", "qualifying"):
        name = "".join(word.capitalize() for word in field.split("_"))
        assert get_args(getattr(batch_spec, name)) == tuple(getattr(Batch, name).values)
    assert {name: Batch._meta.get_field(name).default for name in Terms.model_fields} | {
        "due_date": None,
        "agreement_threshold": None,
        "qualifying_threshold": None,
    } == Terms().model_dump()
