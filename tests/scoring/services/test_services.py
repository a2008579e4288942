from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from annotation.core.errors import AssayError, Conflict, Forbidden
from annotation.domain.annotations import Submission
from annotation.domain.batch_spec import Policy
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import (
    AuditEvent,
    EvaluatedModel,
    GoldRelease,
    Guideline,
    Job,
    Person,
    Prompt,
    Response,
)
from annotation.services import jobs
from annotation.services.annotations.submission import submit
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import add_members
from annotation.services.guidelines import load_guideline
from annotation.services.releases import cut_release
from scoring.backbones.folder import fingerprint
from scoring.backbones.ngram import FittedNgramScorer, NgramBackbone
from scoring.domain.spec import Spec, Tuning
from scoring.domain.training_data import Example, Head
from scoring.domain.training_data import Prediction as Predicted
from scoring.domain.training_spec import TrainingSpec
from scoring.models import Prediction, Scorer
from scoring.selectors.training import build_training_set
from scoring.services import create_scorer, create_scoring, score
from scoring.services.predictions.predictions import _load_once
from scoring.services.scorers.card import describe_backbone
from tests.scoring.support import change_weights, label_all, make_release, make_responses, trained, true_level
from tests.support import FLAMES_GUIDELINE, XSTEST_GUIDELINE, decide_next, make_batch

pytestmark = pytest.mark.both_databases


class Memoriser(NgramBackbone):
    """A backbone that knows by heart what it was shown: in-sample it is never wrong, elsewhere it says 3."""

    def fit(self, examples: Sequence[Example], heads: Sequence[Head], **options: Any) -> Any:
        fitted = super().fit(examples, heads, **options)
        return MemorisedScorer(fitted, {e.content_key: e.labels["compliance"] for e in examples})


class MemorisedScorer:
    backbone = "memoriser"

    def __init__(self, fitted: FittedNgramScorer, memory: dict[str, float]) -> None:
        self.fitted, self.memory, self.heads = fitted, memory, fitted.heads

    def predict(self, examples: Sequence[Example], **options: Any) -> list[Predicted]:
        head = self.heads[0]
        return [{head.criterion: head.certain(self.memory.get(e.content_key, 3))} for e in examples]

    def save(self, folder: Path) -> None:
        self.fitted.save(folder)


def test_a_scorer_is_not_ready_before_its_job_is_done(release: GoldRelease, he: Person) -> None:
    scorer, job = create_scorer(TrainingSpec(name="s", release=release), actor=he, send=False)
    assert (scorer.state, scorer.ready_at, job.kind) == ("queued", None, "train_scorer")
    with pytest.raises(Conflict, match="not ready"):
        score(scorer=scorer, responses=Response.objects.all())


@pytest.mark.parametrize("tuning", ["full", "frozen"])
def test_a_tuned_encoder_is_given_responses_in_the_guidelines_template(
    lin: Person, encoder: str, tuning: Tuning
) -> None:
    template = "问：{prompt} 答：{response}"
    text = XSTEST_GUIDELINE.path.read_text(encoding="utf-8").replace('version: "1.0"', 'version: "1.1"')
    guideline = load_guideline(text=f'{text}\nscorer_template: "{template}"\n', path="x", publish=True)
    release = make_release(guideline, lin)
    scorer, _job = create_scorer(
        TrainingSpec(name="s", release=release, backbone=Spec("encoder", encoder, tuning)), send=False
    )
    scorer.refresh_from_db()
    assert scorer.spec.template == (template if tuning == "full" else "")


def test_the_card_describes_what_the_fit_really_used() -> None:
    assert "patterns (no pretrained weights; boosted trees" in describe_backbone(
        Spec("ensemble"), ["ngram", "patterns"]
    )
    spec = Spec("ensemble", "/x/tiny")
    used = describe_backbone(spec, ["ngram", "encoder"])
    assert used.endswith("and /x/tiny: a pretrained transformer, frozen, under a linear head")
    assert "left out (/x/tiny: a pretrained transformer" in describe_backbone(spec, ["ngram", "patterns"])


