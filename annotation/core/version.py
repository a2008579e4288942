"""Which code made a number. Pure."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

VERSION = "0.1.0"


@cache
def code_version() -> str:
    """``0.1.0+1a2b3c4`` in a git checkout (``.dirty`` with uncommitted changes), else ``0.1.0``.

    ``ASSAY_CODE_VERSION`` stands in where the code was shipped without its repository.
    """
    configured = os.environ.get("ASSAY_CODE_VERSION")
    return configured or VERSION + _commit()


def _commit() -> str:
    """Nothing without git. The checkout may be another person's, whom git distrusts: its code runs here already."""
    trusted = f"safe.directory={Path(__file__).resolve().parents[2]}"
    try:
        described = subprocess.run(
            ["git", "-c", trusted, "describe", "--always", "--dirty=.dirty", "--exclude=*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError:
        return ""
    return f"+{described.stdout.strip()}" if described.returncode == 0 else ""
