from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.management.base import AssayCommand
from annotation.selectors.people import get_account
from annotation.services.people.people import MAX_PASSWORD_MINUTES, allow_password


class Command(AssayCommand):
    is_of_study = False
    help = (
        "Let an admin sign in by their password for a while, where ASSAY_LOCAL_PASSWORDS is false: for the day on which"
        " the identity provider is away. The form is at /sign-in/?password."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument(
            "--minutes", type=int, default=30, help=f"from now on, 1 to {MAX_PASSWORD_MINUTES} (30)"
        )

    def act(self, **options: Any) -> dict[str, Any]:
        person = get_account(options["name"])
        until = allow_password(person=person, minutes=options["minutes"])
        return {"name": person.username, "until": until.isoformat()}

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(f"{data['name']} until {data['until']}: /sign-in/?password")
