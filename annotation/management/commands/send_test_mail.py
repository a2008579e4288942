from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.conf import settings

from annotation.management.base import AssayCommand
from annotation.services.mail.sending import send_test_mail


class Command(AssayCommand):
    help = "Send a mail to an address now, by the settings EMAIL_URL and ASSAY_MAIL_FROM, and say what the server said."
    is_of_study = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("address", help="to which the mail goes, such as lin@example.org")

    def act(self, **options: Any) -> dict[str, Any]:
        address = send_test_mail(options["address"])
        return {"address": address, "server": str(settings.MAIL_SERVER)}

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(f"{data['server']} took a mail to {data['address']}.")
