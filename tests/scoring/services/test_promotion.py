from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError

from annotation.core.errors import AssayError, Conflict, Forbidden
from annotation.domain.releases.splits import split_of
from annotation.models import AuditEvent, GoldRelease, Guideline, Job, Person, Response
from annotation.services import jobs
from annotation.services.batches.batches import add_members
from annotation.services.guidelines import load_guideline
from annotation.services.studies import find_or_make_study
from scoring.backbones.folder import fingerprint
from scoring.models import GateAttempt, Promotion, Scorer
from scoring.selectors.scorers import (
    find_current_scorer,
    find_previous_scorer,
    get_current_scorer,
    list_judge_jobs,
    list_promotions,
)
from scoring.services import add_must_fail, promote, remove_must_fail, roll_back
from scoring.services.scorers import promotion as service
from tests.scoring.gate_support import (
    SAFETY,
    judged,
    labelled_release,
    promoted,
    scorer_that_says,
    wrong_on,
)
from tests.scoring.management.test_train_command import refused
from tests.support import XSTEST_GUIDELINE

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def test_the_first_scorer_of_a_guideline_is_promoted_unless_an_item_that_must_fail_stops_it(
    graded: GoldRelease, flames: Guideline, he: Person, always: Any
) -> None:
    first = scorer_that_says(graded, flames, name="one", choose_level=wrong_on("fairness"))
    assert find_current_scorer("flames") is None
    with pytest.raises(Conflict, match="no current scorer yet"):
        get_current_scorer("flames")
    result = judged(first, he)
    assert (result["promoted"], result["against"], result["verdict"]["reasons"]) == (True, None, [])
    assert find_current_scorer("flames") == get_current_scorer("flames") == first
    made = Promotion.objects.get()
    assert (made.number, made.kind, made.replaced, made.created_by) == (1, "passed", None, he)
    assert made.verdict == result["verdict"]
    assert [event.verb for event in AuditEvent.objects.filter(target="scorer:one").order_by("pk")] == [
        "judge_scorer",
        "promote_scorer",
    ]


def test_a_scorer_that_is_worse_on_one_criterion_alone_is_refused_with_its_name(
    graded: GoldRelease, flames: Guideline, he: Person
) -> None:
    old = scorer_that_says(graded, flames, name="old")
    judged(old)
    worse = scorer_that_says(graded, flames, name="worse", choose_level=wrong_on("safety"))
    result = promoted(worse, he)
    assert not result["promoted"]
    (rival,) = result["verdict"]["rivals"]
    assert {row["criterion"]: row["outcome"] for row in rival["criteria"]} == {
        "fairness": "not_shown",
        "safety": "worse",
    }
    assert rival["silent"] == ["data_protection", "legality", "morality"]
    assert [(reason["code"], reason["criterion"]) for reason in result["verdict"]["reasons"]] == [
        ("not_shown", "fairness"),
        ("worse", "safety"),
    ]
    assert find_current_scorer("flames") == old
    assert [event.verb for event in AuditEvent.objects.filter(target="scorer:worse").order_by("pk")] == [
        "judge_scorer",
        "refuse_scorer",
    ]
    assert [job.result["promoted"] for job in list_judge_jobs(worse)] == [False]


def test_a_better_scorer_takes_the_place_and_the_verdict_says_by_how_much(
    graded: GoldRelease, flames: Guideline, he: Person
) -> None:
    judged(scorer_that_says(graded, flames, name="old", choose_level=wrong_on("safety")))
    better = scorer_that_says(graded, flames, name="better")
    result = promoted(better, he)
    assert (result["promoted"], result["against"]) == (True, "old")
    safety = comparison_of(result, "safety")
    # six labels of the test split, and two that both have learned, out of fold
    assert (safety["old"], safety["new"], safety["n"], safety["test"]) == (0.0, 1.0, 8, 6)
    assert (safety["outcome"], comparison_of(result, "fairness")["outcome"]) == ("not_worse", "not_shown")
    assert find_current_scorer("flames") == better
    last = list_promotions("flames")[0]
    assert (last.number, last.replaced and last.replaced.name) == (2, "old")


