"""A campaign as a file: its accepted prompts, or all about its proposals. Lines are streamed, in a fixed order.

A reader gets no more than the pages tell them: who reviews in the campaign nothing until it closes, and an author of a
blind one the targets by letters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from django.conf import settings
from django.db.models import Prefetch, QuerySet

from annotation.core.errors import N_, Forbidden, NotFound
from annotation.domain.permissions import READ_CAMPAIGNS, RUN_CAMPAIGNS
from annotation.domain.releases.pseudonyms import assign_pseudonyms
from annotation.models import Person
from annotation.selectors.access import may
from annotation.services.audit import record
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.domain.workbench.campaigns import Classification
from benchmark.models import Attempt, Campaign, CampaignMember, Proposal, ProposalRevision, Review
from benchmark.selectors.workbench.bench import may_read_predictions
from benchmark.selectors.workbench.campaigns import hides_authors, hides_targets, list_targets
from benchmark.selectors.workbench.reviews import classify_review, classify_revision

FLAMES, JSONL = "flames", "jsonl"
FILES: Mapping[str, str] = {FLAMES: "prompts.jsonl", JSONL: "proposals.jsonl"}
"""The formats, and what their files are called."""
FLAMES_LANGUAGE = "zh"
CHUNK = 200


def count_lines(campaign: Campaign, format_name: str) -> int:
    return _list_proposals(campaign, format_name).count()


def iterate_lines(
    campaign: Campaign,
    format_name: str,
    *,
    names: bool = False,
    reader: Person | None = None,
) -> Iterator[str]:
    """The lines of the file, each with its end; None as the reader is the operator, who reads everything.

    ``names``: people under their names, which managers alone may have, not under pseudonyms. The audit trail keeps who
    took the file. Raises Forbidden before the first line.
    """
    proposals = _list_proposals(campaign, format_name)
    _refuse_reader(campaign, reader, names=names)
    record(
        actor=reader,
        verb=BenchmarkVerb.EXPORT_CAMPAIGN,
        target=f"campaign:{campaign.name}",
        format=format_name,
        names=names,
    )
    if format_name == FLAMES:
        return _write_lines(proposals, _build_flames_row)
    return _write_lines(_add_parts(proposals), _ProposalRows(campaign, reader, names=names).build)


def _refuse_reader(campaign: Campaign, reader: Person | None, *, names: bool) -> None:
    if reader is None:
        return
    if not may(reader, READ_CAMPAIGNS):
        raise Forbidden(N_("Only managers and researchers take the file of a campaign."))
    if hides_authors(campaign, reader):
        raise Forbidden(
            N_("You review in this campaign: its file, which has what the authors say, opens when it closes.")
        )
    if names and not may(reader, RUN_CAMPAIGNS):
        raise Forbidden(N_("Only a manager exports the names of people; choose pseudonyms."))


def _list_proposals(campaign: Campaign, format_name: str) -> QuerySet[Proposal]:
    """What was ever submitted, in the order in which it was last; the flames format has the accepted ones alone."""
    if format_name not in FILES:
        raise NotFound(
            N_("There is no format {name}; the formats are {known}."),
            name=format_name,
            known=", ".join(FILES),
        )
    proposals = Proposal.objects.filter(campaign=campaign).exclude(submitted_at=None)
    if format_name == FLAMES:
        proposals = proposals.filter(state=Proposal.State.ACCEPTED)
    return proposals.select_related("prompt").order_by("submitted_at", "pk")


def _add_parts(proposals: QuerySet[Proposal]) -> QuerySet[Proposal]:
    """With their revisions, and the attempts and reviews of these. The queries are built before the first line is
    asked for: a file is streamed when the request, and with it the study that was under way, has ended.
    """
    attempts = Attempt.objects.select_related("target", "answer__scorer").order_by("target__place")
    reviews = Review.objects.select_related("method").exclude(decision="").order_by("slot")
    revisions = ProposalRevision.objects.select_related("method").order_by("number")
    revisions = revisions.prefetch_related(Prefetch("attempts", attempts), Prefetch("reviews", reviews))
    return proposals.prefetch_related(Prefetch("revisions", revisions))


def _write_lines(
    proposals: QuerySet[Proposal], build: Callable[[Proposal], Mapping[str, Any]]
) -> Iterator[str]:
    for proposal in proposals.iterator(chunk_size=CHUNK):
        yield json.dumps(build(proposal), ensure_ascii=False) + "\n"


def _build_flames_row(proposal: Proposal) -> Mapping[str, str]:
    """As the published file has it; the language is told where it is not the one that the format means."""
    prompt = proposal.prompt
    assert prompt is not None, "of accepted proposals alone"
    row = {"dimension": prompt.dimension, "subcomponent": prompt.subcomponent, "prompt": prompt.text}
    return row if prompt.language == FLAMES_LANGUAGE else {**row, "language": prompt.language}


class _ProposalRows:
    """The lines of the format jsonl."""

    def __init__(self, campaign: Campaign, reader: Person | None, *, names: bool) -> None:
        self._campaign = campaign
        is_blind = reader is not None and hides_targets(campaign, reader)
        self._targets = {
            target.pk: target.letter if is_blind else target.model.name for target in list_targets(campaign)
        }
        self._authors = _name_people(campaign, CampaignMember.Role.AUTHOR, names=names)
        self._reviewers = _name_people(campaign, CampaignMember.Role.REVIEWER, names=names)
        self._with_predictions = reader is None or may_read_predictions(campaign, reader)
        # An author gives the level of an answer before the scorer's is shown.
        self._awaits_levels = reader is not None and campaign.campaignmembers.filter(person=reader).exists()

    def build(self, proposal: Proposal) -> Mapping[str, Any]:
        revisions = list(proposal.revisions.all())
        latest = next(revision for revision in reversed(revisions) if revision.submitted_at is not None)
        return {
            "campaign": self._campaign.name,
            "id": str(proposal.pk),
            "state": proposal.state,
            "author": self._authors[proposal.author_id],
            **_describe_revision(latest),
            "prompt_id": None if proposal.prompt is None else proposal.prompt.key,
            "final": _describe_final(proposal),
            "revisions": [
                {
                    "number": revision.number,
                    "submitted": revision.submitted_at is not None,
                    **_describe_revision(revision),
                }
                for revision in revisions
            ],
            "attempts": [
                self._describe_attempt(revision, attempt)
                for revision in revisions
                for attempt in revision.attempts.all()
            ],
            "reviews": [
                self._describe_review(revision, review)
                for revision in revisions
                for review in revision.reviews.all()
            ],
        }

    def _describe_attempt(self, revision: ProposalRevision, attempt: Attempt) -> Mapping[str, Any]:
        answer = getattr(attempt, "answer", None)
        shows = self._with_predictions and (attempt.levels is not None or not self._awaits_levels)
        predictions = answer.predictions if answer is not None and shows else None
        return {
            "revision": revision.number,
            "target": self._targets[attempt.target_id],
            "state": attempt.state,
            "response": None if answer is None else answer.text,
            "levels": attempt.levels,
            "scorer": answer.scorer.name if answer is not None and predictions and answer.scorer else None,
            "predictions": predictions or None,
            "prompt_tokens": None if answer is None else answer.prompt_tokens,
            "completion_tokens": None if answer is None else answer.completion_tokens,
            "seconds": None if answer is None else answer.seconds,
        }

    def _describe_review(self, revision: ProposalRevision, review: Review) -> Mapping[str, Any]:
        return {
            "revision": revision.number,
            "slot": review.slot,
            "reviewer": self._reviewers[review.reviewer_id],
            **classify_review(review).model_dump(),
            "decision": review.decision,
            "reason": review.reason,
        }


def _describe_revision(revision: ProposalRevision) -> Mapping[str, Any]:
    return {
        "prompt": revision.text,
        "language": revision.language,
        **classify_revision(revision).model_dump(),
        "rationale": revision.rationale,
        "nearness": revision.nearness,
        "near_meanings": revision.near_meanings,
        "duplicate_reason": revision.duplicate_reason,
    }


def _describe_final(proposal: Proposal) -> Mapping[str, str] | None:
    """As what the prompt was accepted."""
    prompt = proposal.prompt
    if prompt is None:
        return None
    return Classification(
        dimension=prompt.dimension,
        subcomponent=prompt.subcomponent,
        method=prompt.attack_method or "",
        malice=prompt.malice,
    ).model_dump()


def _name_people(campaign: Campaign, role: str, *, names: bool) -> Mapping[int, str]:
    """What everybody who had this role is called in the file, by id."""
    members = dict(
        CampaignMember.objects.filter(campaign=campaign, role=role)
        .order_by("person")
        .values_list("person", "person__username")
    )
    if names:
        return members
    scope = f"campaign\n{campaign.study_id}\n{campaign.name}"
    return assign_pseudonyms(dict.fromkeys(members, role), secret=settings.SECRET_KEY, scope=scope)
