"""The access matrix so far as a minute allows: each role, strangers and members of another study at every address, and
a tenth of what others ask, or by other methods than GET and POST. It is always the same tenth.

The whole of it is a command: ``python -m tests.performance.access_matrix``.
"""

from __future__ import annotations

import pytest

from tests.access_matrix import make_kinds, walk_matrix
from tests.test_everyone_everywhere import make_world

SHARE = 0.1


@pytest.mark.django_db
def test_everybody_is_given_what_is_theirs_and_a_refusal_writes_nothing(caplog: pytest.LogCaptureFixture):
    caplog.set_level("CRITICAL", "django.request")
    world = make_world()
    outcome = walk_matrix(world, make_kinds(world), share=SHARE)
    assert outcome.requests > 0
    assert not outcome.faults, "\n".join(outcome.faults)
