"""The sign-ins of a person, as the audit trail has them: whether somebody else tried, and from where."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone

from annotation.models import AuditEvent, Person

SIGN_IN, SIGN_OUT, FAILED, THROTTLED = "sign_in", "sign_out", "sign_in_failed", "sign_in_throttled"
SHOWN = 10
KNOWN_ADDRESS_DAYS = 90
# The first that fits: most browsers name others, too, and a phone's system names a computer's.
_BROWSERS = {
    "Edge": r"\bEdgA?/",
    "Opera": r"\bOPR/",
    "WeChat": r"\bMicroMessenger/",
    "Firefox": r"\b(Firefox|FxiOS)/",
    "Chrome": r"(Chrome|Chromium|CriOS)/",
    "Safari": r"\bSafari/",
}
_SYSTEMS = {
    "Android": r"Android",
    "iOS": r"iPhone|iPad",
    "HarmonyOS": r"HarmonyOS|OpenHarmony",
    "Windows": r"Windows",
    "macOS": r"Mac OS X|Macintosh",
    "Linux": r"Linux|X11",
}
MAX_OTHER_LENGTH = 40


@dataclass(frozen=True)
class SignInRow:
    at: datetime
    verb: str
    address: str
    device: str
    agent: str


def list_sign_ins(person: Person) -> list[SignInRow]:
    """The last ten events, the newest first."""
    events = AuditEvent.objects.filter(
        target=f"person:{person.username}", verb__in=(SIGN_IN, SIGN_OUT, FAILED, THROTTLED)
    )
    return [
        SignInRow(
            at=event.at,
            verb=event.verb,
            address=event.data.get("address", ""),
            device=describe_agent(event.data.get("agent", "")),
            agent=event.data.get("agent", ""),
        )
        for event in events.order_by("-id")[:SHOWN]
    ]


def has_signed_in_from(name: str, address: str) -> bool:
    """Whether the person of this name has, in the last 90 days."""
    lately = timezone.now() - timedelta(days=KNOWN_ADDRESS_DAYS)
    sign_ins = AuditEvent.objects.filter(target=f"person:{name}", verb=SIGN_IN, at__gte=lately)
    return sign_ins.filter(data__address=address).exists()


def describe_agent(agent: str) -> str:
    """Browser and system, such as "Firefox, Linux"; of what is neither the beginning as it was sent."""
    names = [_first_match(_BROWSERS, agent), _first_match(_SYSTEMS, agent)]
    return ", ".join(filter(None, names)) or agent[:MAX_OTHER_LENGTH]


def _first_match(patterns: dict[str, str], agent: str) -> str:
    return next((name for name, pattern in patterns.items() if re.search(pattern, agent)), "")
