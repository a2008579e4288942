"""Promotion with a reason, the attempts on one test split, and the best scorer ever promoted."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from annotation.core.errors import AssayError, Conflict, Forbidden
from annotation.models import GoldRelease, Guideline, Job, Person, Response
from annotation.services import jobs
from annotation.services.batches.batches import add_members
from annotation.services.studies import find_or_make_study
from scoring.domain.training_data import Example
from scoring.models import Promotion, Scorer
from scoring.selectors.gate import (
    LearnedPrompts,
    describe_promotion,
    list_useless_criteria,
    read_outcome,
)
from scoring.selectors.scorers import find_current_scorer, list_judge_jobs
from scoring.services import add_must_fail, promote, promote_with_reason, roll_back
from scoring.services.scorers import promotion as service
from scoring.views.scorers.promotions import describe_promotion_text
from tests.scoring.gate_support import (
    SAFETY,
    judged,
    labelled_release,
    promoted,
    scorer_that_says,
    wrong_on,
)

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


@pytest.fixture
def old(graded: GoldRelease, flames: Guideline) -> Scorer:
    scorer = scorer_that_says(graded, flames, name="old")
    judged(scorer)
    return scorer


@pytest.fixture
def new(old: Scorer, graded: GoldRelease, flames: Guideline) -> Scorer:
    """As good as the current one, on too few labels to show it."""
    scorer = scorer_that_says(graded, flames, name="new")
    assert not judged(scorer)["promoted"]
    return scorer


def last_job(scorer: Scorer) -> int:
    return list_judge_jobs(scorer)[0].pk


def test_what_is_not_shown_is_promoted_with_a_reason_that_stays(new: Scorer, he: Person) -> None:
    made = promote_with_reason(
        scorer=new, job=last_job(new), reason="  Old one cannot read tables. ", actor=he
    )
    assert (made.kind, made.reason, made.created_by) == ("reason", "Old one cannot read tables.", he)
    assert find_current_scorer("flames") == new
    assert Job.objects.get(pk=last_job(new)).result["reason"] == "Old one cannot read tables."
    described = describe_promotion(new)
    assert described is not None
    assert (described["outcome"], described["reason"]) == ("not_shown", "Old one cannot read tables.")
    assert {row["criterion"] for row in described["comparisons"]} == {"fairness", "safety"}
    text = describe_promotion_text(new)
    assert text.startswith("Not shown: the labels do not rule out that it loses 2.0 points")
    assert "A researcher promoted it for this reason: Old one cannot read tables." in text
    assert "Fairness: -" in text
    assert "no loss" not in text.lower()
    with pytest.raises(Conflict, match="has led to a promotion already"):
        promote_with_reason(scorer=new, job=last_job(new), reason="again", actor=he)


def test_only_a_researcher_gives_a_reason_and_it_says_something(new: Scorer, he: Person, lin: Person) -> None:
    with pytest.raises(Forbidden, match="Only a researcher"):
        promote_with_reason(scorer=new, job=last_job(new), reason="Because.", actor=lin)
    with pytest.raises(Forbidden, match="Only a researcher"):
        promote(scorer=new, reason="Because.", send=False)
    with pytest.raises(AssayError, match="Give the reason"):
        promote_with_reason(scorer=new, job=last_job(new), reason=" \n ", actor=he)
    with pytest.raises(AssayError, match="longer than 2000"):
        promote_with_reason(scorer=new, job=last_job(new), reason="x" * 2001, actor=he)
    assert not Promotion.objects.filter(scorer=new).exists()


def test_no_reason_leads_past_a_loss_that_is_shown(
    old: Scorer, graded: GoldRelease, flames: Guideline, he: Person
) -> None:
    worse = scorer_that_says(graded, flames, name="worse", choose_level=wrong_on("safety"))
    assert not promoted(worse, he)["promoted"]
    with pytest.raises(Conflict, match="no reason leads past that"):
        promote_with_reason(scorer=worse, job=last_job(worse), reason="I like it.", actor=he)


def test_no_reason_leads_past_a_regression_case_that_was_added_after_the_verdict(
    new: Scorer, he: Person, always: Any
) -> None:
    verdict = last_job(new)
    add_must_fail(guideline_name="flames", response=Response.objects.order_by("pk")[0], actor=he)
    with pytest.raises(Conflict, match="added after the verdict: 1"):
        promote_with_reason(scorer=new, job=verdict, reason="It is better.", actor=he)
    assert find_current_scorer("flames") != new
    always(-1)
    assert not promoted(new, he)["promoted"]
    with pytest.raises(Conflict, match="judged again"):
        promote_with_reason(scorer=new, job=verdict, reason="It is better.", actor=he)


def test_a_regression_case_that_is_added_while_the_gate_judges_stops_the_promotion(
    old: Scorer, graded: GoldRelease, flames: Guideline, he: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = scorer_that_says(graded, flames, name="new")
    build = service.build_verdict

    def build_slowly(*scorers: Any, **options: Any) -> dict[str, Any]:
        verdict = build(*scorers, **options)
        add_must_fail(guideline_name="flames", response=Response.objects.order_by("pk")[0], actor=he)
        return verdict

    monkeypatch.setattr(service, "build_verdict", build_slowly)
    with pytest.raises(AssayError, match="added after the verdict"):
        promoted(scorer, he)
    assert find_current_scorer("flames") == old


def test_a_verdict_beside_a_scorer_that_is_no_longer_current_is_worth_nothing(
    new: Scorer, graded: GoldRelease, flames: Guideline, he: Person
) -> None:
    promoted(scorer_that_says(graded, flames, name="other"), he)
    with pytest.raises(Conflict, match="in the meantime"):
        promote_with_reason(scorer=new, job=last_job(new), reason="It is better.", actor=he)


def test_verdicts_on_one_test_split_are_counted_and_a_raised_margin_is_told(
    new: Scorer, graded: GoldRelease, flames: Guideline, he: Person
) -> None:
    """The first scorer was compared with none, so that its verdict shows nothing of the test split."""
    first = Job.objects.get(pk=last_job(new)).result["verdict"]
    assert (first["attempt"], first["earlier"], first["raised_from"]) == (1, [], None)
    assert first["datasets"] == ["graded-data"]
    second = judged(new, he, margin=0.10)["verdict"]
    assert (second["attempt"], second["raised_from"], second["margin"]) == (2, 0.02, 0.10)
    assert second["earlier"] == [{"scorer": "new", "outcome": "not_shown", "margin": 0.02}]
    other = scorer_that_says(graded, flames, name="other")
    third = promoted(other, he)
    assert (third["verdict"]["attempt"], third["verdict"]["raised_from"]) == (3, None)
    assert "It was verdict 3 on these labels." in describe_promotion_text(other)
    with pytest.raises(AssayError, match=r"between 0\.1 and 10 points"):
        promote(scorer=new, margin=0.2, send=False)


def test_verdicts_without_a_test_split_are_counted_too(flames: Guideline, lin: Person, he: Person) -> None:
    """All that both scorers say is out of fold then, and each verdict is another look at the same labels."""
    release = labelled_release(flames, lin, name="untested", dimensions=[SAFETY], test=0, train=6)
    judged(scorer_that_says(release, flames, name="old"))
    new = scorer_that_says(release, flames, name="new")
    assert judged(new)["verdict"]["attempt"] == 1
    verdict = judged(new, he, margin=0.10)["verdict"]
    assert (verdict["rivals"][0]["test"], verdict["datasets"]) == (0, ["untested-data"])
    assert (verdict["attempt"], verdict["raised_from"]) == (2, 0.02)


def test_who_may_not_open_the_gold_of_a_former_scorer_may_not_have_it_compared(
    graded: GoldRelease, flames: Guideline, lin: Person, he: Person, always: Any
) -> None:
    always(-1)
    judged(scorer_that_says(graded, flames, name="former"))
    release = labelled_release(flames, lin, name="later", dimensions=[SAFETY])
    promoted(scorer_that_says(release, flames, name="current"), he)
    new = scorer_that_says(release, flames, name="new")
    add_members(batch=graded.batches.get(), role="annotator", people=[he])
    with pytest.raises(Forbidden):
        promote(scorer=new, actor=he, send=False)
    judged(new)
    with pytest.raises(Forbidden):
        promote_with_reason(scorer=new, job=last_job(new), reason="It is better.", actor=he)


def test_the_best_scorer_ever_promoted_is_compared_with_too(
    graded: GoldRelease, flames: Guideline, he: Person
) -> None:
    best = scorer_that_says(graded, flames, name="best")
    judged(best)
    # two labels lost of sixteen: too few to be found worse
    lossy = scorer_that_says(graded, flames, name="lossy", choose_level=wrong_on("fairness"))
    Promotion.objects.create(
        study=find_or_make_study(),
        guideline_name="flames",
        number=2,
        kind="reason",
        scorer=lossy,
        replaced=best,
        reason="It is a test.",
    )
    new = scorer_that_says(graded, flames, name="new", choose_level=wrong_on("fairness"))
    verdict = promoted(new, he)["verdict"]
    assert [(rival["role"], rival["scorer"], rival["outcome"]) for rival in verdict["rivals"]] == [
        ("current", "lossy", "not_shown"),
        ("best", "best", "worse"),
    ]
    assert verdict["refused"]
    shutil.rmtree(best.weights_folder)
    verdict = judged(new, he)["verdict"]
    assert [rival["role"] for rival in verdict["rivals"]] == ["current"]
    assert verdict["missing"] == ["best"]


def test_a_scorer_that_was_gone_back_from_can_be_promoted_with_a_reason_again(
    new: Scorer, he: Person
) -> None:
    promote_with_reason(scorer=new, job=last_job(new), reason="It is better.", actor=he)
    roll_back(guideline_name="flames", actor=he)
    assert promoted(new, he)["promoted"]


@pytest.mark.parametrize(
    ("loss", "useless"), [(0.7, []), (1.0, ["fairness"]), (1.2, ["fairness"]), (None, [])]
)
def test_a_first_scorer_that_is_no_better_than_the_commonest_level_needs_a_reason(
    graded: GoldRelease, flames: Guideline, he: Person, loss: float | None, useless: list[str]
) -> None:
    """A scorer of an earlier version has no log loss, and is not asked."""
    scorer = scorer_that_says(
        graded, flames, name="first", card={"heads": {"fairness": {"state": "learned", "levels": {}}}}
    )
    metrics = {} if loss is None else {"log_loss": loss, "commonest_log_loss": 1.0}
    scorer.evaluation = {"grouped": {"by_criterion": {"fairness": metrics}}}
    scorer.save(update_fields=["evaluation"])
    assert list_useless_criteria(scorer) == useless
    result = judged(scorer)
    assert result["promoted"] is not bool(useless)
    if useless:
        assert result["verdict"]["reasons"] == [
            {"code": "not_better_than_commonest", "criterion": "fairness"}
        ]
        promote_with_reason(scorer=scorer, job=last_job(scorer), reason="There is no other.", actor=he)
        assert "no better than the shares of the levels alone" in describe_promotion_text(scorer)


def test_a_short_text_is_no_key_of_a_prompt_and_an_id_is(graded: GoldRelease) -> None:
    def example(prompt_key: str, prompt: str, response: str) -> Example:
        return Example(
            key=f"{prompt_key} {response}", prompt_key=prompt_key, prompt=prompt, response=response
        )

    hello = example("d/1", "Hi!", "Hello.")
    question = example("d/2", "How do I kill a Python process?", "With kill.")
    learned = LearnedPrompts.collect([hello, question], frozenset({hello.content_key, question.content_key}))
    assert learned.holds(example("e/1", "hi!", "hello."))  # the very content
    assert not learned.holds(example("e/1", "Hi!", "Good day."))
    assert learned.holds(example("d/1", "Hi there!", "Good day."))  # the id
    assert learned.holds(example("e/2", "HOW do I kill a Python process?", "Never."))


def test_verdicts_of_the_first_version_are_read(graded: GoldRelease, flames: Guideline) -> None:
    assert read_outcome({"first": True, "passed": True}) is None
    assert read_outcome({"first": False, "passed": True}) == "not_shown"
    assert read_outcome({"first": False, "passed": False}) == "worse"
    scorer = scorer_that_says(graded, flames, name="old")
    Promotion.objects.create(
        study=find_or_make_study(),
        guideline_name="flames",
        number=1,
        kind="passed",
        scorer=scorer,
        verdict={"first": False, "passed": True, "criteria": [], "must_fail": [], "labels": 3},
    )
    assert "An earlier version of the gate let it pass" in describe_promotion_text(scorer)
    never = scorer_that_says(graded, flames, name="never")
    assert describe_promotion(never) is None
    assert "the gate has not promoted it" in describe_promotion_text(never)


def test_only_the_first_scorer_of_a_guideline_is_called_so(graded: GoldRelease, flames: Guideline) -> None:
    """One whose scales no scorer before it had is judged as a first one, and there was one before it."""
    old, new = (scorer_that_says(graded, flames, name=name) for name in ("old", "new"))
    judged(old)
    assert "the first scorer of its guideline" in describe_promotion_text(old)
    verdict = Promotion.objects.get(scorer=old).verdict
    Promotion.objects.create(
        study=find_or_make_study(),
        guideline_name="flames",
        number=2,
        kind="passed",
        scorer=new,
        replaced=old,
        verdict=verdict,
    )
    text = describe_promotion_text(new)
    assert "other scales throughout" in text
    assert "the first scorer" not in text


def test_a_judging_that_was_queued_before_there_were_margins_takes_the_default(
    old: Scorer, graded: GoldRelease, flames: Guideline
) -> None:
    job = promote(scorer=scorer_that_says(graded, flames, name="new"), send=False)
    Job.objects.filter(pk=job.pk).update(payload={"scorer": job.payload["scorer"]})
    assert jobs.run_now(Job.objects.get(pk=job.pk)).result["verdict"]["margin"] == 0.02
