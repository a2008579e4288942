"""The demo: invented people, prompts, responses and labels (fixtures/demo), put in by the product's own services.

Every step looks first whether it was done, so that a second start keeps what people did since the first.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import transaction
from django.utils.translation import gettext_lazy as _

from annotation.core.files import read_text
from annotation.core.study_scope import limit_to_studies
from annotation.domain.batch_spec import BatchSpec, Policy
from annotation.domain.formats import Source
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import (
    ADJUDICATOR,
    ANNOTATOR,
    MANAGER,
    RESEARCHER,
    Batch,
    GoldRelease,
    Job,
    Person,
)
from annotation.selectors.batches import get_batch
from annotation.selectors.datasets import get_dataset
from annotation.selectors.guidelines import get_guideline
from annotation.services import jobs
from annotation.services.batches.batches import create_batch
from annotation.services.guidelines import load_guideline
from annotation.services.imports import ImportRequest, import_annotations, import_prompts, import_responses
from annotation.services.people.people import add_person
from annotation.services.releases import cut_release
from annotation.services.slates import SlateSpec, make_slates
from annotation.services.studies import find_or_make_default

FIXTURES = Path(settings.BASE_DIR) / "fixtures"
NAME = "demo"
PAIRS = "demo-pairs"
BOARD = "demo-1"
BOARD_KIND = "demo_board"
JUDGE = "Yuheng-Judge"
TABLE = "Demo 2026"
TABLE_SOURCE = "Invented for this demo; no paper printed it. 为演示虚构，并未发表。"
Announce = Callable[[str], None]


@dataclass(frozen=True)
class DemoPerson:
    """One of the demo's people. ``tries`` says what a newcomer can try as this person."""

    name: str
    display_name: str
    roles: tuple[str, ...]
    tries: Any


CAST = (
    DemoPerson("lin", "Lin", (ANNOTATOR,), _("Label a response")),
    DemoPerson("chen", "Chen", (ANNOTATOR,), _("Label the same responses as the second person")),
    DemoPerson("zhou", "Zhou", (ANNOTATOR,), _("Label as a third person")),
    DemoPerson("sun", "Sun", (ANNOTATOR,), _("Compare two responses side by side")),
    DemoPerson("wu", "Wu", (ADJUDICATOR,), _("Settle a dispute")),
    DemoPerson(
        "he", "He", (MANAGER, RESEARCHER), _("Follow agreement, cut a release, train, read the leaderboard")
    ),
)


def load_demo(*, announce: Announce) -> None:
    """Guidelines, people, prompts, responses, the batch and its labels, the first release and its board, all of the
    study ``default``, whatever others somebody has made beside it since.

    Beside the board: a judge's labels and a table that somebody published.
    """
    announce("guidelines")
    for file in sorted((FIXTURES / "guidelines").glob("*.yaml")):
        load_guideline(text=read_text(str(file)), path=str(file), publish=True)
    with limit_to_studies([find_or_make_default().pk]):
        announce("people")
        _add_people()
        announce("prompts and responses")
        source = FIXTURES / "demo"
        import_prompts(source=Source(source / "prompts.jsonl"), format="jsonl", dataset=NAME)
        import_responses(source=Source(source / "responses.jsonl"), format="jsonl", dataset=NAME)
        announce("labels")
        _import_labels(source / "annotations.jsonl")
        _make_pairs()
        announce("gold")
        _release_and_train()


def find_demo_person(name: str) -> Person | None:
    """The person of the demo's cast, and nobody else whatever the database holds."""
    if name not in {member.name for member in CAST}:
        return None
    return Person.objects.filter(username=name, is_active=True).first()


def ensure_demo_password() -> str:
    """One password for the cast, made at the first start and kept in the data folder."""
    path = Path(settings.ASSAY_DATA_DIR) / "demo_password"
    if not path.exists():
        path.touch(mode=0o600)
        path.write_text(secrets.token_urlsafe(9))
    return path.read_text()


def run_board() -> None:
    """Run the benchmark with the demo's scorer, once it is trained (the job that waits for it)."""
    call_command("run_benchmark", BOARD, scorer=BOARD, dataset=NAME, detach=True, stdout=StringIO())


def _add_people() -> None:
    known = set(Person.objects.values_list("username", flat=True))
    for member in CAST:
        if member.name not in known:
            add_person(
                name=member.name,
                roles=member.roles,
                password=ensure_demo_password(),
                display_name=member.display_name,
            )


def _import_labels(file: Path) -> None:
    """The file makes the batch, so that it may name the cast, who go on working there."""
    if not Batch.objects.filter(name=NAME).exists():
        target = ImportRequest(batch=NAME, guideline="flames", dataset=NAME)
        import_annotations(source=Source(file), format="jsonl", request=target)


@transaction.atomic
def _make_pairs() -> None:
    """A batch of slates: one pair of each prompt, every pair of models as often."""
    if Batch.objects.filter(name=PAIRS).exists():
        return
    dataset = get_dataset(NAME)
    make_slates(SlateSpec(name=PAIRS, dataset=dataset, pairs="balanced"))
    create_batch(
        BatchSpec(
            name=PAIRS,
            guideline=get_guideline("preference").pk,
            dataset=dataset.pk,
            collection=PAIRS,
            annotators=(Person.objects.get(username="sun").pk,),
            policy=Policy(overlap=1),
        )
    )


@transaction.atomic
def _release_and_train() -> None:
    """The training and, after it, the board are left to the worker: the pages are there at once."""
    if not GoldRelease.objects.filter(name=BOARD).exists():
        cut_release(ReleaseSpec(name=BOARD, batches=(get_batch(NAME).pk,)))
    if not Job.objects.filter(kind=BOARD_KIND).exists():
        _import_comparisons()
        answer = StringIO()
        call_command("train_scorer", BOARD, release=BOARD, detach=True, json=True, stdout=answer)
        training = Job.objects.get(pk=json.loads(answer.getvalue())["job"])
        jobs.enqueue(kind=BOARD_KIND, payload={}, title=BOARD, depends_on=training)


def _import_comparisons() -> None:
    """What scorer and models are compared with; the commands are those of an app above this one."""
    judged, table = (str(FIXTURES / "demo" / name) for name in ("judge.jsonl", "published.csv"))
    quiet = {"stdout": StringIO(), "stderr": StringIO()}
    call_command(
        "import_judge_labels", judged, judge=JUDGE, guideline="flames", format="jsonl", dataset=NAME, **quiet
    )
    call_command(
        "import_published", table, guideline="flames", dataset=NAME, name=TABLE, source=TABLE_SOURCE, **quiet
    )
