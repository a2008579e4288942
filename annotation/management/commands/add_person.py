from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from annotation.management.base import AssayCommand
from annotation.models import ROLES
from annotation.services.people import add_person, api_token


class Command(AssayCommand):
    help = "Make a person; --token prints a token for the API."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--groups", nargs="*", default=[], help=f"any of: {', '.join(ROLES)}")
        parser.add_argument("--password", help="else you are asked for one on a terminal (empty: no sign-in)")
        parser.add_argument("--display-name", default="")
        parser.add_argument("--token", action="store_true", help="make and print an API token")

    def act(self, **options: Any) -> dict[str, Any]:
        roles = [role for text in options["groups"] for role in text.split(",") if role]
        password = options["password"]
        if password is None and not self.quiet:
            password = getpass.getpass("Password (empty: cannot sign in): ") or None
        person = add_person(
            name=options["name"], roles=roles, password=password, display_name=options["display_name"]
        )
        answer: dict[str, Any] = {"name": person.username, "groups": roles}
        return answer | ({"token": api_token(person=person)} if options["token"] else {})

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(f"{data['name']} ({', '.join(data['groups']) or '-'})")
        if "token" in data:
            self.stdout.write(f"token {data['token']}")
