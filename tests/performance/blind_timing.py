"""Whether the time that an item of slates takes tells which model stands first in it.

    .venv/bin/python -m tests.performance.blind_timing [--items 400]

On a database of its own (SQLite, or what DATABASE_URL names, which must be empty): slates of three models whose texts
are equally long, read and submitted by one person through the pages. Prints, of the page and of the submit, the median
milliseconds by the model that stood first, and the p of Kruskal and Wallis's test that they are the same. The exit code
is 1 where one of them is below 0.01.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import defaultdict
from statistics import median

from scipy.stats import kruskal

Times = dict[str, dict[str, list[float]]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--items", type=int, default=400)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("DATABASE_URL", f"sqlite:///{folder}/timing.sqlite3")
        os.environ.update(
            ASSAY_DATA_DIR=folder, DJANGO_SETTINGS_MODULE="config.settings", LOG_LEVEL="WARNING"
        )
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        times = measure(options.items)
    return show(times)


def measure(items: int) -> Times:
    """Milliseconds by request (``page``, ``submit``) and by the model that stood first."""
    from django.conf import settings
    from django.test import Client
    from django.urls import reverse

    from annotation.domain.batch_spec import Policy
    from annotation.models import Assignment, SlateEntry
    from annotation.services.people.people import add_person
    from tests.annotation.slates import MODELS, load_shipped, make_slate_batch

    settings.ALLOWED_HOSTS = ["testserver"]
    person = add_person(name="lin", roles=["annotator"])
    texts = dict.fromkeys(MODELS, "A sentence of the same length. " * 60)
    texts = {model: f"{text}{number}" for number, (model, text) in enumerate(texts.items())}
    batch = make_slate_batch(
        load_shipped("preference"),
        annotators=[person],
        prompts=items,
        answers=texts,
        policy=Policy(overlap=1),
    )
    client = Client()
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    times: Times = {"page": defaultdict(list), "submit": defaultdict(list)}
    for number in range(items):
        begin = time.perf_counter()
        page = client.get(reverse("work-batch", args=[batch.name]))
        arrived = time.perf_counter()
        assert page.status_code == 200, page.status_code
        claim = Assignment.objects.get(person=person, state="claimed")
        order = claim.list_shown_places()
        first = SlateEntry.objects.get(
            slate__response=claim.task.response, place=order[0]
        ).response.model.name
        answer = {"key": f"k{number}", "label.best": str(order[number % 3])}
        sent = time.perf_counter()
        client.post(reverse("work-submit", args=[claim.pk]), answer)
        answered = time.perf_counter()
        if number >= 20:  # until then caches are filled
            times["page"][first].append(1000 * (arrived - begin))
            times["submit"][first].append(1000 * (answered - sent))
    return times


def show(times: Times) -> int:
    lowest = 1.0
    for request, by_model in times.items():
        p = float(kruskal(*by_model.values()).pvalue)
        lowest = min(lowest, p)
        medians = ", ".join(
            f"{model} {median(own):.2f} ms of {len(own)}" for model, own in sorted(by_model.items())
        )
        print(f"{request}: {medians}; p = {p:.2f}")
    return int(lowest < 0.01)


if __name__ == "__main__":
    sys.exit(main())
