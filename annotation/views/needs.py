"""Why nobody left may take an item, in words: whom each reason keeps away."""

from __future__ import annotations

from collections.abc import Sequence

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from annotation.distribution import NOT_THIS_DIMENSION, NOT_THIS_LANGUAGE, NOT_THIS_TOPIC, OWN_MODEL
from annotation.selectors.needs import ANNOTATED, FAILED, LABELLED, NOT_PLANNED, QUOTA, SKIPPED, Why

MOST_NAMED = 5


def why_words(why: Why, dimension: str, language: str) -> str:
    """For example ``lin and chen skipped it``; ``dimension`` and ``language`` are the item's."""
    names = [str(one.person) for one in why.people]
    words = _words(why.reason, len(names))
    return words.format(names=_named(names), dimension=dimension, language=language)


def _words(reason: str, n: int) -> str:
    known = {
        SKIPPED: ngettext("{names} skipped it", "{names} skipped it", n),
        QUOTA: ngettext("{names} has reached the quota", "{names} have reached the quota", n),
        FAILED: ngettext(
            "{names} did not pass the qualification", "{names} did not pass the qualification", n
        ),
        LABELLED: ngettext(
            "{names} labelled it or has it at hand", "{names} labelled it or have it at hand", n
        ),
        ANNOTATED: ngettext("{names} was given it to annotate", "{names} were given it to annotate", n),
        NOT_PLANNED: ngettext(
            "{names} is not among those it is planned for",
            "{names} are not among those it is planned for",
            n,
        ),
        NOT_THIS_DIMENSION: ngettext(
            "{names} is given nothing of {dimension}", "{names} are given nothing of {dimension}", n
        ),
        NOT_THIS_TOPIC: ngettext("{names} does not read this topic", "{names} do not read this topic", n),
        OWN_MODEL: ngettext("{names} helped to build the model", "{names} helped to build the model", n),
        NOT_THIS_LANGUAGE: ngettext("{names} does not read {language}", "{names} do not read {language}", n),
    }
    return known[reason]


def _named(names: Sequence[str]) -> str:
    """The first few, and how many more there are."""
    shown = _(", ").join(names[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    if more <= 0:
        return shown
    return ngettext("{names} and {n} more", "{names} and {n} more", more).format(names=shown, n=more)
