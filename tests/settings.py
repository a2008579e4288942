"""The product's settings, with a data folder of its own and passwords that hash fast."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from typing import Any

os.environ["ASSAY_DATA_DIR"] = tempfile.mkdtemp(prefix="assay-tests-")
atexit.register(shutil.rmtree, os.environ["ASSAY_DATA_DIR"], ignore_errors=True)
os.environ["ASSAY_DEMO_PROCESS"] = "false"

from config.settings import *  # noqa: E402, F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# A job's beat comes from a thread of its own: it would wait for the transaction of the test, and the job for the beat.
if "ASSAY_JOB_HEARTBEAT_SECONDS" not in os.environ:
    JOB_HEARTBEAT_SECONDS = 1000

# A file and not memory: threads and worker processes of a test must meet in one database. What is written need not
# outlive the machine, so nobody waits for its disk.
_database: Any = DATABASES["default"]  # noqa: F405
if _database["ENGINE"] == "django.db.backends.sqlite3":
    _database["TEST"] = {"NAME": str(ASSAY_DATA_DIR / "test.sqlite3")}  # noqa: F405
    _database["OPTIONS"]["init_command"] += " PRAGMA synchronous=OFF;"
else:
    _database.setdefault("OPTIONS", {}).setdefault("options", "-c synchronous_commit=off")
