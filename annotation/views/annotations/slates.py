"""What differs between two entries of a slate, for the page on which they stand side by side."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpRequest, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET

from annotation.core.errors import N_, NotFound
from annotation.domain.permissions import HANDLE_CLAIMS
from annotation.domain.texts.differences import find_differences
from annotation.selectors.assignments.items import WorkItem, build_item, get_own_assignment
from annotation.views.access import act_required, person_of


@require_GET
@never_cache
@act_required(HANDLE_CLAIMS)
def differences(request: HttpRequest, assignment_id: UUID) -> JsonResponse:
    """The spans of the words that differ between the responses at two positions, counted in code points of a turn."""
    item = build_item(get_own_assignment(assignment_id, person_of(request)))
    turns = [_get_judged_turn(item, request.GET.get(name, "")) for name in ("first", "second")]
    places = find_differences(*(item.turns[turn].text for turn in turns))
    spans = [
        {"turn": turn, "start": start, "end": end}
        for turn, runs in zip(turns, places, strict=True)
        for start, end in runs
    ]
    return JsonResponse({"spans": spans})


def _get_judged_turn(item: WorkItem, position: str) -> int:
    for number, (_place, turns) in enumerate(item.entries, start=1):
        judged = [turn for turn in turns if item.turns[turn].is_judged]
        if str(number) == position and judged:
            return judged[-1]
    raise NotFound(N_("This item has no response {n}."), n=position[:10])
