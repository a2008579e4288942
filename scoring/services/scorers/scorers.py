from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from annotation.core.errors import N_, AssayError, Conflict
from annotation.core.study_scope import choose_study_id
from annotation.core.version import code_version
from annotation.models import EvaluatedModel, GoldRelease, Guideline, Job, Person
from annotation.selectors.access import refuse_sealed_gold
from annotation.services import jobs
from annotation.services.audit import record
from scoring.backbones.registry import choose_backbone
from scoring.domain.evaluation.soft_labels import DISTRIBUTION
from scoring.domain.spec import Spec
from scoring.domain.training_spec import LEAVE_ONE_MODEL_OUT, TrainingSpec
from scoring.domain.verbs import ScoringVerb
from scoring.models import Scorer
from scoring.selectors.training import get_release_guideline
from scoring.services.predictions.predictions import check_ready

TRAIN = "train_scorer"


@transaction.atomic
def create_scorer(
    training: TrainingSpec, *, actor: Person | None = None, send: bool = True
) -> tuple[Scorer, Job]:
    """Make a scorer and the job that trains it from the release; nothing is trained here.

    Everything that can be known to be wrong is refused first: the release, the backbone, what cannot be evaluated, an
    adaptation to a model that the release has no labels of. The scorer can be used once its job is done
    (``ready_at``); a job of something that needs it ``depends_on`` the job. With ``send`` False the caller runs it.

    A name is taken by a scorer that is ready or still in training. One whose training failed or was
    cancelled never was a scorer: the same name again takes its place, unless a benchmark run waits for it.
    """
    release = GoldRelease.objects.get(pk=training.release)
    base = None if training.base is None else Scorer.objects.get(pk=training.base)
    adapt_to = None if training.adapt_to is None else EvaluatedModel.objects.get(pk=training.adapt_to)
    if actor is not None:
        for source in [release] if base is None else [release, base.release]:
            refuse_sealed_gold(actor, source.batches.all())
    _check_material(release, training.evaluate)
    guideline = get_release_guideline(release)
    if guideline.document.unit == "slate":
        raise AssayError(
            N_(
                "A scorer judges single responses, and {release} has labels of slates: rank its models by"
                " preference_board, or export preferences for a trainer."
            ),
            release=release.name,
        )
    if base is not None and adapt_to is not None:
        _check_adaptation(base, adapt_to, release, guideline)
    inherited = get_default_spec() if base is None else base.spec
    backbone = _check_backbone(
        (training.backbone or inherited).with_template(guideline.document.scorer_template)
    )
    if training.target == DISTRIBUTION and backbone.is_tuned:
        raise AssayError(
            N_(
                "{backbone} learns labels alone: train on distributions with ngram, a frozen encoder or an ensemble."
            ),
            backbone=backbone.title,
        )
    _free_name(training.name)
    scorer = _insert_scorer(
        Scorer(
            study_id=choose_study_id(release.study_id),
            name=training.name,
            release=release,
            guideline=guideline,
            backbone=backbone.title,
            config=training.build_config(backbone),
            seed=training.seed,
            base=base,
            adapted_to=adapt_to,
            code_version=code_version(),
            created_by=actor,
        )
    )
    payload = {"scorer": scorer.pk}
    scorer.job = jobs.enqueue(kind=TRAIN, payload=payload, title=scorer.name, actor=actor, send=send)
    scorer.save(update_fields=["job"])
    record(
        actor=actor,
        verb=ScoringVerb.CREATE_SCORER,
        target=f"scorer:{scorer.name}",
        release=release.name,
        backbone=backbone.title,
    )
    return scorer, scorer.job


def get_default_spec() -> Spec:
    """What is trained where nobody says what."""
    return Spec.from_request(default_encoder=settings.ASSAY_ENCODER)


def find_encoder_name(encoder: str) -> str:
    """What pages call the encoder in this folder; empty where ``ASSAY_ENCODERS`` does not name it."""
    return next((name for name, folder in settings.ASSAY_ENCODERS.items() if folder == encoder), "")


def resolve_encoder(text: str) -> str:
    """The folder that ``ASSAY_ENCODERS`` has under this name; else the text, as commands give it."""
    folder: str = settings.ASSAY_ENCODERS.get(text, text)
    return folder


def _check_backbone(spec: Spec) -> Spec:
    """The spec as it is kept, if it can be trained; a folder by its whole path, since a worker starts elsewhere."""
    choose_backbone(spec)
    return (
        spec.with_encoder(str(Path(spec.encoder).resolve())) if Path(spec.encoder or "/-").is_dir() else spec
    )


def _check_adaptation(
    base: Scorer, adapt_to: EvaluatedModel, release: GoldRelease, guideline: Guideline
) -> None:
    """Refuse an adaptation of another guideline's scorer, and one without labels of the model."""
    check_ready(base)
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


def _insert_scorer(scorer: Scorer) -> Scorer:
    """Of two who take one name at the same moment, the later is refused like any other."""
    try:
        with transaction.atomic():
            scorer.save(force_insert=True)
    except IntegrityError as error:
        raise _build_name_conflict(scorer.name) from error
    return scorer


def _build_name_conflict(name: str) -> Conflict:
    return Conflict(N_("There is already a scorer named {name}; choose another name."), name=name)


def _free_name(name: str) -> None:
    """Refuse a name that is taken; remove what never became a scorer."""
    existing = Scorer.objects.select_for_update().filter(name=name).first()
    if existing is None:
        return
    if existing.is_ready or existing.is_in_training:
        raise _build_name_conflict(name)
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
