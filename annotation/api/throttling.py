"""Programs that try tokens which are none."""

from __future__ import annotations

from rest_framework.exceptions import Throttled
from rest_framework.request import Request

from annotation.services.people.sign_ins import WAIT_SECONDS, is_token_guess_too_many


def count_refused_token(request: Request) -> None:
    """Call it for each token that is refused: too many from one address are told to wait, in place of why.

    A token that is right is never held up by others from its address, since nobody guesses one.
    """
    if is_token_guess_too_many(request._request):
        raise Throttled(wait=WAIT_SECONDS)
