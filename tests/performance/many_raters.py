"""A batch of many raters for each item: its import, its agreement with intervals, and the pages that show it.

    .venv/bin/python -m tests.performance.many_raters [--items 350] [--raters 123]

On a database of its own (SQLite, or what DATABASE_URL names, which must be empty). Every rater labels every item on two
criteria of five levels, near a level of the item's own. Prints the seconds of the import, of the report and of each
page.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=350)
    parser.add_argument("--raters", type=int, default=123)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("DATABASE_URL", f"sqlite:///{folder}/raters.sqlite3")
        os.environ.update(
            ASSAY_DATA_DIR=folder, DJANGO_SETTINGS_MODULE="config.settings", LOG_LEVEL="WARNING", DEBUG="1"
        )
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        measure(Path(folder), options.items, options.raters)


def measure(folder: Path, items: int, raters: int) -> None:
    from django.test import Client
    from django.urls import reverse

    from annotation.domain.batch_spec import Policy
    from annotation.domain.formats import Source
    from annotation.models import Annotation, Batch, Person
    from annotation.selectors.agreement import LabelPatterns
    from annotation.services.imports import ImportRequest, import_annotations
    from annotation.services.people.people import set_roles
    from tests.annotation.several_criteria import criterion, guideline_of, scale
    from tests.support import make_corpus

    names = {value: f"Level {value}" for value in range(1, 6)}
    guideline_of("many", [criterion(name, scale(names)) for name in ("warmth", "clarity")])
    make_corpus(prompts=items, models=["Rated-7B"])
    path = folder / "labels.jsonl"
    luck = random.Random(1)
    levels = [[luck.gauss(3, 1) for _ in range(2)] for _ in range(items)]
    with path.open("w", encoding="utf-8") as file:
        for item in range(items):
            for rater in range(raters):
                own = [min(5, max(1, round(level + luck.gauss(0, 1)))) for level in levels[item]]
                labels = dict(zip(("warmth", "clarity"), own, strict=True))
                record = {
                    "prompt_id": f"p{item}",
                    "model": "Rated-7B",
                    "annotator": f"r{rater}",
                    "labels": labels,
                }
                file.write(json.dumps(record) + "\n")
    request = ImportRequest(
        batch="many", guideline="many", dataset="small", policy=Policy(plan="open", overlap=1)
    )
    with timed("import"):
        import_annotations(source=Source(path), format="jsonl", request=request, new_people=True)
    assert Annotation.objects.count() == items * raters
    for step in ("agreement with intervals", "the same again"):
        with timed(step):
            rows = LabelPatterns(Batch.objects.all()).report()
    assert all(row.agreement.statistics["alpha_nominal"].low is not None for row in rows)
    researcher = Person.objects.create(username="he")
    set_roles(person=researcher, roles=["researcher", "manager"])
    client = Client(HTTP_HOST="localhost")
    client.force_login(researcher)
    for page, arguments in (("agreement", []), ("quality", []), ("batch", ["many"]), ("dataset", ["small"])):
        for step in (f"page {page}", "the same again"):
            with timed(step):
                answer = client.get(reverse(page, args=arguments))
            assert answer.status_code == 200


@contextmanager
def timed(step: str) -> Iterator[None]:
    began = time.monotonic()
    yield
    print(f"{step}: {time.monotonic() - began:.2f} s", flush=True)


if __name__ == "__main__":
    main()
