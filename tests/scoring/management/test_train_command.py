from __future__ import annotations

import json
from dataclasses import asdict, fields
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from annotation.models import GoldRelease, Job, Person
from scoring.domain.spec import SETTINGS, TransformerSettings
from scoring.models import Prediction, Scorer
from tests.scoring.support import make_responses

pytestmark = pytest.mark.usefixtures("learning_once")


def call(*arguments: str) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out)
    return out.getvalue()


def refused(capsys: Any, *arguments: str) -> str:
    """The one line on the error stream of a command that ends with exit code 1."""
    with pytest.raises(SystemExit) as stopped:
        call_command(*arguments)
    assert stopped.value.code == 1
    line = capsys.readouterr().err.strip()
    assert "\n" not in line
    return line


def test_json_tells_scorer_backbone_and_evaluation(release: GoldRelease) -> None:
    data = json.loads(call("train_scorer", "s", "--release", "gold", "--json"))
    assert list(data) == ["scorer", "backbone", "evaluation"]
    assert (data["scorer"], data["backbone"], list(data["evaluation"])) == ("s", "ngram", ["grouped"])
    assert set(data["evaluation"]["grouped"]["accuracy"]) == {"value", "low", "high"}


def test_both_evaluations_may_be_asked_for_at_once(release: GoldRelease, subtests: pytest.Subtests) -> None:
    ways = [
        ["--evaluate", "grouped", "--evaluate", "leave-one-model-out"],
        ["--evaluate", "leave-one-model-out,grouped"],
        ["--evaluate", "leave-one-model-out"],
    ]
    for number, options in enumerate(ways):
        with subtests.test(" ".join(options)):
            data = json.loads(call("train_scorer", f"s{number}", "--release", "gold", *options, "--json"))
            assert list(data["evaluation"]) == ["grouped", "leave_one_model_out"]
            assert set(data["evaluation"]["leave_one_model_out"]["by_model"]) == {
                "Hidden-13B",
                "Secretive-7B",
            }


def test_what_would_be_lost_in_silence_is_refused(
    release: GoldRelease, capsys: Any, subtests: pytest.Subtests
) -> None:
    for options in (
        ["--backbone", "ngram", "--encoder", "some/name"],
        ["--tuning", "lora"],
        ["--backbone", "a/b", "--encoder", "c/d"],
    ):
        with subtests.test(" ".join(options)):
            line = refused(capsys, "train_scorer", "s", "--release", "gold", *options)
            assert "does not use what --encoder or --tuning say" in line
    assert not Scorer.objects.exists()


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        ("batch_size", "batch_size is no setting: write it as KEY=VALUE."),
        ("speed=9", "speed is no setting of a tuned encoder; use rounds, least_steps,"),
        ("batch_size=many", "batch_size is a whole number from 1 to 4096, not many."),
        ("batch_size=0", "batch_size is a whole number from 1 to 4096, not 0."),
        ("batch_size=2.5", "batch_size is a whole number from 1 to 4096, not 2.5."),
        ("learning_rate=nan", "learning_rate is a number from 1e-08 to 1, not nan."),
        ("learning_rate=0", "learning_rate is a number from 1e-08 to 1, not 0."),
        ("gradient_checkpointing=1", "gradient_checkpointing is true or false, not 1."),
        ("max_tokens=", "max_tokens is a whole number from 16 to 131072, not -."),
        ("rounds=2 rounds=3", "rounds is set twice."),
    ],
)
def test_a_setting_that_cannot_be_is_refused_with_what_would_be_right(
    release: GoldRelease, capsys: Any, assignments: str, words: str
) -> None:
    tuned = ["--backbone", "encoder", "--encoder", "a/b", "--tuning", "full"]
    options = [part for assignment in assignments.split(" ") for part in ("--set", assignment)]
    assert words in refused(capsys, "train_scorer", "s", "--release", "gold", *tuned, *options)
    assert not Scorer.objects.exists()


def test_settings_of_an_encoder_that_is_not_tuned_are_refused(release: GoldRelease, capsys: Any) -> None:
    line = refused(capsys, "train_scorer", "s", "--release", "gold", "--set", "batch_size=8")
    assert "--set is for an encoder that is tuned, and nothing of ngram is" in line
    assert not Scorer.objects.exists()


def test_settings_are_kept_with_the_scorer(release: GoldRelease, encoder: str) -> None:
    tuned = ["--backbone", "encoder", "--encoder", encoder, "--tuning", "full"]
    changed = ["--set", "batch_size=8", "--set", "learning_rate=1e-4", "--set", "gradient_checkpointing=TRUE"]
    call("train_scorer", "s", "--release", "gold", *tuned, *changed, "--detach")
    stored_settings = Scorer.objects.get().spec.settings
    assert stored_settings == TransformerSettings(
        batch_size=8, learning_rate=1e-4, gradient_checkpointing=True
    )


def test_every_setting_can_be_set_and_its_default_is_in_range() -> None:
    now = TransformerSettings()
    assert list(SETTINGS) == [field.name for field in fields(now)]
    assignments = [f"{name}={str(value).lower()}" for name, value in asdict(now).items()]
    assert now.with_assignments(assignments) == now


