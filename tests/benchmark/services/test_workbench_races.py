"""Many people at one campaign at the same moment: of what can happen once, one wins, and nobody's text is lost."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from threading import Barrier, BrokenBarrierError
from time import sleep
from typing import Any
from uuid import uuid4

import pytest
from django.utils import timezone

from annotation.core.errors import AssayError, Conflict, NotFound, TooLate
from annotation.domain.datasets import prompt_key
from annotation.models import Batch, Dataset, Person, Prompt, Response, ResultOpening
from annotation.services import jobs
from annotation.services.people.people import add_person
from benchmark.domain.workbench.campaigns import QuotaSpec
from benchmark.models import Attempt, AttemptAnswer, Campaign, CampaignMember, Proposal, Quota, Review
from benchmark.services.workbench import proposals, reviews
from benchmark.services.workbench.attempts import ask_targets, recover_attempts
from benchmark.services.workbench.batches import create_campaign_batch, make_responses
from benchmark.services.workbench.campaigns import add_members, remove_member, set_quota, set_state
from benchmark.services.workbench.duplicates import index_prompts
from benchmark.services.workbench.proposals import save_draft, start_proposal, submit_proposal
from benchmark.services.workbench.reviews import (
    claim_review,
    decide_proposal,
    judge_proposal,
    release_review,
)
from tests.annotation.services.test_races import at_once
from tests.benchmark.endpoint import local_endpoint
from tests.benchmark.workbench import (
    DRINKS,
    TOXIC,
    ask,
    check_campaigns,
    invent_text,
    make_campaign,
    review,
    submit,
    write,
)
from tests.support import add_role, person

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.postgres]


def crowd(number: int, name: str = "author") -> list[Person]:
    return [add_person(name=f"{name}{n}", roles=["annotator"]) for n in range(number)]


def write_and_submit(campaign: Campaign, author: Person, text: str) -> Proposal:
    proposal = start_proposal(campaign=campaign, person=author)
    save_draft(proposal_id=proposal.pk, person=author, text=write(text))
    return submit_proposal(proposal_id=proposal.pk, person=author, text=write(text), key=uuid4())


def test_sixteen_authors_for_the_last_place_one_wins_and_fifteen_keep_their_draft() -> None:
    authors = crowd(16)
    campaign = make_campaign(authors=authors, size=1)
    texts = {author.pk: invent_text(author.pk) for author in authors}
    outcomes = at_once([partial(write_and_submit, campaign, author, texts[author.pk]) for author in authors])
    assert Counter(type(outcome) for outcome in outcomes) == {Proposal: 1, TooLate: 15}
    assert {each.author_id: each.draft["text"] for each in Proposal.objects.all()} == texts
    assert Counter(Proposal.objects.values_list("state", flat=True)) == {"submitted": 1, "draft": 15}
    check_campaigns()
    late = Proposal.objects.filter(state="draft")[0]
    moved = write(texts[late.author_id], DRINKS)
    submit_proposal(proposal_id=late.pk, person=late.author, text=moved, key=uuid4())
    check_campaigns()


def test_sixteen_authors_with_the_same_text_become_one_proposal() -> None:
    authors = crowd(16)
    campaign = make_campaign(authors=authors, size=16)
    outcomes = at_once([partial(write_and_submit, campaign, author, invent_text(0)) for author in authors])
    assert Counter(type(outcome) for outcome in outcomes) == {Proposal: 1, Conflict: 15}
    assert {str(each) for each in outcomes if isinstance(each, Conflict)} == {
        "This text stands in the dataset or in another proposal already; write another one."
    }
    assert Counter(Proposal.objects.values_list("state", flat=True)) == {"submitted": 1, "draft": 15}
    check_campaigns()


def test_one_author_in_eight_windows_takes_no_more_than_their_share() -> None:
    campaign = make_campaign(size=8, per_person=3)
    lin = person("lin")
    proposals = []
    for number in range(8):
        proposal = start_proposal(campaign=campaign, person=lin)
        save_draft(proposal_id=proposal.pk, person=lin, text=write(invent_text(number)))
        proposals.append(proposal)
    outcomes = at_once(
        [
            partial(
                submit_proposal,
                proposal_id=proposal.pk,
                person=lin,
                text=write(invent_text(number)),
                key=uuid4(),
            )
            for number, proposal in enumerate(proposals)
        ]
    )
    assert Counter(type(outcome) for outcome in outcomes) == {Proposal: 3, TooLate: 5}
    check_campaigns()


def test_the_same_submission_eight_times_is_one_and_so_is_the_empty_draft() -> None:
    campaign = make_campaign()
    lin = person("lin")
    drafts = at_once([partial(start_proposal, campaign=campaign, person=lin)] * 8)
    (draft,) = {each.pk for each in drafts}
    same: dict[str, Any] = {
        "proposal_id": draft,
        "person": lin,
        "text": write(invent_text(0)),
        "key": uuid4(),
    }
    outcomes = at_once([partial(submit_proposal, **same)] * 8)
    assert {each.pk for each in outcomes} == {draft}
    assert Proposal.objects.get().revisions.count() == 1
    check_campaigns()


def test_reviewers_at_once_never_hold_the_same_proposal() -> None:
    reviewers = crowd(4, "reviewer")
    campaign = make_campaign(reviewers=reviewers, size=20)
    submit(campaign, person("lin"), invent_text(0))
    outcomes = at_once([partial(claim_review, campaign=campaign, person=each) for each in reviewers])
    assert Counter(type(outcome) for outcome in outcomes) == {Review: 1, type(None): 3}
    Review.objects.all().delete()
    for number in range(1, 8):
        submit(campaign, person("lin"), invent_text(number))

    def work(reviewer: Person) -> int:
        done = 0
        while (claimed := claim_review(campaign=campaign, person=reviewer)) is not None:
            judge_proposal(review_id=claimed.pk, person=reviewer, classification=TOXIC)
            decide_proposal(review_id=claimed.pk, person=reviewer, decision="accept")
            done += 1
        return done

    done = at_once([partial(work, reviewer) for reviewer in reviewers])
    assert sum(done) == Prompt.objects.count() == Review.objects.count() == 8
    check_campaigns()


def test_one_reviewer_in_several_windows_holds_one_review_and_decides_once() -> None:
    campaign = make_campaign()
    zhou = person("zhou")
    for number in range(3):
        submit(campaign, person("lin"), invent_text(number))
    claims = at_once([partial(claim_review, campaign=campaign, person=zhou)] * 4)
    (pk,) = {each.pk for each in claims}
    judged = at_once([partial(judge_proposal, review_id=pk, person=zhou, classification=TOXIC)] * 4)
    assert {each.pk for each in judged} == {pk}
    same = at_once([partial(decide_proposal, review_id=pk, person=zhou, decision="accept")] * 8)
    assert {each.state for each in same} == {"accepted"}
    assert Prompt.objects.count() == 1
    claimed = claim_review(campaign=campaign, person=zhou)
    assert claimed is not None
    judge_proposal(review_id=claimed.pk, person=zhou, classification=TOXIC)
    decide = partial(decide_proposal, review_id=claimed.pk, person=zhou)
    outcomes = at_once(
        [partial(decide, decision="accept")] * 3
        + [partial(decide, decision="reject", reason="It is no attack.")] * 3
        + [partial(release_review, review_id=claimed.pk, person=zhou)] * 2
    )
    proposals = [each for each in outcomes if isinstance(each, Proposal)]
    assert len({each.state for each in proposals}) <= 1
    # The decision that comes first holds, whoever repeats it; where the review was given back before it, none does.
    assert len(proposals) == (3 if Review.objects.get(pk=claimed.pk).ended_at is None else 0)
    check_campaigns()


def test_a_decision_and_the_next_claim_when_the_lease_runs_out_leave_one_review() -> None:
    campaign = make_campaign(size=20)
    zhou, wu = person("zhou"), person("wu")
    for number in range(6):
        proposal = submit(campaign, person("lin"), invent_text(number))
        claimed = claim_review(campaign=campaign, person=zhou)
        assert claimed is not None
        judge_proposal(review_id=claimed.pk, person=zhou, classification=TOXIC)
        # It runs out at the very moment.
        Review.objects.filter(pk=claimed.pk).update(lease_expires=timezone.now() + timedelta(milliseconds=20))
        decided, claimed = at_once(
            [
                partial(decide_proposal, review_id=claimed.pk, person=zhou, decision="accept"),
                partial(claim_when_free, campaign, wu),
            ]
        )
        proposal.refresh_from_db()
        if isinstance(decided, Proposal):
            assert (claimed, proposal.state) == (None, "accepted")
        else:
            assert isinstance(decided, TooLate | NotFound)
            assert proposal.state == "submitted"
            assert claimed.reviewer_id == wu.pk
            judge_proposal(review_id=claimed.pk, person=wu, classification=TOXIC)
            decide_proposal(review_id=claimed.pk, person=wu, decision="accept")
        check_campaigns()
    assert Prompt.objects.count() == 6


def claim_when_free(campaign: Campaign, reviewer: Person) -> Review | None:
    """Try for a while."""
    for _ in range(30):
        if (claimed := claim_review(campaign=campaign, person=reviewer)) is not None:
            return claimed
    return None


@pytest.mark.parametrize("limits", [{"max_requests": 5}, {"requests_per_person": 5}])
def test_sixteen_requests_at_once_stay_within_the_budget_and_failures_give_it_back(
    limits: dict[str, Any],
) -> None:
    authors = crowd(16) if "max_requests" in limits else [person("lin")] * 16
    with local_endpoint(lambda _messages, _request: (400, {}, {"error": "no"})) as url:
        targets = {"Secretive-7B": url, "Hidden-13B": url}
        campaign = make_campaign(authors=list(dict.fromkeys(authors)), targets=targets, **limits)
        requests = []
        for number, author in enumerate(authors):
            proposal = start_proposal(campaign=campaign, person=author)
            text = write(invent_text(number))
            save_draft(proposal_id=proposal.pk, person=author, text=text)
            requests.append(
                partial(
                    ask_targets,
                    proposal_id=proposal.pk,
                    person=author,
                    text=text,
                    places=(1, 2),
                    send=False,
                )
            )
        outcomes = at_once(requests)
        assert Counter(type(outcome) for outcome in outcomes) == {list: 2, Conflict: 14}
        check_campaigns()
        attempts = list(Attempt.objects.all())
        assert len(attempts) == 4
        at_once([partial(jobs.run, attempt.job_id or 0) for attempt in attempts] * 2)
    assert set(Attempt.objects.values_list("state", flat=True)) == {"failed"}
    campaign.refresh_from_db()
    assert campaign.requests_used == 0
    check_campaigns()


def test_an_answer_and_the_recovery_of_its_attempt_at_once_settle_it_once() -> None:
    lin = person("lin")
    with local_endpoint(lambda _messages, _request: "An answer.") as url:
        campaign = make_campaign(targets={"Secretive-7B": url})
        for number in range(5):
            proposal = start_proposal(campaign=campaign, person=lin)
            same: dict[str, Any] = {
                "proposal_id": proposal.pk,
                "person": lin,
                "text": write(invent_text(number)),
            }
            (attempt,) = ask_targets(**same, places=[1], send=False)
            job = attempt.job
            assert job is not None
            at_once(
                [
                    partial(jobs.run, job.pk),
                    partial(jobs.cancel, job=job),
                    *[partial(recover_attempts, proposal)] * 3,
                    partial(ask_targets, **same, places=[1], send=False),
                ]
            )
            recover_attempts(proposal)
            attempt.refresh_from_db()
            if attempt.state == "asked":  # asked anew
                jobs.run(attempt.job_id or 0)
            check_campaigns()
            submit_proposal(proposal_id=proposal.pk, person=lin, text=same["text"], key=uuid4())
    assert AttemptAnswer.objects.count() == Attempt.objects.filter(state="answered").count()


def test_a_prompt_that_is_imported_while_it_is_accepted_stands_in_the_dataset_once() -> None:
    campaign = make_campaign(size=20)
    zhou = person("zhou")
    dataset = Dataset.objects.get(name="attacks")
    for number in range(6):
        text = invent_text(number)
        proposal = submit(campaign, person("lin"), text)
        claimed = claim_review(campaign=campaign, person=zhou)
        assert claimed is not None
        judge_proposal(review_id=claimed.pk, person=zhou, classification=TOXIC)
        decided, _imported, _indexed = at_once(
            [
                partial(decide_proposal, review_id=claimed.pk, person=zhou, decision="accept"),
                partial(
                    Prompt.objects.bulk_create,
                    [Prompt(dataset=dataset, key=prompt_key(text), text=text, dimension="Fairness")],
                    ignore_conflicts=True,
                ),
                partial(index_prompts, dataset),
            ]
        )
        assert Prompt.objects.filter(text=text).count() == 1
        if isinstance(decided, Conflict):
            assert "return or reject" in str(decided)
            decide_proposal(review_id=claimed.pk, person=zhou, decision="reject", reason="It is there.")
        proposal.refresh_from_db()
        assert proposal.state in {"accepted", "rejected"}
        check_campaigns()


def test_two_that_move_into_the_cells_of_each_other_do_not_wait_for_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each third person holds the place of their own proposal's cell before they need the other's."""
    campaign = make_campaign()
    lin, zhou, wu = person("lin"), person("zhou"), person("wu")
    gao = add_person(name="gao", roles=["annotator"])
    add_members(campaign=campaign, role="reviewer", people=[gao])
    claims = []
    for number, (own, other) in enumerate([(TOXIC, DRINKS), (DRINKS, TOXIC)]):
        submit(campaign, lin, invent_text(number), own)
        review(campaign, zhou, other, "accept")
        third = (wu, gao)[number]
        claimed = claim_review(campaign=campaign, person=third)
        assert claimed is not None
        judge_proposal(review_id=claimed.pk, person=third, classification=other)
        claims.append((claimed, third))
    meeting, free_place = Barrier(2), proposals.free_place

    def free_and_wait(proposal: Proposal) -> None:
        free_place(proposal)
        try:
            meeting.wait(timeout=1)
        except BrokenBarrierError:
            return  # the other one waits for the first row that both need

    monkeypatch.setattr(reviews, "free_place", free_and_wait)
    outcomes = at_once(
        [
            partial(decide_proposal, review_id=claimed.pk, person=third, decision="accept")
            for claimed, third in claims
        ]
    )
    assert [each.state for each in outcomes] == ["accepted", "accepted"]
    check_campaigns()


