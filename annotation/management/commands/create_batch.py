from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from datetime import date
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.core.names import split_names
from annotation.domain.batch_spec import MAX_CHECK_SHARE, MAX_OVERLAP, USUAL_POLICY, BatchSpec, Policy
from annotation.domain.formats import RESPONSES
from annotation.management.base import ImportCommand
from annotation.management.policies import add_settling_arguments
from annotation.models import Batch, Person
from annotation.selectors.batches.plan import Plan, plan_batch
from annotation.selectors.datasets import get_dataset, get_models
from annotation.selectors.guidelines import get_guideline
from annotation.selectors.people import get_people, get_person
from annotation.services.batches.batches import create_batch
from annotation.services.imports import ImportReport, Run, import_batch

MAX_LEASE_SECONDS = 7 * 24 * 60 * 60


# How the file of --from is read.
FILE_OPTIONS = ("model", "format", "map", "sheet", "encoding", "preview")


class Command(ImportCommand):
    help = "Make and open a batch of a dataset's responses, which may come with it from a file."
    kind = RESPONSES

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--guideline", required=True, help="G (latest published) or G@V")
        parser.add_argument("--dataset", required=True)
        parser.add_argument(
            "--from",
            dest="file",
            metavar="FILE",
            help="put the responses of this file into the dataset first, with the prompts that stand beside them; a"
            " dataset that is not there yet is made",
        )
        parser.add_argument("--model", help="whose responses the file has, where it does not say")
        parser.add_argument("--models", nargs="*", default=[], help="only the responses of these models")
        parser.add_argument("--collection", help="only this collection's responses")
        parser.add_argument(
            "--slates", metavar="NAME", help="only the slates of this set, which make_slates made"
        )
        parser.add_argument(
            "--subcomponents",
            nargs="*",
            default=[],
            help="only responses to prompts of these, as in law,psychology: a batch for the experts of a domain",
        )
        parser.add_argument(
            "--without-faults",
            action="store_true",
            help="leave out dialogues with an empty turn, a turn cut off, a side that repeats itself, or an agent that"
            " steps out of its role",
        )
        parser.add_argument("--annotators", nargs="*", default=[])
        parser.add_argument("--adjudicators", nargs="*", default=[])
        parser.add_argument(
            "--overlap",
            type=int,
            default=USUAL_POLICY.overlap,
            help=f"annotations per task, 1 to {MAX_OVERLAP} (default %(default)s)",
        )
        parser.add_argument(
            "--overlap-share",
            type=float,
            default=USUAL_POLICY.overlap_share,
            metavar="SHARE",
            help="so many of the items get the overlap, drawn by the seed, the others one label, as in 0.2"
            " (default %(default)s)",
        )
        parser.add_argument(
            "--plan",
            default=USUAL_POLICY.plan,
            help="fixed; or open: at least the overlap, until the collection is ended (default %(default)s)",
        )
        add_settling_arguments(parser)
        parser.add_argument("--pairing", default=USUAL_POLICY.pairing, help=", ".join(Batch.Pairing.values))
        parser.add_argument(
            "--pairs",
            nargs="*",
            default=[],
            metavar="A+B",
            help="for the pairing fixed: who works with whom, as in lin+chen zhou+wu",
        )
        parser.add_argument("--order", default=USUAL_POLICY.order, help=", ".join(Batch.Order.values))
        parser.add_argument(
            "--seed",
            type=int,
            default=USUAL_POLICY.seed,
            help="of the shuffling and of the plan (default %(default)s)",
        )
        parser.add_argument(
            "--quota",
            nargs="*",
            default=[],
            metavar="N",
            help="at most so many items for each annotator, or for some: lin=100 chen=50",
        )
        parser.add_argument(
            "--exclude",
            nargs="*",
            default=[],
            metavar="WHO=DIMENSION,..",
            help="dimensions that an annotator is not given, as in lin=Fairness,Safety",
        )
        parser.add_argument(
            "--lease",
            dest="lease_seconds",
            metavar="LEASE",
            type=_parse_lease,
            default=USUAL_POLICY.lease_seconds,
            help="seconds that a claim holds (default %(default)s)",
        )
        parser.add_argument(
            "--due", dest="due_date", metavar="DUE", type=date.fromisoformat, help="YYYY-MM-DD"
        )
        parser.add_argument(
            "--agreement-threshold",
            type=float,
            metavar="ALPHA",
            help="alarm when the lower bound of Krippendorff's alpha falls below it (default: none)",
        )
        parser.add_argument(
            "--alarm",
            dest="alarm_action",
            metavar="ALARM",
            default=USUAL_POLICY.alarm_action,
            help=f"what an alarm does: {', '.join(Batch.AlarmAction.values)} (default %(default)s)",
        )
        parser.add_argument(
            "--second-adjudicator-share",
            type=float,
            default=USUAL_POLICY.second_adjudicator_share,
            metavar="SHARE",
            help="so many of the decided disputes go unmarked to another adjudicator, 0 to 1, to measure how well"
            " adjudicators agree; gold follows the first decision (default %(default)s)",
        )
        parser.add_argument(
            "--check-share",
            type=float,
            default=USUAL_POLICY.check_share,
            metavar="SHARE",
            help=f"so many of each annotator's items are gold checks, 0 to {MAX_CHECK_SHARE}, as in 0.05 "
            "(default %(default)s)",
        )
        parser.add_argument(
            "--check-feedback", action="store_true", help="tell people the right label after a gold check"
        )
        parser.add_argument(
            "--qualifying",
            default=USUAL_POLICY.qualifying,
            metavar="BY",
            help="a qualification of gold questions before the work, measured by accuracy or kappa; needs --draft",
        )
        parser.add_argument(
            "--qualifying-threshold", type=float, metavar="VALUE", help="who reaches it is given the work"
        )
        for texts in ("response", "prompt"):
            parser.add_argument(
                f"--{texts}-format",
                default=getattr(USUAL_POLICY, f"{texts}_format"),
                metavar="FORMAT",
                help=f"how {texts}s are shown: {', '.join(Batch.TextFormat.values)} (default %(default)s: each text as"
                " it looks)",
            )
        parser.add_argument(
            "--read-to-end",
            action="store_true",
            help="the page takes a label only after the end of the response was in sight",
        )
        parser.add_argument(
            "--require-introduction",
            dest="introduction_required",
            action="store_true",
            help="nobody can submit before they have read the guideline's introduction",
        )
        parser.add_argument("--draft", action="store_true", help="do not open it yet")
        self.add_file_arguments(parser)

    def act(self, **options: Any) -> dict[str, Any]:
        if options["file"]:
            return self._make_of_file(options)
        stated = [f"--{name}" for name in FILE_OPTIONS if options[name]]
        if stated:
            raise AssayError(
                N_("{options} says how a file is read; give the file with --from."), options=", ".join(stated)
            )
        with self.progress(total=1.0, bar_format="{l_bar}{bar}| {elapsed}<{remaining}") as bar:
            batch = create_batch(_build_spec(options), report=lambda done: bar.update(max(0.0, done - bar.n)))
        return _describe(batch)

    def _make_of_file(self, options: dict[str, Any]) -> dict[str, Any]:
        source, format_name = self.build_source(options["file"], options)

        def take(run: Run) -> tuple[ImportReport, Batch]:
            return import_batch(
                source=source,
                format=format_name,
                dataset=options["dataset"],
                guideline=options["guideline"],
                build_spec=lambda: _build_spec(options),
                model=options["model"],
                collection=options["collection"],
                run=run,
            )

        if options["preview"]:
            return {"preview": [self.preview(source, format_name, lambda run: take(run)[0])]}
        with self.watched_run() as run:
            report, batch = take(run)
        return _describe(batch) | {"file": report.as_json()}

    def show(self, data: dict[str, Any]) -> None:
        for preview in data.get("preview", ()):
            self.show_preview(preview)
        if "preview" in data:
            return
        if "file" in data:
            self.show_report(data["file"])
        plan = data["plan"]
        parts = [f"{data['name']} ({data['state']}): {data['tasks']} tasks"]
        if plan["loads"]:
            parts.append(f"each person {_format_range(plan['loads'])}")
        if plan["shared"]:
            parts.append(f"each pair {_format_range(plan['shared'])}")
        self.stdout.write(", ".join(parts))


