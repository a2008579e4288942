from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.utils.translation import gettext

from annotation.core.errors import N_, AssayError
from annotation.core.health import CheckState, load_checks, run_checks
from annotation.core.terminal import measure_width, pad_text
from annotation.management.base import AssayCommand

WORDS = {
    CheckState.OK.value: N_("ok"),
    CheckState.WARNING.value: N_("warning"),
    CheckState.FAULT.value: N_("FAULT"),
}
COLOURS = {CheckState.WARNING.value: "WARNING", CheckState.FAULT.value: "ERROR"}


class Command(AssayCommand):
    help = "Check this installation, part by part; exit code 1 where something is at fault. See docs/operations.md."
    is_of_study = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--quick", action="store_true", help="leave out what reads files whole: weights and exports"
        )
        parser.add_argument("--only", nargs="+", metavar="CHECK", help="these checks alone, by their names")

    def act(self, **options: Any) -> dict[str, Any]:
        quick, only = options["quick"], options["only"]
        checks = load_checks()
        names = [check.name for check in checks]
        unknown = [name for name in only or () if name not in names]
        if unknown:
            raise AssayError(
                N_("There is no check named {name}; there are {names}."),
                name=unknown[0],
                names=", ".join(names),
            )
        selected = [
            check
            for check in checks
            if (only is None or check.name in only) and not (quick and check.reads_all)
        ]
        results = [
            {
                "check": check.name,
                "state": result.state.value,
                "message": result.message_text,
                "remedy": result.remedy_text,
            }
            for check, result in run_checks(selected)
        ]
        count = {state.value: sum(r["state"] == state.value for r in results) for state in CheckState}
        return {"healthy": not count["fault"], **count, "checks": results}

    def is_failure(self, data: dict[str, Any]) -> bool:
        return not data["healthy"]

    def show(self, data: dict[str, Any]) -> None:
        names = max((measure_width(result["check"]) for result in data["checks"]), default=0)
        words = max(measure_width(gettext(word)) for word in WORDS.values())
        for result in data["checks"]:
            style = getattr(self.style, COLOURS.get(result["state"], "SUCCESS"))
            word = pad_text(gettext(WORDS[result["state"]]), words, left=True)
            name = pad_text(result["check"], names, left=True)
            self.stdout.write(f"{style(word)}  {name}  {result['message']}")
            if result["remedy"]:
                self.stdout.write(f"{' ' * (words + names + 4)}→ {result['remedy']}")
        self.stdout.write(
            gettext("{fault} faults, {warning} warnings, {ok} checks passed").format(
                **{state.value: data[state.value] for state in CheckState}
            )
        )
