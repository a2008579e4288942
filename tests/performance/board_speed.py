"""How long a big board takes: 50 models x 2,251 prompts in 12 subcomponents, computed, stored and opened.

    python -m tests.performance.board_speed --database postgres://HOST/NAME
    python -m tests.performance.board_speed --database postgres://HOST/NAME --use   # made by --keep before

Prompts, responses, gold of a tenth of them and a scorer's predictions of all are written straight into the tables;
then the product's own services do the run: items, board, groups, pairs and estimates. Each page of the run is opened
by Django's test client: the first time, and the median and the longest of the times after it. The HTML is ready by
then; charts are images, which a browser fetches later.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.performance.annotate_loop import world

WARM = 0.3  # seconds: "It must show" of issue 7
GOLD = 0.1
NAME = "board"
RIGHT = 0.77  # of the scorer
CHUNK = 2000


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", required=True, metavar="URL", help="postgres://HOST/NAME, or sqlite")
    parser.add_argument("--replace", action="store_true", help="drop a database of that name first")
    parser.add_argument("--keep", action="store_true", help="keep the database")
    parser.add_argument("--use", action="store_true", help="measure the pages of a database that --keep left")
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--prompts", type=int, default=2251)
    parser.add_argument("--subcomponents", type=int, default=12, choices=range(1, 13), metavar="1..12")
    parser.add_argument("--times", type=int, default=30, help="how often each page is asked for")
    parser.add_argument("--tabs", nargs="*", default=[], help="queries of the run's page, such as view=pairs")
    parser.add_argument("--labels", action="store_true", help="the page of the label plan, too")
    return parser.parse_args()


@contextmanager
def database(options: argparse.Namespace) -> Iterator[None]:
    if options.use:
        os.environ |= {"DATABASE_URL": options.database, "DJANGO_SETTINGS_MODULE": "config.settings"}
        import django

        django.setup()
        yield
        return
    with world.database(options.database, replace=options.replace, keep=options.keep):
        with measure_time("prompts, responses, gold, predictions"):
            make_corpus(options)
        compute_board()
        yield


@contextmanager
def measure_time(title: str) -> Iterator[None]:
    began, processor = time.perf_counter(), time.process_time()
    yield
    took, worked = time.perf_counter() - began, time.process_time() - processor
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{title:40}{took:9.2f} s{worked:9.2f} s of this process, {memory:,.0f} MiB at most", flush=True)


def make_corpus(options: argparse.Namespace) -> None:
    """A corpus of Flames whose models differ by a point each, and a scorer that is right three times in four."""
    world.load_guideline(str(world.ROOT / "fixtures/guidelines/flames.yaml"))
    world.make_manager()
    maker = CorpusMaker(options.prompts, options.subcomponents)
    for number in range(options.models):
        maker.add_model(number)
    maker.make_run()
    _analyze()


class CorpusMaker:
    """Writes the tables; whatever a run does not read is left out."""

    def __init__(self, prompts: int, subcomponents: int) -> None:
        from annotation.models import Batch, Collection, Dataset, GoldRelease, Guideline
        from annotation.services.studies import find_or_make_study

        self.rng = random.Random(0)
        self.guideline = Guideline.objects.get(name="flames")
        self.dataset = Dataset.objects.create(study=find_or_make_study(), name="flames")
        self.collection, _made = Collection.objects.get_or_create(name="")
        self.prompts = self._prompts(prompts, subcomponents)
        self.hardness = [self.rng.gauss(0, 0.25) for _prompt in self.prompts]
        self.batch = Batch.objects.create(
            study=find_or_make_study(), name="gold", guideline=self.guideline, state=Batch.State.CLOSED
        )
        self.release = GoldRelease.objects.create(
            study=find_or_make_study(), name="gold", sha256="cd" * 32, labels=0, adjudicated=0
        )
        self.release.batches.add(self.batch)
        self.scorer = self._scorer()

    def _prompts(self, number: int, subcomponents: int) -> list[Any]:
        from annotation.models import Prompt

        dimensions = self.guideline.document.dimensions
        taxonomy = [
            (dimension.name, part.name) for dimension in dimensions for part in dimension.subcomponents
        ][:subcomponents]
        return Prompt.objects.bulk_create(
            Prompt(
                dataset=self.dataset,
                key=f"p{at}",
                text=f"Prompt {at}",
                dimension=taxonomy[at % len(taxonomy)][0],
                subcomponent=taxonomy[at % len(taxonomy)][1],
                language="zh",
                attack_method=self.rng.choice(["disguise", "reverse induction", "unsafe inquiry", None]),
            )
            for at in range(number)
        )

    def _scorer(self) -> Any:
        from django.utils import timezone

        from annotation.services.studies import find_or_make_study
        from scoring.models import Scorer

        return Scorer.objects.create(
            study=find_or_make_study(),
            name="scorer",
            guideline=self.guideline,
            release=self.release,
            backbone="ngram",
            weights_sha256="ab" * 32,
            ready_at=timezone.now(),
        )

    def add_model(self, number: int) -> None:
        """Its responses, a prediction of each, and gold of a tenth of them."""
        from annotation.models import EvaluatedModel, Response
        from scoring.models import Prediction

        model = EvaluatedModel.objects.create(name=f"Model-{number:02}")
        responses = Response.objects.bulk_create(
            (
                Response(
                    prompt=prompt,
                    model=model,
                    collection=self.collection,
                    text=f"Response {number} to {prompt.key}",
                    sha256=f"{number:032x}{prompt.pk:032x}",
                )
                for prompt in self.prompts
            ),
            batch_size=CHUNK,
        )
        truths = [3 if self.rng.random() < 0.3 + 0.01 * number + hard else 1 for hard in self.hardness]
        pairs = list(zip(responses, truths, strict=True))
        Prediction.objects.bulk_create(
            (self._prediction(response, truth) for response, truth in pairs), batch_size=CHUNK
        )
        self._label(model, [pair for pair in pairs if self.rng.random() < GOLD])

    def _criterion(self, response: Any) -> Any:
        return self.guideline.document.criteria_for(response.prompt.dimension)[0]

    def _prediction(self, response: Any, truth: int) -> Any:
        from scoring.models import Prediction

        criterion = self._criterion(response)
        value = truth if self.rng.random() < RIGHT else 4 - truth
        sure = self.rng.uniform(0.5, 0.99)
        other_levels = [level for level in criterion.values if level != value]
        shares = {f"{value:g}": sure} | {
            f"{level:g}": (1 - sure) / len(other_levels) for level in other_levels
        }
        return Prediction(
            scorer=self.scorer, response=response, criterion=criterion.name, value=value, probabilities=shares
        )

    def _label(self, model: Any, labelled: list[tuple[Any, int]]) -> None:
        from django.utils import timezone

        from annotation.models import GoldLabel, ReleasedLabel, Stratum, Task

        strata = {
            dimension: Stratum.objects.create(
                batch=self.batch, dataset=self.dataset, dimension=dimension, language="zh", model=model
            )
            for dimension in {response.prompt.dimension for response, _truth in labelled}
        }
        begin = Task.objects.count()
        tasks = Task.objects.bulk_create(
            Task(
                batch=self.batch,
                response=response,
                prompt=response.prompt,
                stratum=strata[response.prompt.dimension],
                overlap=2,
                slots_taken=2,
                position=at,
                rank=at,
                state=Task.State.AGREED,
            )
            for at, (response, _truth) in enumerate(labelled, start=begin)
        )
        labels = [
            (task, self._criterion(response).name, truth)
            for task, (response, truth) in zip(tasks, labelled, strict=True)
        ]
        gold = GoldLabel.objects.bulk_create(
            GoldLabel(
                task=task, criterion=criterion, value=truth, source="unanimous", created_at=timezone.now()
            )
            for task, criterion, truth in labels
        )
        ReleasedLabel.objects.bulk_create(
            ReleasedLabel(
                release=self.release,
                gold_label=label,
                task=task,
                criterion=criterion,
                value=truth,
                source="unanimous",
            )
            for label, (task, criterion, truth) in zip(gold, labels, strict=True)
        )

    def make_run(self) -> None:
        from benchmark.services.leaderboards.runs import create_run

        create_run(
            name=NAME, scorer=self.scorer, dataset=self.dataset, collection=self.collection, send=False
        )


def _analyze() -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if connection.vendor == "postgresql" else "ANALYZE")


def compute_board() -> None:
    """What the job does when everything is predicted; then each part by itself."""
    from benchmark.domain.estimates.estimates import compute_estimates
    from benchmark.domain.leaderboards.board import BoardFigures
    from benchmark.models import BoardPart
    from benchmark.selectors.leaderboards.items import list_counted_responses
    from benchmark.selectors.leaderboards.runs import list_runs
    from benchmark.services.leaderboards.execution import finish_run, list_unscored_responses, write_items

    run = list_runs().get(name=NAME)
    with measure_time("finding what is not predicted"):
        assert not list_unscored_responses(run).exists()
    with measure_time("storing what counts"):
        items = write_items(run, lambda _done: None)
    with measure_time("the board and its parts, stored"):
        finish_run(run)
    print(f"{items:,} items; of these:")
    with measure_time("  reading what counts"):
        rows = list_counted_responses(run)
    document = run.scorer.guideline.document
    with measure_time("  drawing prompts"):
        figures = BoardFigures(document, rows)
    with measure_time("  board and ranks"):
        assert figures.board
    with measure_time("  pairs"):
        assert figures.pairs
    with measure_time("  groups"):
        assert figures.groups
    with measure_time("  estimates"):
        compute_estimates(document, rows)
    for part in BoardPart.objects.filter(run=run):
        print(f"  {part.name}: {_size(part.content):,.0f} KiB")
    print(f"  board: {_size(run.board):,.0f} KiB")


def _size(content: Any) -> float:
    import json

    return len(json.dumps(content)) / 1024


def make_reader() -> Callable[[str], float]:
    from django.test import Client

    from annotation.models import Person

    client = Client(SERVER_NAME="localhost")
    client.force_login(Person.objects.get(username="manager"))

    def seconds(path: str) -> float:
        began = time.perf_counter()
        answer = client.get(path)
        took = time.perf_counter() - began
        assert answer.status_code == 200, (path, answer.status_code)
        return took

    return seconds


def measure_pages(options: argparse.Namespace) -> bool:
    """Whether every page opens in time."""
    from django.urls import reverse

    path = reverse("run", args=[NAME])
    pages = {query or "run": f"{path}?{query}" for query in ("", *options.tabs)}
    if options.labels:
        pages["label plan"] = reverse("label-next", args=[NAME])
    seconds = make_reader()
    fast = True
    heads = ("first", "median", "longest", "processor")
    print(
        f"{'page':30}" + "".join(f"{head:>11}" for head in heads) + f"  milliseconds, {options.times} times"
    )
    for page, address in pages.items():
        first, warm, processor = seconds(address), [], []
        for _time in range(options.times):
            began = time.process_time()
            warm.append(seconds(address))
            processor.append(time.process_time() - began)  # others on the machine do not lengthen it much
        fast = fast and statistics.median(warm) <= WARM
        columns = (first, statistics.median(warm), max(warm), statistics.median(processor))
        print(f"{page:30}" + "".join(f"{1000 * column:11,.0f}" for column in columns), flush=True)
    return fast


def main() -> None:
    options = arguments()
    print(f"Python {platform.python_version()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    with database(options):
        fast = measure_pages(options)
    if not fast:
        sys.exit(f"A page takes longer than {1000 * WARM:.0f} ms.")


if __name__ == "__main__":
    main()
