from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.management.base import AssayCommand
from annotation.selectors.studies.deletion import get_existing_study
from annotation.services.studies.archive import set_study_archived


class Command(AssayCommand):
    help = (
        "Archive a study: it is read, it is out of the lists, and nothing in it changes until --restore brings it back"
        " (docs/studies.md)."
    )
    is_of_study = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--restore", action="store_true", help="bring it back")

    def act(self, **options: Any) -> dict[str, Any]:
        study = get_existing_study(options["name"])
        changed = set_study_archived(study=study, archived=not options["restore"])
        return {"study": study.name, "archived": not options["restore"], "changed": changed}

    def show(self, data: dict[str, Any]) -> None:
        state = "archived" if data["archived"] else "restored"
        self.stdout.write(f"{data['study']} is {state}{'' if data['changed'] else ' already'}.")
