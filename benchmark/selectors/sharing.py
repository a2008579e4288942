"""Links for outsiders: who may open what with them, and what became of each."""

from __future__ import annotations

from django.db.models import QuerySet
from django.utils import timezone

from annotation.core.errors import N_, NotFound
from annotation.selectors.people import hash_secret
from benchmark.models import BenchmarkRun, ShareLink
from benchmark.selectors.leaderboards.runs import list_runs

STANDING, EXPIRED, REVOKED = "standing", "expired", "revoked"


def list_links(run: BenchmarkRun) -> QuerySet[ShareLink]:
    """The newest first."""
    return run.share_links.select_related("created_by")


def get_link(run: BenchmarkRun, link_id: int) -> ShareLink:
    link = run.share_links.filter(pk=link_id).first()
    if link is None:
        raise NotFound(N_("There is no such link."))
    return link


def find_state(link: ShareLink) -> str:
    if link.revoked_at is not None:
        return REVOKED
    return EXPIRED if link.expires_at is not None and link.expires_at <= timezone.now() else STANDING


def find_open_link(token: str) -> tuple[ShareLink, BenchmarkRun] | None:
    """The link with this secret and its run; None alike for one that is unknown, revoked or expired."""
    link = ShareLink.objects.filter(token_sha256=hash_secret(token)).first()
    if link is None or find_state(link) != STANDING:
        return None
    return link, list_runs().get(pk=link.run_id)