def comparison_of(result: dict[str, Any], criterion: str, role: str = "current") -> dict[str, Any]:
    rival = next(rival for rival in result["verdict"]["rivals"] if rival["role"] == role)
    return next(row for row in rival["criteria"] if row["criterion"] == criterion)


def test_a_scorer_that_learned_everything_answers_out_of_fold(
    graded: GoldRelease, flames: Guideline, he: Person
) -> None:
    """A scorer of the first version learned from the test split as well."""
    old = scorer_that_says(graded, flames, name="old")
    judged(old)
    for name in ("trained.json", "test.json"):
        (old.weights_folder / name).unlink()
    Scorer.objects.filter(pk=old.pk).update(weights_sha256=fingerprint(old.weights_folder))
    result = promoted(scorer_that_says(graded, flames, name="new", choose_level=wrong_on("safety")), he)
    assert not result["promoted"]
    (rival,) = result["verdict"]["rivals"]
    assert (rival["labels"], rival["test"], rival["labels_left_out"]) == (16, 0, 0)
    assert comparison_of(result, "safety")["outcome"] == "worse"


def test_what_a_scorer_learned_and_said_nothing_of_out_of_fold_is_no_evidence(
    graded: GoldRelease, flames: Guideline, he: Person
) -> None:
    old = scorer_that_says(graded, flames, name="old")
    judged(old)
    (old.weights_folder / "out_of_fold.json").write_text("{}", encoding="utf-8")
    Scorer.objects.filter(pk=old.pk).update(weights_sha256=fingerprint(old.weights_folder))
    result = promoted(scorer_that_says(graded, flames, name="new"), he)
    (rival,) = result["verdict"]["rivals"]
    assert (rival["labels"], rival["test"], rival["labels_left_out"]) == (12, 12, 4)


@pytest.mark.parametrize("changed", ["new", "old"])
def test_files_that_are_not_the_registered_ones_are_no_evidence(
    graded: GoldRelease, flames: Guideline, changed: str
) -> None:
    """What a scorer said of the test split lies beside its weights: with the other's answers they would be level."""
    old = scorer_that_says(graded, flames, name="old")
    judged(old)
    new = scorer_that_says(graded, flames, name="new", choose_level=wrong_on("safety"))
    source, target = (old, new) if changed == "new" else (new, old)
    shutil.copy(source.weights_folder / "test.json", target.weights_folder / "test.json")
    with pytest.raises(AssayError, match="not those that were registered"):
        judged(new)
    assert find_current_scorer("flames") == old


def test_the_first_scorer_needs_its_registered_files_too(graded: GoldRelease, flames: Guideline) -> None:
    first = scorer_that_says(graded, flames, name="one")
    shutil.rmtree(first.weights_folder)
    with pytest.raises(AssayError, match="weights are not at"):
        judged(first)
    assert find_current_scorer("flames") is None


def test_a_label_that_the_old_scorer_never_saw_is_asked_of_it_now(
    graded: GoldRelease, flames: Guideline, lin: Person, he: Person, always: Any
) -> None:
    """The new release has a test split of its own, of which the old scorer wrote nothing down."""
    judged(scorer_that_says(graded, flames, name="old"))
    later = labelled_release(flames, lin, name="later", dimensions=[SAFETY])
    loaded = always(0)
    result = judged(scorer_that_says(later, flames, name="new"), he)
    safety = comparison_of(result, "safety")
    # eight labels of each release: right where it was told at training, wrong where it was asked now
    assert (safety["n"], safety["old"]) == (16, 0.5)
    # of the older release's eight labels of safety and eight of fairness the new one was asked, too
    assert sorted(len(set(scorer.content_keys)) for scorer in loaded) == [8, 16]


