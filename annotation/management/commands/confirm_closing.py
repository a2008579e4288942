from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.management.base import AssayCommand
from annotation.selectors.batches import get_batch
from annotation.services.batches.batches import confirm_closing


class Command(AssayCommand):
    help = "Confirm the closing of a batch by somebody who works in it: its results open to them, too."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the batch")

    def act(self, **options: Any) -> dict[str, Any]:
        batch = confirm_closing(batch=get_batch(options["name"]), actor=None)
        return {"batch": batch.name, "closed_by": batch.closed_by.username if batch.closed_by else None}

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(f"{data['batch']}: its results are open to {data['closed_by']}")
