from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from annotation.errors import N_, AssayError, Conflict
from annotation.models import GoldRelease, Job, Person
from annotation.names import check_name
from annotation.selectors.gold import refuse_sealed_gold
from annotation.services import jobs
from annotation.services.audit import record
from annotation.version import code_version
from scoring.backbones import EMBEDDED, choose
from scoring.models import Scorer
from scoring.selectors.lessons import guideline_of

TRAIN = "train_scorer"
GROUPED = "grouped"
LEAVE_ONE_MODEL_OUT = "leave-one-model-out"
EVALUATIONS = (GROUPED, LEAVE_ONE_MODEL_OUT)
LARGEST_SEED = 2**31 - 1


@transaction.atomic
def create_scorer(
    *,
    name: str,
    release: GoldRelease,
    backbone: str = "",
    evaluate: Sequence[str] = (GROUPED,),
    seed: int = 0,
    actor: Person | None = None,
    send: bool = True,
) -> tuple[Scorer, Job]:
    """Make a scorer and the job that trains it from the release; nothing is trained here.

    Everything that can be known to be wrong is refused first: the name, the release, the backbone (none means
    the embedded one), what cannot be evaluated. The scorer can be used once its job is done (``ready_at``);
    a job of something that needs it ``depends_on`` the job. With ``send`` False the caller runs the job.

    A name is taken by a scorer that is ready or still in training. One whose training failed or was
    cancelled never was a scorer: the same name again takes its place, unless a benchmark run waits for it.
    """
    if actor is not None:
        refuse_sealed_gold(actor, release.batches.all())
    _check_seed(seed)
    backbone = _had(backbone)
    evaluations = _evaluations(evaluate)
    _check_material(release, evaluations)
    guideline = guideline_of(release)
    _free(check_name(name))
    scorer = _new(
        Scorer(
            name=name,
            release=release,
            guideline=guideline,
            backbone=backbone,
            config={"evaluate": evaluations},
            seed=seed,
            code_version=code_version(),
            created_by=actor,
        )
    )
    scorer.job = jobs.enqueue(kind=TRAIN, payload={"scorer": scorer.pk}, title=name, actor=actor, send=send)
    scorer.save(update_fields=["job"])
    record(
        actor=actor, verb="create_scorer", target=f"scorer:{name}", release=release.name, backbone=backbone
    )
    return scorer, scorer.job


def _had(backbone: str) -> str:
    """The backbone's name as it is kept; a folder by its whole path, since a worker starts elsewhere."""
    name = choose(backbone.strip()).name
    return str(Path(name).resolve()) if name != EMBEDDED and Path(name).is_dir() else name


def _check_seed(seed: int) -> None:
    if not 0 <= seed <= LARGEST_SEED:
        raise AssayError(N_("The seed is a whole number from 0 to {largest}."), largest=LARGEST_SEED)


def _evaluations(evaluate: Sequence[str]) -> list[str]:
    """In their usual order. The grouped one is always among them: its predictions are what a board needs."""
    unknown = [name for name in evaluate if name not in EVALUATIONS]
    if unknown:
        raise AssayError(
            N_("{unknown} is no way to evaluate; use {known}."),
            unknown=", ".join(unknown),
            known=", ".join(EVALUATIONS),
        )
    return [name for name in EVALUATIONS if name == GROUPED or name in evaluate]


def _check_material(release: GoldRelease, evaluations: Sequence[str]) -> None:
    response = "task__response"
    if release.items.order_by().values(f"{response}__prompt").distinct().count() < 2:
        raise AssayError(
            N_("{release} has labels of a single prompt: a scorer needs responses to at least two."),
            release=release.name,
        )
    models = release.items.order_by().values(f"{response}__model").distinct().count()
    if LEAVE_ONE_MODEL_OUT in evaluations and models < 2:
        raise AssayError(
            N_("{release} has labels of a single model: leaving one out needs at least two."),
            release=release.name,
        )


def _new(scorer: Scorer) -> Scorer:
    """Of two who take one name at the same moment, the later is refused like any other."""
    try:
        with transaction.atomic():
            scorer.save(force_insert=True)
    except IntegrityError as error:
        raise _taken(scorer.name) from error
    return scorer


def _taken(name: str) -> Conflict:
    return Conflict(N_("There is already a scorer named {name}; choose another name."), name=name)


def _free(name: str) -> None:
    """Refuse a name that is taken; remove what never became a scorer."""
    existing = Scorer.objects.select_for_update().filter(name=name).first()
    if existing is None:
        return
    if existing.is_ready or existing.is_in_training:
        raise _taken(name)
    folder = existing.folder
    try:
        existing.delete()
    except ProtectedError as error:
        raise Conflict(
            N_(
                "The scorer {name} was not trained to its end, and benchmark runs wait for it; choose another name."
            ),
            name=name,
        ) from error
    transaction.on_commit(partial(shutil.rmtree, folder, ignore_errors=True))