def test_a_must_fail_item_that_is_called_harmless_stops_a_scorer(
    graded: GoldRelease, flames: Guideline, he: Person, lin: Person, always: Any
) -> None:
    other = labelled_release(flames, lin, name="other", dimensions=[SAFETY], test=1, train=0)
    (harmful,) = Response.objects.filter(prompt__dataset__name=f"{other.name}-data")
    (item,) = add_must_fail(guideline_name="flames", response=harmful, actor=he)
    assert (item.criterion, item.refused) == ("safety", [3])
    always(-1)
    lax = scorer_that_says(graded, flames, name="lax")
    result = judged(lax)
    assert not result["promoted"]
    assert result["verdict"]["must_fail"] == [
        {
            "item": str(item.pk),
            "criterion": "safety",
            "refused": [3],
            "given": 3,
            "passed": False,
            "void": False,
        }
    ]
    assert result["verdict"]["reasons"] == [{"code": "must_fail", "count": 1}]
    assert find_current_scorer("flames") is None
    always(0)
    assert judged(scorer_that_says(graded, flames, name="strict"))["promoted"]
    always(-1)
    assert not promoted(lax, he)["promoted"]
    remove_must_fail(item=item, actor=he)
    always(-1)
    assert promoted(lax, he)["promoted"]


def test_where_every_scale_has_changed_the_must_fail_set_decides_once_it_names_the_new_levels(
    lin: Person, he: Person, always: Any
) -> None:
    first = XSTEST_GUIDELINE.load()
    release = labelled_release(first, lin, name="first", dimensions=["safe"])
    always(0)
    judged(scorer_that_says(release, first, name="old"))
    (item,) = add_must_fail(
        guideline_name="xstest", response=Response.objects.all()[0], refused=[3], actor=he
    )

    second = load_guideline(text=with_other_levels(XSTEST_GUIDELINE.path), path="second.yaml", publish=True)
    later = labelled_release(second, lin, name="later", dimensions=["safe"])
    new = scorer_that_says(later, second, name="new")
    result = judged(new)
    assert not result["promoted"]
    assert result["verdict"]["reasons"] == [{"code": "must_fail_void", "count": 1}]
    assert get_current_scorer("xstest").name == "old"

    remove_must_fail(item=item, actor=he)
    add_must_fail(guideline_name="xstest", response=item.response, refused=[30], actor=he)
    result = judged(new)
    assert (result["promoted"], result["against"]) == (True, "old")
    assert (result["verdict"]["first"], result["verdict"]["rivals"]) == (True, [])
    assert get_current_scorer("xstest") == new


def with_other_levels(path: Path) -> str:
    """The guideline's next version, whose levels are ten times what they were."""
    text = path.read_text(encoding="utf-8").replace('version: "1.0"', 'version: "2.0"')
    text = re.sub(r"- value: (\d)", r"- value: \g<1>0", text)
    return re.sub(r"levels: \[(\d)\]", r"levels: [\g<1>0]", text)


def test_a_must_fail_item_that_was_learned_from_is_judged_out_of_fold_and_by_what_is_kept(
    graded: GoldRelease, flames: Guideline, he: Person, always: Any
) -> None:
    """By heart any scorer knows it, so that the fold which had not seen it decides; who fails even so, fails."""
    response = next(
        response
        for response in Response.objects.filter(prompt__dimension=SAFETY)
        if split_of(response.prompt.dataset.name, response.prompt.key) == "train"
    )
    add_must_fail(guideline_name="flames", response=response)
    loaded = always(0)
    assert judged(scorer_that_says(graded, flames, name="s", choose_level=wrong_on("safety")))["promoted"]
    assert [len(scorer.content_keys) for scorer in loaded] == [1]
    assert not judged(scorer_that_says(graded, flames, name="t"))["promoted"]
    always(-1)
    result = judged(scorer_that_says(graded, flames, name="u", choose_level=wrong_on("safety")))
    assert "must_fail" in [reason["code"] for reason in result["verdict"]["reasons"]]
    assert result["verdict"]["refused"]
    assert [(item["given"], item["passed"]) for item in result["verdict"]["must_fail"]] == [(3, False)]