def test_training_registers_weights_card_evaluation_and_out_of_fold_predictions(scorer: Scorer) -> None:
    assert scorer.state == "ready"
    assert scorer.weights_sha256 == fingerprint(scorer.weights_folder)
    assert scorer.card["backbone"]["description"].startswith("ngram: no pretrained weights")
    assert scorer.card["release"] == {"name": "gold", "sha256": scorer.release.sha256}
    assert scorer.card["heads"]["compliance"]["n"] == 20
    assert scorer.card["split"] == {
        "by": "prompt",
        "folds": 5,
        "sizes": [4] * 5,
        "by_fold": [{"responses": 4, "prompts": 2, "largest": 2}] * 5,
        "seed": 0,
    }
    below = scorer.card["below_commonest"]
    assert scorer.card["statement"].startswith(
        "By log loss out of fold it " + ("does not beat" if below else "beats")
    )
    assert list(scorer.evaluation) == ["grouped"]
    # one label for each of 10 prompts x 2 models, each predicted once, two prompts in each of five folds
    assert Counter(scorer.predictions.values_list("fold", flat=True)) == dict.fromkeys(range(5), 4)
    assert not scorer.work_folder.exists()
    assert [p.name for p in scorer.folder.iterdir()] == ["weights"]
    verbs = AuditEvent.objects.filter(target="scorer:first-scorer").values_list("verb", flat=True)
    assert list(verbs.order_by("pk")) == ["create_scorer", "register_scorer"]


def test_the_evaluation_measures_exactly_the_stored_predictions_which_keep_prompts_together(
    scorer: Scorer,
) -> None:
    right = sum(true_level(p.response) == p.value for p in scorer.predictions.select_related("response"))
    assert scorer.evaluation["grouped"]["accuracy"]["value"] == right / 20
    assert scorer.evaluation["grouped"]["n"] == 20
    folds = scorer.predictions.values_list("response__prompt", "fold").distinct()
    assert len({prompt for prompt, _fold in folds}) == len(folds) == 10
    # one annotator alone for each response: people cannot be compared with each other
    between = scorer.card["baselines"]["between_annotators"]
    assert between["n"] == 0
    assert between["accuracy"] == {"value": None, "low": None, "high": None}


@pytest.mark.usefixtures("learning_once")
def test_leaving_one_model_out_is_added_when_asked_for(release: GoldRelease) -> None:
    scorer = trained(release, evaluate=["leave-one-model-out"])
    assert list(scorer.evaluation) == ["grouped", "leave_one_model_out"]
    assert set(scorer.evaluation["leave_one_model_out"]["by_model"]) == {"Secretive-7B", "Hidden-13B"}


def test_the_card_compares_with_the_commonest_level_and_with_people(
    guideline: Guideline, lin: Person, chen: Person, wu: Person
) -> None:
    dataset = make_responses(prompts=4, models=["A"], level=lambda prompt, _model: 3 if prompt else 1)
    batch = make_batch(guideline, dataset, annotators=[lin, chen], adjudicators=[wu])
    label_all(batch, lin)
    label_all(batch, chen, lambda response: 1 if response.prompt.key == "p3" else true_level(response))
    assert decide_next(batch, wu, 3) is not None
    baselines = trained(cut_release(ReleaseSpec(name="r", batches=[batch]))).card["baselines"]
    # gold: 1, 3, 3, 3. Always 3 is right in 3 of 4; lin and chen have 4 + 3 of 8; they agree in 3 of 4
    assert baselines["majority"]["accuracy"]["value"] == 3 / 4
    assert baselines["annotators"]["accuracy"]["value"] == 7 / 8
    assert baselines["between_annotators"]["accuracy"]["value"] == 3 / 4
    assert baselines["between_annotators"]["n"] == 4


