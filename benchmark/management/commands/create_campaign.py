from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction

import benchmark.tasks  # noqa: F401 (the handler of the job that this process runs)
from annotation.core.errors import N_, AssayError
from annotation.core.names import split_name_lists
from annotation.domain.formats import Source
from annotation.domain.formats.rows import as_number
from annotation.domain.guidelines import GuidelineDocument
from annotation.management.base import AssayCommand
from annotation.models import Job
from annotation.selectors.datasets import get_dataset
from annotation.selectors.guidelines import get_guideline
from annotation.selectors.people import get_people
from benchmark.domain.llm_client.settings import MAX_SYSTEM_CHARACTERS
from benchmark.domain.workbench.campaigns import (
    ATTACK_SUCCESS_RATE,
    MAX_TARGETS,
    CampaignSpec,
    QuotaSpec,
    TargetSpec,
    default_success,
    list_subcomponents,
)
from benchmark.domain.workbench.duplicates import DEFAULT_THRESHOLDS
from benchmark.domain.workbench.formats import read_quotas
from benchmark.domain.workbench.methods import FLAMES_METHODS
from benchmark.management.endpoint_command import add_settings_arguments, read_settings, read_text
from benchmark.models import AttackMethod, Campaign
from benchmark.services.workbench.campaigns import create_campaign, set_state
from benchmark.services.workbench.duplicates import INDEX_JOB
from benchmark.services.workbench.meanings import EMBED_JOB

THRESHOLDS = ("warn_jaccard", "warn_edit", "block_jaccard", "block_edit")
DISCLOSURES = ("zh", "en")
Target = tuple[str, str, str]


