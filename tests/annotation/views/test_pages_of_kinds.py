"""Every page that people reach from their first one, of a guideline that asks for sets, texts and each turn."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from html import unescape
from typing import Any
from urllib.parse import urljoin, urlsplit
from uuid import uuid4

import pytest
from django.test import Client
from django.urls import resolve, reverse

from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.domain.datasets import response_sha256
from annotation.domain.guidelines import NA
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, Dataset, Guideline, Person, Response, Task
from annotation.services.adjudication.disputes import adjudicate, record_verdict
from annotation.services.annotations.submission import revise, submit
from annotation.services.assignments import claim_next_dispute, claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.releases import cut_release
from tests.annotation.domain.test_kinds_of_criteria import without_measurement, write
from tests.annotation.domain.test_other_answers import ask
from tests.annotation.kinds import MODEL, TURNS
from tests.annotation.several_criteria import criterion, guideline_of, scale
from tests.support import make_batch, make_corpus, person

pytestmark = pytest.mark.django_db
SECRET = "because of zebras"
VIOLENCE, PRIVACY, NEITHER = 64, 128, 512
OPTIONS = scale({VIOLENCE: "Violence", PRIVACY: "Privacy", NEITHER: "Neither"})
BOTH, OTHERS = VIOLENCE + PRIVACY, VIOLENCE + NEITHER
# Of two annotators by prompt: the first response is a dialogue, and on the topics of the last two they differ.
ANSWERS: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]] = (
    (
        {"harm": 1, "topics": BOTH, "reason": SECRET, "empathy@1": 3, "empathy@3": 1},
        {"harm": 1, "topics": BOTH, "empathy@1": 2, "empathy@3": 2},
    ),
    ({"harm": 2, "topics": OTHERS, "empathy@0": 2}, {"harm": 2, "topics": OTHERS, "empathy@0": 2}),
    ({"harm": 3, "topics": NA, "empathy@0": NA}, {"harm": 3, "topics": NA, "empathy@0": NA}),
    ({"harm": 3, "topics": BOTH, "empathy@0": 1}, {"harm": 3, "topics": OTHERS, "empathy@0": 1}),
    ({"harm": 1, "topics": BOTH, "empathy@0": 1}, {"harm": 1, "topics": NEITHER, "empathy@0": 1}),
)
FIRST_PAGES = (
    "home",
    "batches",
    "agreement",
    "releases",
    "scorers",
    "runs",
    "report",
    "guidelines",
    "history",
)
# The sum of a set of options, and the name of what is asked of a turn.
RAW = re.compile(rf"\b(?:{BOTH}|{OTHERS})\b|\bempathy@\d")
# Who reads the text that lin wrote, and where: lin their own, and who manages or researches of the closed batch.
READERS: Mapping[str, set[str]] = {
    "lin": {"history"},
    "chen": set(),
    "wu": set(),
    "ma": {"tasks"},
    "he": {"tasks"},
}
# What a page says: its text, and what stands in attributes that are read out.
ATTRIBUTE = re.compile(r'\b(?:title|alt|aria-label|aria-description|placeholder)="([^"]*)"')
LINK = re.compile(r'(?:href|hx-get)="([^"]*)"')
MAX_PAGES_OF_A_KIND = 12


def guideline(version: str = "1.0", **topics: Any) -> Guideline:
    choice = without_measurement(criterion("topics", OPTIONS)) | {
        "kind": "choice",
        "several": True,
        "na": True,
    }
    return guideline_of(
        "kinds",
        [
            ask("harm"),
            choice | topics,
            write("reason", optional=True, max_length=100),
            ask("empathy", per_turn="assistant", tolerance=1, na=True),
            ask("tone", optional=True, asked_if={"criterion": "harm", "at_most": 2}),
        ],
        version=version,
    )


def label(batch: Batch, person: Person, place: int) -> Any:
    """The answers to all responses; the last assignment."""
    assignment = None
    while (claim := claim_next_task(batch=batch, person=person)) is not None:
        key = Task.objects.get(pk=claim.task_id).response.prompt.key
        answers = ANSWERS[int(key.removeprefix("p"))][place]
        submit(assignment_id=claim.pk, person=person, key=str(uuid4()), work=Submission(answers))
        assignment = claim
    return assignment


@pytest.fixture(scope="module")
def site(module_db: None) -> Dataset:
    """The batch ``first``, in which one of two disputes is decided and one correction was made; the batch ``second``,
    closed, with the release ``kinds-gold``; two versions of the guideline.
    """
    lin, chen, wu, _ma, _he = (person(name) for name in READERS)
    dataset = make_corpus(prompts=len(ANSWERS), models=[MODEL])
    Response.objects.filter(prompt__key="p0").update(text="", turns=TURNS, sha256=response_sha256("", TURNS))
    for name in ("first", "second"):
        batch = make_batch(
            Guideline.objects.filter(name="kinds").first() or guideline(),
            dataset,
            annotators=[lin, chen],
            adjudicators=[wu],
            name=name,
            policy=Policy(overlap=2),
        )
        label(batch, lin, 0)
        last = label(batch, chen, 1)
        claim = claim_next_dispute(batch=batch, person=wu)
        assert claim is not None
        verdict = Submission({"topics": [PRIVACY]}, rationale="decided", reason="reading_slip")
        record_verdict(assignment_id=claim.pk, person=wu, work=verdict)
        adjudicate(assignment_id=claim.pk, person=wu, key=str(uuid4()), work=verdict)
        answers = ANSWERS[int(Task.objects.get(pk=last.task_id).response.prompt.key[1:])][1]
        revise(
            assignment_id=last.pk,
            person=chen,
            key=str(uuid4()),
            work=Submission(labels={**answers, "reason": "corrected"}, reason="I had forgotten it"),
        )
    second = Batch.objects.get(name="second")
    set_state(batch=second, state=Batch.State.CLOSED)
    cut_release(ReleaseSpec(name="kinds-gold", batches=[second]))
    guideline("1.1", na=False, optional=True)
    return dataset


def read(page: str) -> str:
    """What a page says."""
    body = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    words = " ".join(ATTRIBUTE.findall(body))
    return unescape(f"{words} {re.sub(r'<[^>]*>', ' ', body)}")


def crawl(client: Client, language: str) -> dict[str, str]:
    """What each page says that is reached by links, a few of each kind."""
    waiting = deque(reverse(name) for name in FIRST_PAGES)
    seen, pages, count = set(waiting), {}, Counter()
    while waiting:
        url = waiting.popleft()
        name = resolve(urlsplit(url).path).url_name
        count[name] += 1
        if name == "logout" or count[name] > MAX_PAGES_OF_A_KIND:
            continue
        answer = client.get(url, headers={"Accept-Language": language})
        assert answer.status_code in {200, 302, 403, 404, 405}, (answer.status_code, url)
        if answer.status_code != 200 or not answer.headers["Content-Type"].startswith("text/html"):
            continue
        content = answer.content.decode()
        pages[url] = read(content)
        for link in LINK.findall(content):
            target = urljoin(f"http://testserver{url}", unescape(link)).partition("#")[0]
            if re.match("http://testserver/(?!static/|admin/|charts/)", target) and target not in seen:
                seen.add(target)
                waiting.append(target.removeprefix("http://testserver"))
    return pages


# The two annotators see the same pages: who reads what does not depend on the language.
@pytest.mark.parametrize(
    ("role", "language"),
    [*((role, "en") for role in READERS), *((role, "zh-hans") for role in READERS if role != "chen")],
)
@pytest.mark.usefixtures("site")
def test_pages_say_answers_in_words(client: Client, role: str, language: str):
    client.force_login(person(role))
    pages = crawl(client, language)
    raw = {(url, match[0]) for url, text in pages.items() for match in RAW.finditer(text)}
    assert raw == set()
    readers = {urlsplit(url).path.split("/")[1] for url, text in pages.items() if SECRET in text}
    assert readers == READERS[role]
