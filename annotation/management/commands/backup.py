from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from annotation.management.base import AssayCommand
from annotation.services.upkeep.backups import make_backup


class Command(AssayCommand):
    help = "Back up the database and the files of the data folder, while everybody works on."
    is_of_study = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", metavar="DIR", help="a new folder, outside of the data folder")
        parser.add_argument(
            "--with-secrets",
            action="store_true",
            help="with the key that is kept in the data folder where SECRET_KEY is not set",
        )

    def act(self, **options: Any) -> dict[str, Any]:
        folder = Path(options["folder"])
        with self.fraction() as watch:
            manifest = make_backup(folder, with_secrets=options["with_secrets"], report=watch)
        return {
            "folder": str(folder),
            "sha256": manifest.sha256,
            "made_at": manifest.made_at,
            "version": manifest.version,
            "tables": len(manifest.tables),
            "rows": manifest.rows,
            "files": len(manifest.files),
            "bytes": manifest.bytes,
            "missing": list(manifest.missing),
            "secrets": list(manifest.secrets),
        }

    def show(self, data: dict[str, Any]) -> None:
        self.stdout.write(
            f"{data['folder']}: {data['rows']:,} rows of {data['tables']} tables, {data['files']:,} files,"
            f" {data['bytes']:,} bytes"
        )
        for path in data["missing"]:
            self.stderr.write(f"missing: {path} (a row names it, and it is not in the data folder)")
        if not data["secrets"]:
            self.stdout.write("SECRET_KEY is not in it: keep it elsewhere.")
