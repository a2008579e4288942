"""An upload of labels: the policy of the batch that it makes, what is left out of it, and a preview that is kept."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils import translation

import annotation.tasks  # noqa: F401 (the handlers, as a worker has them)
from annotation.forms.batches.batches import BatchForm
from annotation.forms.imports import AnnotationsForm
from annotation.models import Batch, Dataset, GoldLabel, Guideline, Import, Job, Person
from annotation.services import jobs
from annotation.services.imports.uploads import execute_upload

pytestmark = pytest.mark.django_db
HEADER = "prompt_id,model,annotator,compliance\n"


@pytest.fixture
def manager(client: Client, ma: Person) -> Client:
    client.force_login(ma)
    return client


@pytest.fixture
def target(dataset: Dataset, guideline: Guideline) -> dict[str, Any]:
    return {"batch": "made", "guideline": str(guideline.pk), "dataset": dataset.name}


def upload(client: Client, text: str, name: str = "labels.csv") -> Import:
    answer = client.post(reverse("import-new"), {"file": SimpleUploadedFile(name, text.encode())})
    assert answer.status_code == 302, answer.content.decode()
    return Import.objects.latest("pk")


def page(client: Client, row: Import) -> str:
    answer = client.get(reverse("import-report", args=[row.pk]))
    assert answer.status_code == 200
    return answer.content.decode()


def check(client: Client, row: Import, **fields: Any) -> str:
    row.refresh_from_db()
    data = {"kind": row.kind, "format": row.format} | fields
    answer = client.post(reverse("import-check", args=[row.pk]), data, follow=True)
    return answer.content.decode()


def press_import(client: Client, row: Import, **fields: Any) -> Any:
    row.refresh_from_db()
    data = {"kind": row.kind, "format": row.format} | fields
    return client.post(reverse("import-confirm", args=[row.pk]), data)


def labels(*people: tuple[str, int]) -> str:
    return HEADER + "".join(f"p0,Hidden-13B,{name},{value}\n" for name, value in people)


def test_the_policy_has_the_words_and_the_defaults_of_the_page_of_a_new_batch(
    manager: Client, dataset: Dataset
):
    new_batch = BatchForm(dataset=dataset, models_shown=True)
    of_import = AnnotationsForm()
    for name in ("plan", "settling", "aggregation", "aggregation_threshold", "tolerance"):
        field, known = of_import.fields[name], new_batch.fields[name]
        assert (field.label, field.initial, field.help_text) == (known.label, known.initial, known.help_text)
    text = page(manager, upload(manager, labels(("ann", 3))))
    assert "Plan and settling of the new batch" in text
    for _value, words in (*Batch.Plan.choices, *Batch.Settling.choices):
        assert str(words) in text


def test_a_majority_of_as_many_labels_as_the_file_has_settles(manager: Client, target: dict[str, Any]):
    row = upload(manager, labels(("ann", 3), ("ben", 1), ("cyd", 3)))
    assert press_import(manager, row, **target, settling="majority").status_code == 302
    jobs.run(Job.objects.get().pk)
    batch = Batch.objects.get()
    assert (batch.overlap, batch.plan, batch.settling) == (3, "fixed", "majority")
    assert [(gold.value, gold.source) for gold in GoldLabel.objects.all()] == [(3, "majority")]


def test_an_open_plan_takes_its_floor_and_its_model(manager: Client, target: dict[str, Any]):
    row = upload(manager, labels(("ann", 3), ("ben", 1)))
    stated = {"plan": "open", "overlap": "2", "settling": "aggregate", "aggregation": "mace"}
    assert press_import(manager, row, **target, **stated, aggregation_threshold="0.8").status_code == 302
    jobs.run(Job.objects.get().pk)
    batch = Batch.objects.get()
    assert (batch.plan, batch.overlap, batch.settling) == ("open", 2, "aggregate")
    assert (batch.aggregation, batch.aggregation_threshold) == ("mace", 0.8)


def test_a_policy_that_cannot_be_is_refused_where_it_was_chosen(manager: Client, target: dict[str, Any]):
    row = upload(manager, labels(("ann", 3)))
    answer = press_import(manager, row, **target, aggregation_threshold="0.2")
    assert answer.status_code >= 400
    assert "above 0.5 and below 1" in answer.content.decode()
    assert press_import(manager, row, **target, overlap="0").status_code == 422
    assert not Job.objects.exists()


def test_what_was_chosen_stays_on_the_page_after_a_check(manager: Client, target: dict[str, Any]):
    row = upload(manager, labels(("ann", 3), ("ben", 3)))
    text = check(manager, row, **target, plan="open", settling="median")
    assert "Preview of the import" in text
    for value in ("open", "median"):
        assert "checked" in text.partition(f'value="{value}"')[2].partition(">")[0]
    row.refresh_from_db()
    assert (row.reading["target"]["plan"], row.reading["target"]["settling"]) == ("open", "median")
    form = AnnotationsForm(initial=row.reading["target"])
    assert form.has_own_collection
    assert not AnnotationsForm().has_own_collection


def test_the_policy_of_a_batch_that_is_there_stays_and_is_told(manager: Client, batch: Batch):
    row = upload(manager, labels(("ann", 3)))
    text = check(manager, row, batch=batch.name, settling="majority")
    assert "The batch first is there already, and its policy stays" in text
    assert "Plan and settling of the new batch" not in text


def test_a_column_that_looks_like_labels_is_left_out_by_its_select(manager: Client, target: dict[str, Any]):
    row = upload(manager, HEADER.strip() + ",helpful\np0,Hidden-13B,ann,3,1\np0,Hidden-13B,ben,3,2\n")
    text = check(manager, row, **target)
    assert "look like labels, and mean no criterion of the guideline: helpful" in text
    assert "left out" in text
    columns = {f"column-{place}": name for place, name in enumerate(("prompt_id", "model", "annotator"))}
    columns |= {"column-3": "label.compliance", "column-4": "-"}
    text = check(manager, row, **target, **columns)
    assert "look like labels" not in text
    assert "Columns left out, as was chosen: helpful." in text
    press_import(manager, row, **target)
    assert jobs.run(Job.objects.get().pk).state == Job.State.DONE


def test_a_control_that_means_no_criterion_is_ticked_to_be_left_out(manager: Client, target: dict[str, Any]):
    results = [
        {"type": "choices", "from_name": "compliance", "value": {"choices": ["3"]}},
        {"type": "rating", "from_name": "mood <b>", "value": {"rating": 2}},
    ]
    data = {"prompt_id": "p0", "prompt": "How?", "model": "Hidden-13B", "response": "So."}
    tasks = [{"data": data, "annotations": [{"completed_by": n, "result": results} for n in (1, 2)]}]
    row = upload(manager, json.dumps(tasks), "export.json")
    text = check(manager, row, **target)
    assert "there is no criterion “mood &lt;b&gt;”; the criteria are: compliance" in text
    assert press_import(manager, row, **target).status_code == 400
    text = check(manager, row, **target, leave_out=["mood <b>"])
    assert "there is no criterion" not in text
    assert "Labels left out, as was chosen: mood &lt;b&gt; (2)." in text
    assert "checked" in text.partition('name="leave_out"')[2].partition(">")[0]
    assert press_import(manager, row, **target, leave_out=["mood <b>"]).status_code == 302
    assert jobs.run(Job.objects.get().pk).state == Job.State.DONE
    assert GoldLabel.objects.count() == 1


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were read for a preview."""
    from annotation.selectors.imports import uploads

    names: list[str] = []

    def preview_file(source: Any, *args: Any, **options: Any) -> Any:
        names.append(source.name)
        return original(source, *args, **options)

    original = uploads.preview_file
    monkeypatch.setattr(uploads, "preview_file", preview_file)
    return names


