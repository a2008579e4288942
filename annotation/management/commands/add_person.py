from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from annotation.management.base import AssayCommand, names
from annotation.models import ROLES
from annotation.selectors.corpus import models_named
from annotation.services.people import add_person, api_token


class Command(AssayCommand):
    help = "Make a person; --token prints a token for the API."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--groups", nargs="*", default=[], help=f"any of: {', '.join(ROLES)}")
        parser.add_argument("--password", help="else you are asked for one on a terminal (empty: no sign-in)")
        parser.add_argument("--display-name", default="")
        parser.add_argument(
            "--languages",
            nargs="*",
            default=[],
            help="what the person reads, such as zh en (none: everything)",
        )
        parser.add_argument(
            "--own-models",
            nargs="*",
            default=[],
            help="models that the person helped to build and never judges",
        )
        parser.add_argument("--token", action="store_true", help="make and print an API token")

    def act(self, **options: Any) -> dict[str, Any]:
        roles = [role for text in options["groups"] for role in text.split(",") if role]
        password = options["password"]
        if password is None and not self.quiet:
            password = getpass.getpass("Password (empty: cannot sign in): ") or None
        own_models = models_named([name for text in options["own_models"] for name in names(text)])
        person = add_person(
            name=options["name"],
            roles=roles,
            password=password,
            display_name=options["display_name"],
            languages=[tag for text in options["languages"] for tag in names(text)],
            own_models=own_models,
        )
        answer: dict[str, Any] = {
            "name": person.username,
            "groups": roles,
            "languages": person.languages,
            "own_models": [model.name for model in own_models],
        }
        return answer | ({"token": api_token(person=person)} if options["token"] else {})

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(f"{data['name']} ({', '.join(data['groups']) or '-'})")
        if "token" in data:
            self.stdout.write(f"token {data['token']}")
