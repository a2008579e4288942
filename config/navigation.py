"""What the top bar shows: each role sees what it does, in the order in which it does it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from annotation.core.http import build_study_url
from annotation.core.study_scope import get_study_scope
from annotation.models import ADJUDICATOR, ANNOTATOR, MANAGER, RESEARCHER, ROLES
from annotation.selectors.access import list_visible_studies, roles_of
from annotation.selectors.batches.monitoring import count_standing_alarms
from annotation.selectors.guidelines import list_open_notes
from annotation.selectors.people import list_setup_link_notices


@dataclass(frozen=True)
class NavigationItem:
    url: str
    label: str | Promise
    active: bool
    count: Callable[[], int] | None = None
    """What waits there; called only where the bar is drawn."""
    unit: str | Promise = ""
    """The words after the count, for who hears the page read."""


# (role, URL name, label); a manager and a researcher both read agreement and gold.
PLACES = (
    (ANNOTATOR, "work", _("Work")),
    (ADJUDICATOR, "disputes", _("Disputes")),
    (ANNOTATOR, "history", _("My work")),
    (ADJUDICATOR, "history", _("My work")),
    (MANAGER, "batches", _("Batches")),
    (MANAGER, "imports", _("Imports")),
    (MANAGER, "guidelines", _("Guidelines")),
    (MANAGER, "people", _("People")),
    (MANAGER, "agreement", _("Agreement")),
    (MANAGER, "releases", _("Gold")),
    (RESEARCHER, "agreement", _("Agreement")),
    (RESEARCHER, "releases", _("Gold")),
    (RESEARCHER, "scorers", _("Scorers")),
    (RESEARCHER, "runs", _("Benchmarks")),
)


def navigation(request: HttpRequest) -> dict[str, Any]:
    user = getattr(request, "user", None)
    items: dict[str, NavigationItem] = {}
    setup_notices: Callable[[], Sequence[Any]] = tuple
    roles: frozenset[str] = frozenset()
    current_study = ""
    visible: dict[int, str] = {}
    if user is not None and user.is_authenticated:
        visible = list_visible_studies(user)
        roles, setup_notices = roles_of(user), partial(list_setup_link_notices, user)
        waiting: dict[str, tuple[Callable[[], int], Promise]] = {
            "batches": (count_standing_alarms, _("alarms")),
            "guidelines": (lambda: list_open_notes(user).count(), _("open notes")),
        }
        scope = get_study_scope() or frozenset()
        if len(visible) > 1 and len(scope) == 1:
            current_study = visible.get(next(iter(scope)), "")
        is_open = len(scope) > 1  # then a study is to be chosen first
        for role, name, label in PLACES:
            if not is_open and (role in roles or user.is_superuser):
                url = reverse(name)
                count, unit = waiting.get(name, (None, ""))
                active = request.path.startswith(url)
                item = NavigationItem(url=url, label=label, active=active, count=count, unit=unit)
                items.setdefault(name, item)
    return {
        "navigation": list(items.values()),
        "current_study": current_study,
        "studies": [(name, build_study_url(name)) for name in visible.values() if len(visible) > 1],
        "own_roles": [role for role in ROLES if role in roles],
        "setup_notices": setup_notices,
        "demo": settings.ASSAY_DEMO_PROCESS,
    }