def test_responses_and_batches_made_at_once_are_made_once() -> None:
    lin = person("lin")
    with local_endpoint(lambda _messages, _request: "An answer.") as url:
        campaign = make_campaign(targets={"Secretive-7B": url, "Hidden-13B": url})
        for number in range(3):
            proposal = start_proposal(campaign=campaign, person=lin)
            ask(proposal, write(invent_text(number)))
            submit_proposal(proposal_id=proposal.pk, person=lin, text=write(invent_text(number)), key=uuid4())
            review(campaign, person("zhou"), TOXIC, "accept")
    made = at_once([partial(make_responses, campaign=campaign)] * 4)
    assert sorted(made) == [0, 0, 0, 6]
    assert Response.objects.count() == 6
    people = [person(name) for name in ("ma", "he", "stranger")]
    for each in people:
        add_role(each, "annotator", "adjudicator")
    outcomes = at_once(
        [
            partial(
                create_campaign_batch,
                campaign=campaign,
                name="success",
                annotators=people[:2],
                adjudicators=people[2:],
            )
        ]
        * 2
    )
    assert Counter(isinstance(each, Batch) for each in outcomes) == {True: 1, False: 1}
    assert isinstance(next(each for each in outcomes if not isinstance(each, Batch)), AssayError)
    assert ResultOpening.objects.count() == 4


