"""Every page of every role under axe-core, in both languages and both themes: not one violation of any impact.
And each fits a narrow phone, keeps still for who wishes so, and shows where the focus is.

The pages come from the resolver and the table of who may open them, so that a new page is here from its first day; what
only another state of the data shows stands in ``more_pages``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.files import File
from django.core.files.base import ContentFile
from django.test import Client
from playwright.sync_api import Page

from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Guideline, Person
from annotation.services import jobs
from annotation.services.assignments import claim_next_task
from annotation.services.exports import Options, export_release
from annotation.services.imports.uploads import receive_upload
from annotation.services.people.people import add_person
from annotation.services.releases import cut_release
from benchmark.models import BenchmarkRun, Retraining
from tests.annotation.gold_question_support import make_checked
from tests.browser.conftest import SignIn, Violations
from tests.browser.looks import moving, too_wide, without_focus
from tests.support import label, label_next, make_batch
from tests.test_everyone_everywhere import ADDRESSES, MAY, MODELS, World, make_world

pytestmark = pytest.mark.browser

LANGUAGES = ("en", "zh-hans")
# All the rules in light; in dark those of colour, for nothing else of a page depends on the theme, and in what differs
# from page to page. In the second language those that depend on the words: what has a name, and in which language.
COLOUR = ("color-contrast", "link-in-text-block")
WORDS = (
    *("html-has-lang", "html-lang-valid", "valid-lang", "document-title", "frame-title", "landmark-unique"),
    *(
        "button-name",
        "link-name",
        "input-button-name",
        "summary-name",
        "select-name",
        "label",
        "label-title-only",
    ),
    *("aria-command-name", "aria-dialog-name", "aria-input-field-name", "aria-progressbar-name"),
    *(
        "aria-toggle-field-name",
        "aria-tooltip-name",
        "aria-meter-name",
        "empty-heading",
        "empty-table-header",
    ),
    *("image-alt", "role-img-alt", "svg-img-alt", "identical-links-same-purpose"),
)
# Two frames: what the new theme changes is then on the screen.
PAINTED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
# What an address needs beside itself to be a page, and what shows other pages under it.
QUERIES = {
    "run": ("", *(f"?view={view}" for view in ("pairs", "groups", "estimates", "time", "lineage"))),
    "run-cell": ("?model=Hidden-13B&dimension=safe",),
    "choice-report-model": ("?model=Chooses-7B",),
    "agreement": (
        "",
        "?by=model",
        *(f"?view={view}" for view in ("levels", "prompts", "guideline", "time")),
    ),
    "agreement-tasks": ("?disputed=1",),
    "batch-quality": ("", "?show=copying", "?show=adjudicators"),  # the other tabs are built as the first
    "report": ("", "?batch=first"),
    "scorer": ("", *(f"?view={view}" for view in ("figures", "calibration", "models", "gate", "card"))),
    "scorer-new": ("", "?base=s1"),
    "scorer-abstained": ("", "?dataset=small&coverage=0.9"),
    "must-fail": ("", f"?dataset=small&prompt=p0&model={MODELS[0]}"),
    "work": ("?list",),
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
        for query in QUERIES.get(name, ("",)):
            address = world.path(name, parameters) + query
            answer = client.get(address)
            if answer.status_code == 200 and not answer.streaming and b"</html>" in answer.content:
                done.add(name)
                yield address


def more_pages(world: World, folder: Path) -> dict[str, list[str]]:
    """By role: known items with results, rounds of each outcome, gold settled in two ways, two releases beside each
    other, a bundle that came in, what comes out of a retraining, and errors.
    """
    lin, manager = world.people["annotator"], world.people["manager"]
    chen, gao = Person.objects.get(username="chen"), add_person(name="gao", roles=["annotator"])
    known_items(world.batch.guideline, [lin, chen, gao])
    other = make_batch(
        world.batch.guideline,
        world.batch.tasks.all()[0].response.prompt.dataset,
        annotators=[chen, gao],
        name="third",
    )
    for person in (chen, gao):
        label_next(other, person, 2)
    label_next(world.batch, chen, 3)
    newer = cut_release(ReleaseSpec(name="r2", batches=[world.batch]))
    export_release(release=newer, format_name="bundle", folder=folder, options=Options())
    with (folder / "bundle.zip").open("rb") as file:
        bundle = receive_upload(file=File(file), name="bundle.zip", actor=manager)
    questions = ContentFile("问题,编号,维度\n一,a,safe\n一,a,saef\n二,a,safe\n".encode("gb18030"))
    table = receive_upload(file=questions, name="questions.csv", actor=manager)
    made = Retraining.objects.get()
    assert made.scorer.job is not None
    jobs.run_now(made.scorer.job)
    run = BenchmarkRun.objects.get(retraining=made)
    return {
        "annotator": ["/work/second/"],
        "manager": [
            *(f"/batches/second/{page}/" for page in ("known", "qualification")),
            "/batches/second/",
            f"/imports/{bundle.pk}/",
            f"/imports/{table.pk}/",
            "/no/such/page/",
        ],
        "researcher": [
            f"/releases/-/conflicts/?batches={world.batch.pk}&batches={other.pk}",
            "/releases/r2/compare/?with=r1",
            "/report/?release=r2",
            f"/runs/-/retrainings/{made.pk}/",
            f"/runs/{run.name}/",
            f"/runs/{run.name}/cell/{QUERIES['run-cell'][0]}",
            "/people/",
        ],
    }


def known_items(guideline: Guideline, people: list[Person]) -> None:
    """A batch in which one passed the qualification and answered checks, one did not, and one is at it."""
    batch = make_checked(
        guideline,
        annotators=people,
        prompts=6,
        in_round=6,
        checks=4,
        check_share=0.5,
        tolerance=1,
        qualifying="accuracy",
        qualifying_threshold=0.8,
        name="second",
    )
    for person, values in zip(people, ([1] * 6, [3] * 14, [3, 1]), strict=True):
        for value in values:
            item = claim_next_task(batch=batch, person=person)
            if item is not None:
                label(item, person, value)


def check(page: Page, address: str, violations: Violations, *, words_only: bool = False) -> list[str]:
    """What is wrong with the page in either theme, and on a phone; ``again`` in another language.

    Movement and focus do not depend on the words.
    """
    page.goto(address)
    assert page.evaluate("document.querySelector('main h1') !== null"), address
    if words_only:
        faults = violations(page, *WORDS)
    else:
        faults = violations(page)
        page.emulate_media(color_scheme="dark")
        page.evaluate(PAINTED)
        faults += [f"dark: {violation}" for violation in violations(page, *COLOUR, within="main")]
        page.emulate_media(color_scheme="light")
        faults += moving(page) + without_focus(page)
    faults += too_wide(page)
    return [f"{address} {fault}" for fault in faults]


def test_no_page_has_a_violation(
    sign_in: SignIn, world: World, violations: Violations, tmp_path: Path
) -> None:
    pages: dict[str, list[str]] = defaultdict(list)
    done: set[str] = set()
    more = more_pages(world, tmp_path)
    for role in world.people:
        pages[role] = [*pages_of(world, role, done), *more.get(role, ())]
    faults = []
    for language in LANGUAGES:
        words_only = language != LANGUAGES[0]
        for role, addresses in pages.items():
            page = sign_in(
                world.people[role], language=language, color_scheme="light", reduced_motion="reduce"
            )
            faults += [
                fault
                for address in addresses
                for fault in check(page, address, violations, words_only=words_only)
            ]
    page.context.clear_cookies()
    faults += check(page, "/sign-in/", violations)
    assert sum(map(len, pages.values())) > 80
    assert not faults, "\n".join(faults)
