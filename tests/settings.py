"""The product's settings, with a data folder of its own and passwords that hash fast."""

from __future__ import annotations

import os
import tempfile

os.environ["ASSAY_DATA_DIR"] = tempfile.mkdtemp(prefix="assay-tests-")
os.environ["ASSAY_DEMO_PROCESS"] = "false"

from config.settings import *  # noqa: E402, F403

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
