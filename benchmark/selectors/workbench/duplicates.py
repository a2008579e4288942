"""Which texts of a dataset, and of the proposals for it, a text is like."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count

from annotation.models import Prompt
from benchmark.domain.workbench.duplicates import (
    MAX_CANDIDATES,
    Level,
    compute_bands,
    find_similar,
    mark_shared,
)
from benchmark.models import Campaign, Proposal, ProposalRevision, TextBand

MAX_SHOWN = 5


@dataclass(frozen=True)
class NearText:
    """Another text, without a word of whose it is. ``jaccard``, ``edit`` and ``level`` are those of a Similarity;
    ``marks`` the ranges of the text (code points) that both share.
    """

    text: str
    is_exact: bool
    jaccard: float
    edit: float
    level: Level
    marks: tuple[tuple[int, int], ...]

    @property
    def parts(self) -> list[tuple[str, bool]]:
        """The text in pieces, each with whether it is shared."""
        ends = [0, *(end for _start, end in self.marks)]
        pieces = [
            piece
            for before, (start, end) in zip(ends, self.marks, strict=False)
            for piece in ((self.text[before:start], False), (self.text[start:end], True))
        ]
        return [piece for piece in [*pieces, (self.text[ends[-1] :], False)] if piece[0]]


def find_near_texts(campaign: Campaign, text: str, proposal: Proposal | None = None) -> list[NearText]:
    """The nearest texts that the campaign warns of, the nearest first; those of the ``proposal`` are left out."""
    if not text.strip():
        return []
    rows = TextBand.objects.filter(dataset=campaign.dataset_id, band__in=compute_bands(text))
    if proposal is not None:
        rows = rows.exclude(revision__proposal=proposal)
    # Those that share the most bands: a check stays short where all prompts share a template.
    ids = rows.values_list("prompt", "revision").annotate(n=Count("pk")).order_by("-n")[:MAX_CANDIDATES]
    prompts = [prompt for prompt, _revision, _n in ids if prompt is not None]
    revisions = [revision for _prompt, revision, _n in ids if revision is not None]
    texts = dict.fromkeys(
        [
            *Prompt.objects.filter(pk__in=prompts).values_list("text", flat=True),
            *ProposalRevision.objects.filter(pk__in=revisions).values_list("text", flat=True),
        ]
    )
    similar = find_similar(text, ((other, other) for other in texts), campaign.thresholds)
    return [
        NearText(
            each.key, each.is_exact, each.jaccard, each.edit, each.level, tuple(mark_shared(text, each.key))
        )
        for each in similar[:MAX_SHOWN]
    ]
