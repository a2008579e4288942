from __future__ import annotations

from typing import Any

import pytest

from annotation.core.errors import AssayError
from scoring.domain.spec import Spec
from scoring.domain.training_spec import TrainingSpec

TUNED = Spec("encoder", "some/name", "full")


def test_a_spec_comes_back_from_json() -> None:
    spec = TrainingSpec(
        name="s", release=1, backbone=TUNED, evaluate=("learning-curve",), seed=3, base=4, adapt_to=5
    )
    assert TrainingSpec.model_validate(spec.model_dump(mode="json")) == spec
    assert TrainingSpec.model_validate_json(spec.model_dump_json()) == spec


def test_the_grouped_evaluation_is_always_made_and_comes_first() -> None:
    assert TrainingSpec(name="s", release=1, evaluate=()).evaluate == ("grouped",)
    spec = TrainingSpec(name="s", release=1, evaluate=("learning-curve", "leave-one-model-out"))
    assert spec.evaluate == ("grouped", "leave-one-model-out", "learning-curve")


def test_a_row_keeps_what_the_jobs_of_the_version_before_read() -> None:
    spec = TrainingSpec(name="s", release=1)
    assert spec.build_config(TUNED) == {"evaluate": ["grouped"], "spec": TUNED.to_json(), "seeds": 3}
    assert spec.build_config(Spec())["seeds"] == 1
    assert TrainingSpec(name="s", release=1, seeds=4).build_config(TUNED)["seeds"] == 4


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"name": "a/b"}, "cannot be a name"),
        ({"evaluate": ["by luck"]}, "by luck is no way to evaluate; use grouped, leave-one-model-out"),
        ({"seed": -1}, "The seed is a whole number from 0 to 2147483647."),
        ({"seeds": 11}, "An evaluation is made with 1 to 10 seeds."),
        ({"base": 1}, "An adaptation needs both"),
        ({"adapt_to": 1}, "An adaptation needs both"),
    ],
)
def test_a_training_that_cannot_be_is_refused_in_words(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(AssayError, match=words):
        TrainingSpec.model_validate({"name": "s", "release": 1} | fields)
