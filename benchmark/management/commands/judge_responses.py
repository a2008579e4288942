from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.db import transaction

import benchmark.tasks  # noqa: F401 (the handlers of the jobs that this process runs)
from annotation.core.errors import N_, AssayError, Conflict, NotFound
from annotation.core.names import split_names
from annotation.management.base import AssayCommand
from annotation.models import Guideline
from annotation.selectors.datasets import get_dataset, get_models
from annotation.selectors.guidelines import get_guideline
from annotation.services import jobs
from benchmark.domain.llm_client import check_endpoint, find_key
from benchmark.management.arguments import setting
from benchmark.models import Judge, JudgeRun
from benchmark.selectors.judges.judges import get_judge, get_template
from benchmark.selectors.leaderboards.runs import get_collection
from benchmark.services.judges.judges import create_judge, start_judging


class Command(AssayCommand):
    help = (
        "Ask a judge about the responses to a dataset. What it has said already is never asked again: after a stop,"
        " give the same command again."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("judge", help="its name; with --endpoint a new one is made, if it is not there")
        parser.add_argument("--dataset", required=True)
        parser.add_argument("--models", nargs="*", default=[], help="only responses of these (default: all)")
        parser.add_argument(
            "--collection", default="", help="the collection of responses (default: the unnamed)"
        )
        parser.add_argument("--guideline", help="of a new judge: G (latest published) or G@V")
        parser.add_argument("--endpoint", metavar="URL", help="of a new judge, as http://127.0.0.1:8000/v1")
        parser.add_argument(
            "--served-model", metavar="M", help="of a new judge: what the endpoint is asked for"
        )
        parser.add_argument(
            "--template",
            type=int,
            metavar="N",
            help="of a new judge: the template's version (default: the latest)",
        )
        parser.add_argument("--temperature", type=float, help="of a new judge")
        parser.add_argument("--max-tokens", type=int, help="of a new judge")
        parser.add_argument("--seed", type=int, help="of a new judge")
        parser.add_argument(
            "--set",
            action="append",
            default=[],
            type=setting,
            metavar="KEY=JSON",
            help="of a new judge: any other generation setting",
        )
        parser.add_argument("--concurrency", type=int, default=16, help="requests at once (default: 16)")
        parser.add_argument("--timeout", type=float, default=120, help="seconds for a request (default: 120)")
        parser.add_argument("--detach", action="store_true", help="leave the work to a worker")

    def act(self, **options: Any) -> dict[str, Any]:
        request = {
            "dataset": get_dataset(options["dataset"]),
            "collection": get_collection(options["collection"]),
            "models": get_models([name for text in options["models"] for name in split_names(text)]),
            "concurrency": options["concurrency"],
            "timeout": options["timeout"],
            "send": options["detach"],
        }
        with transaction.atomic():  # a judge that cannot be asked is not made
            judging = start_judging(judge=_judge(options), **request)
        assert judging.job is not None
        if options["detach"]:
            return {"judge": judging.judge.name, "job": judging.job.pk, "state": judging.job.state}
        try:
            job = self.run_job(judging.job)
        except KeyboardInterrupt:
            jobs.cancel(job=judging.job)
            raise Conflict(
                N_("Stopped. What came back is stored: the same command goes on with the rest.")
            ) from None
        judging_result = JudgeRun.objects.get(pk=judging.pk)
        return {
            **job.result,
            "job": job.pk,
            "state": job.state,
            "requests": judging_result.requests,
            "failures": judging_result.failures,
        }

    def show(self, data: dict[str, Any]) -> None:
        if "labels" not in data:
            self.stdout.write(f"{data['judge']} waits for a worker (job {data['job']})")
            return
        self.stdout.write(
            f"{data['judge']}: {data['labels']} labels, {data['asked']} asked and {data['copied']} of equal content;"
            f" {data['off_scale']} off the scale, {data['failed']} without an answer"
        )
        for failure in data["failures"][-5:]:
            self.stdout.write(
                f"  response {failure['response']}, {failure['criterion']}:"
                f" {failure['status'] or '-'} {failure['error']}"
            )


def _judge(options: dict[str, Any]) -> Judge:
    """The one of this name, or a new one; a known one is what it is, and nothing is said of it again."""
    required = [options[name] for name in ("endpoint", "served_model", "guideline")]
    if Judge.objects.filter(name=options["judge"]).exists():
        judge = get_judge(options["judge"])
        _refuse_other(judge, options)
        return judge
    if not all(required):
        known = ", ".join(Judge.objects.values_list("name", flat=True)[:20]) or "-"
        raise NotFound(
            N_(
                "No judge is named {name}; known are: {known}."
                " For a new one give --endpoint, --served-model and --guideline."
            ),
            name=options["judge"],
            known=known,
        )
    endpoint = check_endpoint(options["endpoint"])
    find_key(endpoint)  # one that may not be sent is refused now
    guideline = get_guideline(options["guideline"])
    number = options["template"]
    return create_judge(
        name=options["judge"],
        guideline=guideline,
        endpoint=endpoint,
        served_model=options["served_model"],
        template=None if number is None else get_template(guideline.name, number),
        settings=_settings(options),
    )


def _refuse_other(judge: Judge, options: dict[str, Any]) -> None:
    """What is said of a judge that is there must be what it is."""
    stored = {
        "endpoint": judge.endpoint,
        "served_model": judge.served_model,
        "template": judge.template.number if judge.template else None,
        "guideline": judge.guideline,
        **{f"setting {name}": judge.settings.get(name) for name in _settings(options)},
    }
    requested = {
        "endpoint": check_endpoint(options["endpoint"]) if options["endpoint"] else None,
        "served_model": options["served_model"],
        "template": options["template"],
        "guideline": _its_guideline(judge, options["guideline"]),
        **{f"setting {name}": value for name, value in _settings(options).items()},
    }
    for name, value in stored.items():
        if requested[name] is not None and requested[name] != value:
            raise AssayError(
                N_("The judge {judge} is there already, with {value} as its {name}; choose another name."),
                judge=judge.name,
                value="-" if value is None else str(value),
                name=name.replace("_", " "),
            )


def _its_guideline(judge: Judge, text: str | None) -> Guideline | None:
    """A name without a version is the judge's own version of it: a newer one is no other judge."""
    if text in {None, judge.guideline.name}:
        return None
    return get_guideline(str(text))


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    named = {name: options[name] for name in ("temperature", "max_tokens", "seed")}
    return {name: value for name, value in named.items() if value is not None} | dict(options["set"])
