from __future__ import annotations

import pytest

from annotation.models import Person
from tests.browser.conftest import SignIn

pytestmark = pytest.mark.browser


def test_the_api_can_be_browsed_under_the_strict_policy(sign_in: SignIn, lin: Person):
    """``sign_in`` fails for anything that the Content-Security-Policy refused."""
    page = sign_in(lin)
    page.goto("/api/v1/docs/")
    page.locator(".opblock").first.wait_for()
    # My batches, the guideline, two to claim with, eight on an item; my studies, a job and its end, guidelines and one
    # of them. Predictions and the rest of a study are not an annotator's to ask for.
    assert page.locator(".opblock").count() == 17
    page.locator("text=/api/v1/batches/{name}/next/").first.click()
    page.locator("text=Try it out").first.wait_for()
