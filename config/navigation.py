"""What the top bar shows: each role sees what it does, in the order in which it does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from annotation.core.http import build_study_url
from annotation.core.study_scope import get_study_scope, limit_to_studies
from annotation.domain.permissions import (
    ACTS,
    ADJUDICATE,
    FIND_CAMPAIGNS,
    LABEL,
    MANAGE_BATCHES,
    MANAGE_PEOPLE,
    READ_AGREEMENT,
    READ_BOARDS,
    READ_CAMPAIGNS,
    READ_DATA,
    READ_OWN_LABELS,
    READ_PIPELINE,
    READ_RELEASES,
    READ_SCORERS,
    WRITE_GUIDELINES,
    Act,
)
from annotation.models import ROLES, Person
from annotation.selectors.access import (
    list_archived_studies,
    list_studies_to,
    list_visible_studies,
    may,
    roles_of,
)
from annotation.selectors.batches.monitoring import count_standing_alarms
from annotation.selectors.guidelines import list_open_notes
from annotation.selectors.people import list_setup_link_notices
from benchmark.models import CampaignMember
from benchmark.selectors.workbench.reviews import count_all_waiting


@dataclass(frozen=True)
class NavigationItem:
    url: str
    label: str | Promise
    active: bool
    count: Callable[[], int] | None = None
    """What waits there; called only where the bar is drawn."""
    unit: str | Promise = ""
    """The words after the count, for who hears the page read."""


HOME = "home"
CAMPAIGNS = "campaigns"
PLACES = (
    (LABEL, "work", _("Work")),
    (ADJUDICATE, "disputes", _("Disputes")),
    (READ_OWN_LABELS, "history", _("My work")),
    (READ_PIPELINE, HOME, _("Overview")),
    (READ_DATA, "datasets", _("Data")),
    (FIND_CAMPAIGNS, CAMPAIGNS, _("Campaigns")),
    (MANAGE_BATCHES, "batches", _("Labelling")),
    (READ_AGREEMENT, "agreement", _("Quality")),
    (READ_RELEASES, "releases", _("Gold")),
    (READ_SCORERS, "scorers", _("Scorers")),
    (READ_BOARDS, "runs", _("Boards")),
    (WRITE_GUIDELINES, "guidelines", _("Guidelines")),
    (MANAGE_PEOPLE, "people", _("Members")),
)
"""Act, URL name, label: whoever may do the act has the place in their bar. The way of a study comes from left to right:
its overview, from its data to its boards, and what all of them go by.
"""


BELOW = {"datasets": ("imports", "collecting", "dialogue-runs"), "agreement": ("quality",)}
"""Other addresses at which the place is where the reader is."""
MAX_STUDIES = 8
"""Of the menu; the page of studies has all."""


class Permissions:
    """``may.cut_release`` of a template: whether the reader may do the act of that name."""

    def __init__(self, user: Any) -> None:
        self._user = user

    def __getitem__(self, name: str) -> bool:
        if (
            name not in ACTS
        ):  # a template reads past a KeyError, and a misspelt act would permit nothing in silence
            raise ImproperlyConfigured(f"There is no act {name} in annotation/domain/permissions.py.")
        return isinstance(self._user, Person) and may(self._user, ACTS[name])


def navigation(request: HttpRequest) -> dict[str, Any]:
    user = getattr(request, "user", None)
    items: list[NavigationItem] = []
    setup_notices: Callable[[], Sequence[Any]] = tuple
    roles: frozenset[str] = frozenset()
    current_study = ""
    is_archived = False
    names: list[str] = []
    if user is not None and user.is_authenticated:
        visible = list_visible_studies(user)
        roles, setup_notices = roles_of(user), partial(list_setup_link_notices, user)
        waiting: dict[str, tuple[Callable[[], int], Promise]] = {
            "batches": (partial(_count_for, user, MANAGE_BATCHES, count_standing_alarms), _("alarms")),
            "guidelines": (
                partial(_count_for, user, WRITE_GUIDELINES, lambda: list_open_notes(user).count()),
                _("open notes"),
            ),
            CAMPAIGNS: (partial(count_all_waiting, user), _("reviews")),
        }
        archived = list_archived_studies(user)
        names = [name for study, name in visible.items() if study not in archived] if len(visible) > 1 else []
        scope = get_study_scope() or frozenset()
        if len(visible) > 1 and len(scope) == 1:
            current_study = visible.get(next(iter(scope)), "")
        is_archived = bool(scope) and scope <= archived
        is_open = len(scope) > 1  # then a study is to be chosen first
        places = [] if is_open else [place for place in PLACES if _has_place(user, place[0])]
        addresses = {
            name: [reverse(name), *map(reverse, BELOW.get(name, ()))] for _act, name, _label in places
        }
        current = _find_longest(
            # Every address begins with that of the first page.
            (url for name, urls in addresses.items() for url in urls if name != HOME or url == request.path),
            request.path,
        )
        for _act, name, label in places:
            count, unit = waiting.get(name, (None, ""))
            urls = addresses[name]
            items.append(
                NavigationItem(url=urls[0], label=label, active=current in urls, count=count, unit=unit)
            )
    return {
        "navigation": items,
        "current_study": current_study,
        "study_is_archived": is_archived,
        "studies_url": "/studies/",  # without the study of the request
        "studies": [(name, build_study_url(name)) for name in names[:MAX_STUDIES]],
        "own_roles": [role for role in ROLES if role in roles],
        "may": Permissions(user),
        "setup_notices": setup_notices,
        "demo": settings.ASSAY_DEMO_PROCESS,
    }


def _has_place(person: Person, act: Act) -> bool:
    """Whoever only writes or reviews in campaigns has them in their bar as soon as they are a member of one."""
    if act is not FIND_CAMPAIGNS or may(person, READ_CAMPAIGNS):
        return may(person, act)
    return may(person, act) and CampaignMember.objects.filter(person=person, active=True).exists()


def _count_for(person: Person, act: Act, count: Callable[[], int]) -> int:
    """In the studies in which the person may do the act: also where the request is limited to none, as that of a page
    that is not there.
    """
    with limit_to_studies(list_studies_to(person, act)):
        return count()


def _find_longest(beginnings: Iterable[str], path: str) -> str | None:
    return max((beginning for beginning in beginnings if path.startswith(beginning)), key=len, default=None)
