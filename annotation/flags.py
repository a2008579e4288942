"""What an annotator may say about an item beside its label. Pure."""

from __future__ import annotations

from annotation.errors import N_

FLAGS = {
    "unsure": N_("I am not sure of this label"),
    "unclear_guideline": N_("The guideline does not settle this case"),
    "broken_response": N_("The response is cut off or garbled"),
    "upsetting": N_("This was hard to read"),
}
