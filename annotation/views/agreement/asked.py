from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from annotation.models import Person
from annotation.selectors.agreement import Counted, LabelPatterns
from annotation.views.agreement.choice import Choice
from annotation.views.agreement.words import Words


@dataclass(frozen=True)
class Asked:
    """What a tab is made from: who asks for what, of which labels. ``overall`` are the rows over all of them."""

    person: Person
    choice: Choice
    patterns: LabelPatterns
    overall: Sequence[Counted]
    words: Words
    page: str | None

    @property
    def headline(self) -> Counted | None:
        """The one row that stands for everything; None where there are several guidelines."""
        guidelines = {one.guideline for one in self.overall}
        return self.overall[0] if len(guidelines) == 1 else None
