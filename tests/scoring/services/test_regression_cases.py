from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from annotation.core.errors import AssayError, Conflict, Forbidden, InputError, NotFound, Unprocessable
from annotation.models import AuditEvent, Batch, Dataset, Guideline, Person, Response
from scoring.models import RegressionCase
from scoring.selectors.regression_cases import harmless_levels, must_fail_for, must_fail_items
from scoring.services import add_must_fail, import_must_fail, remove_must_fail
from tests.scoring.management.test_train_command import call, refused
from tests.support import FLAMES_GUIDELINE

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def response(key: str, model: str = "Hidden-13B") -> Response:
    return Response.objects.get(prompt__key=key, model__name=model)


def test_what_is_harmless_is_what_the_headline_rate_counts(guideline: Guideline) -> None:
    flames = FLAMES_GUIDELINE.load().document
    assert harmless_levels(flames, "Fairness", "fairness") == (3,)
    # it does not ask of fairness in another dimension
    assert harmless_levels(flames, "Safety", "fairness") == ()
    # ranked by full compliance on safe prompts; on unsafe ones its other rate counts full refusal
    assert harmless_levels(guideline.document, "safe", "compliance") == (3,)
    assert harmless_levels(guideline.document, "unsafe", "compliance") == (1,)
    assert harmless_levels(guideline.document, None, "compliance") == ()


def test_a_response_is_added_once_with_the_levels_that_it_may_not_have(
    guideline: Guideline, dataset: Dataset, he: Person
) -> None:
    (item,) = add_must_fail(guideline_name="xstest", response=response("p1"), reason="it is harm", actor=he)
    assert (item.criterion, item.refused, item.reason, item.created_by) == (
        "compliance",
        [1],
        "it is harm",
        he,
    )
    assert add_must_fail(guideline_name="xstest", response=response("p1"), actor=he) == []
    with pytest.raises(Conflict, match=f"remove case {item.pk} first"):
        add_must_fail(guideline_name="xstest", response=response("p1"), refused=[1, 2])
    assert list(must_fail_items("xstest")) == [item]
    assert AuditEvent.objects.filter(verb="add_must_fail", target="guideline:xstest").count() == 1


def test_what_is_removed_can_be_added_again_and_stays_on_record(
    guideline: Guideline, dataset: Dataset
) -> None:
    (first,) = add_must_fail(guideline_name="xstest", response=response("p0"))
    remove_must_fail(item=first)
    remove_must_fail(item=first)
    assert not must_fail_items("xstest").exists()
    (second,) = add_must_fail(guideline_name="xstest", response=response("p0"), refused=[2, 3])
    assert [item.refused for item in RegressionCase.objects.order_by("pk")] == [[3], [2, 3]]
    assert list(must_fail_items("xstest")) == [second]
    assert AuditEvent.objects.filter(verb="remove_must_fail").count() == 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"criterion": "tone"}, AssayError, "not asked of this prompt; asked: compliance"),
        ({"refused": [7]}, Unprocessable, "cannot be 7"),
        ({"refused": [1, 2, 3]}, AssayError, "leave out at least one"),
        ({"guideline_name": "none"}, NotFound, "no published guideline none"),
        ({"reason": "x" * 2001}, AssayError, "longer than 2000"),
    ],
)
def test_what_cannot_be_is_refused(
    guideline: Guideline, dataset: Dataset, options: dict[str, Any], error: type, message: str
) -> None:
    with pytest.raises(error, match=message):
        add_must_fail(**{"guideline_name": "xstest", "response": response("p0")} | options)
    assert not RegressionCase.objects.exists()


def test_who_judges_the_dataset_blind_neither_adds_nor_sees(batch: Batch, lin: Person, he: Person) -> None:
    add_must_fail(guideline_name="xstest", response=response("p0"), actor=he)
    with pytest.raises(Forbidden):
        add_must_fail(guideline_name="xstest", response=response("p1"), actor=lin)
    assert must_fail_for(he, "xstest").count() == 1
    assert must_fail_for(lin, "xstest").count() == 0


def rows(**changes: Any) -> list[dict[str, Any]]:
    good = {"dataset": "small", "prompt_id": "p0", "model": "Hidden-13B"}
    return [good, good | {"prompt_id": "p1", "model": "Secretive-7B"} | changes]


def test_a_file_of_items_is_taken_in_by_dataset_prompt_and_model(
    guideline: Guideline, dataset: Dataset, tmp_path: Path
) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows(refused=[1, 2], reason="both")))
    made = import_must_fail(guideline_name="xstest", path=path)
    assert [(item.response.prompt.key, item.refused, item.reason) for item in made] == [
        ("p0", [3], ""),
        ("p1", [1, 2], "both"),
    ]
    assert import_must_fail(guideline_name="xstest", path=path) == []
    table = tmp_path / "items.csv"
    table.write_text("dataset,prompt_id,model,refused\nsmall,p2,Hidden-13B,2;3\nsmall,p3,Hidden-13B,\n")
    assert [item.refused for item in import_must_fail(guideline_name="xstest", path=table)] == [[2, 3], [1]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "None-1B"}, r"items.jsonl:2 \[prompt_id\]: there is no such response"),
        ({"refused": "many"}, r"items.jsonl:2 \[refused\]: 'many' is no number"),
        ({"refused": [9]}, r'items.jsonl:2: "compliance" cannot be 9'),
        ({"colour": "red"}, r"items.jsonl:2 \[colour\]: there is no such field"),
    ],
)
def test_a_file_with_a_wrong_line_adds_nothing(
    guideline: Guideline, dataset: Dataset, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = tmp_path / "items.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows(**changes)))
    with pytest.raises(InputError, match=message):
        import_must_fail(guideline_name="xstest", path=path)
    assert not RegressionCase.objects.exists()


def test_the_command_adds_lists_and_removes(guideline: Guideline, dataset: Dataset, capsys: Any) -> None:
    arguments = ["--guideline", "xstest", "--dataset", "small", "--prompt", "p1", "--model", "Hidden-13B"]
    assert json.loads(call("regression_cases", "add", *arguments, "--json")) == {
        "guideline": "xstest",
        "added": 1,
        "items": 1,
    }
    (item,) = json.loads(call("regression_cases", "list", "--guideline", "xstest", "--json"))["items"]
    assert (item["dataset"], item["prompt_id"], item["model"], item["refused"]) == (
        "small",
        "p1",
        "Hidden-13B",
        [1],
    )
    assert "small/p1  Hidden-13B  compliance not 1" in call(
        "regression_cases", "list", "--guideline", "xstest"
    )
    number = str(item["item"])
    assert "0 are there" in call("regression_cases", "remove", number, "--guideline", "xstest")
    assert "no regression case" in refused(
        capsys, "regression_cases", "remove", number, "--guideline", "xstest"
    )
    out = StringIO()
    call_command("regression_cases", "list", "--guideline", "xstest", stdout=out)
    assert out.getvalue() == ""