def test_everybody_at_everything_meets_no_deadlock_and_breaks_nothing() -> None:
    """Authors, reviewers and a manager in any order: every refusal is one in words, and the rows are right."""
    authors, reviewers = crowd(5), crowd(4, "reviewer")
    with local_endpoint(_answer_now_and_then) as url:
        campaign = make_campaign(
            authors=authors,
            reviewers=reviewers,
            targets={"Secretive-7B": url},
            size=6,
            per_person=3,
            max_requests=30,
            requests_per_person=8,
        )
        at_once(
            [partial(act_as_author, campaign, author, seed) for seed, author in enumerate(authors)]
            + [partial(act_as_reviewer, campaign, each, seed) for seed, each in enumerate(reviewers)]
            + [partial(act_as_manager, campaign, authors[0], reviewers[0])]
        )
    check_campaigns()
    set_state(campaign=campaign, state="open")
    while (waiting := claim_review(campaign=campaign, person=reviewers[1])) is not None:
        ids: dict[str, Any] = {"review_id": waiting.pk, "person": reviewers[1]}
        attempt_call(partial(judge_proposal, **ids, classification=TOXIC))
        decide_proposal(**ids, decision="accept")
    check_campaigns()
    assert Proposal.objects.exclude(state="draft").exists()


def _answer_now_and_then(messages: Any, _request: Any) -> Any:
    is_answered = int(messages[-1]["content"][:2], 16) % 3
    return "An answer." if is_answered else (400, {}, {"error": "no"})