def test_people_read_a_table_and_which_backbone_was_used(release: GoldRelease) -> None:
    text = call("train_scorer", "s", "--release", "gold")
    assert "ngram: no pretrained weights" in text
    assert release.sha256 in text
    assert Scorer.objects.get().weights_sha256 in text
    assert "by prompt" in text
    assert "commonest level" in text
    assert "a list of refusals" in text
    assert "accuracy where it is most sure: 100%" in text
    assert "one level in the set that covers, compliance: 0.8:" in text
    assert "learned from" not in text  # no curve without being asked


def test_seeds_and_the_learning_curve_are_told_when_asked_for(release: GoldRelease) -> None:
    text = call("train_scorer", "s", "--release", "gold", "--seeds", "2", "--evaluate", "learning-curve")
    assert "2 deals of the folds: accuracy" in text
    assert [line.split(":")[0] for line in text.splitlines() if line.startswith("learned from")] == [
        f"learned from {n} labels" for n in (4, 8, 12, 16)
    ]
    assert "the next 200 labels would bring accuracy" in text


def test_an_adaptation_is_asked_for_by_its_base_and_its_model(scorer: Scorer) -> None:
    adapt = ["--base", "first-scorer", "--adapt-to", "Hidden-13B"]
    text = call("train_scorer", "s", "--release", "gold", *adapt)
    assert "Hidden-13B, 8 labels learned: accuracy" in text
    made = Scorer.objects.select_related("base", "adapted_to").get(name="s")
    assert made.base == scorer
    assert made.adapted_to is not None
    assert made.spec == scorer.spec


def test_detached_it_waits_for_a_worker(release: GoldRelease) -> None:
    data = json.loads(call("train_scorer", "s", "--release", "gold", "--detach", "--json"))
    job = Job.objects.get(kind="train_scorer")
    assert data == {"scorer": "s", "backbone": "ngram", "job": job.pk, "state": "queued"}
    assert Scorer.objects.get().ready_at is None


def test_bad_input_is_one_clear_line_and_makes_nothing(
    scorer: Scorer, capsys: Any, subtests: pytest.Subtests
) -> None:
    gold = ["--release", "gold"]
    for message, arguments in {
        "No gold release is named none": ["s", "--release", "none"],
        "already a scorer named first-scorer": ["first-scorer", *gold],
        "No backbone /no/such/place": ["s", *gold, "--backbone", "/no/such/place"],
        "no way to evaluate": ["s", *gold, "--evaluate", "luck"],
        "invalid int value": ["s", *gold, "--seed", "x"],
        "--release": ["s"],
    }.items():
        with subtests.test(message):
            assert message in refused(capsys, "train_scorer", *arguments)
    assert [scorer.name for scorer in Scorer.objects.all()] == ["first-scorer"]


def test_a_folder_without_a_model_is_refused(release: GoldRelease, capsys: Any, tmp_path: Path) -> None:
    line = refused(capsys, "train_scorer", "s", "--release", "gold", "--backbone", str(tmp_path))
    assert "config.json" in line
    assert not Scorer.objects.exists()


def test_score_responses_tells_what_it_stored(scorer: Scorer) -> None:
    make_responses(prompts=12, models=["A", "B"], name="more")
    # ten of the twelve prompts, with the same texts as in the release: out of fold; two are new
    arguments = ["score_responses", "--scorer", "first-scorer", "--dataset", "more", "--json"]
    data = json.loads(call(*arguments))
    assert data | {"seconds": 0} == {
        "scorer": "first-scorer",
        "dataset": "more",
        "stored": {"out_of_fold": 20, "unseen": 4},
        "responses": 24,
        "asked": 4,
        "seconds": 0,
    }
    assert json.loads(call(*arguments))["stored"] == {"out_of_fold": 0, "unseen": 0}


def test_score_responses_of_some_models_leaves_the_others(scorer: Scorer) -> None:
    make_responses(prompts=2, models=["A", "B", "C"], name="more", start=70)
    call("score_responses", "--scorer", "first-scorer", "--dataset", "more", "--models", "A,C")
    predictions = Prediction.objects.filter(response__prompt__dataset__name="more")
    assert sorted(predictions.values_list("response__model__name", flat=True)) == ["A", "A", "C", "C"]


def test_scoring_what_is_not_there_is_one_clear_line(
    scorer: Scorer, capsys: Any, subtests: pytest.Subtests
) -> None:
    for message, arguments in {
        "No scorer is named none": ["--scorer", "none", "--dataset", "gold-data"],
        "no dataset named none": ["--scorer", "first-scorer", "--dataset", "none"],
        "named none": ["--scorer", "first-scorer", "--dataset", "gold-data", "--models", "none"],
    }.items():
        with subtests.test(message):
            assert message in refused(capsys, "score_responses", *arguments)


def test_a_scorer_that_is_not_trained_yet_is_refused(release: GoldRelease, capsys: Any, lin: Person) -> None:
    call("train_scorer", "s", "--release", "gold", "--detach")
    assert "not ready" in refused(capsys, "score_responses", "--scorer", "s", "--dataset", "gold-data")
