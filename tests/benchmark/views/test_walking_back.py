"""Every published number can be walked back, by links alone: from a cell of a board to the annotations behind it."""

from __future__ import annotations

import re
from html import unescape

import pytest
from django.test import Client
from django.urls import reverse

from annotation.models import Annotation, Batch, Collection, Dataset, Person
from annotation.services import jobs
from benchmark.models import BenchmarkRun
from benchmark.services.leaderboards.runs import create_run
from scoring.domain.training_spec import TrainingSpec
from scoring.services import create_scorer
from tests.benchmark.sharing_support import finish
from tests.benchmark.support import release_of, settle_by_dimension


@pytest.fixture
def run(batch: Batch, dataset: Dataset) -> BenchmarkRun:
    settle_by_dimension(batch)
    scorer, training = create_scorer(TrainingSpec(name="scorer-1", release=release_of(batch)), send=False)
    jobs.run_now(training)
    scorer.refresh_from_db()
    usual = Collection.objects.get(name="")
    return finish(create_run(name="board", scorer=scorer, dataset=dataset, collection=usual, send=False))


def links(content: str) -> list[str]:
    return [unescape(link) for link in re.findall(r'href="([^"]+)"', content)]


def opened(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return answer.content.decode()


def test_from_a_cell_to_the_annotations(
    run: BenchmarkRun, lin: Person, chen: Person, he: Person, client: Client
):
    client.force_login(he)
    board = opened(client, reverse("run", args=[run.name]))
    cells = [link for link in links(board) if link.startswith(reverse("run-cell", args=[run.name]))]
    cell = next(cell for cell in cells if "model=Hidden-13B" in cell and "dimension=safe" in cell)
    page = opened(client, cell)
    scorer = run.scorer
    for name, arguments in (
        ("run", [run.name]),
        ("scorer", [scorer.name]),
        ("release", [scorer.release.name]),
        ("guideline", [scorer.guideline.name, scorer.guideline.version]),
    ):
        step = reverse(name, args=arguments)
        assert step in links(page)
        assert arguments[0] in opened(client, step)
    assert scorer.release.sha256[:12] in page
    assert scorer.guideline.sha256[:12] in page
    tasks = {link for link in links(page) if link.startswith("/tasks/")}
    assert len(tasks) == 2  # the two safe prompts that the model answered
    for address in tasks:
        task = opened(client, address)
        held = Annotation.objects.filter(assignment__task__pk=address.rstrip("/").rpartition("/")[2])
        assert {annotation.assignment.person for annotation in held} == {lin, chen}
        for annotation in held:
            assert annotation.assignment.person.username in task
        assert "Hidden-13B" in task
        assert {value for annotation in held for value in annotation.labels.values()} == {3}
