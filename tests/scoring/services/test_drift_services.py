from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command

from annotation.core.errors import AssayError, Forbidden
from annotation.models import EvaluatedModel, GoldRelease, Guideline, Job, Person, Response
from annotation.services import jobs
from annotation.services.batches.batches import add_members
from scoring.models import Scorer
from scoring.selectors.scorers import list_drift_checks
from scoring.services import check_drift
from tests.scoring.support import make_responses
from tests.support import make_batch


def new_model(name: str = "Brand-New-1") -> EvaluatedModel:
    make_responses(prompts=12, models=[name], name=f"of {name}", level=lambda *_place: 3)
    return EvaluatedModel.objects.get(name=name)


def test_a_new_model_is_compared_with_the_training_data(scorer: Scorer, he: Person) -> None:
    job = check_drift(scorer=scorer, model=new_model(), actor=he, send=False)
    result = jobs.run_now(job).result
    assert (result["scorer"], result["model"], result["labelled"]) == ("first-scorer", "Brand-New-1", 0)
    drift = result["drift"]
    assert drift["new"]["n"] == 12
    assert set(drift["models"]) == {"Hidden-13B", "Secretive-7B"}
    assert drift["known_prompts"] == pytest.approx(
        10 / 12
    )  # prompts of the same text are known by their text
    assert 0 <= drift["new"]["confidence"] <= 1
    assert drift["training"]["confidence"] == scorer.card["drift"]["all"]["confidence"]
    assert [check.pk for check in list_drift_checks(he, scorer)] == [job.pk]


def test_a_scorer_of_the_first_version_is_compared_by_what_it_kept(scorer: Scorer) -> None:
    expected = scorer.card.pop("drift")
    scorer.save(update_fields=["card"])
    result = jobs.run_now(check_drift(scorer=scorer, model=new_model(), send=False)).result
    assert result["drift"]["training"] == expected["all"]
    assert result["drift"]["models"] == expected["models"]


def test_a_model_with_labels_is_compared_with_the_others(scorer: Scorer) -> None:
    model = EvaluatedModel.objects.get(name="Hidden-13B")
    result = jobs.run_now(check_drift(scorer=scorer, model=model, send=False)).result
    assert result["labelled"] == 10
    assert result["drift"]["known_texts"] < 1


def test_who_judges_the_model_blind_learns_nothing_of_it(
    guideline: Guideline, scorer: Scorer, he: Person, lin: Person
) -> None:
    model = new_model()
    check_drift(scorer=scorer, model=model, actor=he, send=False)
    dataset = Response.objects.filter(model=model)[0].prompt.dataset
    make_batch(guideline, dataset, annotators=[lin, he], name="blind")
    with pytest.raises(AssayError, match="There are no responses of Brand-New-1"):
        check_drift(scorer=scorer, model=model, actor=he, send=False)
    assert list_drift_checks(he, scorer) == []
    assert "Brand-New-1" not in Job.objects.get(kind="check_drift").title
    add_members(batch=scorer.release.batches.get(), role="annotator", people=[he])
    with pytest.raises(Forbidden):
        check_drift(scorer=scorer, model=model, actor=he, send=False)


def test_the_command_prints_the_model_beside_those_that_were_learned_from(
    scorer: Scorer, release: GoldRelease
) -> None:
    new_model()
    text, data = (_call("check_drift", *more) for more in ([], ["--json"]))
    lines = text.splitlines()
    assert lines[1].startswith("Brand-New-1")
    assert {line.split()[0] for line in lines[2:4]} == {"Hidden-13B", "Secretive-7B"}
    assert json.loads(data)["drift"]["new"]["n"] == 12
    queued = json.loads(_call("check_drift", "--detach", "--json"))
    assert queued["state"] == "queued"


def _call(command: str, *more: str) -> str:
    out = StringIO()
    call_command(command, "--scorer", "first-scorer", "--model", "Brand-New-1", *more, stdout=out)
    return out.getvalue()


def test_a_model_without_responses_is_refused(scorer: Scorer, capsys: Any) -> None:
    EvaluatedModel.objects.create(name="Brand-New-1")
    with pytest.raises(SystemExit):
        _call("check_drift")
    assert "There are no responses of Brand-New-1" in capsys.readouterr().err
