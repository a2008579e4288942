"""Scorers and boards of gold of each origin; their pages, reports and files; and the sentences that are false there.

The services are the real ones. Trainings are small, and what an equal one found is recalled
(``tests.scoring.support.find_once``).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client, override_settings
from django.utils.translation import override

import scoring.tasks  # noqa: F401 (the handlers of the jobs that are run here)
from annotation.domain.datasets import response_sha256
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, Collection, Dataset, EvaluatedModel, GoldLabel, Response, Task
from annotation.services import jobs
from annotation.services.releases import cut_release
from benchmark.models import BenchmarkRun, RunItem
from benchmark.services.leaderboards.runs import create_run
from benchmark.views.leaderboards.query import VIEWS as BOARD_VIEWS
from scoring.domain.training_spec import TrainingSpec
from scoring.models import Scorer
from scoring.services import create_scorer
from scoring.services.scorers.export import export_scorer
from scoring.services.scorers.promotion import promote
from scoring.views.scorers.page import VIEWS as SCORER_VIEWS
from tests.documents.result_claims import RESULT_CLAIMS, RESULT_RETIRED
from tests.documents.result_facts import ResultFacts, read_board_facts, read_scorer_facts
from tests.documents.search import LANGUAGES, ORIGINS, FalseSentence, Maker, find_claims, translate
from tests.scoring.support import LEARNING, find_once
from tests.support import person

SIZES = ((4, 6), (9, 13))
"""Prompts of a batch: fewer than five folds take, and more."""
RESULT_ORIGINS = tuple(name for name in ORIGINS if name != "manifest of before")
REASON = "Its errors were read one by one."
INLINE = frozenset(
    {"a", "abbr", "b", "cite", "code", "em", "i", "small", "span", "strong", "sub", "sup", "u"}
)
SILENT = frozenset({"script", "style", "nav", "template"})
Documents = list[tuple[str, ResultFacts, list[str]]]


class PageText(HTMLParser):
    """The texts of a page's main part: block by block, and each piece between two tags by itself."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.texts: list[str] = []
        self._block: list[str] = []
        self._silent = self._main = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in SILENT
        self._main += tag == "main"
        self._break(tag)
        for name, value in attrs:
            if name in {"alt", "aria-label"} and value and self._main:
                self.texts.append(" ".join(value.split()))

    def handle_endtag(self, tag: str) -> None:
        self._break(tag)
        self._silent -= tag in SILENT
        self._main -= tag == "main"

    def handle_data(self, data: str) -> None:
        if not self._silent and self._main and data.strip():
            self._block.append(data)

    def _break(self, tag: str) -> None:
        if tag in INLINE or not self._block:
            return
        block = " ".join("".join(self._block).split())
        pieces = {" ".join(piece.split()) for piece in self._block}
        self.texts += [block, *(piece for piece in pieces if piece != block)]
        self._block = []


def read_page(html: str) -> list[str]:
    parser = PageText()
    parser.feed(html)
    return parser.texts


class ResultMaker:
    """Makes a scorer and a board of some batches; what is left to chance comes from the seed."""

    def __init__(self, seed: int, batches: Sequence[Batch]) -> None:
        self._random, self._batches = Random(seed), batches
        self._reader = person("he")

    def train(self) -> list[Scorer]:
        """One scorer, or two that the gate compares; the last one is promoted, by the gate or with a reason."""
        release = cut_release(ReleaseSpec(name=f"r-{uuid4().hex[:8]}", batches=list(self._batches)))
        n_models = release.items.values("task__response__model").distinct().count()
        scorers = []
        for seed in range(self._random.choice([1, 2])):
            evaluate = self._random.choice([(), ("leave-one-model-out",)]) if n_models > 1 else ()
            spec = TrainingSpec(name=f"s-{uuid4().hex[:8]}", release=release, seed=seed, evaluate=evaluate)
            scorer, job = create_scorer(spec, send=False)
            assert jobs.run_now(job).state == "done"
            scorer.refresh_from_db()
            scorers.append(scorer)
            if self._random.random() < 0.8:
                job = promote(scorer=scorer, actor=self._reader, reason=REASON, send=False)
                assert jobs.run_now(job).state == "done"
        return scorers

    def run_board(self, scorer: Scorer) -> BenchmarkRun:
        """Over the responses of the first batch's dataset, perhaps with a model that nobody labelled."""
        dataset = self._batches[0].tasks.earliest("pk").response.prompt.dataset
        if self._random.random() < 0.6:
            _add_model(dataset)
        collection = Collection.objects.get(name="")
        name = f"board-{uuid4().hex[:8]}"
        run = create_run(name=name, scorer=scorer, dataset=dataset, collection=collection, send=False)
        assert run.job is not None
        assert jobs.run_now(run.job).state == "done"
        run.refresh_from_db()
        return run

    def list_documents(self, scorers: Sequence[Scorer], run: BenchmarkRun, language: str) -> Documents:
        client = Client()
        client.force_login(self._reader)
        client.cookies["django_language"] = language
        documents: Documents = []

        def add(name: str, facts: ResultFacts, url: str, **query: str) -> None:
            response = client.get(url, query)
            assert response.status_code == 200, (url, query, response.content[:300])
            text = b"".join(response) if response.streaming else response.content
            page = text.decode()
            documents.append((name, facts, read_page(page) if "<main" in page else _read_file(page)))

        for scorer in scorers:
            facts = read_scorer_facts(scorer, self._batches)
            for view in SCORER_VIEWS:
                add(f"card, {view or 'overview'}", facts, f"/scorers/{scorer.name}/", view=view)
        add("list of scorers", facts, "/scorers/")
        documents.append(("exported scorer", facts, _list_export_texts(scorer)))
        board = replace(facts, **read_board_facts(run, self._batches))
        for view in BOARD_VIEWS:
            add(f"board, {view or 'table'}", board, f"/runs/{run.name}/", view=view)
        for kind in ("report", "latex", "csv", "json"):
            add(f"board, {kind}", board, f"/runs/{run.name}/export/", format=kind)
        for model in run.evaluated_models.order_by("name")[:2]:
            add("board, cell", board, f"/runs/{run.name}/cell/", model=model.name)
        for basis in RunItem.Basis.values:
            item = run.items.filter(basis=basis).select_related("prediction").order_by("pk").first()
            if item is not None:
                fold = None if item.prediction is None else item.prediction.fold
                add(f"board, {basis}", replace(board, fold=fold), f"/runs/{run.name}/items/{item.pk}/")
        return documents


