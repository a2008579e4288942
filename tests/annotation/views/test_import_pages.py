"""A manager uploads a file, sees what was read and what is wrong, confirms, and watches it go in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

import annotation.tasks  # noqa: F401 (the handlers, as a worker has them)
from annotation.core.errors import AssayError
from annotation.domain.formats import Source
from annotation.models import Batch, Dataset, Guideline, Import, Job, Person, Prompt, Response, Task
from annotation.services import jobs
from annotation.services.imports import Run, import_prompts
from annotation.services.imports.uploads import execute_upload
from annotation.services.people.people import set_roles
from annotation.services.studies import find_or_make_study

pytestmark = pytest.mark.django_db

XSTEST = "id,type,prompt,completion,annotation_1,annotation_2,agreement,final_label\n"
SETTLED = "v2-1,homonyms,How?,So.,1_full_compliance,1_full_compliance,TRUE,1_full_compliance\n"
XSTEST_NAME = "xstest_v2_completions_gpt9.csv"


@pytest.fixture
def manager(client: Client, ma: Person) -> Client:
    client.force_login(ma)
    return client


def rows(*values: dict[str, Any]) -> str:
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def upload(client: Client, content: str | bytes, name: str = "prompts.jsonl") -> Import:
    data = content.encode() if isinstance(content, str) else content
    answer = client.post(reverse("import-new"), {"file": SimpleUploadedFile(name, data)})
    assert answer.status_code == 302, answer.content.decode()
    latest = Import.objects.latest("pk")
    assert answer.url == reverse("import-report", args=[latest.pk])
    return latest


def page(client: Client, import_row: Import, **query: str) -> str:
    answer = client.get(reverse("import-report", args=[import_row.pk]), query)
    assert answer.status_code == 200
    return answer.content.decode()


def press_import(client: Client, import_row: Import, **fields: Any) -> Any:
    data = {"kind": import_row.kind, "format": import_row.format} | fields
    return client.post(reverse("import-confirm", args=[import_row.pk]), data)


@pytest.mark.parametrize("name", ["imports", "import-new"])
def test_only_managers_open_the_pages(client: Client, name: str, lin: Person, he: Person, stranger: Person):
    url = reverse(name)
    assert client.get(url).url.startswith(reverse("login"))
    for person in (lin, he, stranger):
        client.force_login(person)
        assert client.get(url).status_code == 403


@pytest.mark.parametrize(
    ("name", "method"), [("import-report", "get"), ("import-confirm", "post"), ("import-discard", "post")]
)
def test_an_upload_is_for_managers_alone(
    manager: Client, name: str, method: str, lin: Person, stranger: Person
):
    import_row = upload(manager, rows({"prompt": "a"}))
    url = reverse(name, args=[import_row.pk])
    for person in (lin, stranger):
        manager.force_login(person)
        assert getattr(manager, method)(url).status_code == 403
    manager.logout()
    assert getattr(manager, method)(url).url.startswith(reverse("login"))
    assert Import.objects.filter(pk=import_row.pk).exists()


def test_the_file_is_kept_under_a_random_name_and_guessed(manager: Client):
    import_row = upload(manager, XSTEST + SETTLED, f"C:\\files\\{XSTEST_NAME}")
    assert (import_row.kind, import_row.format, import_row.file_name) == (
        "annotations",
        "xstest",
        XSTEST_NAME,
    )
    assert XSTEST_NAME not in import_row.path
    assert (Path(settings.MEDIA_ROOT) / import_row.path).read_text().startswith("id,type")


def test_the_first_ten_rows_are_shown_as_they_were_read_and_escaped(manager: Client):
    import_row = upload(
        manager, rows(*[{"id": f"q{n}", "prompt": f"<script>{n}</script>"} for n in range(12)])
    )
    text = page(manager, import_row)
    assert "&lt;script&gt;9&lt;/script&gt;" in text
    assert "<script>9" not in text
    assert "q10" not in text
    assert "12 records" in text
    assert not Prompt.objects.exists()


def test_the_first_rows_say_which_responses_are_empty(manager: Client):
    blank = [{"prompt_id": f"q{n}", "model": "M", "response": " " * n} for n in range(2)]
    text = page(manager, upload(manager, rows(*blank), "responses.jsonl"))
    assert text.count("The response is empty.") == 2


def test_every_line_that_is_wrong_is_shown_at_once_and_nothing_can_be_imported(manager: Client):
    import_row = upload(manager, '{"prompt": "a"}\n{"prompt": }\n{"promt": "b"}\n')
    text = page(manager, import_row)
    assert "2 places cannot be read" in text
    assert "this is not JSON" in text
    assert "this is empty" in text
    answer = press_import(manager, import_row, dataset="d")
    assert answer.status_code == 400
    assert not Job.objects.exists()
    assert not Dataset.objects.exists()


@pytest.mark.parametrize("content", [b"\x89PNG\r\n\0\0", "é".encode("latin-1")])
def test_a_file_that_is_no_text_is_told_so(manager: Client, content: bytes):
    import_row = upload(manager, content, "picture.png")
    assert "1 place cannot be read" in page(manager, import_row)


def test_an_empty_file_is_not_even_taken(manager: Client):
    answer = manager.post(reverse("import-new"), {"file": SimpleUploadedFile("a.csv", b"")})
    assert answer.status_code == 422
    assert "empty" in answer.content.decode()
    assert not Import.objects.exists()


def test_a_confirmed_file_is_imported_by_a_job_and_reported(manager: Client, ma: Person):
    import_row = upload(manager, rows({"prompt": "a", "colour": 1}, {"prompt": "b"}))
    answer = press_import(manager, import_row, dataset="d")
    assert answer.url == reverse("import-report", args=[import_row.pk])
    job = Job.objects.get()
    assert (job.kind, job.created_by, Prompt.objects.count()) == ("import", ma, 0)
    assert reverse("job-progress", args=[job.pk]) in page(manager, import_row)
    assert jobs.run(job.pk).state == Job.State.DONE
    import_row.refresh_from_db()
    assert (import_row.report["taken"], Prompt.objects.count(), len(import_row.sha256)) == (2, 2, 64)
    text = page(manager, import_row)
    assert "Not used: colour." in text
    assert "Imported" in text
    listed = manager.get(reverse("imports")).content.decode()
    assert "prompts.jsonl" in listed


def test_pressing_twice_imports_once(manager: Client):
    import_row = upload(manager, rows({"prompt": "a"}))
    press_import(manager, import_row, dataset="d")
    assert press_import(manager, import_row, dataset="d").status_code == 409
    assert Job.objects.count() == 1
    jobs.run(Job.objects.get().pk)
    assert press_import(manager, import_row, dataset="d").status_code == 409


def test_what_does_not_fit_what_is_stored_is_said_before_a_job_is_made(manager: Client, dataset: Dataset):
    content = rows(
        {"prompt_id": "p9", "model": "M", "response": "x"},
        {"prompt_id": "p0", "model": "M", "response": "x"},
        {"prompt_id": "p8", "model": "M", "response": "x"},
    )
    import_row = upload(manager, content, "responses.jsonl")
    answer = press_import(manager, import_row, dataset=dataset.name)
    text = answer.content.decode()
    assert answer.status_code == 400
    assert "there is no prompt p9 in the dataset small" in text
    assert "there is no prompt p8 in the dataset small" in text
    assert not Job.objects.exists()
    assert not Response.objects.filter(model__name="M").exists()


def test_a_file_that_stopped_fitting_fails_with_its_lines_and_may_be_tried_again(manager: Client):
    import_row = upload(manager, rows({"id": "1", "prompt": "a"}))
    press_import(manager, import_row, dataset="d")
    other = rows({"id": "1", "prompt": "another"})
    path = Path(settings.MEDIA_ROOT) / "other.jsonl"
    path.write_text(other)
    import_prompts(source=Source(path), format="jsonl", dataset="d")
    assert jobs.run(Job.objects.get().pk).state == Job.State.FAILED
    import_row.refresh_from_db()
    assert [problem["line"] for problem in import_row.report["problems"]] == [1]
    assert "in the dataset d with another text" in page(manager, import_row)
    assert press_import(manager, import_row, dataset="e").status_code == 302
    assert jobs.run(Job.objects.latest("pk").pk).state == Job.State.DONE


def test_a_long_file_is_left_to_the_job(manager: Client, dataset: Dataset, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("annotation.services.imports.uploads.MAX_REHEARSED", 1)
    row = {"prompt_id": "p9", "model": "M", "response": "x"}
    import_row = upload(manager, rows(row, row), "responses.jsonl")
    assert press_import(manager, import_row, dataset=dataset.name).status_code == 302
    assert jobs.run(Job.objects.get().pk).state == Job.State.FAILED
    text = page(manager, import_row)
    assert text.count("there is no prompt p9 in the dataset small") == 1
    assert "1, 2" in text


def test_a_job_that_is_run_again_after_its_commit_reports_what_it_did(manager: Client):
    import_row = upload(manager, rows({"prompt": "a"}))
    press_import(manager, import_row, dataset="d")
    first = execute_upload(import_row.pk, report=lambda _fraction, _stage: None)
    second = execute_upload(import_row.pk, report=lambda _fraction, _stage: None)
    assert first["taken"] == second["taken"] == 1


def test_the_job_tells_how_far_it_is(manager: Client):
    import_row = upload(manager, rows(*[{"prompt": str(number)} for number in range(2500)]))
    press_import(manager, import_row, dataset="d")
    reports: list[tuple[float, str]] = []
    execute_upload(import_row.pk, report=lambda fraction, stage: reports.append((fraction, stage)))
    fractions = [fraction for fraction, _stage in reports]
    assert fractions == sorted(fractions)
    assert [stage for _fraction, stage in reports] == ["reading the file"] * 3 + ["storing"]


def test_labels_bring_their_batch_in_a_complete_format(manager: Client):
    import_row = upload(manager, XSTEST + SETTLED, XSTEST_NAME)
    assert 'value="gpt9"' in page(manager, import_row)
    answer = press_import(manager, import_row, batch="x")
    assert answer.status_code == 302, answer.content.decode()
    assert jobs.run(Job.objects.get().pk).state == Job.State.DONE
    assert (Batch.objects.get().name, Task.objects.get().state) == ("x", "agreed")


def test_labels_can_make_a_batch_of_a_guideline_and_a_dataset(
    manager: Client, dataset: Dataset, guideline: Guideline
):
    labels = {"compliance": 3}
    content = rows(
        *[
            {"prompt_id": "p0", "model": "Hidden-13B", "annotator": name, "labels": labels}
            for name in ("ann", "ben")
        ]
    )
    import_row = upload(manager, content, "labels.jsonl")
    assert press_import(manager, import_row, batch="new").status_code == 400
    answer = press_import(manager, import_row, batch="new", guideline=str(guideline.pk), dataset=dataset.name)
    assert answer.status_code == 302, answer.content.decode()
    jobs.run(Job.objects.get().pk)
    assert Batch.objects.get().tasks.filter(state="agreed").count() == 1


def test_the_guess_can_be_corrected(manager: Client):
    import_row = upload(manager, rows({"prompt": "a", "response": "b"}))
    assert import_row.kind == "responses"
    assert '<th scope="col">Response</th>' in page(manager, import_row)
    assert '<th scope="col">Response</th>' not in page(manager, import_row, kind="prompts", format="jsonl")
    assert "The format flames has no annotations" in page(
        manager, import_row, kind="annotations", format="flames"
    )


def test_a_discarded_file_is_gone(manager: Client, django_capture_on_commit_callbacks: Any):
    import_row = upload(manager, rows({"prompt": "a"}))
    path = Path(settings.MEDIA_ROOT) / import_row.path
    assert path.exists()
    with django_capture_on_commit_callbacks(execute=True):
        manager.post(reverse("import-discard", args=[import_row.pk]))
    assert not path.exists()
    assert not Import.objects.exists()


def test_what_a_command_imported_cannot_be_discarded(manager: Client, tmp_path: Path):
    path = tmp_path / "a.jsonl"
    path.write_text(rows({"prompt": "a"}))
    import_prompts(source=Source(path), format="jsonl", dataset="d", run=Run())
    import_row = Import.objects.get()
    assert manager.post(reverse("import-discard", args=[import_row.pk])).status_code == 409
    assert "Already there" in page(manager, import_row)


def test_whoever_judges_a_dataset_blind_sees_no_import_of_its_responses(
    client: Client, batch: Batch, lin: Person, ma: Person, guideline: Guideline
):
    """A manager who also annotates: the file names and reports would name models and labels."""
    hidden = Import.objects.create(
        study=find_or_make_study(),
        kind="responses",
        format="jsonl",
        file_name="Hidden-13B.jsonl",
        options={"dataset": "small"},
    )
    labels = Import.objects.create(
        study=find_or_make_study(),
        kind="annotations",
        format="jsonl",
        file_name="labels.jsonl",
        options={"batch": batch.name},
    )
    set_roles(person=lin, roles=["annotator", "manager"])
    client.force_login(lin)
    listed = client.get(reverse("imports")).content.decode()
    assert "Hidden-13B" not in listed
    assert "labels.jsonl" not in listed
    for import_row in (hidden, labels):
        assert client.get(reverse("import-report", args=[import_row.pk])).status_code == 404
    own = upload(client, rows({"prompt_id": "p0", "model": "N", "response": "x"}))
    assert press_import(client, own, dataset="small").status_code == 403
    client.force_login(ma)
    assert "Hidden-13B" in client.get(reverse("imports")).content.decode()


def test_a_cancelled_import_stores_nothing(manager: Client):
    import_row = upload(manager, rows({"prompt": "a"}))
    press_import(manager, import_row, dataset="d")
    job = Job.objects.get()
    jobs.cancel(job=job)
    jobs.run(job.pk)
    assert not Prompt.objects.exists()
    assert "Nothing of this file is stored yet." in page(manager, import_row)


def test_a_vanished_upload_fails_in_words(manager: Client):
    import_row = upload(manager, rows({"prompt": "a"}))
    press_import(manager, import_row, dataset="d")
    (Path(settings.MEDIA_ROOT) / import_row.path).unlink()
    job = jobs.run(Job.objects.get().pk)
    assert job.state == Job.State.FAILED
    assert job.error == "prompts.jsonl: there is no such file."
    with pytest.raises(AssayError):
        execute_upload(import_row.pk, report=lambda _fraction, _stage: None)


def test_labels_under_who_works_in_the_batch_are_refused_with_their_line(
    manager: Client, batch: Batch, lin: Person
):
    import_row = upload(
        manager,
        rows({"prompt_id": "p0", "model": "Hidden-13B", "annotator": "lin", "labels": {"compliance": 3}}),
        "labels.jsonl",
    )
    answer = press_import(manager, import_row, batch="first")
    html = answer.content.decode()
    assert answer.status_code >= 400
    assert "lin can work here, and first was not made by an import" in html
    assert "annotator" in html
    assert not Job.objects.exists()
    import_row.refresh_from_db()
    assert "taken" not in import_row.report


def test_a_spreadsheet_is_shown_and_imported_as_it_comes(manager: Client, tmp_path: Path):
    book = openpyxl.Workbook()
    for row in (["编号", "问题", "维度"], ["一", "第一个问题？", "safe"], ["二", "第二个问题？", "safe"]):
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    import_row = upload(manager, (tmp_path / "a.xlsx").read_bytes(), "问题.xlsx")
    assert (import_row.kind, import_row.format) == ("prompts", "table")
    assert "第一个问题？" in page(manager, import_row)
    press_import(manager, import_row, dataset="from a spreadsheet")
    import_row.refresh_from_db()
    jobs.run_now(import_row.job)
    assert set(Prompt.objects.values_list("key", "text", "dataset__name")) == {
        ("一", "第一个问题？", "from a spreadsheet"),
        ("二", "第二个问题？", "from a spreadsheet"),
    }


WIDE = (
    "id,question,dimension,Model A,Model B\n"
    "q1,Is it fair?,Fairness,It is.,It is not.\n"
    "q2,And this?,Fairness,Yes.,No.\n"
)


def test_one_table_brings_prompts_and_the_responses_of_each_model(manager: Client) -> None:
    sent = upload(manager, WIDE, "fair questions.csv")
    assert sent.kind == "responses"
    form = manager.get(reverse("import-report", args=[sent.pk])).context["form"]
    assert form["dataset"].value() == "fair questions"
    press_import(manager, sent, dataset="fair questions")
    jobs.run(Job.objects.latest("pk").pk)
    dataset = Dataset.objects.get()
    assert dataset.name == "fair questions"
    assert list(Prompt.objects.order_by("key").values_list("key", "text", "dimension")) == [
        ("q1", "Is it fair?", "Fairness"),
        ("q2", "And this?", "Fairness"),
    ]
    answers = Response.objects.order_by("prompt__key", "model__name").values_list("model__name", "text")
    assert list(answers) == [
        ("Model A", "It is."),
        ("Model B", "It is not."),
        ("Model A", "Yes."),
        ("Model B", "No."),
    ]

    # More of the same prompts go where those are; another file gets a name that is free.
    def suggest(content: str) -> str:
        later = upload(manager, content, "fair questions.csv")
        value = manager.get(reverse("import-report", args=[later.pk])).context["form"]["dataset"].value()
        return str(value)

    assert suggest(WIDE.replace("Model A", "Model C")) == "fair questions"
    assert suggest("prompt_id,Model C\nq1,It may be.\nq2,Hardly.\n") == "fair questions"
    assert suggest(WIDE.replace("Is it", "Was it").replace("And this", "And that")) == "fair questions-2"


def test_responses_without_the_texts_of_their_prompts_make_no_dataset(manager: Client) -> None:
    sent = upload(manager, "prompt_id,Model C\nq1,It may be.\n", "answers.csv")
    assert "There is no dataset yet" in page(manager, sent)
    assert press_import(manager, sent, dataset="answers").status_code == 422
    assert not Dataset.objects.exists()
