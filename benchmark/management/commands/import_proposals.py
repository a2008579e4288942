from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from annotation.domain.formats import ReadOptions, Source
from annotation.management.base import AssayCommand
from benchmark.domain.workbench.campaigns import MALICE
from benchmark.domain.workbench.formats import COLUMN_NAMES, FORMATS, choose_format
from benchmark.management.campaigns import get_named_campaign
from benchmark.services.workbench.imports import ProposalDefaults, import_proposals


class Command(AssayCommand):
    help = (
        "Take prompts that were written elsewhere into a campaign, as proposals of their authors; each file is taken"
        " whole or not at all, and the same file twice changes nothing (docs/workbench.md)."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", metavar="file")
        parser.add_argument("--campaign", required=True, metavar="NAME")
        parser.add_argument(
            "--format",
            choices=FORMATS,
            help="table is a spreadsheet, CSV of any kind, JSON or Parquet with any header (default: as the content"
            " shows it)",
        )
        parser.add_argument(
            "--map",
            nargs="+",
            action="extend",
            default=[],
            type=_split_assignment,
            metavar="FIELD=COLUMN",
            help="which column of a table is which field, where the header does not show it: author=谁写的",
        )
        parser.add_argument("--sheet", help="of a spreadsheet (default: the first)")
        parser.add_argument(
            "--encoding", help="of a text file, such as gb18030 (default: as its bytes show it)"
        )
        parser.add_argument("--author", default="", help="who wrote it, where the file does not say")
        parser.add_argument("--method", default="", help="its attack method, where the file does not say")
        parser.add_argument("--malice", default="", choices=MALICE, help="where the file does not say")
        parser.add_argument("--language", default="", help="such as zh, where the file does not say")
        parser.add_argument(
            "--accepted",
            action="store_true",
            help="they were reviewed elsewhere: each becomes a prompt at once, and the audit trail says so",
        )
        parser.add_argument(
            "--extend-quotas",
            action="store_true",
            help="give a cell that is full or unknown the places that the file needs",
        )

    def act(self, **options: Any) -> dict[str, Any]:
        campaign = get_named_campaign(options["campaign"])
        fields = dict(options["map"])
        own = {name: column for name, column in fields.items() if name in COLUMN_NAMES}
        read_options = ReadOptions(
            sheet=options["sheet"],
            encoding=options["encoding"],
            fields={name: column for name, column in fields.items() if name not in own},
        )
        defaults = ProposalDefaults(*(options[name] for name in ("author", "method", "malice", "language")))
        reports = []
        for file in options["files"]:
            source = Source(file, options=read_options)
            with self.fraction() as watch:
                report = import_proposals(
                    campaign=campaign,
                    source=source,
                    format_name=choose_format(source, options["format"], own),
                    columns=own,
                    defaults=defaults,
                    accepted=options["accepted"],
                    extend_quotas=options["extend_quotas"],
                    watcher=watch,
                )
            reports.append(report.to_json())
        return {
            "campaign": campaign.name,
            **{
                name: sum(report[name] for report in reports)
                for name in ("taken", "accepted", "already_there")
            },
            "files": reports,
        }

    def show(self, data: dict[str, Any]) -> None:
        for report in data["files"]:
            made = f", {report['made']['people']} people made" if report["made"]["people"] else ""
            accepted = f" ({report['accepted']} accepted)" if report["accepted"] else ""
            self.stdout.write(
                f"{report['file']}: {report['taken']} proposals taken{accepted}, {report['already_there']} already"
                f" there{made}"
            )
            near = report["near"]
            if near["warned"] or near["blocked"]:
                self.stdout.write(
                    f"  near to another text: {near['warned']} warned of, {near['blocked']} blocked and explained"
                )
            if report["quotas_extended"]:
                self.stdout.write(f"  {report['quotas_extended']} cells got more places")
            for note in report["notes"]:
                self.stdout.write(f"  note: {note}")


def _split_assignment(text: str) -> tuple[str, str]:
    name, equals, column = text.partition("=")
    if not equals or not name:
        raise ArgumentTypeError(f"{text[:80]!r}: write FIELD=COLUMN, as in author=作者")
    return name.strip(), column.strip()
