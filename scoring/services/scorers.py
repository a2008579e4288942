from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from annotation.errors import N_, AssayError, Conflict
from annotation.models import EvaluatedModel, GoldRelease, Guideline, Job, Person
from annotation.names import check_name
from annotation.selectors.gold import refuse_sealed_gold
from annotation.services import jobs
from annotation.services.audit import record
from annotation.version import code_version
from scoring.backbones import choose
from scoring.models import Scorer
from scoring.selectors.lessons import guideline_of
from scoring.services.predictions import refuse_unready
from scoring.spec import Spec

TRAIN = "train_scorer"
GROUPED = "grouped"
LEAVE_ONE_MODEL_OUT = "leave-one-model-out"
LEARNING_CURVE = "learning-curve"
EVALUATIONS = (GROUPED, LEAVE_ONE_MODEL_OUT, LEARNING_CURVE)
LARGEST_SEED = 2**31 - 1
MOST_SEEDS = 10
TUNED_SEEDS = 3


@transaction.atomic
def create_scorer(
    *,
    name: str,
    release: GoldRelease,
    spec: Spec | None = None,
    evaluate: Sequence[str] = (GROUPED,),
    seed: int = 0,
    seeds: int | None = None,
    base: Scorer | None = None,
    adapt_to: EvaluatedModel | None = None,
    actor: Person | None = None,
    send: bool = True,
) -> tuple[Scorer, Job]:
    """Make a scorer and the job that trains it from the release; nothing is trained here.

    Everything that can be known to be wrong is refused first: the name, the release, the backbone (none means
    the default one), what cannot be evaluated. The scorer can be used once its job is done (``ready_at``);
    a job of something that needs it ``depends_on`` the job. With ``send`` False the caller runs the job.

    ``seeds`` is how many seeds the evaluation is made with, from ``seed`` on; left out, three where training depends
    much on chance (a fine-tuned encoder), else one. With ``adapt_to`` it is an adaptation of the scorer ``base`` to
    that model: the release must hold labels of it, and what is not said is as in the base.

    A name is taken by a scorer that is ready or still in training. One whose training failed or was
    cancelled never was a scorer: the same name again takes its place, unless a benchmark run waits for it.
    """
    if actor is not None:
        for one in [release] if base is None else [release, base.release]:
            refuse_sealed_gold(actor, one.batches.all())
    _check_seed(seed)
    evaluations = _evaluations(evaluate)
    _check_material(release, evaluations)
    guideline = guideline_of(release)
    _check_adaptation(base, adapt_to, release, guideline)
    inherited = default_spec() if base is None else base.spec
    spec = _had((inherited if spec is None else spec).under(guideline.document.scorer_template))
    _free(check_name(name))
    scorer = _new(
        Scorer(
            name=name,
            release=release,
            guideline=guideline,
            backbone=spec.title,
            config={"evaluate": evaluations, "spec": spec.to_json(), "seeds": _seeds(seeds, spec)},
            seed=seed,
            base=base,
            adapted_to=adapt_to,
            code_version=code_version(),
            created_by=actor,
        )
    )
    scorer.job = jobs.enqueue(kind=TRAIN, payload={"scorer": scorer.pk}, title=name, actor=actor, send=send)
    scorer.save(update_fields=["job"])
    record(
        actor=actor, verb="create_scorer", target=f"scorer:{name}", release=release.name, backbone=spec.title
    )
    return scorer, scorer.job


def default_spec() -> Spec:
    """What is trained where nobody says what."""
    return Spec.of(default_encoder=settings.ASSAY_ENCODER)


def encoder_name(encoder: str) -> str:
    """What pages call the encoder in this folder; empty where ``ASSAY_ENCODERS`` does not name it."""
    return next((name for name, folder in settings.ASSAY_ENCODERS.items() if folder == encoder), "")


def encoder_named(text: str) -> str:
    """The folder that ``ASSAY_ENCODERS`` has under this name; else the text, as commands give it."""
    folder: str = settings.ASSAY_ENCODERS.get(text, text)
    return folder


def _had(spec: Spec) -> Spec:
    """The spec as it is kept, if it can be trained; a folder by its whole path, since a worker starts elsewhere."""
    choose(spec)
    return spec.at(str(Path(spec.encoder).resolve())) if Path(spec.encoder or "/-").is_dir() else spec


def _check_seed(seed: int) -> None:
    if not 0 <= seed <= LARGEST_SEED:
        raise AssayError(N_("The seed is a whole number from 0 to {largest}."), largest=LARGEST_SEED)


def _seeds(seeds: int | None, spec: Spec) -> int:
    """How many seeds; of fine-tuning one alone says little."""
    if seeds is None:
        return TUNED_SEEDS if spec.is_tuned else 1
    if not 1 <= seeds <= MOST_SEEDS:
        raise AssayError(N_("An evaluation is made with 1 to {most} seeds."), most=MOST_SEEDS)
    return seeds


def _check_adaptation(
    base: Scorer | None, adapt_to: EvaluatedModel | None, release: GoldRelease, guideline: Guideline
) -> None:
    """Refuse half an adaptation, one of another guideline's scorer, and one without labels of the model."""
    if base is None and adapt_to is None:
        return
    if base is None or adapt_to is None:
        raise AssayError(N_("An adaptation needs both: the scorer, and the model that it is adapted to."))
    refuse_unready(base)
    if base.guideline.name != guideline.name:
        raise AssayError(
            N_("{base} is a scorer of {theirs}, the labels of {release} follow {ours}."),
            base=base.name,
            theirs=base.guideline.name,
            release=release.name,
            ours=guideline.name,
        )
    if not release.items.filter(task__response__model=adapt_to).exists():
        raise AssayError(
            N_(
                "{release} has no labels of {model}: label a few dozen of its responses and cut a release with them."
            ),
            release=release.name,
            model=adapt_to.name,
        )


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
