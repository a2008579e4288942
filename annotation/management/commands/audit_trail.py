from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from annotation.core.errors import N_, AssayError
from annotation.management.base import AssayCommand
from annotation.models import AuditEvent
from annotation.selectors.audit.chain import find_head, verify_trail
from annotation.services.audit.chain import seal_events


class Command(AssayCommand):
    help = (
        "Print the head of the audit trail's chain, to be kept elsewhere. With --verify compute the whole chain again:"
        " exit code 1 if an event was changed or removed (docs/audit.md)."
    )
    is_of_study = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--verify", action="store_true", help="look for what was changed or removed")
        parser.add_argument(
            "--head",
            metavar="POSITION:HASH",
            help="with --verify: a head that was kept; it must be in the chain",
        )
        parser.add_argument(
            "--seal", action="store_true", help="seal what waits, of any time, before anything else"
        )

    def act(self, **options: Any) -> dict[str, Any]:
        if options["head"] and not options["verify"]:
            raise AssayError(N_("--head is for --verify: say both."))
        sealed = seal_events(is_full=True) if options["seal"] else None
        if not options["verify"]:
            head = find_head()
            return {"sealed_now": sealed, "head": None if head is None else _to_json(asdict(head))}
        expected = _parse_head(options["head"])
        with self.progress(total=AuditEvent.objects.count(), unit=" events") as bar:
            report = verify_trail(head=expected, progress=bar.update)
        return {
            "sealed_now": sealed,
            "head": None if report.head is None else _to_json(asdict(report.head)),
            "events": report.events,
            "sealed": report.sealed,
            "unsealed": report.unsealed,
            "erasures": [
                asdict(erasure) | {"at": erasure.at.isoformat(timespec="seconds")}
                for erasure in report.erasures
            ],
            "problems": [
                {"code": problem.code, "event": problem.event, "text": str(problem)}
                for problem in report.problems
            ],
        }

    def is_failure(self, data: dict[str, Any]) -> bool:
        return bool(data.get("problems"))

    def show(self, data: dict[str, Any]) -> None:
        if data["sealed_now"] is not None:
            self.stdout.write(f"{data['sealed_now']} events sealed")
        head = data["head"]
        if head is None:
            self.stdout.write("Nothing is sealed yet.")
        else:
            self.stdout.write(f"head {head['position']}:{head['digest']} (sealed {head['sealed_at']})")
        if "problems" not in data:
            return
        self.stdout.write(f"{data['events']} events, {data['sealed']} sealed, {data['unsealed']} waiting")
        for erasure in data["erasures"]:
            self.stdout.write(
                f"{erasure['events']} events were rewritten by the erasure of {erasure['pseudonym']}"
                f" (event {erasure['event']}, {erasure['at']})"
            )
        for problem in data["problems"]:
            self.stdout.write(f"problem: {problem['text']}")
        if not data["problems"]:
            but = " but by these erasures" if data["erasures"] else ""
            self.stdout.write(f"Nothing was changed or removed{but}.")


def _parse_head(text: str | None) -> tuple[int, str] | None:
    if not text:
        return None
    position, _colon, digest = text.partition(":")
    is_hash = len(digest) == 64 and set(digest.lower()) <= set("0123456789abcdef")
    if not position.isdecimal() or not is_hash:
        raise AssayError(
            N_("{text} is no head: it is POSITION:HASH, as audit_trail prints it."), text=repr(text)
        )
    return int(position), digest


def _to_json(head: dict[str, Any]) -> dict[str, Any]:
    return head | {"sealed_at": head["sealed_at"].isoformat(timespec="seconds")}