def _describe(batch: Batch) -> dict[str, Any]:
    plan = plan_batch(batch)
    return {"name": batch.name, "state": batch.state, "tasks": plan.tasks, "plan": _summary(plan)}


def _build_spec(options: dict[str, Any]) -> BatchSpec:
    quota, quotas = _read_quotas(options["quota"])
    excluded = _read_exclusions(options["exclude"])
    return BatchSpec.model_validate(
        {
            "name": options["name"],
            "guideline": get_guideline(options["guideline"]),
            "dataset": get_dataset(options["dataset"]),
            "models": get_models(_split_all(options["models"])),
            "collection": options["slates"] or options["collection"],
            "subcomponents": _split_all(options["subcomponents"]),
            "without_faults": options["without_faults"],
            "annotators": get_people(_split_all(options["annotators"])),
            "adjudicators": get_people(_split_all(options["adjudicators"])),
            "pairs": [_read_pair(text) for text in options["pairs"]],
            "quota": quota,
            "shares": {
                person: {
                    "quota": quotas.get(person),
                    "excluded_dimensions": sorted(set(excluded.get(person, []))),
                }
                for person in dict.fromkeys([*quotas, *excluded])
            },
            "policy": {name: options[name] for name in Policy.model_fields if name in options},
            "open_now": not options["draft"],
        }
    )