def _add_model(dataset: Dataset) -> None:
    collection = Collection.objects.get(name="")
    model, _made = EvaluatedModel.objects.get_or_create(name="Unlabelled-1B")
    for prompt in dataset.prompts.all():
        text = f"Nobody has judged this answer to {prompt.key}."
        Response.objects.create(
            prompt=prompt, model=model, collection=collection, text=text, sha256=response_sha256(text, [])
        )


def _read_file(text: str) -> list[str]:
    """The lines of LaTeX, CSV or JSON, as they read."""
    return [
        " ".join(re.sub(r"\\([%&_#$])", r"\1", line).split()) for line in text.splitlines() if line.strip()
    ]


def _list_export_texts(scorer: Scorer) -> list[str]:
    """The paragraphs of the exported scorer's README, and the sentences of its card."""
    with TemporaryDirectory() as folder:
        target = Path(folder) / "scorer"
        export_scorer(scorer=scorer, folder=target)
        readme = (target / "README.md").read_text(encoding="utf-8")
        card = json.loads((target / "card.json").read_text(encoding="utf-8"))
    blocks = [" ".join(block.split()) for block in readme.split("\n\n")]
    return [*blocks, card["statement"], card["backbone"]["description"], card["conformal"]["promise"]]


def search_results(origin: str, seed: int) -> tuple[int, list[FalseSentence]]:
    """How many sentences that state how something was done stand on the card and board of such gold, and which of them
    have no stored fact or are said in one language alone.
    """
    with (
        TemporaryDirectory() as folder,
        override_settings(ASSAY_DATA_DIR=Path(folder), ALLOWED_HOSTS=["testserver"]),
        pytest.MonkeyPatch.context() as patches,
    ):
        find_once(patches, LEARNING)
        rng = Random(f"{origin} {seed}")
        names = Random(rng.random())
        # The name of a dataset deals its prompts into splits.
        for module in ("search", "result_search"):
            patches.setattr(f"tests.documents.{module}.uuid4", lambda: UUID(int=names.getrandbits(128)))
        batches = _make_batches(origin, rng, Path(folder))
        maker = ResultMaker(rng.randrange(1000), batches)
        scorers = maker.train()
        run = maker.run_board(scorers[-1])
        claimed: dict[str, list[Counter[str]]] = {}
        false: list[FalseSentence] = []
        total = 0
        for language in LANGUAGES:
            for at, (document, facts, texts) in enumerate(maker.list_documents(scorers, run, language)):
                sentences = list(dict.fromkeys(_find(texts, language)))
                for message, text, values in sentences:
                    holds = {**RESULT_RETIRED, **RESULT_CLAIMS}[message]
                    if not holds(facts, dict(values)):
                        false.append(FalseSentence(document, language, message, text))
                counted = Counter(_name_forms(message) for message, _text, _values in sentences)
                claimed.setdefault(f"{at} {document}", []).append(counted)
                total += counted.total()
    for document, (english, chinese) in claimed.items():
        for message in ((english - chinese) + (chinese - english)).keys() - RESULT_RETIRED.keys():
            language = LANGUAGES[english[message] < chinese[message]]
            false.append(FalseSentence(document, language, message, f"in one language alone: {message}"))
    return total, false


def _make_batches(origin: str, rng: Random, folder: Path) -> list[Batch]:
    """Those of the first seed that leaves gold of the three prompts that a training needs."""
    while True:
        batches = ORIGINS[origin](Maker(rng.randrange(10_000), folder, rng.choice(SIZES)))
        ids = [batch.pk for batch in batches]
        gold = GoldLabel.objects.filter(task__batch__in=ids, task__kind=Task.Kind.WORK)
        if gold.values("task__response__prompt").distinct().count() > 2:
            return list(Batch.objects.filter(pk__in=ids).select_related("guideline").order_by("pk"))


def _name_forms(message: str) -> str:
    """Both forms of a plural by what they are in Chinese, which has one."""
    if message in RESULT_RETIRED:
        return message
    with override("zh-hans"):
        return translate(message)


def _find(texts: Sequence[str], language: str) -> Iterator[tuple[str, str, tuple[tuple[str, str], ...]]]:
    claims: dict[str, Any] = {**RESULT_RETIRED, **RESULT_CLAIMS}
    for message, _holds, text, values in find_claims(texts, language, claims):
        yield message, text, tuple(values.items())