class Command(AssayCommand):
    help = (
        "Make a campaign, in which people write prompts for a dataset against the targets; the texts of the dataset are"
        " indexed, so that near duplicates are found (docs/workbench.md)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--dataset", required=True, help="which accepted prompts are written into")
        parser.add_argument("--guideline", required=True, help="G (latest published) or G@V")
        parser.add_argument(
            "--target",
            dest="targets",
            required=True,
            action="append",
            type=_read_target,
            metavar="MODEL=URL[#SERVED]",
            help="a model, its OpenAI-compatible endpoint and its name there, as in"
            f" m=http://127.0.0.1:8000/v1#m-chat; given 1 to {MAX_TARGETS} times",
        )
        self._add_quota_arguments(parser)
        self._add_people_arguments(parser)
        parser.add_argument(
            "--success",
            nargs="+",
            type=_read_success,
            metavar="CRITERION=LEVELS",
            help="the levels that count as a success of the attack, as in fairness=1,2 legality=1 (default: those that"
            f" the guideline's metric {ATTACK_SUCCESS_RATE} counts)",
        )
        self._add_request_arguments(parser)
        duplicates = parser.add_argument_group(
            "duplicates", "similarities, 0 to 1, from which on a text is warned of or blocked"
        )
        for name in THRESHOLDS:
            duplicates.add_argument(
                f"--{name.replace('_', '-')}",
                type=float,
                default=getattr(DEFAULT_THRESHOLDS, name),
                metavar="SHARE",
                help="default: %(default)s",
            )
        duplicates.add_argument(
            "--warn-cosine",
            type=float,
            metavar="COSINE",
            help="from which cosine of their embeddings by ASSAY_ENCODER on two texts are near in meaning, which"
            " blocks nothing; it belongs to one encoder (default: texts are not compared by meaning)",
        )
        parser.add_argument(
            "--open", action="store_true", help="open it at once; else it is a draft until somebody does"
        )
        parser.add_argument("--detach", action="store_true", help="leave the indexing to a worker")

    def _add_quota_arguments(self, parser: ArgumentParser) -> None:
        group = parser.add_argument_group("quotas", "how many prompts are wanted of each cell")
        sizes = group.add_mutually_exclusive_group(required=True)
        sizes.add_argument(
            "--quotas",
            metavar="FILE.csv",
            help="with the columns dimension, subcomponent, method, wanted and per_person (which may be empty)",
        )
        sizes.add_argument(
            "--wanted", type=int, metavar="N", help="so many of every subcomponent by every attack method"
        )
        group.add_argument(
            "--per-person",
            type=int,
            metavar="N",
            help="with --wanted: of each cell at most so many by one person",
        )

    def _add_people_arguments(self, parser: ArgumentParser) -> None:
        group = parser.add_argument_group("people")
        group.add_argument("--authors", nargs="*", default=[], metavar="NAME", help="who write prompts")
        group.add_argument("--reviewers", nargs="*", default=[], metavar="NAME", help="who review them")
        group.add_argument(
            "--blind",
            action="store_true",
            help="authors and reviewers know the targets by letters alone until the campaign closes",
        )
        for language in DISCLOSURES:
            group.add_argument(
                f"--disclosure-{language}",
                metavar="TEXT|@FILE",
                help="what an author reads before joining, in this language",
            )
        group.add_argument(
            "--languages",
            nargs="+",
            default=["zh"],
            metavar="L",
            help="of the prompts, as in zh,en (default: zh)",
        )

    def _add_request_arguments(self, parser: ArgumentParser) -> None:
        group = parser.add_argument_group("requests", "what is asked of the targets, and how; alike of each")
        group.add_argument(
            "--requests", type=int, metavar="N", help="at most so many in all (default: no limit)"
        )
        group.add_argument(
            "--requests-per-person",
            type=int,
            metavar="N",
            help="at most so many of one author (default: no limit)",
        )
        group.add_argument(
            "--timeout",
            type=float,
            default=TargetSpec.model_fields["timeout"].default,
            help="seconds until a request is given up (default: %(default)s)",
        )
        group.add_argument("--system", metavar="TEXT|@FILE", help="the message before each prompt")
        add_settings_arguments(parser)

    def act(self, **options: Any) -> dict[str, Any]:
        spec = self._build_spec(options)
        with transaction.atomic():
            campaign = create_campaign(spec, send=options["detach"])
            if options["open"]:
                campaign = set_state(campaign=campaign, state=Campaign.State.OPEN)
            jobs = Job.objects.filter(kind=INDEX_JOB, payload__dataset=campaign.dataset_id)
            job = jobs.latest("pk")
            embeddings = Job.objects.filter(kind=EMBED_JOB, payload__dataset=campaign.dataset_id)
            embedding = embeddings.order_by("pk").last()
        if not options["detach"]:
            job = self.run_job(job)
            # One that is behind another campaign's is told to a worker when that is done.
            if spec.warn_cosine is not None and embedding is not None and embedding.depends_on_id is None:
                self.run_job(embedding)
        return {
            "campaign": campaign.name,
            "state": campaign.state,
            "dataset": campaign.dataset.name,
            "guideline": str(campaign.guideline),
            "targets": {target.letter: target.model.name for target in campaign.campaigntargets.all()},
            "blind": campaign.is_blind,
            "success": campaign.success,
            "cells": len(spec.quotas),
            "wanted": sum(quota.wanted for quota in spec.quotas),
            "authors": len(spec.authors),
            "reviewers": len(spec.reviewers),
            "job": {"id": job.pk, "state": job.state},
            "indexed": job.result.get("indexed"),
        }

    def show(self, data: dict[str, Any]) -> None:
        targets = ", ".join(f"{letter} {model}" for letter, model in data["targets"].items())
        self.stdout.write(
            f"campaign {data['campaign']} ({data['state']}): {data['wanted']} prompts wanted in {data['cells']} cells"
        )
        self.stdout.write(f"targets{' (blind)' if data['blind'] else ''}: {targets}")
        self.stdout.write(f"{data['authors']} authors, {data['reviewers']} reviewers")
        if data["indexed"] is None:
            self.stdout.write(
                f"job {data['job']['id']} is {data['job']['state']}: a worker indexes the texts"
            )
        else:
            self.stdout.write(f"{data['indexed']} texts of {data['dataset']} indexed")

    def _build_spec(self, options: Mapping[str, Any]) -> CampaignSpec:
        dataset, guideline = get_dataset(options["dataset"]), get_guideline(options["guideline"])
        settings = read_settings(options)
        disclosures = {language: options[f"disclosure_{language}"] for language in DISCLOSURES}
        return CampaignSpec(
            name=options["name"],
            dataset=dataset.pk,
            guideline=guideline.pk,
            targets=tuple(
                TargetSpec(
                    model=model,
                    endpoint=url,
                    served_model=served,
                    settings=settings,
                    timeout=options["timeout"],
                )
                for model, url, served in options["targets"]
            ),
            quotas=tuple(_build_quotas(options, guideline.document)),
            success=_choose_success(options["success"], guideline.document),
            languages=tuple(split_name_lists(options["languages"])),
            authors=tuple(person.pk for person in get_people(split_name_lists(options["authors"]))),
            reviewers=tuple(person.pk for person in get_people(split_name_lists(options["reviewers"]))),
            is_blind=options["blind"],
            disclosure={
                language: _read_disclosure(text) for language, text in disclosures.items() if text is not None
            },
            requests_per_person=options["requests_per_person"],
            max_requests=options["requests"],
            **{name: options[name] for name in (*THRESHOLDS, "warn_cosine")},
        )


