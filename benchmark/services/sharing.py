"""Links for outsiders: a run's page for whoever has its address (docs/decisions/links-for-outsiders.md).

The address is told once, to whoever makes the link; only its hash is stored.
"""

from __future__ import annotations

import secrets
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, AssayError
from annotation.models import Person
from annotation.selectors.people import hash_secret
from annotation.services.audit import record
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.models import BenchmarkRun, ShareLink
from benchmark.selectors.leaderboards.runs import get_finished_board, refuse_sealed_run

SECRET_BYTES = 32
MAX_DAYS = 1825
MAX_NOTE_CHARACTERS = 200
OPENING_INTERVAL = timedelta(minutes=1)
"""So often is it kept when a link was last opened; a page that is asked for a thousand times writes once."""


@transaction.atomic
def share_run(
    *,
    run: BenchmarkRun,
    actor: Person,
    note: str = "",
    days: int | None = None,
    with_published: bool = False,
) -> tuple[ShareLink, str]:
    """Make a link that ends after ``days``, or when it is revoked, and its secret, which is kept nowhere.

    Published tables stand on its page only ``with_published``.
    """
    refuse_sealed_run(actor, run)
    get_finished_board(run)
    note = note.strip()
    if len(note) > MAX_NOTE_CHARACTERS or "\0" in note:
        raise AssayError(N_("A note has at most {most} characters."), most=MAX_NOTE_CHARACTERS)
    if days is not None and not 1 <= days <= MAX_DAYS:
        raise AssayError(N_("A link is valid for 1 to {most} days, or until it is revoked."), most=MAX_DAYS)
    secret = secrets.token_urlsafe(SECRET_BYTES)
    link = ShareLink.objects.create(
        run=run,
        token_sha256=hash_secret(secret),
        note=note,
        with_published=with_published,
        expires_at=None if days is None else timezone.now() + timedelta(days=days),
        created_by=actor,
    )
    expires = link.expires_at.isoformat() if link.expires_at else None
    record(
        actor=actor,
        verb=BenchmarkVerb.SHARE_RUN,
        target=f"run:{run.name}",
        link=link.pk,
        expires_at=expires,
        with_published=with_published,
    )
    return link, secret


@transaction.atomic
def revoke_link(*, link: ShareLink, actor: Person) -> None:
    """End the link. Twice changes nothing."""
    if ShareLink.objects.filter(pk=link.pk, revoked_at=None).update(revoked_at=timezone.now()):
        record(actor=actor, verb=BenchmarkVerb.REVOKE_LINK, target=f"run:{link.run.name}", link=link.pk)


def record_opening(link: ShareLink) -> None:
    """Keep that an outsider opened it just now."""
    now = timezone.now()
    if link.last_opened_at is None or now - link.last_opened_at >= OPENING_INTERVAL:
        ShareLink.objects.filter(pk=link.pk).update(last_opened_at=now)