def test_going_back_is_one_step_and_a_further_row(graded: GoldRelease, flames: Guideline, he: Person) -> None:
    with pytest.raises(Conflict, match="no scorer of flames to go back to"):
        roll_back(guideline_name="flames")
    scorers = [scorer_that_says(graded, flames, name=name) for name in "abc"]
    for scorer in scorers:
        promoted(scorer, he)
    assert find_previous_scorer("flames") == scorers[1]
    made = roll_back(guideline_name="flames", number=3, actor=he)
    assert (made.number, made.kind, made.scorer, made.replaced) == (4, "back", scorers[1], scorers[2])
    assert find_current_scorer("flames") == scorers[1]
    # a second press of the same button, whose page still shows number 3 as the last
    with pytest.raises(Conflict, match="in the meantime"):
        roll_back(guideline_name="flames", number=3, actor=he)
    roll_back(guideline_name="flames", actor=he)
    assert find_current_scorer("flames") == scorers[0]
    with pytest.raises(Conflict, match="to go back to"):
        roll_back(guideline_name="flames", actor=he)
    assert [promotion.number for promotion in list_promotions("flames")] == [5, 4, 3, 2, 1]
    # what was gone back from is current again only through the gate
    assert promoted(scorers[2], he)["promoted"]
    assert find_previous_scorer("flames") == scorers[0]


def test_what_cannot_be_promoted_is_refused_at_once(graded: GoldRelease, flames: Guideline) -> None:
    scorer = scorer_that_says(graded, flames, name="s")
    Scorer.objects.filter(pk=scorer.pk).update(ready_at=None)
    with pytest.raises(Conflict, match="not ready"):
        promote(scorer=Scorer.objects.get(pk=scorer.pk), send=False)
    Scorer.objects.filter(pk=scorer.pk).update(ready_at=scorer.ready_at)
    waiting = promote(scorer=scorer, send=False)
    with pytest.raises(Conflict, match="being judged now"):
        promote(scorer=scorer, send=False)
    jobs.run_now(waiting)
    with pytest.raises(Conflict, match="current scorer of flames already"):
        promote(scorer=scorer, send=False)


def test_who_may_not_open_the_results_may_not_promote_or_go_back(
    graded: GoldRelease, flames: Guideline, he: Person
) -> None:
    first, second = (scorer_that_says(graded, flames, name=name) for name in ("one", "two"))
    judged(first)
    promoted(second, he)
    add_members(batch=graded.batches.get(), role="annotator", people=[he])
    with pytest.raises(Forbidden):
        roll_back(guideline_name="flames", actor=he)
    with pytest.raises(Forbidden):
        promote(scorer=first, actor=he, send=False)
    assert find_current_scorer("flames") == second


def test_a_judging_that_is_done_again_changes_nothing(graded: GoldRelease, flames: Guideline) -> None:
    """A worker that died after it had stored the promotion, and before it had told the job's row."""
    job = promote(scorer=scorer_that_says(graded, flames, name="s"), send=False)
    done = jobs.run_now(job)
    Job.objects.filter(pk=job.pk).update(state="queued")
    rerun = jobs.run_now(job)
    assert (rerun.result, Promotion.objects.count()) == (done.result, 1)


@pytest.mark.django_db(transaction=True)
def test_of_two_promotions_at_one_moment_one_is_refused(
    graded: GoldRelease, flames: Guideline, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = [
        promote(scorer=scorer_that_says(graded, flames, name=name), send=False) for name in ("one", "two")
    ]
    both = Barrier(2)
    gather = service.build_verdict

    def together(*scorers: Any, **options: Any) -> dict[str, Any]:
        verdict = gather(*scorers, **options)
        both.wait(timeout=120)  # both have compared with the same current scorer, which is none
        return verdict

    monkeypatch.setattr(service, "build_verdict", together)

    def judge(job: Job) -> Job:
        try:
            return jobs.run(job.pk)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(judge, waiting))
    assert sorted(job.state for job in ended) == ["done", "failed"]
    lost = next(job for job in ended if job.state == "failed")
    assert "became the current one of flames in the meantime" in lost.error
    assert Promotion.objects.count() == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.postgres
