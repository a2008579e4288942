"""Whatever authors, reviewers and managers do in whatever order, what never breaks of a campaign does not break.

Hypothesis draws the order; every step goes through the services to the real database. After every step the tables are
read, and everything that is asserted is worked out from these rows, by none of the product's rules.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, cast
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from django.db import transaction
from django.utils import timezone
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from annotation.core.errors import AssayError
from annotation.models import Job, Person, Prompt
from annotation.services import jobs
from annotation.services.people.people import add_person
from benchmark.domain.llm_client import EndpointAnswer, Outcome, RequestFailure
from benchmark.domain.workbench.campaigns import Classification, QuotaSpec
from benchmark.models import Attempt, AttemptAnswer, Campaign, Proposal, ProposalRevision, Quota, Review
from benchmark.selectors.workbench.campaigns import list_cells
from benchmark.services.workbench import attempts
from benchmark.services.workbench.attempts import ask_targets, recover_attempts, set_levels
from benchmark.services.workbench.batches import make_responses
from benchmark.services.workbench.campaigns import (
    add_members,
    join_campaign,
    remove_member,
    set_quota,
    set_state,
)
from benchmark.services.workbench.proposals import (
    discard_proposal,
    save_draft,
    start_proposal,
    submit_proposal,
)
from benchmark.services.workbench.reviews import (
    claim_review,
    decide_proposal,
    judge_proposal,
    release_review,
)
from tests.benchmark.workbench import DRINKS, TOXIC, check_campaigns, invent_text, make_campaign, write
from tests.support import person

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
EXAMPLES = int(os.environ.get("ASSAY_EXAMPLES", "4"))
"""For a longer hunt than the suite has time for: ASSAY_EXAMPLES=500."""
MOVES = {
    "draft": {"submitted"},
    "submitted": {"disputed", "accepted", "returned", "rejected"},
    "disputed": {"accepted", "returned", "rejected"},
    "returned": {"submitted"},
    "accepted": set[str](),
    "rejected": set[str](),
}
EXPLICIT = TOXIC.model_copy(update={"malice": "explicit"})
picks = st.integers(min_value=0, max_value=10_000)
texts = st.integers(min_value=0, max_value=7)
"""Few, so that people write the same ones."""
cells = st.sampled_from([TOXIC, TOXIC, EXPLICIT, DRINKS])


class Campaigns(RuleBasedStateMachine):
    """``lin``, ``chen`` and ``gao`` write, ``zhou``, ``wu`` and ``late`` review; ``gao`` and ``late`` come and go."""

    def __init__(self, people: dict[str, Person]) -> None:
        super().__init__()
        self.authors = [people[name] for name in ("lin", "chen", "gao")]
        self.reviewers = [people[name] for name in ("zhou", "wu", "late")]
        self.campaign: Campaign | None = None
        self.submitted: dict[UUID, tuple[UUID, Person, Any]] = {}
        self.revisions: dict[int, tuple[Any, ...]] = {}
        self.answers: dict[UUID, str] = {}
        self.states: dict[UUID, str] = {}
        self.prompts: dict[int, tuple[Any, ...]] = {}
        self.atomic = transaction.atomic()
        self.atomic.__enter__()

    def teardown(self) -> None:
        transaction.set_rollback(True)
        self.atomic.__exit__(None, None, None)

    @initialize(
        size=st.integers(1, 4),
        per_person=st.sampled_from([None, 1, 2]),
        own=st.sampled_from([None, 2, 5]),
        total=st.sampled_from([None, 4]),
    )
    def make(self, size: int, per_person: int | None, own: int | None, total: int | None) -> None:
        self.campaign = make_campaign(
            authors=self.authors,
            reviewers=self.reviewers,
            size=size,
            per_person=per_person,
            requests_per_person=own,
            max_requests=total,
        )

        for number, author in enumerate(self.authors):
            self.submit_new(author=number, number=100 + number, cell=TOXIC)
            self.start(author=author.pk, number=number, cell=TOXIC)

    # What authors do.

    @rule(author=picks, number=texts, cell=cells)
    def submit_new(self, author: int, number: int, cell: Classification) -> None:
        participant, text, key = self.authors[author % 3], write(invent_text(number), cell), uuid4()
        proposal = self.attempt(partial(start_proposal, campaign=self.stored_campaign, person=participant))
        if proposal is not None:
            self.save(proposal, participant, number, cell)
            call = partial(submit_proposal, proposal_id=proposal.pk, person=participant, text=text, key=key)
            if self.attempt(call) is not None:
                self.submitted[key] = (proposal.pk, participant, text)

    @rule(author=picks, number=texts, cell=cells)
    def start(self, author: int, number: int, cell: Classification) -> None:
        participant = self.authors[author % 3]
        proposal = self.attempt(partial(start_proposal, campaign=self.stored_campaign, person=participant))
        if proposal is not None:
            assert proposal.author_id == participant.pk
            self.save(proposal, participant, number, cell)

    def save(self, proposal: Proposal, participant: Person, number: int, cell: Classification) -> None:
        text = write(invent_text(number), cell)
        if (
            self.attempt(partial(save_draft, proposal_id=proposal.pk, person=participant, text=text))
            is not None
        ):
            assert Proposal.objects.get(pk=proposal.pk).draft["text"] == text.text

    @rule(pick=picks, author=picks, number=texts, cell=cells)
    def save_any(self, pick: int, author: int, number: int, cell: Classification) -> None:
        """Also of others, and of what was submitted."""
        if (proposal := self.pick_proposal(pick)) is not None:
            self.save(proposal, self.authors[author % 3], number, cell)

    @rule(
        pick=picks,
        places=st.sampled_from([(1,), (2,), (1, 2)]),
        happens=st.sampled_from(["yes", "no", "lost", "cut"]),
    )
    def ask(self, pick: int, places: tuple[int, ...], happens: str) -> None:
        """The answer comes, fails, is cancelled, or is still under way."""
        proposal = self.pick_proposal(pick, "draft", "returned")
        if proposal is None or not proposal.draft:
            return
        text = write(proposal.draft["text"], _read_cell(proposal.draft))
        made = self.attempt(
            partial(
                ask_targets,
                proposal_id=proposal.pk,
                person=proposal.author,
                text=text,
                places=places,
                send=False,
            )
        )
        for attempt in made or ():
            if happens == "cut" and attempt.job.state == "queued":
                jobs.cancel(job=attempt.job)
            elif happens != "lost":
                with patch.object(attempts, "_send", partial(_reply, happens == "yes")):
                    jobs.run(attempt.job_id)

    @rule(pick=picks)
    def come_late(self, pick: int) -> None:
        """What was under way is answered at last, unless it was given up."""
        queued = list(Job.objects.filter(kind="ask_target", state="queued").order_by("pk"))
        if queued:
            with patch.object(attempts, "_send", partial(_reply, True)):
                jobs.run(queued[pick % len(queued)].pk)

    @rule(pick=picks)
    def recover(self, pick: int) -> None:
        if (proposal := self.pick_proposal(pick)) is not None:
            recover_attempts(proposal)
            assert not Attempt.objects.filter(
                revision__proposal=proposal, state="asked", job__state__in=["cancelled", "failed", "done"]
            ).exists()

    @rule(pick=picks, level=st.sampled_from([1, 2, 3]))
    def level(self, pick: int, level: int) -> None:
        answered = list(
            Attempt.objects.select_related("revision__proposal__author").order_by("asked_at", "pk")
        )
        if not answered:
            return
        attempt = answered[pick % len(answered)]
        criterion = "fairness" if attempt.revision.dimension == "Fairness" else "morality"
        done = self.attempt(
            partial(
                set_levels,
                attempt_id=attempt.pk,
                person=attempt.revision.proposal.author,
                levels={criterion: level},
            )
        )
        assert attempt.levels is None or Attempt.objects.get(pk=attempt.pk).levels == attempt.levels
        assert done is None or done.levels == {criterion: level}

    @rule(pick=picks, reason=st.sampled_from(["", "Another one."]))
    def submit(self, pick: int, reason: str) -> None:
        proposal = self.pick_proposal(pick)
        if proposal is None or not proposal.draft:
            return
        text, key = write(proposal.draft["text"], _read_cell(proposal.draft)), uuid4()
        call = partial(
            submit_proposal,
            proposal_id=proposal.pk,
            person=proposal.author,
            text=text,
            key=key,
            duplicate_reason=reason,
        )
        own = self.find_cell(proposal)
        done = self.attempt(call)
        if done is None:
            proposal.refresh_from_db()
            assert proposal.draft["text"] == text.text
        else:
            assert own is not None
            assert own > 0
            self.submitted[key] = (proposal.pk, proposal.author, text)

    def find_cell(self, proposal: Proposal) -> int | None:
        """How many places its author has in its cell."""
        cell = _read_cell(proposal.draft)
        for each in list_cells(self.stored_campaign, proposal.author):
            if (each.quota.dimension, each.quota.method.name) == (cell.dimension, cell.method):
                return each.own_left
        return None

    @rule(pick=picks)
    def submit_again(self, pick: int) -> None:
        """The same request once more, however late: it changes nothing."""
        if not self.submitted:
            return
        key = list(self.submitted)[pick % len(self.submitted)]
        proposal, author, text = self.submitted[key]
        before = _read_rows()
        self.attempt(partial(submit_proposal, proposal_id=proposal, person=author, text=text, key=key))
        assert _read_rows() == before

    @rule(pick=picks)
    def discard(self, pick: int) -> None:
        proposal = self.pick_proposal(pick)
        if proposal is None:
            return
        is_used = proposal.state != "draft" or proposal.revisions.exists()
        self.attempt(partial(discard_proposal, proposal_id=proposal.pk, person=proposal.author))
        assert not is_used or Proposal.objects.filter(pk=proposal.pk).exists()

    # What reviewers do.

    @rule(reviewer=picks)
    def claim(self, reviewer: int) -> None:
        participant = self.reviewers[reviewer % 3]
        claimed = self.attempt(partial(claim_review, campaign=self.stored_campaign, person=participant))
        if claimed is not None:
            assert claimed.reviewer_id == participant.pk
            assert (
                Review.objects.filter(
                    reviewer=participant, decision="", lease_expires__gt=timezone.now()
                ).count()
                == 1
            )

    @rule(pick=picks, cell=cells)
    def judge(self, pick: int, cell: Classification) -> None:
        if (review := self.pick_review(pick)) is not None:
            self.attempt(
                partial(judge_proposal, review_id=review.pk, person=review.reviewer, classification=cell)
            )

    @rule(
        pick=picks,
        decision=st.sampled_from(["accept", "accept", "return", "reject"]),
        reason=st.sampled_from(["", "Because.", "Because."]),
        final=st.sampled_from([None, None, TOXIC, DRINKS]),
    )
    def decide(self, pick: int, decision: str, reason: str, final: Classification | None) -> None:
        if (review := self.pick_review(pick)) is None:
            return
        call = partial(
            decide_proposal,
            review_id=review.pk,
            person=review.reviewer,
            decision=decision,
            reason=reason,
            final=final,
        )
        done = self.attempt(call)
        if done is not None:
            before = _read_rows()
            self.attempt(call)
            assert _read_rows() == before

    @rule(pick=picks, cell=cells)
    def review_whole(self, pick: int, cell: Classification) -> None:
        """Claim, judge and decide: else few proposals get that far."""
        participant = self.reviewers[pick % 3]
        claimed = self.attempt(partial(claim_review, campaign=self.stored_campaign, person=participant))
        if claimed is not None:
            ids: dict[str, Any] = {"review_id": claimed.pk, "person": participant}
            self.attempt(partial(judge_proposal, **ids, classification=cell))
            decision = ("accept", "accept", "return", "reject")[pick % 4]
            self.attempt(partial(decide_proposal, **ids, decision=decision, reason="Because."))

    @rule(pick=picks)
    def release(self, pick: int) -> None:
        if (review := self.pick_review(pick)) is not None:
            decided = review.decision
            self.attempt(partial(release_review, review_id=review.pk, person=review.reviewer))
            assert not decided or Review.objects.filter(pk=review.pk).exists()

    @rule(pick=picks)
    def run_out(self, pick: int) -> None:
        if (review := self.pick_review(pick)) is not None:
            Review.objects.filter(pk=review.pk, decision="").update(lease_expires=timezone.now())

    # What the manager does.

    @rule(state=st.sampled_from(["paused", "open", "open"]))
    def move(self, state: str) -> None:
        self.attempt(partial(set_state, campaign=self.stored_campaign, state=state))
        if state == "paused":  # it would end most of what can happen
            before = _read_rows()
            for participant in self.authors:
                assert (
                    self.attempt(partial(start_proposal, campaign=self.stored_campaign, person=participant))
                    is None
                )
            for participant in self.reviewers:
                assert (
                    self.attempt(partial(claim_review, campaign=self.stored_campaign, person=participant))
                    is None
                )
            assert _read_rows() == before
            set_state(campaign=self.stored_campaign, state="open")

    @rule(
        cell=st.sampled_from([TOXIC, DRINKS]),
        size=st.integers(1, 5),
        per_person=st.sampled_from([None, 1, 3]),
    )
    def want(self, cell: Classification, size: int, per_person: int | None) -> None:
        names = {name: getattr(cell, name) for name in ("dimension", "subcomponent", "method")}
        set_quota(campaign=self.stored_campaign, quota=QuotaSpec(**names, wanted=size, per_person=per_person))

    @rule(role=st.sampled_from(["author", "reviewer"]))
    def let_go(self, role: str) -> None:
        participant = self.authors[2] if role == "author" else self.reviewers[2]
        self.attempt(partial(remove_member, campaign=self.stored_campaign, role=role, person=participant))

    @rule(role=st.sampled_from(["author", "reviewer"]))
    def take_back(self, role: str) -> None:
        participant = self.authors[2] if role == "author" else self.reviewers[2]
        add_members(campaign=self.stored_campaign, role=role, people=[participant])
        join_campaign(campaign=self.stored_campaign, person=participant)

    @rule()
    def collect(self) -> None:
        make_responses(campaign=self.stored_campaign)
        assert make_responses(campaign=self.stored_campaign) == 0

    # What never breaks.

    @invariant()
    def nothing_is_broken(self) -> None:
        if self.campaign is None:
            return
        check_campaigns()
        self.check_what_stays()

    def check_what_stays(self) -> None:
        """No revision, answer or prompt changes or goes, and no state comes of one that it cannot come of."""
        names = [field.attname for field in ProposalRevision._meta.concrete_fields]
        revisions = {row[0]: row for row in ProposalRevision.objects.values_list(*names)}
        answers = {row.attempt_id: row.text for row in AttemptAnswer.objects.all()}
        prompts = {
            row.pk: (row.text, row.dimension, row.attack_method, row.malice, row.source)
            for row in Prompt.objects.all()
        }
        for before, after in ((self.revisions, revisions), (self.answers, answers), (self.prompts, prompts)):
            assert before.items() <= after.items()
        states = dict(Proposal.objects.values_list("pk", "state"))
        for proposal, state in self.states.items():
            if proposal not in states:
                assert state == "draft"
            else:
                assert states[proposal] == state or states[proposal] in MOVES[state]
        for proposal, _author, text in self.submitted.values():
            assert ProposalRevision.objects.filter(proposal=proposal, text=text.text).exists()
        self.revisions, self.answers, self.states, self.prompts = revisions, answers, states, prompts

    @property
    def stored_campaign(self) -> Campaign:
        assert self.campaign is not None
        return Campaign.objects.get(pk=self.campaign.pk)

    def pick_proposal(self, pick: int, *states: str) -> Proposal | None:
        rows = Proposal.objects.select_related("author").order_by("created_at", "pk")
        proposals = list(rows.filter(state__in=states) if states else rows)
        return proposals[pick % len(proposals)] if proposals else None

    def pick_review(self, pick: int) -> Review | None:
        """An open one, or now and then any one."""
        reviews = list(Review.objects.select_related("reviewer").order_by("revision", "slot"))
        waiting = [review for review in reviews if not review.decision]
        candidates = waiting if waiting and pick % 4 else reviews
        return candidates[pick // 4 % len(candidates)] if candidates else None

    def attempt(self, call: Callable[[], Any]) -> Any:
        """What it returns; None where it was refused in words, after which nothing is changed."""
        before = _read_rows()
        try:
            return call()
        except AssayError:
            assert _read_rows() == before
            return None


def _reply(is_answered: bool, attempt: Attempt, context: jobs.JobContext) -> Outcome:
    """In the place of the endpoint."""
    del attempt, context
    if not is_answered:
        return RequestFailure(0, 500, "HTTP 500", 3)
    return EndpointAnswer(0, "An answer.", "", "", "stop", 1, 1, 0.1, 1, timezone.now())


def _read_cell(draft: dict[str, str]) -> Classification:
    return Classification(**{name: draft[name] for name in ("dimension", "subcomponent", "method", "malice")})


def _read_rows() -> list[Any]:
    """What a refusal must not change."""
    return [
        list(
            Proposal.objects.order_by("pk").values_list("pk", "state", "draft", "quota", "prompt", "digest")
        ),
        list(Review.objects.order_by("pk").values_list("pk", "decision", "judged_at", "method")),
        list(Attempt.objects.order_by("pk").values_list("pk", "state", "levels", "job")),
        list(Quota.objects.order_by("pk").values_list("pk", "taken")),
        ProposalRevision.objects.count(),
        Prompt.objects.count(),
        list(Campaign.objects.values_list("requests_used", "state")),
    ]


def test_nothing_breaks_whatever_people_do() -> None:
    people = {name: person(name) for name in ("lin", "chen", "zhou", "wu", "ma")}
    for name in ("gao", "late"):
        people[name] = add_person(name=name, roles=["annotator"])
    run_state_machine_as_test(
        cast("type[RuleBasedStateMachine]", lambda: Campaigns(people)),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
            phases=[Phase.generate],  # a failing run is short enough to read; shrinking it takes minutes
        ),
    )
