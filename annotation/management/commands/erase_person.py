from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from annotation.core.errors import N_, NotFound
from annotation.management.base import AssayCommand
from annotation.models import Person
from annotation.selectors.audit.erasure import preview_erasure
from annotation.services.people.erasure import check_erasure, erase_person


class Command(AssayCommand):
    help = (
        "Say what the erasure of a person would take away and what would stay. With --yes erase them: the account"
        " becomes a pseudonym for good, and labels, gold and releases stay as they are (docs/people.md)."
    )
    is_of_study = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the name to sign in with")
        parser.add_argument("--yes", action="store_true", help="do it: nothing brings the person back")

    def act(self, **options: Any) -> dict[str, Any]:
        person = Person.objects.filter(username=options["name"]).first()
        if person is None:
            raise NotFound(N_("There is no person named {names}."), names=options["name"])
        check_erasure(person=person, actor=None)
        preview = preview_erasure(person)
        pseudonym = erase_person(person=person) if options["yes"] else None
        return {"name": options["name"], "erased": options["yes"], "pseudonym": pseudonym} | asdict(preview)

    def show(self, data: dict[str, Any]) -> None:
        if data["erased"]:
            self.stdout.write(f"{data['name']} is {data['pseudonym']} from now on. Gone:")
        else:
            self.stdout.write(f"{data['name']} would be erased. What would go:")
        self._show_parts(data["goes"])
        self.stdout.write("What stays:")
        self._show_parts(data["stays"])
        for export in data["exports"]:
            self.stdout.write(f"discard by hand, it has the names of people: export {export}")
        self.stdout.write("Backups made before have the person until they are deleted.")
        if not data["erased"]:
            self.stdout.write("Nothing was changed; --yes does it.")

    def _show_parts(self, parts: list[dict[str, Any]]) -> None:
        for part in parts:
            if part["number"]:
                self.stdout.write(f"{part['number']:>8}  {part['label']}")