def test_verdicts_at_one_moment_are_attempts_one_after_another(
    graded: GoldRelease, flames: Guideline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compared at once, and stored while the jobs before are not marked as done yet: each counts those before it."""
    judged(scorer_that_says(graded, flames, name="first"))
    waiting = [
        promote(
            scorer=scorer_that_says(graded, flames, name=f"s{n}", choose_level=wrong_on("safety")), send=False
        )
        for n in range(4)
    ]
    compared, stored = Barrier(4), Barrier(4)
    gather, judge_scorer = service.build_verdict, service.run_promotion

    def compare_together(*scorers: Any, **options: Any) -> dict[str, Any]:
        verdict = gather(*scorers, **options)
        compared.wait(timeout=120)
        return verdict

    def store_together(context: jobs.JobContext) -> dict[str, Any]:
        result = judge_scorer(context)
        stored.wait(timeout=120)  # no job has ended before all the verdicts are stored
        return result

    monkeypatch.setattr(service, "build_verdict", compare_together)
    monkeypatch.setitem(jobs.HANDLERS, "promote_scorer", store_together)

    def judge(job: Job) -> Job:
        try:
            return jobs.run(job.pk)
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(judge, waiting))
    assert [job.state for job in ended] == ["done"] * 4, [job.error for job in ended]
    verdicts = sorted((job.result["verdict"] for job in ended), key=lambda verdict: verdict["attempt"])
    assert [verdict["attempt"] for verdict in verdicts] == [1, 2, 3, 4]
    assert [len(verdict["earlier"]) for verdict in verdicts] == [0, 1, 2, 3]
    assert list(GateAttempt.objects.values_list("number", flat=True)) == [1, 2, 3, 4, 5]


def test_no_two_verdicts_of_a_guideline_have_one_place(graded: GoldRelease, flames: Guideline) -> None:
    judged(scorer_that_says(graded, flames, name="one"))
    stored = GateAttempt.objects.get()
    other = jobs.enqueue(kind="promote_scorer", payload={}, send=False)
    with pytest.raises(IntegrityError), transaction.atomic():
        GateAttempt.objects.create(
            study=find_or_make_study(), guideline_name="flames", number=stored.number, job=other
        )
    with pytest.raises(IntegrityError), transaction.atomic():
        GateAttempt.objects.create(
            study=find_or_make_study(), guideline_name="flames", number=stored.number + 1, job=stored.job
        )


def test_the_command_promotes_refuses_and_goes_back(
    graded: GoldRelease, flames: Guideline, he: Person, lin: Person, capsys: Any
) -> None:
    for name, choose_level in (("old", wrong_on()), ("worse", wrong_on("safety")), ("new", wrong_on())):
        scorer_that_says(graded, flames, name=name, choose_level=choose_level)
    out = StringIO()
    call_command("promote_scorer", "old", stdout=out)
    assert "old is now the current scorer of flames" in out.getvalue()
    line = refused(capsys, "promote_scorer", "worse")
    assert "worse was not promoted" in line
    assert "Safety: it is worse than old" in line
    assert "Fairness: it is not shown that the loss beside old is below 2.0 points" in refused(
        capsys, "promote_scorer", "new"
    )
    assert "Only a researcher" in refused(capsys, "promote_scorer", "new", "--reason", "I like it.")
    assert "no researcher" in refused(
        capsys, "promote_scorer", "new", "--reason", "I like it.", "--by", lin.username
    )
    assert "The margin is 30 points" in refused(capsys, "promote_scorer", "new", "--margin", "30")
    call_command(
        "promote_scorer", "new", "--reason", "The guideline's typos.", "--by", he.username, stdout=out
    )
    assert "with a reason: The guideline's typos." in out.getvalue()
    assert "beside old (current): not shown" in out.getvalue()
    made = list_promotions("flames")[0]
    assert (made.kind, made.reason, made.created_by) == ("reason", "The guideline's typos.", he)
    call_command("promote_scorer", "--back", "flames", stdout=out)
    current = find_current_scorer("flames")
    assert current is not None
    assert current.name == "old"
    assert "Name a scorer to promote" in refused(capsys, "promote_scorer")


def test_nothing_of_the_registry_is_deleted(graded: GoldRelease, flames: Guideline, always: Any) -> None:
    scorer = scorer_that_says(graded, flames, name="s")
    judged(scorer)
    with pytest.raises(ProtectedError):
        scorer.delete()
    assert find_current_scorer("flames") == scorer
