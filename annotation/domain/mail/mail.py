"""The rules of mail: which kinds there are, how long each is worth sending, when it is tried again, what a line holds.

A mail names a batch, a study and people, and nothing of what they judge: no label, model, text or partner.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import timedelta
from enum import StrEnum

from annotation.core.errors import N_, AssayError

MAX_ADDRESS = 254
MAX_NAME = 80


class MailKind(StrEnum):
    PASSWORD_RESET = "password_reset"  # noqa: S105 (a kind of mail)
    CONFIRM_ADDRESS = "confirm_address"
    ADDRESS_CHANGED = "address_changed"
    INVITATION = "invitation"
    ALARM = "alarm"
    FAILED_JOB = "failed_job"
    DUE = "due"
    OVERDUE = "overdue"
    DIGEST = "digest"


# By which switch of the person a kind is sent; a kind that is not here answers an act of theirs and has none.
SWITCHES = {
    MailKind.ALARM: "alarms",
    MailKind.FAILED_JOB: "failed_jobs",
    MailKind.DUE: "due_dates",
    MailKind.OVERDUE: "due_dates",
    MailKind.DIGEST: "digest",
}
RESET_VALID = timedelta(hours=1)
CONFIRM_VALID = timedelta(days=1)
# For how long a mail is worth sending that the server does not take.
LIFETIMES = {
    MailKind.PASSWORD_RESET: RESET_VALID,
    MailKind.CONFIRM_ADDRESS: CONFIRM_VALID,
    MailKind.ADDRESS_CHANGED: timedelta(days=5),
    MailKind.INVITATION: timedelta(days=5),
    MailKind.ALARM: timedelta(days=2),
    MailKind.FAILED_JOB: timedelta(days=2),
    MailKind.DUE: timedelta(days=1),
    MailKind.OVERDUE: timedelta(days=2),
    MailKind.DIGEST: timedelta(hours=20),
}
FIRST_PAUSE, MAX_PAUSE = timedelta(minutes=1), timedelta(hours=1)

_LOCAL_PART = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_HOST_LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_LINK = re.compile(r"(?<=\w)([.@])(?=[^\W\d_]{2})|(:)(?=//)")
_WORD_JOINER = "\u2060"
_EXTRACTED = re.compile(r"<([^<>\s]+@[^<>\s]+)>|(\S+@\S+)")


def compute_pause(attempts: int) -> timedelta:
    """Until the next attempt, after so many: twice as long each time."""
    return min(MAX_PAUSE, FIRST_PAUSE * (1 << min(max(0, attempts - 1), 10)))


def check_address(text: str) -> str:
    """The address as mail servers take it: one of them, ASCII, the domain in lower case. AssayError for another."""
    local_part, _at, domain = text.strip().rpartition("@")
    try:
        host = domain.encode("idna").decode().lower()
    except UnicodeError:
        host = ""
    labels = host.split(".")
    is_well_formed = bool(_LOCAL_PART.fullmatch(local_part)) and all(map(_HOST_LABEL.fullmatch, labels))
    address = f"{local_part}@{host}"
    if not is_well_formed or len(labels) < 2 or len(local_part) > 64 or len(address) > MAX_ADDRESS:
        raise AssayError(
            N_("{address} is no e-mail address; write one such as lin@example.org."),
            address=repr(text.strip()[:MAX_ADDRESS]),
        )
    return address


def build_address_key(address: str) -> str:
    """Equal for addresses that lead to one mailbox almost everywhere: without regard to case."""
    return address.casefold()


def extract_address(line: str) -> str:
    """The address in a line such as ``Lin Wei <lin@example.org>``; empty where there is none."""
    match = _EXTRACTED.search(line)
    return (match[1] or match[2]).strip("<>,;()，；（）") if match else ""


def clean_name(name: str, limit: int = MAX_NAME) -> str:
    """A name as a mail shows it: one line, without what changes the direction of text or hides, and nothing in it that
    a program for mail makes a link of.
    """
    line = "".join(
        " " if character.isspace() or unicodedata.category(character) in {"Cc", "Zl", "Zp"} else character
        for character in name
        if unicodedata.category(character) not in {"Cf", "Cs", "Co"}
    )
    line = " ".join(line.split())
    if len(line) > limit:
        line = f"{line[: limit - 1]}…"
    return _LINK.sub(lambda match: f"{match[0]}{_WORD_JOINER}", line)
