from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from annotation.management.base import AssayCommand
from annotation.services.upkeep.restores import check_backup, restore_backup


class Command(AssayCommand):
    help = "Put a backup into an empty database (DATABASE_URL) and an empty data folder (ASSAY_DATA_DIR)."
    is_of_study = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", metavar="DIR", help="what backup wrote")
        parser.add_argument(
            "--hold-jobs",
            action="store_true",
            help="cancel what waits or runs, so that a copy collects, trains and sends nothing",
        )
        parser.add_argument("--check", action="store_true", help="read the whole backup, and write nothing")

    def act(self, **options: Any) -> dict[str, Any]:
        folder = Path(options["folder"])
        with self.fraction() as watch:
            if options["check"]:
                manifest, outcome = check_backup(folder, watch), None
            else:
                outcome = restore_backup(folder, hold_jobs=options["hold_jobs"], report=watch)
                manifest = outcome.manifest
        return {
            "folder": str(folder),
            "sha256": manifest.sha256,
            "made_at": manifest.made_at,
            "version": manifest.version,
            "tables": len(manifest.tables),
            "rows": manifest.rows,
            "files": len(manifest.files),
            "missing": list(manifest.missing),
            "restored": outcome is not None,
            "held_jobs": outcome.held_jobs if outcome else None,
            "migrated": outcome.migrated if outcome else None,
            "same_secret_key": outcome.same_secret_key if outcome else None,
        }

    def show(self, data: dict[str, Any]) -> None:
        done = "restored" if data["restored"] else "whole and undamaged; nothing was written"
        self.stdout.write(
            f"{data['folder']} of {data['made_at']} (Assay {data['version']}): {data['rows']:,} rows of"
            f" {data['tables']} tables and {data['files']:,} files {done}"
        )
        for path in data["missing"]:
            self.stderr.write(f"missing: {path} (it was not in the data folder that was backed up)")
        if not data["restored"]:
            return
        if data["migrated"]:
            self.stdout.write("The backup was of an earlier version; the database was migrated to this one.")
        if data["held_jobs"]:
            self.stdout.write(f"{data['held_jobs']} jobs were cancelled, with the reason on their pages.")
        if not data["same_secret_key"]:
            self.stderr.write(
                "SECRET_KEY is not that of the backup: shared links end, and pseudonyms in new exports are others."
                " Set the former one if this site takes the place of the other."
            )
