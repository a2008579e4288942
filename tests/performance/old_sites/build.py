"""Fill the database of this process with a site in the middle of its work. Runs on the code of BASE, and on no other.

    python build.py NAME FACTS.json

NAME is ``demo`` (the product's own invented data, released and on a board) or ``work`` (see ``make_work_site``). What
``acts.py`` does again on the migrated site goes to FACTS.json.
"""

from __future__ import annotations

import json
import sys
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

import django

django.setup()

from annotation.services.distribution import next_assignment, next_dispute  # noqa: E402
from annotation.services.drafts import save_draft  # noqa: E402
from annotation.services.gold import cut_release  # noqa: E402
from benchmark.services.runs import create_run  # noqa: E402
from django.core.management import call_command  # noqa: E402

import benchmark.tasks  # noqa: F401, E402 (the handlers, as a worker has them)
import scoring.tasks  # noqa: F401, E402
from annotation.models import Batch, Collection, Dataset, Job, Person, Task  # noqa: E402
from annotation.services import jobs  # noqa: E402
from annotation.services.annotations import Work, submit  # noqa: E402
from annotation.services.batches import Policy  # noqa: E402
from annotation.services.demo import load_demo  # noqa: E402
from annotation.services.people import add_person, api_token, set_password  # noqa: E402
from benchmark.models import BenchmarkRun  # noqa: E402
from benchmark.services.sharing import share  # noqa: E402
from scoring.models import Scorer  # noqa: E402
from scoring.services import create_scorer  # noqa: E402
from tests.support import decide_next, make_batch, make_corpus  # noqa: E402
from tests.test_everyone_everywhere import make_world  # noqa: E402

PASSWORD = "a phrase of several words"


def make_demo_site() -> dict[str, Any]:
    load_demo(tell=lambda _stage: None)
    run_queued_jobs()
    return {}


def run_queued_jobs() -> None:
    """One after the other, those that wait for another one after it."""
    for _attempt in range(10):
        queued = Job.objects.filter(state=Job.State.QUEUED).order_by("pk")
        ready = [job for job in queued if job.depends_on is None or job.depends_on.state == Job.State.DONE]
        for job in ready:
            jobs.run_now(job)
        if not ready:
            return


def make_work_site() -> dict[str, Any]:
    """The world of the access tests, and beside it: a batch of overlap 5 half done with claims and drafts, repeat
    adjudications due and claimed, imported labels, a release of two batches, a board on a dataset other than its
    scorer's with a public link, a training that no worker has begun, and everybody's password and token.
    """
    make_world()
    for job in Job.objects.filter(state=Job.State.QUEUED):  # with payloads that only a page reads
        jobs.cancel(job=job)
    cast = {person.username: person for person in Person.objects.all()}
    for person in cast.values():
        set_password(person=person, password=PASSWORD, actor=cast["ma"])
    facts = make_work_in_progress(cast)
    make_repeats(cast)
    import_labels()
    release = cut_release(
        name="r-both", batches=list(Batch.objects.filter(name__in=["first", "elsewhere"]).order_by("pk"))
    )
    other = make_corpus(prompts=9, models=("Distant-3B", "Remote-5B"), name="other")
    run = create_run(
        name="b-other",
        scorer=Scorer.objects.get(name="s1"),
        dataset=other,
        collection=Collection.objects.get(name=""),
        send=False,
    )
    assert run.job is not None
    jobs.run_now(run.job)
    run = BenchmarkRun.objects.get(pk=run.pk)
    share(run=run, actor=cast["he"])
    create_scorer(name="s-queued", release=release, send=False)
    return facts


def make_work_in_progress(cast: dict[str, Person]) -> dict[str, Any]:
    people = [add_person(name=f"rater{number}", roles=["annotator"]) for number in range(6)]
    batch = make_batch(
        Batch.objects.get(name="first").guideline,
        make_corpus(prompts=10, models=("Fivefold-1B",), name="five"),
        annotators=people,
        adjudicators=[cast["wu"]],
        name="five",
        policy=Policy(overlap=5, seed=7),
    )
    submitted: dict[str, Any] = {}
    for number in range(24):
        person = people[number % 6]
        claim = next_assignment(batch=batch, person=person)
        assert claim is not None
        work = Work({"compliance": 1 + number % 3}, rationale=f"rationale {number}")
        receipt = submit(assignment_id=claim.pk, person=person, key=f"key-{number}", work=work)
        submitted = {
            "person": person.username,
            "assignment": str(claim.pk),
            "key": f"key-{number}",
            "labels": work.labels,
            "rationale": work.rationale,
            "receipt": str(receipt.receipt),
        }
    claims = []
    for person in people[:3]:
        claim = next_assignment(batch=batch, person=person)
        assert claim is not None
        save_draft(
            assignment_id=claim.pk, person=person, work=Work({"compliance": 2}, rationale="unfinished")
        )
        claims.append({"person": person.username, "assignment": str(claim.pk)})
    return {
        "submitted": submitted,
        "claims": claims,
        "batch": batch.name,
        "tokens": {person.username: api_token(person=person) for person in people},
        "people": sorted(cast),
        "password": PASSWORD,
    }


def make_repeats(cast: dict[str, Person]) -> None:
    """Three decided disputes that come back at once, of which one is claimed."""
    raters = [add_person(name=name, roles=["annotator"]) for name in ("sun", "qian")]
    batch = make_batch(
        Batch.objects.get(name="first").guideline,
        make_corpus(prompts=6, models=("Repeated-1B",), name="elsewhere"),
        annotators=raters,
        adjudicators=[cast["wu"]],
        name="elsewhere",
    )
    Batch.objects.filter(pk=batch.pk).update(second_reading_share=1, second_reading_days=0)
    for number in range(6):
        for place, person in enumerate(raters):
            claim = next_assignment(batch=batch, person=person)
            assert claim is not None
            value = 1 + 2 * place if number < 3 else 3
            submit(assignment_id=claim.pk, person=person, key=str(uuid4()), work=Work({"compliance": value}))
    for _dispute in range(3):
        decide_next(batch, cast["wu"], 2)
    assert next_dispute(batch=batch, person=cast["wu"]) is not None


def import_labels() -> None:
    dataset = make_corpus(prompts=4, models=("Imported-1B",), name="brought")
    numbers = count()
    lines = [
        json.dumps(
            {
                "prompt_id": prompt.key,
                "model": "Imported-1B",
                "annotator": name,
                "labels": {"compliance": 3 if next(numbers) % 3 else 1},
            }
        )
        for prompt in Dataset.objects.get(pk=dataset.pk).prompts.order_by("pk")
        for name in ("guest1", "guest2")
    ]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "labels.jsonl"
        file.write_text("\n".join(lines))
        options = {"batch": "brought", "format": "jsonl", "guideline": "xstest", "dataset": "brought"}
        call_command("import_annotations", str(file), **options, verbosity=0)
    assert Task.objects.filter(batch__name="brought").exclude(state=Task.State.OPEN).exists()


MAKERS = {"demo": make_demo_site, "work": make_work_site}

if __name__ == "__main__":
    name, file = sys.argv[1:]
    Path(file).write_text(json.dumps(MAKERS[name]()))
