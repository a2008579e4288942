"""How much of a window's height shows the text that is judged, by the number of questions and the size of the window.

    python -m tests.performance.viewport_shares

An answer of 6,000 characters in Markdown and a dialogue of twelve turns, in Chromium; a table in Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from tests.chromium import launch
from tests.performance.annotate_loop import world
from tests.performance.annotate_loop.server import Server

SIZES = ((320, 256), (360, 640), (844, 390), (720, 450), (960, 600), (1280, 720), (1440, 900))
QUESTIONS = {"one": "1", "three": "3", "seven": "7"}


def make_batches() -> str:
    """A batch for each number of questions, of the same two answers; the session of its annotator."""
    from annotation.domain.datasets import response_sha256
    from annotation.models import IntroductionReading, Person, Response
    from tests.annotation.domain.texts.documents import write_answer
    from tests.annotation.several_criteria import seven_criteria, three_criteria
    from tests.support import XSTEST_GUIDELINE

    guidelines = {"one": XSTEST_GUIDELINE.load(), "three": three_criteria(), "seven": seven_criteria()}
    world.make_corpus("corpus", tasks=2, guideline=str(guidelines["one"]))
    dialogue = [
        {"role": role, "text": f"{words} of step {number}, in **a few** words, as people write to a model."}
        for number in range(6)
        for role, words in (("user", "A question"), ("assistant", "An answer"))
    ]
    for response, text, turns in zip(
        Response.objects.order_by("pk"), (write_answer(6000), ""), ([], dialogue), strict=True
    ):
        digest = response_sha256(text, turns)
        Response.objects.filter(pk=response.pk).update(text=text, turns=turns, sha256=digest)
    (account,) = world.make_people(1)
    for name, guideline in guidelines.items():
        world.make_batch(
            name,
            dataset="corpus",
            guideline=str(guideline),
            annotators=[account],
            adjudicators=[],
            overlap=1,
            pairing="pool",
        )
        IntroductionReading.objects.get_or_create(guideline=guideline, person=Person.objects.get())
    return account.session


def measure(address: str, session: str) -> Iterator[tuple[str, str, list[float]]]:
    """Of each batch and answer the shares at the sizes."""
    from django.conf import settings

    from tests.browser.viewports import SETTLED, measure_viewport

    with launch() as browser:
        context = browser.new_context(base_url=address)
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": address}])
        page = context.new_page()
        for name, questions in QUESTIONS.items():
            page.goto(f"/work/{name}/")
            for number in range(2):
                answer = "dialogue" if page.locator(".turn").count() > 2 else "Markdown"
                yield name, answer, [measure_at(page, size, SETTLED, measure_viewport) for size in SIZES]
                item = page.locator("form[data-item]").get_attribute("data-item")
                page.set_viewport_size({"width": 1440, "height": 900})
                for _question in range(int(questions)):
                    page.keyboard.press("3")
                page.keyboard.press("Enter")
                if number == 0:
                    page.wait_for_function(
                        "(item) => document.querySelector('form[data-item]')?.dataset.item !== item", arg=item
                    )
            page.wait_for_timeout(1000)  # until the last answer is sent


def measure_at(page: Any, size: tuple[int, int], settled: str, measure_viewport: Any) -> float:
    width, height = size
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_timeout(300)
    page.evaluate(settled)
    return float(measure_viewport(page)["text"])


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    with world.database("sqlite", replace=False, keep=False) as folder:
        session = make_batches()
        world.collect_static()
        with Server(workers=1, threads=4, log=folder / "server.log") as server:
            rows = list(measure(f"http://127.0.0.1:{server.port}", session))
    print("| questions | answer |", " | ".join(f"{width}x{height}" for width, height in SIZES), "|")
    print("| --- | --- |", " | ".join("---:" for _size in SIZES), "|")
    for name, answer, shares in rows:
        print(f"| {QUESTIONS[name]} | {answer} |", " | ".join(f"{share:.0%}" for share in shares), "|")


if __name__ == "__main__":
    main()
