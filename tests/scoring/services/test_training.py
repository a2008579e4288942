"""What a training finds and keeps: the test split that is held out, seeds, curves, adaptations, the card."""

from __future__ import annotations

import json
from typing import Any

import pytest

from annotation.domain.releases.splits import split_of
from annotation.models import EvaluatedModel, GoldRelease, Guideline, Job, Person
from annotation.services import jobs
from scoring.backbones.folder import fingerprint
from scoring.backbones.ngram import NgramBackbone
from scoring.domain import calibration
from scoring.domain.training_spec import TrainingSpec
from scoring.models import Scorer
from scoring.selectors.training import TrainingRecord, build_training_set
from scoring.services import create_scorer, progress
from tests.scoring.support import make_release, trained

pytestmark = pytest.mark.usefixtures("fits_once")
PROMPTS = 24


@pytest.fixture
def larger(guideline: Guideline, lin: Person) -> GoldRelease:
    """So many prompts that some are in the test split."""
    return make_release(guideline, lin, name="larger", prompts=PROMPTS)


@pytest.fixture
def learned_from(fits_once: None, monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The rows of every fit, in order."""
    fits: list[set[str]] = []
    fit = NgramBackbone.fit

    def record_fit(self: NgramBackbone, examples: Any, heads: Any, **options: Any) -> Any:
        fits.append({example.key for example in examples})
        return fit(self, examples, heads, **options)

    monkeypatch.setattr(NgramBackbone, "fit", record_fit)
    return fits


def test_what_is_kept_has_not_learned_the_test_split_and_says_what_it_is_worth_there(
    larger: GoldRelease, learned_from: list[set[str]]
) -> None:
    scorer = trained(larger)
    examples = build_training_set(larger, scorer.guideline).examples
    tested = {e.key for e in examples if split_of(*e.prompt_key.split("/")) == "test"}
    assert 0 < len(tested) < len(examples)
    assert learned_from[-1] == {e.key for e in examples} - tested
    assert set.union(*learned_from[:5]) == {e.key for e in examples}  # evaluations learn from all
    card = scorer.card
    assert (card["learned_from"], card["held_out"]) == (len(examples) - len(tested), len(tested))
    assert card["test"]["n"] == len(tested)
    assert set(card["test"]["accuracy"]) == {"value", "low", "high"}
    assert card["heads"]["compliance"]["n"] == 2 * PROMPTS
    assert card["heads"]["compliance"]["learned"] == 2 * PROMPTS - len(tested)


def test_the_folder_tells_the_gate_what_was_learned_and_what_is_said_of_the_rest(larger: GoldRelease) -> None:
    scorer = trained(larger)
    examples = build_training_set(larger, scorer.guideline).examples
    record = TrainingRecord.load(scorer)
    assert record.learned == {e.content_key for e in examples if e.split != "test"}
    assert set(record.tested) == {e.content_key for e in examples if e.split == "test"}
    assert all(sum(shares["compliance"].values()) == pytest.approx(1) for shares in record.tested.values())
    right = sum(
        max(record.tested[e.content_key]["compliance"].items(), key=lambda pair: pair[1])[0]
        == e.labels["compliance"]
        for e in examples
        if e.split == "test"
    )
    assert scorer.card["test"]["accuracy"]["value"] == right / len(record.tested)
    # They lie under the hash: nobody changes them unnoticed.
    (scorer.weights_folder / "trained.json").write_text("[]", encoding="utf-8")
    assert fingerprint(scorer.weights_folder) != scorer.weights_sha256


def test_a_release_too_small_to_hold_anything_out_is_learned_whole_and_says_so(
    guideline: Guideline, lin: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scoring.selectors.training.split_of", lambda _dataset, _prompt: "test")
    scorer = trained(make_release(guideline, lin, name="tiny", prompts=3))
    assert (scorer.card["held_out"], scorer.card["learned_from"]) == (0, 6)
    assert scorer.card["test"]["accuracy"] == {"value": None, "low": None, "high": None}
    assert TrainingRecord.load(scorer).tested == {}


def test_further_seeds_deal_other_folds_and_leave_the_figures_to_the_first(
    release: GoldRelease, learned_from: list[set[str]]
) -> None:
    single = trained(release, "one", seeds=1)
    assert len(learned_from) == 6
    three = trained(release, "three", seeds=3, seed=0)
    assert len(learned_from) == 6 + 16
    assert learned_from[6:11] == learned_from[:5]
    assert learned_from[11:16] != learned_from[:5]
    figures = three.evaluation["grouped"]
    assert [row["seed"] for row in figures["by_seed"]["seeds"]] == [0, 1, 2]
    assert figures["by_seed"]["spread"]["accuracy"]["low"] <= figures["accuracy"]["value"]
    assert {**figures, "by_seed": None} == {**single.evaluation["grouped"], "by_seed": None}
    assert three.card["seeds"] == figures["by_seed"]
    assert three.weights_sha256 == single.weights_sha256
    assert dict(three.predictions.values_list("response", "fold")) == dict(
        single.predictions.values_list("response", "fold")
    )


def test_a_learning_curve_is_drawn_when_asked_for(release: GoldRelease, learned_from: list[set[str]]) -> None:
    scorer = trained(release, evaluate=["learning-curve"])
    assert len(learned_from) == 5 + 15 + 1
    assert list(scorer.evaluation) == ["grouped", "learning_curve"]
    curve = scorer.evaluation["learning_curve"]
    assert [point["share"] for point in curve["points"]] == [0.25, 0.5, 0.75, 1.0]
    assert [point["labels"] for point in curve["points"]] == [4, 8, 12, 16]
    assert scorer.card["learning_curve"] == curve


class Died(BaseException):
    """What a killed process does, as far as this one can."""


def test_a_training_that_died_among_the_seeds_and_in_the_curve_goes_on_to_the_same_end(
    release: GoldRelease, learned_from: list[set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "REPORT_EVERY", 0)
    options: dict[str, Any] = {"evaluate": ["learning-curve"], "seeds": 2}
    scorer, job = create_scorer(TrainingSpec(name="s", release=release, **options), send=False)
    for fitted in (7, 13):

        def die(_fraction: float, _stage: str, fitted: int = fitted) -> None:
            if len(learned_from) == fitted:
                raise Died

        with pytest.raises(Died):
            jobs.run(job.pk, watcher=die)
        assert len(learned_from) == fitted
        Job.objects.filter(pk=job.pk).update(state="queued")
    assert jobs.run(job.pk).state == "done"
    fits = 5 * 2 + 15 + 1
    # What was being fitted when it died may be done twice, and nothing else.
    assert len(learned_from) <= fits + 2
    scorer.refresh_from_db()
    expected = trained(release, "undisturbed", **options)
    assert scorer.weights_sha256 == expected.weights_sha256
    assert scorer.evaluation == expected.evaluation


def test_an_adaptation_tells_what_the_labels_of_its_model_brought(
    release: GoldRelease, scorer: Scorer, learned_from: list[set[str]]
) -> None:
    model = EvaluatedModel.objects.get(name="Hidden-13B")
    adapted = trained(release, "adapted", base=scorer, adapt_to=model)
    adaptation = adapted.card["adaptation"]
    assert (adaptation["model"], adaptation["n"], adaptation["labels"]) == ("Hidden-13B", 10, 8)
    assert set(adaptation["difference"]["accuracy"]) == {"value", "low", "high"}
    without = learned_from[5:10]
    assert all("Hidden-13B" not in key for rows in without for key in rows)
    assert scorer.card["adaptation"] is None


def test_the_card_holds_what_a_reader_needs_to_judge_and_to_repeat(scorer: Scorer) -> None:
    card, grouped = scorer.card, scorer.evaluation["grouped"]
    for name in ("accuracy", "within_one", "macro_f1", "calibration_error", "reliability", "risk_coverage"):
        assert card[name] == grouped[name]
    assert set(card["baselines"]) == {"majority", "string_rules", "annotators", "between_annotators"}
    assert card["conformal"]["promise"] == calibration.PROMISE
    assert "nothing is promised" in calibration.PROMISE
    assert card["conformal"]["models"] == ["Hidden-13B", "Secretive-7B"]
    assert set(card["conformal"]["criteria"]["compliance"]["coverages"]) == {"0.8", "0.9", "0.95"}
    assert set(card["drift"]["models"]) == {"Hidden-13B", "Secretive-7B"}
    assert {"system", "processor", "processors", "threads", "torch_threads"} <= set(card["environment"])
    assert card["versions"]["numpy"]
    assert isinstance(card["curves"], list)
    json.dumps(card, allow_nan=False)
    json.dumps(scorer.evaluation, allow_nan=False)


def test_leaving_models_out_tells_the_drift_reference_what_it_cost(release: GoldRelease) -> None:
    scorer = trained(release, evaluate=["leave-one-model-out"])
    grouped, without = (scorer.evaluation[name]["by_model"] for name in ("grouped", "leave_one_model_out"))
    for name, drift in scorer.card["drift"]["models"].items():
        lost = grouped[name]["accuracy"]["value"] - without[name]["accuracy"]["value"]
        assert drift["accuracy_lost"] == pytest.approx(lost)