def _summary(plan: Plan) -> dict[str, Any]:
    """``loads`` and ``shared`` are null where nothing is planned: in a pool, in a draft without enough people."""
    sharing = plan.sharing
    even = sharing is not None and sharing.low is not None
    return {
        "pairing": plan.pairing,
        "annotations": plan.annotations,
        "loads": {"min": sharing.least, "max": sharing.most} if sharing is not None else None,
        "shared": {"min": sharing.low, "max": sharing.high} if sharing is not None and even else None,
    }


def _format_range(numbers: dict[str, int]) -> str:
    low, high = numbers["min"], numbers["max"]
    return str(low) if low == high else f"{low} to {high}"


def _read_pair(text: str) -> list[Person]:
    parts = text.split("," if "," in text else "+")
    return [get_person(name.strip()) for name in parts if name.strip()]


def _read_quotas(texts: list[str]) -> tuple[int | None, dict[Person, int]]:
    """From ``100`` (for everybody) and ``lin=100 chen=50``."""
    for_all, quotas = None, {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            quota = int(number)
        except ValueError as error:
            raise AssayError(
                N_("{text} is no quota: write a whole number, or a person's, as in lin=100."), text=repr(text)
            ) from error
        if equals:
            quotas[get_person(name)] = quota
        else:
            for_all = quota
    return for_all, quotas


def _read_exclusions(texts: list[str]) -> dict[Person, list[str]]:
    """From ``lin=Fairness,Safety``."""
    excluded: dict[Person, list[str]] = {}
    for text in texts:
        name, equals, dimensions = text.partition("=")
        if not equals or not split_names(dimensions):
            raise AssayError(
                N_("{text} excludes nothing: write who, = and the dimensions, as in lin=Fairness,Safety."),
                text=repr(text),
            )
        excluded.setdefault(get_person(name), []).extend(split_names(dimensions))
    return excluded


def _parse_lease(text: str) -> int:
    seconds = int(text)
    if seconds > MAX_LEASE_SECONDS:
        raise ArgumentTypeError(f"{text} is more than {MAX_LEASE_SECONDS} seconds, a week")
    return seconds


def _split_all(values: list[str]) -> list[str]:
    return [name for value in values for name in split_names(value)]
