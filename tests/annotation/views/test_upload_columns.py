"""A manager's own table: what each column was taken for, mended on the page and remembered; errors in groups, what is
there twice, what an import would do; templates to fill in, and the way on.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

import annotation.tasks  # noqa: F401 (the handlers, as a worker has them)
from annotation.domain.formats import KINDS, Source
from annotation.domain.formats.mapping.mapping import list_fields
from annotation.domain.formats.sample_tables import build_template
from annotation.domain.formats.table import map_table
from annotation.models import Batch, Dataset, Guideline, HeaderMapping, Import, Job, Person, Prompt, Response
from annotation.selectors.imports.uploads import FIELD_NAMES, list_columns
from annotation.services import jobs
from annotation.services.people.people import set_roles
from tests.support import FLAMES_GUIDELINE

pytestmark = pytest.mark.django_db

HEADER = ["题面内容", "编号", "维度"]
ROWS = [["你好吗？", "a", "Fairness"], ["再见", "b", "Safety"]]


@pytest.fixture
def manager(client: Client, ma: Person) -> Client:
    client.force_login(ma)
    return client


def write_csv(*rows: list[str], encoding: str = "gb18030") -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode(encoding)


def upload(client: Client, content: bytes, name: str = "prompts.csv", **fields: str) -> Import:
    answer = client.post(reverse("import-new"), {"file": SimpleUploadedFile(name, content), **fields})
    assert answer.status_code == 302, answer.content.decode()
    return Import.objects.latest("pk")


def page(client: Client, import_row: Import, **query: str) -> str:
    answer = client.get(reverse("import-report", args=[import_row.pk]), query)
    assert answer.status_code == 200
    return answer.content.decode()


def state(import_row: Import) -> dict[str, str]:
    reading = import_row.reading
    return {
        "kind": import_row.kind,
        "format": import_row.format,
        "sheet": reading.get("sheet", ""),
        "encoding": reading.get("encoding", ""),
    }


def press(
    client: Client, import_row: Import, button: str, fields: dict[str, str] | None = None, **target: Any
) -> Any:
    """``fields``: the field that each column is."""
    columns = {
        f"column-{place}": (fields or {}).get(c, "") for place, c in enumerate(list_columns(import_row))
    }
    data = state(import_row) | (columns if fields else {}) | target
    return client.post(reverse(f"import-{button}", args=[import_row.pk]), data)


CHOSEN = {"题面内容": "prompt", "编号": "id", "维度": "dimension"}


def test_each_column_is_shown_with_what_it_was_taken_for_and_what_stands_in_it(manager: Client):
    import_row = upload(
        manager, write_csv(["问题", "编号", "备忘"], ["你好吗？", "a", "x1"], ["再见", "b", ""])
    )
    html = page(manager, import_row)
    assert (import_row.kind, import_row.format) == ("prompts", "table")
    assert "Read as CSV (,) GB18030: 2 records." in html
    assert '<option value="prompt" selected>prompt</option>' in html
    assert '<option value="id" selected>id of the prompt</option>' in html
    assert "x1" in html
    assert "Not used: 备忘." in html


def test_a_file_without_a_known_column_is_refused_in_words_of_the_page(manager: Client):
    import_row = upload(manager, write_csv([*HEADER[:1], "其他"], ["你好吗？", "x"], ["再见", "y"]))
    html = page(manager, import_row)
    assert "no column holds the prompt. Choose it under “Columns”." in html
    assert "COLUMN" not in html.split("<main", 1)[1]
    assert press(manager, import_row, "confirm", dataset="d").status_code == 400
    assert not Job.objects.exists()


def test_columns_are_chosen_and_the_next_file_with_the_header_is_read_alike(manager: Client, ma: Person):
    first = upload(manager, write_csv(HEADER, *ROWS))
    assert press(manager, first, "check", CHOSEN, dataset="d").status_code == 302
    html = page(manager, first)
    assert "As you chose them; files with this header are read alike." in html
    assert "Preview of the import" in html
    assert not Dataset.objects.exists()
    second = upload(manager, write_csv(HEADER, ["新的", "c", "Safety"], encoding="utf-16"), "again.csv")
    assert second.reading["mapping"]["columns"]["prompt"] == ["题面内容"]
    assert "As you chose them for a file with this header on" in page(manager, second)
    assert press(manager, second, "confirm", CHOSEN, dataset="d").status_code == 302
    jobs.run(Job.objects.get().pk)
    assert Prompt.objects.get().text == "新的"
    assert HeaderMapping.objects.get().person == ma


def test_the_columns_of_one_person_are_not_those_of_another(manager: Client, stranger: Person):
    press(manager, upload(manager, write_csv(HEADER, *ROWS)), "check", CHOSEN, dataset="d")
    set_roles(person=stranger, roles=["manager"])
    manager.force_login(stranger)
    assert "mapping" not in upload(manager, write_csv(HEADER, *ROWS)).reading


def test_the_columns_can_be_guessed_anew(manager: Client):
    import_row = upload(manager, write_csv(["问题", "编号"], ["你好吗？", "a"], ["再见", "b"]))
    press(manager, import_row, "check", {"编号": "prompt"}, dataset="d")
    import_row.refresh_from_db()
    assert import_row.reading["mapping"]["columns"] == {"prompt": ["编号"]}
    assert press(manager, import_row, "check", {"编号": "prompt"}, anew="1").status_code == 302
    import_row.refresh_from_db()
    assert "mapping" not in import_row.reading
    assert not HeaderMapping.objects.exists()


def test_one_column_alone_can_be_an_id(manager: Client):
    import_row = upload(manager, write_csv(HEADER, *ROWS))
    answer = press(
        manager, import_row, "check", {"题面内容": "id", "编号": "id", "维度": "prompt"}, dataset="d"
    )
    assert answer.status_code == 400
    assert "the columns “题面内容”, “编号” are chosen for the same field" in answer.content.decode()
    assert not HeaderMapping.objects.exists()


def test_a_misspelt_dimension_is_one_line_with_the_right_one(manager: Client):
    FLAMES_GUIDELINE.load()
    rows = [[f"问题 {n}", f"q{n}", "Fairnes" if n < 12 else "Fairness"] for n in range(30)]
    import_row = upload(manager, write_csv(["问题", "编号", "维度"], *rows))
    assert import_row.reading["target"]["guideline"].startswith("flames@")
    html = page(manager, import_row)
    assert html.count("the guideline has no dimension “Fairnes”; did you mean “Fairness”?") == 1
    assert "12 places cannot be read so" in html
    assert "2, 3, 4, 5, 6" in html
    flames = str(Guideline.objects.get().pk)
    assert press(manager, import_row, "confirm", dataset="d", guideline=flames).status_code == 400
    assert press(manager, import_row, "confirm", dataset="d").status_code == 302


def test_what_is_there_twice_is_said_before_anything_is_confirmed(manager: Client):
    rows = [["你好", "a"], ["再见", "b"], ["你好", "a"], ["别的", "b"], ["再见", "c"]]
    import_row = upload(manager, write_csv(["问题", "编号"], *rows))
    html = page(manager, import_row)
    assert "1 record says the same as an earlier one; it is taken once." in html
    assert "1 record says something else than an earlier one of the same id" in html
    assert "1 prompt has the text of an earlier one under an id of its own; both are taken." in html
    assert press(manager, import_row, "confirm", dataset="d").status_code == 400


def test_a_check_says_what_is_stored_already_and_stores_nothing(manager: Client):
    first = upload(manager, write_csv(["问题", "编号"], ["你好", "a"], ["再见", "b"]))
    press(manager, first, "confirm", dataset="d")
    jobs.run(Job.objects.get().pk)
    second = upload(manager, write_csv(["问题", "编号"], ["你好", "a"], ["新的", "c"]))
    press(manager, second, "check", dataset="d")
    second.refresh_from_db()
    report = second.reading["outcome"]["report"]
    assert (report["taken"], report["already_there"]) == (1, 1)
    assert Prompt.objects.count() == 2
    third = upload(manager, write_csv(["问题", "编号"], ["另外", "a"], ["不同", "b"]))
    press(manager, third, "check", dataset="d")
    html = page(manager, third)
    assert "is in the dataset d with another text; give each text its own id." in html
    assert "The file can be read, but it does not fit what is stored." in html


def test_many_alike_errors_are_one_line(manager: Client, dataset: Dataset):
    rows = [[f"none{n}", "M", "x"] for n in range(40)]
    import_row = upload(manager, write_csv(["prompt_id", "model", "response"], *rows), "r.csv")
    press(manager, import_row, "check", dataset=dataset.name)
    import_row.refresh_from_db()
    (group,) = import_row.reading["outcome"]["problems"]
    assert (group["number"], group["is_mixed"], len(group["lines"])) == (40, True, 5)
    assert "The others are of this kind." in page(manager, import_row)


def test_another_sheet_can_be_chosen(manager: Client):
    book = openpyxl.Workbook()
    book.active.append(["nothing", "here"])
    book.active.append(["1", "2"])
    questions = book.create_sheet("题目")
    questions.append(["问题", "编号"])
    questions.append(["你好", "a"])
    data = io.BytesIO()
    book.save(data)
    import_row = upload(manager, data.getvalue(), "two.xlsx")
    html = page(manager, import_row, kind="prompts", format="table", sheet="题目")
    assert '<option value="题目" selected>题目</option>' in html
    assert "1 record" in html
    import_row.reading["sheet"] = "题目"
    assert press(manager, import_row, "confirm", dataset="d").status_code == 302
    jobs.run(Job.objects.get().pk)
    assert Prompt.objects.get().key == "a"


def test_a_chosen_encoding_is_kept_for_the_import(manager: Client):
    import_row = upload(manager, write_csv(["prompt"], ["naïve"], encoding="windows-1252"))
    page(manager, import_row, kind="prompts", format="table", encoding="windows-1252")
    import_row.reading["encoding"] = "windows-1252"
    assert press(manager, import_row, "confirm", dataset="d").status_code == 302
    jobs.run(Job.objects.get().pk)
    assert Prompt.objects.get().text == "naïve"


@pytest.mark.parametrize("language", ["en", "zh-hans"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_template_comes_back_with_every_column_mapped(
    manager: Client, tmp_path: Path, kind: str, language: str
):
    manager.cookies[settings.LANGUAGE_COOKIE_NAME] = language
    for ending in ("csv", "xlsx"):
        answer = manager.get(reverse("import-template", args=[kind, ending]))
        assert "attachment" in answer["Content-Disposition"]
        path = tmp_path / f"template.{ending}"
        path.write_bytes(answer.content)
        opened, mapping, _sample = map_table(Source(path), kind)
        assert list(opened.columns) == list(build_template(kind, language)[0])
        assert (mapping.unused, len(list(opened.rows()))) == ((), 1)
    assert upload(manager, answer.content, "filled.xlsx").kind == kind


def test_there_is_no_template_of_another_kind(manager: Client):
    assert manager.get(reverse("import-template", args=["gold", "csv"])).status_code == 404
    assert manager.get(reverse("import-template", args=["prompts", "exe"])).status_code == 404


def test_the_way_leads_from_prompts_to_responses_to_a_batch(manager: Client):
    prompts = upload(manager, write_csv(["问题", "编号"], ["你好", "a"], ["再见", "b"]))
    press(manager, prompts, "confirm", dataset="d")
    jobs.run(Job.objects.latest("pk").pk)
    way_on = f"{reverse('import-new')}?kind=responses&amp;dataset=d"
    assert way_on in page(manager, prompts)
    html = manager.get(way_on.replace("&amp;", "&")).content.decode()
    assert "Responses to the prompts of d." in html
    rows = [["a", "你好", "回答一"], ["b", "再见", "回答二"]]
    content = write_csv(["编号", "问题", "gpt-4"], *rows)
    responses = upload(manager, content, "r.csv", kind="responses", dataset="d")
    assert (responses.kind, responses.reading["target"]) == ("responses", {"dataset": "d"})
    press(manager, responses, "confirm", dataset="d")
    jobs.run(Job.objects.latest("pk").pk)
    assert set(Response.objects.values_list("model__name", flat=True)) == {"gpt-4"}
    assert reverse("batch-new", args=["d"]) in page(manager, responses)


def test_labels_are_mapped_to_the_criteria_of_the_guideline_that_is_chosen(
    manager: Client, dataset: Dataset, guideline: Guideline
):
    rows = [["p0", "Hidden-13B", name, "3"] for name in ("ann", "ben")]
    import_row = upload(manager, write_csv(["prompt_id", "model", "标注员", "打分"], *rows), "labels.csv")
    assert import_row.kind == "annotations"
    choices = {"prompt_id": "prompt_id", "model": "model", "标注员": "annotator", "打分": "label.compliance"}
    target = {"batch": "new", "guideline": str(guideline.pk), "dataset": dataset.name}
    assert press(manager, import_row, "check", choices, **target).status_code == 302
    html = page(manager, import_row)
    assert '<option value="label.compliance" selected>label: Compliance</option>' in html
    assert press(manager, import_row, "confirm", choices, **target).status_code == 302
    jobs.run(Job.objects.get().pk)
    assert Batch.objects.get().tasks.filter(state="agreed").count() == 1


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_a_column_has_its_name(kind: str) -> None:
    assert {*list_fields(kind)} <= {*FIELD_NAMES}
