from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.core.study_scope import limit_to_studies
from annotation.management.base import AssayCommand
from annotation.models import ROLES
from annotation.selectors.people import get_person
from annotation.services.people.people import set_roles


class Command(AssayCommand):
    help = "Set the roles in the study of somebody who has an account; no role takes all of them away."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--roles", nargs="*", default=[], help=f"any of: {', '.join(ROLES)}")

    def act(self, **options: Any) -> dict[str, Any]:
        with limit_to_studies(None):  # they need not be of the study yet
            person = get_person(options["name"])
        set_roles(person=person, roles=options["roles"])
        return {"name": person.username, "roles": options["roles"]}

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(f"{data['name']} ({', '.join(data['roles']) or '-'})")