def attempt_call(call: Callable[[], Any]) -> Any:
    """What it returns; None where it was refused in words."""
    try:
        return call()
    except AssayError:
        return None


def act_as_author(campaign: Campaign, author: Person, seed: int) -> None:
    chance = random.Random(seed)
    for turn in range(7):
        proposal = attempt_call(partial(start_proposal, campaign=campaign, person=author))
        if proposal is None:
            continue
        # Now and then the text of somebody else.
        text = write(invent_text(chance.choice([turn, 100 * seed + turn])), chance.choice([TOXIC, DRINKS]))
        ids: dict[str, Any] = {"proposal_id": proposal.pk, "person": author, "text": text}
        attempt_call(partial(save_draft, **ids))
        for attempt in attempt_call(partial(ask_targets, **ids, places=[1], send=False)) or ():
            jobs.run(attempt.job_id)
        key = uuid4()
        for _ in range(2):
            attempt_call(partial(submit_proposal, **ids, key=key))
        own = Proposal.objects.filter(author=author, state="returned").first()
        if own is not None:
            changed = write(invent_text(1000 * (seed + 1) + turn))
            attempt_call(
                partial(submit_proposal, proposal_id=own.pk, person=author, text=changed, key=uuid4())
            )


def act_as_reviewer(campaign: Campaign, reviewer: Person, seed: int) -> None:
    chance = random.Random(100 + seed)
    for _turn in range(12):
        claimed = attempt_call(partial(claim_review, campaign=campaign, person=reviewer))
        if claimed is None:
            sleep(0.1)
            continue
        if chance.random() < 0.2:
            Review.objects.filter(pk=claimed.pk, decision="").update(lease_expires=timezone.now())
            continue
        ids: dict[str, Any] = {"review_id": claimed.pk, "person": reviewer}
        attempt_call(partial(judge_proposal, **ids, classification=chance.choice([TOXIC, TOXIC, DRINKS])))
        decision = chance.choice(["accept", "accept", "return", "reject"])
        attempt_call(partial(decide_proposal, **ids, decision=decision, reason="Because."))


def act_as_manager(campaign: Campaign, author: Person, reviewer: Person) -> None:
    for turn in range(20):
        cell = QuotaSpec(**_name_cell((TOXIC, DRINKS)[turn % 2]), wanted=6 + turn % 5, per_person=3)
        attempt_call(partial(set_quota, campaign=campaign, quota=cell))
        for state in ("paused", "open") if turn % 4 == 0 else ():
            attempt_call(partial(set_state, campaign=campaign, state=state))
        for role, member in (("author", author), ("reviewer", reviewer)) if turn % 5 == 0 else ():
            attempt_call(partial(remove_member, campaign=campaign, role=role, person=member))
            attempt_call(partial(add_members, campaign=campaign, role=role, people=[member]))
    assert CampaignMember.objects.filter(active=False).count() == 0
    assert Quota.objects.count() == 2


def _name_cell(cell: Any) -> dict[str, str]:
    return {name: getattr(cell, name) for name in ("dimension", "subcomponent", "method")}