def test_a_table_of_labels_is_known_by_its_people_and_read_by_the_guideline_of_its_columns(
    manager: Client, guideline: Guideline
):
    row = upload(manager, labels(("ann", 3)))
    assert (row.kind, row.reading["target"]) == ("annotations", {"guideline": str(guideline)})
    text = page(manager, row)
    assert "1 record" in text
    selected = text.partition('name="column-3"')[2].partition("</select>")[0]
    assert "selected" in selected.partition('value="label.compliance"')[2].partition(">")[0]


def test_a_page_that_is_opened_again_in_any_language_reads_the_file_once(
    manager: Client, target: dict[str, Any], readings: list[str]
):
    row = upload(manager, labels(("ann", 3), ("ben", 9)))
    assert "标注" not in page(manager, row)
    manager.cookies["django_language"] = "zh-hans"
    chinese = page(manager, row)
    with translation.override("zh-hans"):
        assert str(Import.Kind.ANNOTATIONS.label) in chinese
    assert "Hidden-13B" in chinese
    assert readings == ["labels.csv"]
    upload(manager, labels(("ann", 1)), "other.csv")
    check(manager, Import.objects.latest("pk"), **target)
    assert readings == ["labels.csv", "other.csv"]


def test_another_way_to_read_the_file_reads_it_anew(manager: Client, readings: list[str]):
    row = upload(manager, labels(("ann", 3)))
    page(manager, row)
    names = ("prompt_id", "model", "annotator", "label")
    check(manager, row, **{f"column-{place}": name for place, name in enumerate(names)})
    assert len(readings) == 2
    page(manager, row)
    assert len(readings) == 2
    manager.get(reverse("import-report", args=[row.pk]), {"kind": "annotations", "format": "csv"})
    assert len(readings) == 3


def test_a_long_text_is_kept_and_shown_by_its_beginning(manager: Client):
    text = "x" * 10_000
    row = upload(manager, f"id,prompt\n1,{text}\n", "prompts.csv")
    html = page(manager, row)
    assert "x" * 2000 in html
    assert "x" * 2001 not in html
    press_import(manager, row, dataset="long")
    execute_upload(row.pk, report=lambda _fraction, _stage: None)
    assert len(Dataset.objects.get(name="long").prompts.get().text) == 10_000
