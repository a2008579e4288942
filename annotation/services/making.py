"""Making a batch that a page asks for: at once, or by a job where there are many responses.

The job makes it in one transaction, so that a failed, cancelled or killed one leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from itertools import chain
from typing import Any

from django.db import transaction

from annotation.errors import N_, AssayError
from annotation.models import Batch, Dataset, EvaluatedModel, Guideline, Job, Person
from annotation.services import jobs
from annotation.services.batches import Policy, Share, check_batch, create_batch, responses_for
from annotation.services.telling import Teller

JOB_KIND = "batch"
# So many responses are made into a batch while the page waits: a few seconds.
AT_ONCE = 20_000
UNDER_WAY = (Job.State.QUEUED, Job.State.RUNNING)


@dataclass(frozen=True)
class Wish:
    """What ``create_batch`` is asked for, in the form of its arguments; ``kept`` is what a job's row keeps of it."""

    name: str
    guideline: Guideline
    dataset: Dataset
    models: Sequence[EvaluatedModel] = ()
    collection: str | None = None
    annotators: Sequence[Person] = ()
    adjudicators: Sequence[Person] = ()
    pairs: Sequence[Sequence[Person]] = ()
    shares: Mapping[Person, Share] = field(default_factory=dict)
    policy: Policy = field(default_factory=Policy)
    open_now: bool = True

    def kept(self) -> dict[str, Any]:
        due = self.policy.due_date
        return {
            "name": self.name,
            "guideline": self.guideline.pk,
            "dataset": self.dataset.pk,
            "models": [model.pk for model in self.models],
            "collection": self.collection,
            "annotators": [person.pk for person in self.annotators],
            "adjudicators": [person.pk for person in self.adjudicators],
            "pairs": [[person.pk for person in pair] for pair in self.pairs],
            "shares": [[person.pk, asdict(share)] for person, share in self.shares.items()],
            "policy": asdict(self.policy) | {"due_date": due.isoformat() if due else None},
            "open_now": self.open_now,
        }

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> Wish:
        ids = {*kept["annotators"], *kept["adjudicators"], *chain(*kept["pairs"])}
        people = Person.objects.in_bulk(list(ids))
        due = kept["policy"]["due_date"]
        return cls(
            name=kept["name"],
            guideline=Guideline.objects.get(pk=kept["guideline"]),
            dataset=Dataset.objects.get(pk=kept["dataset"]),
            models=list(EvaluatedModel.objects.filter(pk__in=kept["models"])),
            collection=kept["collection"],
            annotators=[people[pk] for pk in kept["annotators"]],
            adjudicators=[people[pk] for pk in kept["adjudicators"]],
            pairs=[[people[pk] for pk in pair] for pair in kept["pairs"]],
            shares={people[pk]: Share(**share) for pk, share in kept["shares"]},
            policy=Policy(**{**kept["policy"], "due_date": date.fromisoformat(due) if due else None}),
            open_now=kept["open_now"],
        )


def make(wish: Wish, *, actor: Person) -> Batch | Job:
    """The batch, or the job that makes it. What is wrong with the wish is said at once (AssayError)."""
    wanted = vars(wish)
    responses = responses_for(dataset=wish.dataset, models=wish.models, collection=wish.collection)
    if responses.count() <= AT_ONCE:
        return create_batch(**wanted, actor=actor)
    check_batch(**wanted, actor=actor)
    if Job.objects.filter(kind=JOB_KIND, state__in=UNDER_WAY, payload__name=wish.name).exists():
        raise AssayError(N_("A batch named {name} is being made now."), name=wish.name)
    return jobs.enqueue(kind=JOB_KIND, payload=wish.kept(), title=wish.name, actor=actor)


def run_making(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job. Done again after a worker died, it finds the batch made, or nothing of it."""
    if "batch" in context.job.result:
        return dict(context.job.result)
    context.report(0, N_("making the items"))
    wish = Wish.of(context.payload)
    with Teller(context) as teller, transaction.atomic():
        batch = create_batch(**vars(wish), actor=context.job.created_by, report=teller.tell)
        result = {"batch": batch.name, "tasks": batch.tasks.count()}
        context.keep(result)
    return result
