from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings

import scoring.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
from annotation.core.errors import N_, AssayError
from annotation.core.names import split_names
from annotation.management.base import AssayCommand
from annotation.selectors.datasets import get_models
from annotation.selectors.releases.releases import get_release
from scoring.domain.evaluation.soft_labels import LABEL
from scoring.domain.spec import SETTINGS, Spec
from scoring.domain.training_spec import EVALUATIONS, GROUPED, TrainingSpec
from scoring.management.tables import figures_table, list_further_lines
from scoring.selectors.scorers import get_scorer
from scoring.services import create_scorer
from scoring.services.scorers.scorers import resolve_encoder


def _read_backbone(options: Mapping[str, Any]) -> Spec | None:
    """What was asked for; of an adaptation nothing said is what its base is made of."""
    encoder_options = {"encoder": resolve_encoder(options["encoder"].strip()), "tuning": options["tuning"]}
    if options["base"] and not any((options["backbone"], *encoder_options.values())):
        return _add_settings(get_scorer(options["base"]).spec, options["set"]) if options["set"] else None
    spec = Spec.from_request(options["backbone"], **encoder_options, default_encoder=settings.ASSAY_ENCODER)
    if (encoder_options["encoder"] and encoder_options["encoder"] != spec.encoder) or (
        encoder_options["tuning"] and not spec.encoder
    ):
        raise AssayError(
            N_("{backbone} does not use what --encoder or --tuning say: leave them out."), backbone=spec.title
        )
    return _add_settings(spec, options["set"])


def _add_settings(spec: Spec, assignments: Sequence[str]) -> Spec:
    if assignments and not spec.is_tuned:
        raise AssayError(
            N_("--set is for an encoder that is tuned, and nothing of {backbone} is: leave it out."),
            backbone=spec.title,
        )
    return replace(spec, settings=spec.settings.with_assignments(assignments))


class Command(AssayCommand):
    help = "Train a scorer from a gold release, evaluate it, and register it."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--release", required=True, help="the gold release it learns from")
        parser.add_argument(
            "--backbone",
            default="",
            metavar="KIND",
            help="ngram, encoder or ensemble; or the folder or hub name of an encoder, to tune all of it "
            "(default: ensemble where there is an encoder, else ngram)",
        )
        parser.add_argument(
            "--encoder",
            default="",
            help="a name of ASSAY_ENCODERS, a folder or a hub name (default: ASSAY_ENCODER)",
        )
        parser.add_argument("--tuning", default="", help="frozen, full or lora: what of the encoder learns")
        parser.add_argument(
            "--set",
            action="append",
            default=[],
            metavar="KEY=VALUE",
            help=f"of an encoder that is tuned: {', '.join(SETTINGS)}; may be given again",
        )
        parser.add_argument(
            "--evaluate",
            action="append",
            default=[],
            metavar="HOW",
            help=f"{', '.join(EVALUATIONS)}; may be given again (default: {GROUPED}, which is always done)",
        )
        parser.add_argument("--seed", type=int, default=TrainingSpec.model_fields["seed"].default)
        parser.add_argument(
            "--seeds",
            type=int,
            metavar="N",
            help="evaluate by prompt with so many deals of the folds; the figures are the first one's",
        )
        parser.add_argument(
            "--target",
            default=LABEL,
            metavar="WHAT",
            help="label: the gold label (the default); distribution: what share of the annotators gave each level",
        )
        parser.add_argument("--base", metavar="SCORER", help="with --adapt-to: the scorer that is adapted")
        parser.add_argument(
            "--adapt-to",
            metavar="MODEL",
            help="adapt the base to a model that the release has labels of, and tell what they brought",
        )
        parser.add_argument("--detach", action="store_true", help="queue it for a worker")

    def act(self, **options: Any) -> dict[str, Any]:
        training = TrainingSpec(
            name=options["name"],
            release=get_release(options["release"]).pk,
            backbone=_read_backbone(options),
            evaluate=tuple(name for value in options["evaluate"] for name in split_names(value)),
            seed=options["seed"],
            seeds=options["seeds"],
            target=options["target"],
            base=get_scorer(options["base"]).pk if options["base"] else None,
            adapt_to=get_models([options["adapt_to"]])[0].pk if options["adapt_to"] else None,
        )
        scorer, job = create_scorer(training, send=options["detach"])
        if options["detach"]:
            return {"scorer": scorer.name, "backbone": scorer.backbone, "job": job.pk, "state": job.state}
        self.run_job(job)
        trained = get_scorer(scorer.name)
        return {"scorer": trained.name, "backbone": trained.backbone, "evaluation": trained.evaluation}

    def show(self, data: dict[str, Any]) -> None:
        if "job" in data:
            self.stdout.write(f"{data['scorer']} waits for a worker (job {data['job']})")
            return
        card = get_scorer(data["scorer"]).card
        self.stdout.write(card["statement"])
        self.stdout.write(f"{data['scorer']}: {card['responses']} responses to {card['prompts']} prompts")
        self.stdout.write(f"backbone {card['backbone']['description']}")
        self.stdout.write(f"release {card['release']['name']}, sha256 {card['release']['sha256']}")
        self.stdout.write(f"weights sha256 {card['weights_sha256']}")
        evaluation = data["evaluation"]
        for line in ["", *figures_table(evaluation, card), "", *list_further_lines(evaluation, card)]:
            self.stdout.write(line)