def _build_quotas(options: Mapping[str, Any], document: GuidelineDocument) -> Sequence[QuotaSpec]:
    methods = list(AttackMethod.objects.filter(archived_at=None).values_list("name", flat=True))
    methods = methods or [method.name for method in FLAMES_METHODS]
    if options["quotas"] is not None:
        if options["per_person"] is not None:
            raise AssayError(N_("The file of quotas has a column per_person; leave --per-person out."))
        return read_quotas(Source(options["quotas"]), document, methods)
    return [
        QuotaSpec(
            dimension=dimension,
            subcomponent=subcomponent,
            method=method,
            wanted=options["wanted"],
            per_person=options["per_person"],
        )
        for dimension in document.dimension_names or ("",)
        for subcomponent in list_subcomponents(document, dimension) or ("",)
        for method in methods
    ]


def _choose_success(
    stated: Sequence[tuple[str, tuple[float, ...]]] | None, document: GuidelineDocument
) -> dict[str, tuple[float, ...]]:
    if stated is not None:
        names = [name for name, _levels in stated]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise AssayError(
                N_("The criterion {name} is named twice in --success; name it once."), name=twice
            )
        return dict(stated)
    success = default_success(document)
    if not success:
        raise AssayError(
            N_(
                "{guideline} declares no metric {metric}: say which levels count as a success, as in --success"
                " {criterion}=1."
            ),
            guideline=f"{document.name}@{document.version}",
            metric=ATTACK_SUCCESS_RATE,
            criterion=next((criterion.name for criterion in document.countable_criteria), "CRITERION"),
        )
    return success


def _read_disclosure(text: str) -> str:
    disclosure = read_text(text)
    if len(disclosure) > MAX_SYSTEM_CHARACTERS:  # a file is read no further
        raise AssayError(N_("A disclosure has at most {most} characters."), most=MAX_SYSTEM_CHARACTERS)
    return disclosure


def _read_target(text: str) -> Target:
    model, _is, address = text.partition("=")
    url, _hash, served = address.partition("#")
    if not model or not url:
        raise ArgumentTypeError(
            f"{text[:80]!r}: write MODEL=URL or MODEL=URL#SERVED, as in m=http://127.0.0.1:8000/v1"
        )
    return model, url, served


def _read_success(text: str) -> tuple[str, tuple[float, ...]]:
    name, _is, levels = text.partition("=")
    numbers = [as_number(level) for level in levels.split(",")]
    known = tuple(number for number in numbers if number is not None)
    if not name or len(known) < len(numbers):
        raise ArgumentTypeError(f"{text[:80]!r}: write CRITERION=LEVELS, as in fairness=1,2")
    return name, known
