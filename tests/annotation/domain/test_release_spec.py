from __future__ import annotations

from typing import Any

import pytest

from annotation.core.errors import AssayError
from annotation.domain.release_spec import MAX_ABOUT_CHARACTERS, ReleaseSpec


def test_the_json_of_a_job_is_that_of_the_version_before() -> None:
    spec = ReleaseSpec(name="r", batches=(3, 1), about=" Why not. ", supersedes=2)
    payload = {"name": "r", "batches": [3, 1], "about": "Why not.", "supersedes": 2}
    assert spec.model_dump(mode="json") == payload
    assert ReleaseSpec.model_validate(payload) == spec


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"batches": []}, "Name at least one batch."),
        ({"about": "x" * (MAX_ABOUT_CHARACTERS + 1)}, "longer than 20000 characters"),
        ({"name": "a/b"}, "cannot be a name"),
    ],
)
def test_a_release_that_cannot_be_is_refused_in_words(fields: dict[str, Any], words: str) -> None:
    with pytest.raises(AssayError, match=words):
        ReleaseSpec.model_validate({"name": "r", "batches": [1]} | fields)
