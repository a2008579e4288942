"""What an annotator may say about an item beside its label. Pure."""

from __future__ import annotations

from annotation.errors import N_

# Goes to the managers with the item, as a note on the clause.
GUIDELINE_UNCLEAR = "guideline_unclear"

FLAGS = {
    GUIDELINE_UNCLEAR: N_("The guideline does not settle this case"),
    "truncated": N_("The response is cut off or garbled"),
    "wrong_language": N_("The response is in the wrong language"),
    "distressing": N_("This was hard to read"),
    "unsure": N_("I am not sure of this label"),
}

# What was submitted under a name that is no longer offered is still shown in words.
RETIRED = {
    "unclear_guideline": FLAGS[GUIDELINE_UNCLEAR],
    "broken_response": FLAGS["truncated"],
    "upsetting": FLAGS["distressing"],
}


def words_of(flag: str) -> str:
    """What a flag says, to be translated; an unknown one is its own name."""
    return FLAGS.get(flag) or RETIRED.get(flag, flag)