def test_no_stored_prediction_is_in_sample_even_of_a_scorer_that_memorises(
    release: GoldRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scoring.services.training.choose_backbone", lambda *_spec, **_options: Memoriser())
    scorer = trained(release)
    levels = Counter(true_level(item.task.response) for item in release.items.all())
    # it would be right everywhere in-sample; out of fold it says 3 and is right where the truth is 3
    assert set(scorer.predictions.values_list("value", flat=True)) == {3}
    assert scorer.evaluation["grouped"]["accuracy"]["value"] == levels[3] / 20
    # the same contents under another model's name are what it was trained on too
    copies = make_responses(prompts=10, models=["Secretive-7B", "Copycat"], name="copies")
    scored = score(scorer=scorer, responses=Response.objects.filter(prompt__dataset=copies))
    assert (scored.out_of_fold, scored.unseen) == (20, 0)
    stored = Prediction.objects.filter(response__prompt__dataset=copies)
    assert {p.fold is None for p in stored} == {False}
    by_text = {
        (p.response.prompt.text, p.response.text): (p.fold, p.value)
        for p in scorer.predictions.filter(response__prompt__dataset__name="gold-data").select_related(
            "response__prompt"
        )
    }
    for copy in stored.select_related("response__prompt"):
        assert by_text[copy.response.prompt.text, copy.response.text] == (copy.fold, copy.value)


def test_another_response_to_a_known_prompt_is_unseen(scorer: Scorer) -> None:
    other = make_responses(prompts=1, models=["New"], name="other", level=lambda *_place: 3)
    assert score(scorer=scorer, responses=Response.objects.filter(prompt__dataset=other)).unseen == 1
    prediction = Prediction.objects.get(response__prompt__dataset=other)
    assert prediction.fold is None
    likely = max(prediction.probabilities, key=lambda level: prediction.probabilities[level])
    assert (prediction.value, sum(prediction.probabilities.values())) == (float(likely), pytest.approx(1))


def test_scoring_again_changes_nothing(scorer: Scorer) -> None:
    other = make_responses(prompts=6, models=["New"], name="other", start=100)
    responses = Response.objects.filter(prompt__dataset=other)
    assert score(scorer=scorer, responses=responses).unseen == 6
    before = list(Prediction.objects.order_by("pk").values())
    outcome = score(scorer=scorer, responses=list(responses))
    assert (outcome.out_of_fold, outcome.unseen) == (0, 0)
    assert list(Prediction.objects.order_by("pk").values()) == before


def test_a_criterion_without_labels_does_not_make_scoring_begin_anew(lin: Person) -> None:
    """Two criteria are asked of each response; of one the scorer had no labels, so it never predicts it."""
    head, rest = XSTEST_GUIDELINE.path.read_text(encoding="utf-8").split("criteria:", 1)
    block, metrics = rest.split("\nmetrics:", 1)
    narrow = block.replace("name: compliance", "name: tone")
    unsafe = narrow.replace("applies_to: all", "applies_to: {dimensions: [unsafe]}")
    text = (
        head.replace("name: xstest", "name: two", 1) + "criteria:" + block + unsafe + "\nmetrics:" + metrics
    )
    guideline = load_guideline(text=text, path="two.yaml", publish=True)
    dataset = make_responses(prompts=8, models=["A"])
    Prompt.objects.update(dimension="safe")
    batch = make_batch(guideline, dataset, annotators=[lin], policy=Policy(overlap=1))
    label_all(batch, lin)
    scorer = trained(cut_release(ReleaseSpec(name="r", batches=[batch])))
    other = make_responses(prompts=4, models=["New"], name="other", start=100)
    Prompt.objects.filter(dataset=other).update(dimension="unsafe")
    responses = Response.objects.filter(prompt__dataset=other)
    first, second = (score(scorer=scorer, responses=responses) for _turn in range(2))
    assert (first.unseen, first.predicted) == (4, 4)
    assert (second.unseen, second.predicted) == (0, 0)


def test_scoring_that_was_interrupted_goes_on(scorer: Scorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scoring.services.predictions.predictions.CHUNK", 2)
    other = make_responses(prompts=6, models=["New"], name="other", start=100)
    responses = Response.objects.filter(prompt__dataset=other)

    def stop_half_way(fraction: float, stage: str) -> None:
        if fraction >= 0.5:
            raise jobs.Cancelled

    with pytest.raises(jobs.Cancelled):
        score(scorer=scorer, responses=responses, report=stop_half_way)
    # chunks of two: at 4/6 it stopped, after two of them
    assert Prediction.objects.filter(response__in=responses).count() == 4
    assert score(scorer=scorer, responses=responses).unseen == 2


def test_identical_contents_are_predicted_once(scorer: Scorer, monkeypatch: pytest.MonkeyPatch) -> None:
    keys: list[str] = []
    predict = FittedNgramScorer.predict

    def counted(self: FittedNgramScorer, examples: list[Example], **options: Any) -> Any:
        keys.extend(e.content_key for e in examples)
        return predict(self, examples, **options)

    monkeypatch.setattr(FittedNgramScorer, "predict", counted)
    same = make_responses(prompts=3, models=["A", "B"], name="same", start=50, level=lambda *_place: 1)
    scored = score(scorer=scorer, responses=Response.objects.filter(prompt__dataset=same))
    assert (len(keys), scored.unseen, scored.predicted) == (3, 6, 3)


def test_identical_contents_are_predicted_once_across_chunks_models_and_datasets(
    scorer: Scorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scoring.services.predictions.predictions.CHUNK", 2)
    models = ["A", "B", "C"]
    for name in ("same", "again"):
        make_responses(prompts=3, models=models, name=name, start=50, level=lambda *_place: 1)
    copies = Response.objects.filter(prompt__dataset__name__in=["same", "again"])
    scored = score(scorer=scorer, responses=copies)
    # three texts to three prompts; of each prompt, three models in two datasets
    assert (scored.unseen, scored.predicted) == (18, 3)
    assert Prediction.objects.filter(response__in=copies).count() == 18


def test_of_many_contents_only_the_last_are_kept_at_hand(
    scorer: Scorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scoring.services.predictions.predictions.CHUNK", 2)
    monkeypatch.setattr("scoring.services.predictions.predictions.MAX_CACHED", 2)
    for name in ("same", "again"):
        make_responses(prompts=4, models=["A"], name=name, start=50)
    scored = score(
        scorer=scorer, responses=Response.objects.filter(prompt__dataset__name__in=["same", "again"])
    )
    assert (scored.unseen, scored.predicted) == (8, 8)


def test_scoring_tells_its_rate(scorer: Scorer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scoring.services.predictions.predictions.CHUNK", 2)
    monkeypatch.setattr("scoring.tasks.RATE_EVERY", 0)
    other = make_responses(prompts=6, models=["New"], name="other", start=100)
    job = jobs.run_now(create_scoring(scorer=scorer, dataset=other, send=False))
    rates = [point["value"] for point in job.history if point["name"] == "responses a second"]
    assert len(rates) == 3  # after two responses, after four, and at the end
    assert all(rate > 0 for rate in rates)
    assert job.result | {"seconds": 0} == {
        "scorer": "first-scorer",
        "out_of_fold": 0,
        "unseen": 6,
        "asked": 6,
        "responses": 6,
        "seconds": 0,
    }


def test_only_the_criteria_of_a_prompts_dimension_are_predicted(lin: Person) -> None:
    text = XSTEST_GUIDELINE.path.read_text(encoding="utf-8")
    head, criteria = text.split("criteria:", 1)
    block, metrics = criteria.split("\nmetrics:", 1)
    other = block.replace("name: compliance", "name: tone").replace(
        "applies_to: all", "applies_to: {dimensions: [unsafe]}"
    )
    changed = (
        head.replace("name: xstest", "name: two", 1) + "criteria:" + block + other + "\nmetrics:" + metrics
    )
    guideline = load_guideline(text=changed, path="two.yaml", publish=True)
    dataset = make_responses(prompts=8, models=["A"])
    batch = make_batch(guideline, dataset, annotators=[lin], policy=Policy(overlap=1))
    while (assignment := claim_next_task(batch=batch, person=lin)) is not None:
        level = true_level(assignment.task.response)
        response_criteria = guideline.document.criteria_for(assignment.task.response.prompt.dimension)
        labels = {criterion.name: level for criterion in response_criteria}
        submit(assignment_id=assignment.pk, person=lin, key=str(uuid4()), work=Submission(labels=labels))
    scorer = trained(cut_release(ReleaseSpec(name="r", batches=[batch])))
    counts = Counter(scorer.predictions.values_list("response__prompt__dimension", "criterion"))
    assert counts == {("safe", "compliance"): 4, ("unsafe", "compliance"): 4, ("unsafe", "tone"): 4}


def test_weights_that_were_changed_are_refused(scorer: Scorer) -> None:
    _load_once.cache_clear()
    change_weights(scorer.weights_folder)
    other = make_responses(prompts=1, models=["New"], name="other", start=100)
    with pytest.raises(AssayError, match="not those that were registered"):
        score(scorer=scorer, responses=Response.objects.filter(prompt__dataset=other))
    assert not Prediction.objects.filter(response__prompt__dataset=other).exists()


def test_the_same_release_seed_and_backbone_give_the_same_weights(release: GoldRelease) -> None:
    assert trained(release, "a").weights_sha256 == trained(release, "b").weights_sha256


def test_what_cannot_work_is_refused_before_anything_is_made(
    release: GoldRelease, subtests: pytest.Subtests
) -> None:
    refusals: dict[str, dict[str, Any]] = {
        "cannot be a name": {"name": "a/b"},
        "No backbone no such place": {"backbone": Spec.from_request("no such place")},
        "holds no model": {"backbone": Spec.from_request("/tmp")},
        "neither a folder here nor a name on the hub": {"backbone": Spec.from_request("a" * 300)},
        "no way to evaluate": {"evaluate": ["by luck"]},
        "The seed is a whole number": {"seed": -1},
    }
    for message, options in refusals.items():
        with subtests.test(message), pytest.raises(AssayError, match=message):
            create_scorer(TrainingSpec(**{"name": "s", "release": release} | options), send=False)
    assert not Scorer.objects.exists()
    assert not Job.objects.filter(kind="train_scorer").exists()


@pytest.mark.usefixtures("learning_once")
def test_a_name_that_is_in_training_or_ready_is_refused(release: GoldRelease) -> None:
    _scorer, job = create_scorer(TrainingSpec(name="s", release=release), send=False)
    with pytest.raises(Conflict, match="already a scorer named s"):
        create_scorer(TrainingSpec(name="s", release=release), send=False)
    jobs.run_now(job)
    with pytest.raises(Conflict, match="already a scorer named s"):
        create_scorer(TrainingSpec(name="s", release=release), send=False)


@pytest.mark.usefixtures("learning_once")
def test_the_name_of_a_cancelled_training_can_be_taken_again(release: GoldRelease) -> None:
    first, job = create_scorer(TrainingSpec(name="s", release=release), send=False)
    first.work_folder.mkdir(parents=True)
    jobs.cancel(job=job)
    second = trained(release)
    assert second.pk != first.pk
    assert second.state == "ready"
    assert not Scorer.objects.filter(pk=first.pk).exists()


def test_a_release_of_one_prompt_or_one_model_is_refused_with_the_reason(
    guideline: Guideline, lin: Person
) -> None:
    one_prompt = make_release(guideline, lin, name="one-prompt", prompts=1)
    with pytest.raises(AssayError, match="a single prompt"):
        create_scorer(TrainingSpec(name="s", release=one_prompt), send=False)
    one_model = make_release(guideline, lin, name="one-model", models=["A"])
    with pytest.raises(AssayError, match="a single model"):
        create_scorer(TrainingSpec(name="s", release=one_model, evaluate=["leave-one-model-out"]), send=False)


def test_two_guidelines_in_one_release_are_refused(
    guideline: Guideline, lin: Person, release: GoldRelease
) -> None:
    text = XSTEST_GUIDELINE.path.read_text(encoding="utf-8").replace("name: xstest", "name: other", 1)
    other = load_guideline(text=text, path="other.yaml", publish=True)
    dataset = make_responses(prompts=2, models=["A"], name="second")
    batch = make_batch(other, dataset, annotators=[lin], name="second", policy=Policy(overlap=1))
    label_all(batch, lin)
    mixed = cut_release(ReleaseSpec(name="mixed", batches=[batch, *release.batches.all()]))
    with pytest.raises(AssayError, match="other, xstest"):
        create_scorer(TrainingSpec(name="s", release=mixed), send=False)


def test_who_annotates_in_an_open_batch_may_not_train_on_it(release: GoldRelease, lin: Person) -> None:
    with pytest.raises(Forbidden):
        create_scorer(TrainingSpec(name="s", release=release), actor=lin, send=False)


def test_examples_do_not_depend_on_the_order_of_rows(release: GoldRelease) -> None:
    lesson = build_training_set(release, release.batches.get().guideline)
    assert [e.key for e in lesson.examples] == sorted(e.key for e in lesson.examples)
    assert lesson.heads == (Head("compliance", (1, 2, 3), "ordinal"),)
    assert all(
        lesson.examples[i].labels == {"compliance": true_level(Response.objects.get(pk=pk))}
        for i, pk in enumerate(lesson.responses)
    )


def test_an_adaptation_knows_its_base_and_the_model(scorer: Scorer, release: GoldRelease) -> None:
    model = EvaluatedModel.objects.get(name="Hidden-13B")
    made, _job = create_scorer(
        TrainingSpec(name="adapted", release=release, base=scorer, adapt_to=model), send=False
    )
    assert (made.base, made.adapted_to, made.spec) == (scorer, model, scorer.spec)


def test_who_may_not_open_the_base_adapts_nothing(
    scorer: Scorer, guideline: Guideline, lin: Person, he: Person
) -> None:
    later = make_release(guideline, lin, name="later")
    add_members(batch=scorer.release.batches.get(), role="annotator", people=[he])
    model = EvaluatedModel.objects.get(name="Hidden-13B")
    with pytest.raises(Forbidden):
        create_scorer(
            TrainingSpec(name="adapted", release=later, base=scorer, adapt_to=model), actor=he, send=False
        )


def test_an_adaptation_needs_labels_of_the_model_and_a_scorer_of_the_guideline(
    scorer: Scorer, release: GoldRelease
) -> None:
    hidden, other = EvaluatedModel.objects.get(name="Hidden-13B"), EvaluatedModel.objects.create(name="New")

    def adapt(**options: Any) -> None:
        create_scorer(TrainingSpec(**{"name": "a", "release": release} | options), send=False)

    with pytest.raises(AssayError, match="gold has no labels of New: label a few dozen"):
        adapt(base=scorer, adapt_to=other)
    with pytest.raises(AssayError, match="needs both"):
        adapt(adapt_to=hidden)
    with pytest.raises(AssayError, match="needs both"):
        adapt(base=scorer)
    Scorer.objects.filter(pk=scorer.pk).update(guideline=FLAMES_GUIDELINE.load())
    with pytest.raises(
        AssayError, match="first-scorer is a scorer of flames, the labels of gold follow xstest"
    ):
        adapt(base=Scorer.objects.get(pk=scorer.pk), adapt_to=hidden)
    assert [scorer.name for scorer in Scorer.objects.all()] == ["first-scorer"]


def test_the_number_of_seeds_is_kept_and_bounded(release: GoldRelease) -> None:
    assert create_scorer(TrainingSpec(name="s", release=release), send=False)[0].config["seeds"] == 1
    assert create_scorer(TrainingSpec(name="t", release=release, seeds=4), send=False)[0].config["seeds"] == 4
    for wrong in (0, 11):
        with pytest.raises(AssayError, match="1 to 10 seeds"):
            create_scorer(TrainingSpec(name="u", release=release, seeds=wrong), send=False)
