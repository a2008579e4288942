"""Every page of every role under axe-core, in both languages and both themes: not one violation of any impact.
And each fits a narrow phone, keeps still for who wishes so, and shows where the focus is.

The pages come from the resolver and the table of who may open them, so that a new page is here from its first day.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.test import Client
from playwright.sync_api import Page, expect

from annotation.services import jobs
from benchmark.models import BenchmarkRun, Retraining
from tests.browser.conftest import SignIn, Violations
from tests.browser.looks import moving, too_wide, without_focus
from tests.test_everyone_everywhere import ADDRESSES, MAY, World, make_world

pytestmark = pytest.mark.browser

LANGUAGES = ("en", "zh-hans")
# All the rules in light; in dark those of colour, for nothing else of a page depends on the theme.
COLOUR = ("color-contrast", "link-in-text-block")
# Two frames: what the new theme changes is then on the screen.
PAINTED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
# What an address needs beside itself to be a page, and what shows more of it.
QUERIES = {
    "run-cell": "?model=Hidden-13B&dimension=safe",
    "agreement": "?by=model",
    "work": "?list",
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


def check(page: Page, address: str, violations: Violations, *, again: bool = False) -> list[str]:
    """What is wrong with the page in either theme, and on a phone; ``again`` in another language.

    Movement and focus do not depend on the words.
    """
    page.goto(address)
    expect(page.locator("h1")).not_to_have_count(0)
    found = violations(page)
    page.emulate_media(color_scheme="dark")
    page.evaluate(PAINTED)
    found += [f"dark: {one}" for one in violations(page, *COLOUR)]
    page.emulate_media(color_scheme="light")
    found += too_wide(page)
    if not again:
        found += moving(page) + without_focus(page)
    return [f"{address} {one}" for one in found]


def test_no_page_has_a_violation(sign_in: SignIn, world: World, violations: Violations) -> None:
    done: set[str] = set()
    pages = {role: list(pages_of(world, role, done)) for role in world.people}
    found = []
    for language in LANGUAGES:
        for role, addresses in pages.items():
            page = sign_in(
                world.people[role], language=language, color_scheme="light", reduced_motion="reduce"
            )
            again = language != LANGUAGES[0]
            found += [one for address in addresses for one in check(page, address, violations, again=again)]
    assert sum(map(len, pages.values())) > 30
    assert not found, "\n".join(found)


def test_nor_has_what_comes_out_of_a_retraining(
    sign_in: SignIn, world: World, violations: Violations
) -> None:
    """Old beside new, the newer run, the cell with what changed; and errors, and signing in."""
    made = Retraining.objects.get()
    assert made.scorer.job is not None
    jobs.run_now(made.scorer.job)
    newer = BenchmarkRun.objects.get(retraining=made)
    page = sign_in(world.people["researcher"], color_scheme="light", reduced_motion="reduce")
    addresses = [f"/runs/-/retrainings/{made.pk}/", f"/runs/{newer.name}/", "/runs/b1/"]
    addresses += [f"/runs/{newer.name}/cell/{QUERIES['run-cell']}", "/no/such/page/", "/people/"]
    found = [one for address in addresses for one in check(page, address, violations)]
    page.context.clear_cookies()
    found += check(page, "/sign-in/", violations)
    assert not found, "\n".join(found)
