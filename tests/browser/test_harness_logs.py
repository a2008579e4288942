"""A log of an evaluation harness: uploaded, labelled at the keyboard by two people, and released."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, Dataset, Guideline, Job, Person
from annotation.services import jobs
from annotation.services.batches.batches import set_state
from annotation.services.releases import cut_release
from tests.annotation.services.test_harness_logs import FRUITS, LOGS
from tests.browser.conftest import SignIn, Violations
from tests.browser.test_annotating import answer, sent
from tests.support import make_batch, read_introduction

pytestmark = [pytest.mark.browser]


def upload(page: Page, name: str) -> None:
    page.goto("/imports/new/")
    page.locator("#id_file").set_input_files(LOGS / name)
    page.locator("main form .button--primary").click()
    page.wait_for_url(re.compile(r"/imports/\d+/$"))
    page.locator("#id_dataset").fill("harness")
    model = page.locator("#id_model")
    if model.get_attribute("required") is not None:  # the log does not name it
        model.fill("Org/Mock-7B")
    page.locator("[formaction$='confirm/'], form[action$='confirm/'] .button--primary").first.click()
    page.wait_for_load_state()
    jobs.run(Job.objects.latest("pk").pk)
    page.reload()


@pytest.mark.parametrize(
    ("name", "language", "texts"),
    [
        ("sums.eval", "en", {"It is 5."}),
        (FRUITS, "zh-hans", {"A) Stone", "B) 椅子", "苹果"}),
    ],
)
def test_a_log_is_uploaded_labelled_and_released(
    sign_in: SignIn,
    violations: Violations,
    guideline: Guideline,
    ma: Person,
    lin: Person,
    chen: Person,
    name: str,
    language: str,
    texts: set[str],
) -> None:
    page = sign_in(ma, language=language)
    upload(page, name)
    assert not violations(page)
    batch = make_batch(guideline, Dataset.objects.get(name="harness"), annotators=[lin, chen])
    read_introduction(batch)
    n = batch.tasks.count()
    for person in (lin, chen):
        work = sign_in(person, language=language)
        work.goto(f"/work/{batch.name}/")
        pages_text = ""
        for _task in range(n):
            pages_text += work.locator("main").inner_text()
            answer(work, "3", "Enter")
        sent(work)
        assert all(text in pages_text for text in texts)
        assert "mockllm" not in pages_text
    set_state(batch=Batch.objects.get(pk=batch.pk), state=Batch.State.CLOSED)
    release = cut_release(ReleaseSpec(name="of-a-log", batches=[batch]))
    assert release.manifest["counts"]["by_source"] == {"unanimous": n}
    page.goto(f"/releases/{release.name}/")
    expect(page.locator("main")).to_contain_text(release.sha256[:12])
