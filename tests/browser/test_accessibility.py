"""Every page of every role under axe-core, in both languages and both themes: not one violation of any impact.

The pages come from the resolver and the table of who may open them, so that a new page is here from its first day.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.test import Client
from playwright.sync_api import Page, expect

from annotation.services import jobs
from benchmark.models import BenchmarkRun, Retraining
from tests.browser.conftest import SignIn
from tests.test_everyone_everywhere import ADDRESSES, MAY, World, make_world

pytestmark = pytest.mark.browser

Violations = Callable[[Page], list[str]]
# Words do not depend on colours, nor colours on words: two passes show both languages and both themes.
PASSES = (("en", "light"), ("zh-hans", "dark"))
# What an address needs beside itself to be a page, and what shows more of it.
QUERIES = {
    "run-cell": "?model=Hidden-13B&dimension=safe",
    "agreement": "?by=model",
    "work": "?list",
    "disputes": "?list",
}

NOT_OURS = {"api-docs"}  # Swagger UI, whose own markup has faults; the schema that it draws is at api-schema


@pytest.fixture
def world(sign_in: SignIn, caplog: pytest.LogCaptureFixture) -> World:
    caplog.set_level("CRITICAL", "django.request")  # some addresses are no page, and refuse a plain GET
    return make_world()


def pages_of(world: World, role: str, done: set[str]) -> Iterator[str]:
    """What answers the role's GET with a whole page, but for what another role has shown already."""
    client = Client()
    client.force_login(world.people[role])
    for name, parameters in ADDRESSES:
        if name in done | NOT_OURS or role not in MAY[name]:
            continue
        address = world.path(name, parameters) + QUERIES.get(name, "")
        answer = client.get(address)
        if answer.status_code == 200 and not answer.streaming and b"</html>" in answer.content:
            done.add(name)
            yield address


def check(page: Page, address: str, violations: Violations) -> list[str]:
    page.goto(address)
    expect(page.locator("h1")).not_to_have_count(0)
    return [f"{address} {one}" for one in violations(page)]


def test_no_page_has_a_violation(sign_in: SignIn, world: World, violations: Violations) -> None:
    done: set[str] = set()
    pages = {role: list(pages_of(world, role, done)) for role in world.people}
    found = []
    for language, theme in PASSES:
        for role, addresses in pages.items():
            page = sign_in(world.people[role], language=language, color_scheme=theme)
            found += [one for address in addresses for one in check(page, address, violations)]
    assert sum(map(len, pages.values())) > 30
    assert found == []


def test_nor_has_what_comes_out_of_a_retraining(
    sign_in: SignIn, world: World, violations: Violations
) -> None:
    """Old beside new, the newer run, the cell with what changed; and errors, and signing in."""
    made = Retraining.objects.get()
    assert made.scorer.job is not None
    jobs.run_now(made.scorer.job)
    newer = BenchmarkRun.objects.get(retraining=made)
    page = sign_in(world.people["researcher"], color_scheme="dark")
    addresses = [f"/runs/-/retrainings/{made.pk}/", f"/runs/{newer.name}/", "/runs/b1/"]
    addresses += [f"/runs/{newer.name}/cell/{QUERIES['run-cell']}", "/no/such/page/", "/people/"]
    found = [one for address in addresses for one in check(page, address, violations)]
    page.context.clear_cookies()
    found += check(page, "/sign-in/", violations)
    assert found == []
