from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.management.base import AssayCommand
from annotation.selectors.people import get_account
from annotation.services.studies import create_study


class Command(AssayCommand):
    is_of_study = False
    help = "Make a study, with people who have an account as its managers."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--title", default="")
        parser.add_argument("--managers", nargs="*", default=[], help="people who have an account")

    def act(self, **options: Any) -> dict[str, Any]:
        people = [get_account(name) for name in options["managers"]]
        study = create_study(name=options["name"], title=options["title"], managers=people)
        return {"study": study.name, "managers": [person.username for person in people]}

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(f"{data['study']} ({', '.join(data['managers']) or '-'})")
