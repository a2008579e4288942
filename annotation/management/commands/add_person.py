from __future__ import annotations

import getpass
import sys
from argparse import ArgumentParser
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction

from annotation.core.errors import N_, AssayError
from annotation.core.names import split_names
from annotation.management.base import AssayCommand
from annotation.models import ROLES, ApiToken, Person
from annotation.selectors.datasets import get_models
from annotation.services.people.people import add_person
from annotation.services.people.tokens import MAX_DAYS, make_token

TOKEN_NAME = "add_person"  # noqa: S105  (what the token is called)


class Command(AssayCommand):
    help = "Make a person; --token prints a token for the API, --password reads a password."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--groups", nargs="*", default=[], help=f"any of: {', '.join(ROLES)}")
        parser.add_argument(
            "--password",
            action="store_true",
            help="read the password from a prompt, or one line of what is piped in; else the person cannot sign in"
            " until a manager made a set-up link for them",
        )
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
        parser.add_argument(
            "--scope", choices=ApiToken.Scope.values, default="work", help="of the token (work)"
        )
        parser.add_argument(
            "--days", type=int, default=MAX_DAYS, help=f"for which the token is valid ({MAX_DAYS})"
        )

    def act(self, **options: Any) -> dict[str, Any]:
        roles = [role for text in options["groups"] for role in text.split(",") if role]
        password = _read_password(options["name"], options["display_name"]) if options["password"] else None
        own_models = get_models([name for text in options["own_models"] for name in split_names(text)])
        with transaction.atomic():  # nobody is there whose token was refused
            person = add_person(
                name=options["name"],
                roles=roles,
                password=password,
                display_name=options["display_name"],
                languages=[tag for text in options["languages"] for tag in split_names(text)],
                own_models=own_models,
                signs_in=bool(roles or password or options["token"]),
            )
            token = _make_token(person, options) if options["token"] else None
        answer: dict[str, Any] = {
            "name": person.username,
            "groups": roles,
            "languages": person.languages,
            "own_models": [model.name for model in own_models],
        }
        return answer | ({"token": token} if token else {})

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(f"{data['name']} ({', '.join(data['groups']) or '-'})")
        if "token" in data:
            self.stdout.write(f"token {data['token']}")


def _make_token(person: Person, options: dict[str, Any]) -> str:
    _token, text = make_token(
        person=person, name=TOKEN_NAME, scope=options["scope"], days=options["days"], actor=None
    )
    return text


def _read_password(name: str, display_name: str) -> str:
    """Never an argument: those stand in the shell's history and in the list of processes."""
    if sys.stdin.isatty():
        password = getpass.getpass("Password: ")
        if getpass.getpass("The password again: ") != password:
            raise AssayError(N_("The two passwords are not the same."))
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    try:
        validate_password(password, Person(username=name, display_name=display_name))
    except ValidationError as error:
        raise AssayError(N_("The password is refused: {why}"), why=" ".join(error.messages)) from error
    return password
