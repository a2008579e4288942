"""The access matrix so far as two minutes allow: all GETs and POSTs, and a share of the other methods.

The whole of it is a command: ``python -m tests.performance.access_matrix``.
"""

from __future__ import annotations

import pytest
from django.test import override_settings

from tests.access_matrix import make_kinds, walk_matrix
from tests.test_everyone_everywhere import make_world

SHARE = 0.1


@pytest.mark.django_db
def test_everybody_is_given_what_is_theirs_and_a_refusal_writes_nothing(caplog: pytest.LogCaptureFixture):
    caplog.set_level("CRITICAL", "django.request")
    with override_settings(JOB_HEARTBEAT_SECONDS=1000):  # the beat would wait for this test's transaction
        world = make_world()
        outcome = walk_matrix(world, make_kinds(world), share=SHARE)
    assert outcome.requests > 0
    assert not outcome.faults, "\n".join(outcome.faults)
