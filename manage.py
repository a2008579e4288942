#!/usr/bin/env python
"""Django's command line for Assay."""

from __future__ import annotations

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    if sys.argv[1:] in (["version"], ["--version"]):  # Django's are about Django
        from annotation.core.version import code_version

        print(f"Assay {code_version()}")
        return
    from django.core.management import execute_from_command_line

    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
