"""A forgotten password, from the sign-in page to the new one, by keyboard alone; and the pages of mail in both
languages and widths.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from annotation.models import OutgoingMail, Person
from tests.mail import get_text, give_address, run_host, send_all, use_server

pytestmark = pytest.mark.browser
