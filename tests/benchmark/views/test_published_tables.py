"""Published tables: read with every number checked, kept, shown beside boards, never measured."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client
from django.urls import reverse

from annotation.core.errors import AssayError, Conflict, InputError
from annotation.domain.formats.rows import Source
from annotation.domain.guidelines import GuidelineDocument, parse_guideline
from annotation.models import AuditEvent, Batch, Collection, Dataset, GoldRelease, Guideline, Person
from annotation.services.people.people import add_person, set_roles
from benchmark.domain.published_tables import MAX_FILE_BYTES, MAX_ROWS, read_table
from benchmark.models import BenchmarkRun, PublishedTable
from benchmark.selectors.published_tables import (
    build_board_row,
    list_published_tables,
    list_reference_rows,
    list_table_rows,
)
from benchmark.services.leaderboards.runs import create_run
from benchmark.services.published_tables import add_published, place_published, remove_published
from benchmark.views.leaderboards.reports.exports import FORMATS
from scoring.models import Scorer
from tests.benchmark.sharing_support import finish
from tests.benchmark.support import ready_scorer
from tests.support import FLAMES_GUIDELINE, XSTEST_GUIDELINE, make_batch, make_corpus, small_dataset

SOURCE = "Huang et al., FLAMES, NAACL 2024"


def document(name: str = "flames") -> GuidelineDocument:
    file = FLAMES_GUIDELINE if name == "flames" else XSTEST_GUIDELINE
    return parse_guideline(file.path.read_text(encoding="utf-8"), path=str(file.path))


def read(folder: Path, text: str | bytes, name: str = "flames") -> list[dict[str, Any]]:
    path = folder / "table"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(Source(path, "table"), document(name))


def refused(folder: Path, text: str | bytes) -> InputError:
    with pytest.raises(InputError) as error:
        read(folder, text)
    return error.value


def published_csv(shared: Path) -> tuple[str, dict[str, Any]]:
    """The published Flames table as somebody would type it off, and the file it is from."""
    table = json.loads((shared / "flames" / "flames_leaderboard.json").read_text(encoding="utf-8"))
    scopes = list(table["models"][0]["dimensions"])
    names = [f"{scope}.{part}" for scope in scopes for part in ("harmless_rate", "harmless_score", "n")]
    lines = [",".join(["model", *names, "overall.harmless_rate"])]
    for row in table["models"]:
        cells = [
            text
            for scope in scopes
            for cell in [row["dimensions"][scope]]
            for text in (cell["rate_printed"], cell["score_printed"], str(cell["n"]))
        ]
        lines.append(",".join([row["model"], *cells, row["overall_printed"]]))
    return "\n".join(lines) + "\n", table


def test_the_published_flames_table_comes_in_whole_with_wilsons_intervals(shared: Path, tmp_path: Path):
    text, table = published_csv(shared)
    rows = read(tmp_path, text)
    assert len(rows) == 17
    board = {row["model"]: build_board_row(row, document()) for row in rows}
    for published in table["models"]:
        row = board[published["model"]]
        overall = row["overall"]["harmless_rate"]
        assert f"{round(100 * overall['value'], 2)}%" == published["overall_printed"]
        assert (overall["low"], overall["high"]) == (None, None)  # a mean of rates has no interval of its own
        assert row["n"] == sum(cell["n"] for cell in published["dimensions"].values())
        for scope, cell in published["dimensions"].items():
            rate = row["dimensions"][scope]["harmless_rate"]
            assert f"{round(100 * rate['value'], 2)}%" == cell["rate_printed"]
            assert rate["low"] < rate["value"] < rate["high"]
            assert row["dimensions"][scope]["harmless_score"]["low"] is None
    legality = {name: row["dimensions"]["Legality"]["harmless_rate"] for name, row in board.items()}
    intervals = {
        name: tuple(round(100 * legality[name][end], 1) for end in ("low", "high"))
        for name in ("Claude", "InternLM-7B")
    }
    assert intervals == {"Claude": (57.5, 82.7), "InternLM-7B": (62.1, 86.1)}


def test_the_number_of_prompts_in_the_released_file_does_not_fit_the_published_table(
    shared: Path, tmp_path: Path
):
    """The released file has 75 prompts of data protection; no cell of the table can be of so many."""
    text, _table = published_csv(shared)
    error = refused(tmp_path, text.replace(",76,", ",75,"))
    assert (error.line, error.field) == (2, "Data protection.harmless_rate")
    assert "no whole number of 75 responses gives 55.26%" in str(error)


def test_json_is_read_nested_and_flat_as_an_array_and_line_by_line(tmp_path: Path):
    nested = {"model": "A", "dimensions": {"Fairness": {"harmless_rate": 0.5, "n": 10}}}
    flat = {"model": "B", "Fairness.harmless_score": 79.8, "overall.harmless_rate": "12.5%"}
    expected = [
        {
            "model": "A",
            "dimensions": {"Fairness": {"harmless_rate": 0.5}},
            "overall": {},
            "n": {"Fairness": 10},
        },
        {
            "model": "B",
            "dimensions": {"Fairness": {"harmless_score": 79.8}},
            "overall": {"harmless_rate": 0.125},
            "n": {},
        },
    ]
    assert read(tmp_path, json.dumps([nested, flat], indent=2)) == expected
    assert read(tmp_path, f"{json.dumps(nested)}\n\n{json.dumps(flat)}\n") == expected
    assert read(tmp_path, json.dumps(nested, indent=2)) == expected[:1]


def test_a_column_in_percent_says_so_in_its_name(tmp_path: Path):
    rows = read(tmp_path, "model,Fairness.harmless_rate %\nA,0.5\nB,45.38%\n")
    assert [row["dimensions"]["Fairness"]["harmless_rate"] for row in rows] == [0.005, 0.4538]


def test_what_is_not_told_stays_undefined(tmp_path: Path):
    (row,) = read(tmp_path, "model,Fairness.harmless_rate,Safety.harmless_rate,Safety.n\nA,0.5,-,\n")
    cells = build_board_row(row, document())["dimensions"]
    assert cells["Safety"]["harmless_rate"] == {"value": None, "low": None, "high": None}
    assert cells["Fairness"]["harmless_rate"] == {"value": 0.5, "low": None, "high": None}
    assert cells["Fairness"]["n"] is None
    assert build_board_row(row, document())["overall"]["harmless_rate"]["value"] is None


@pytest.mark.parametrize(
    ("cells", "line", "field", "words"),
    [
        ("A,45.38,", 2, "Fairness.harmless_rate", "write 45.38% if it is in percent"),
        ("A,0.5,\nB,101%,", 3, "Fairness.harmless_rate", "from 0% to 100%"),
        ("A,-1%,", 2, "Fairness.harmless_rate", "from 0% to 100%"),
        ("A,about half,", 2, "Fairness.harmless_rate", "is no number"),
        ('A,"=HYPERLINK(""http://x"")",', 2, "Fairness.harmless_rate", "is no number"),
        ("A,nan,", 2, "Fairness.harmless_rate", "is no number"),
        ("A,1e3,", 2, "Fairness.harmless_rate", "is no number"),
        (f"A,{'9' * 5000},", 2, "Fairness.harmless_rate", "is no number"),
        ("A,,79.8%", 2, "Fairness.harmless_score", "without the % sign"),
        ("A,,0.8", 2, "Fairness.harmless_score", "is from 33.33 to 100"),
        ("A,,", 2, None, "this row has no number of A"),
        (",0.5,", 2, "model", "this is empty"),
        ("A,0.5,\nB,0.5,\nA,0.5,", 4, "model", "A is on line 2 already"),
        (f"{'A' * 101},0.5,", 2, "model", "at most 100"),
        ("A\x1bB,0.5,", 2, "model", "one line of text"),
        ("A,0.5", 2, None, "2 cells"),
    ],
)
def test_what_is_wrong_in_a_row_is_named_with_its_line(
    tmp_path: Path, cells: str, line: int, field: str | None, words: str
):
    error = refused(tmp_path, f"model,Fairness.harmless_rate,Fairness.harmless_score\n{cells}\n")
    assert (error.line, error.field) == (line, field)
    assert words in str(error)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("Fairnes.harmless_rate", "the scopes are Fairness, Safety"),
        ("harmless_rate", "write it as SCOPE.METRIC"),
        ("Fairness.accuracy", "it has harmless_rate, harmless_score"),
        ("overall.n", "no such metric here"),
        ("x" * 5000, "the scopes are"),
    ],
)
def test_an_unknown_column_is_named(tmp_path: Path, column: str, words: str):
    assert words in str(refused(tmp_path, f"model,{column}\nA,0.5\n"))


def test_a_number_that_is_there_twice_is_named(tmp_path: Path):
    for metric, value in (("harmless_rate", "50%"), ("n", 10)):
        row = {
            "model": "A",
            "Fairness.harmless_rate": "50%" if metric == "n" else None,
            f"Fairness.{metric}": value,
            "dimensions": {"Fairness": {metric: value}},
        }
        error = refused(tmp_path, json.dumps(row))
        assert "twice" in str(error)
        assert error.field == f"Fairness.{metric}"


@pytest.mark.parametrize("count", ["0", "-3", "2.5", "many", "1000000000000", "٣"])
def test_a_number_of_responses_is_a_whole_number(tmp_path: Path, count: str):
    error = refused(tmp_path, f"model,Fairness.harmless_rate,Fairness.n\nA,0.5,{count}\n")
    assert (error.line, error.field) == (2, "Fairness.n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "model\n",
        "model,Fairness.harmless_rate\n",
        "colour,shape\nred,round\n",
        "[]",
        "[1]",
        '[{"model": "A"',
        '[{"model": "A", "Fairness.harmless_rate": 0.5} {"model": "B"}]',
        '[{"model": "A", "Fairness.harmless_rate": 0.5}] and more',
        '{"model": "A", "model": "B", "Fairness.harmless_rate": 0.5}',
        '{"model": 5, "Fairness.harmless_rate": 0.5}',
        '{"model": "A", "dimensions": [0.5]}',
        '{"model": "A", "dimensions": {"Fairness": 0.5}}',
        '{"model": "A", "Fairness.harmless_rate": true}',
        '{"model": "A", "Fairness.harmless_rate": [0.5]}',
        '{"model": "A", "Fairness.harmless_rate": 1e999}',
        '{"model": "A", "Fairness.harmless_rate": ' + "9" * 5000 + "}",
        '{"model": "A\\u0000", "Fairness.harmless_rate": 0.5}',
        "[" * 100_000,
        "你好".encode("gb18030"),
        bytes(range(256)) * 10,
        b"model,Fairness.harmless_rate\nA\0,0.5\n",
        "x" * (MAX_FILE_BYTES + 1),
        "model,Fairness.harmless_rate\n" + "".join(f"M{n},0.5\n" for n in range(MAX_ROWS + 1)),
    ],
    ids=lambda text: repr(text[:40]),
)
def test_a_hostile_file_is_refused_in_words(tmp_path: Path, text: str | bytes):
    assert str(refused(tmp_path, text)).startswith("table")


def test_a_broken_array_is_found_on_its_line(tmp_path: Path):
    text = '[\n  {"model": "A", "Fairness.harmless_rate": 0.5},\n  {"model": "B", "Fairness.harmless_rate": 50}\n]'
    assert refused(tmp_path, text).line == 3
    assert refused(tmp_path, text.replace("50}", "0.5,}")).line == 3


# Kept, and beside boards.

ROWS = [
    {
        "model": "Paper-1",
        "dimensions": {"safe": {"full_compliance_rate": 0.9}},
        "overall": {},
        "n": {"safe": 250},
    }
]


@pytest.fixture
def table(guideline: Guideline) -> PublishedTable:
    return add_published(
        guideline=guideline,
        dataset=small_dataset(),
        name="XSTest",
        source=SOURCE,
        url="https://example.com",
        rows=ROWS,
    )


@pytest.fixture
def run(release: GoldRelease, dataset: Dataset, guideline: Guideline) -> BenchmarkRun:
    return run_of(ready_scorer(release, guideline), dataset)


def run_of(scorer: Scorer, dataset: Dataset) -> BenchmarkRun:
    made = create_run(
        name="board", scorer=scorer, dataset=dataset, collection=Collection.objects.get(name=""), send=False
    )
    finish(made)
    return made


def test_reference_rows_have_the_shape_of_a_boards_rows(run: BenchmarkRun, table: PublishedTable):
    (row,) = list_reference_rows(run, None)
    measured = run.board["rows"][0]
    assert row.keys() == measured.keys() | {"published"}
    assert row["dimensions"].keys() == measured["dimensions"].keys()
    for scope, cell in row["dimensions"].items():
        assert cell.keys() == measured["dimensions"][scope].keys()
    assert row["overall"].keys() == measured["overall"].keys()
    assert row["published"] == {
        "id": table.pk,
        "name": "XSTest",
        "source": SOURCE,
        "url": "https://example.com",
        "language": "",
    }
    assert row["rank"] is None
    safe = row["dimensions"]["safe"]["full_compliance_rate"]
    assert safe["value"] == 0.9
    assert safe["low"] == pytest.approx(0.8565, abs=1e-4)  # Wilson's, of 225 in 250
    remove_published(table=table)
    assert list_reference_rows(run, None) == []


def test_a_table_of_another_guideline_stands_on_no_board_here(run: BenchmarkRun):
    flames = FLAMES_GUIDELINE.load()
    add_published(guideline=flames, dataset=run.dataset, name="T", source=SOURCE, rows=ROWS)
    assert list_reference_rows(run, None) == []


def metric_of(guideline: Guideline) -> str:
    return next(metric.name for metric in guideline.document.metrics if "safe" in (metric.dimensions or ()))


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": " "},
        {"name": "n" * 151},
        {"name": "a\nb"},
        {"source": ""},
        {"source": "s" * 2001},
        {"url": "javascript:alert(1)"},
        {"url": "example.com"},
        {"url": "https://example.com/" + "a" * 500},
        {"url": "https://user:secret@example.com/table"},
        {"url": "https://user@example.com"},
    ],
)
def test_a_table_needs_a_name_a_source_and_a_sound_address(guideline: Guideline, wrong: dict[str, str]):
    fields = {"name": "T", "source": SOURCE, "url": "", **wrong}
    with pytest.raises(AssayError):
        add_published(guideline=guideline, dataset=small_dataset(), rows=ROWS, **fields)
    assert not PublishedTable.objects.exists()


def test_a_name_is_free_again_once_its_table_is_removed(
    guideline: Guideline, table: PublishedTable, he: Person
):
    with pytest.raises(Conflict, match="already"):
        add_published(guideline=guideline, dataset=small_dataset(), name="XSTest", source=SOURCE, rows=ROWS)
    remove_published(table=table, actor=he)
    remove_published(table=table, actor=he)
    replacement = add_published(
        guideline=guideline, dataset=small_dataset(), name="XSTest", source=SOURCE, rows=ROWS
    )
    assert PublishedTable.objects.count() == 2
    assert PublishedTable.objects.get(removed_at=None) == replacement
    assert AuditEvent.objects.filter(verb="remove_published_table").count() == 1


def test_the_command_enters_a_table(guideline: Guideline, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "table.csv"
    path.write_text(f"model,safe.{metric_of(guideline)},safe.n\nPaper-1,90%,250\n", encoding="utf-8")
    call_command(
        *("import_published", str(path), "--guideline", "xstest", "--dataset", small_dataset().name),
        *("--name", "T", "--source", SOURCE, "--json"),
    )
    output = json.loads(capsys.readouterr().out)
    assert output | {"id": 0} == {
        "id": 0,
        "guideline": "xstest",
        "dataset": "small",
        "name": "T",
        "language": "",
        "models": 1,
    }
    stored_table = PublishedTable.objects.get(pk=output["id"])
    assert stored_table.rows[0]["dimensions"] == {"safe": {metric_of(guideline): 0.9}}


def upload(text: str, **more: Any) -> dict[str, Any]:
    file = SimpleUploadedFile("table.csv", text.encode())
    fields = {"guideline": "xstest", "dataset": small_dataset().pk, "name": "T", "source": SOURCE, "url": ""}
    return {**fields, "file": file, **more}


def hidden(content: str) -> dict[str, str]:
    """The fields of the form that the preview shows, as a browser sends them."""
    fields: dict[str, str] = {}

    class Fields(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            attributes = dict(attrs)
            if (
                tag == "input"
                and attributes.get("type") == "hidden"
                and attributes["name"] != "csrfmiddlewaretoken"
            ):
                fields[str(attributes["name"])] = str(attributes.get("value") or "").replace("\n", "\r\n")

    Fields().feed(content)
    return fields


def test_a_file_is_looked_at_and_stored_on_the_second_step_only(
    guideline: Guideline, client: Client, he: Person
):
    client.force_login(he)
    metric = metric_of(guideline)
    text = f'model,safe.{metric},safe.n\n"Paper ""<b>""",90%,250\n=1+1,12.4%,250\n'
    preview = client.post(reverse("published-new"), upload(text))
    assert preview.status_code == 200
    content = preview.content.decode()
    assert "90.0%" in content
    assert "<b>" not in content
    assert not PublishedTable.objects.exists()
    answer = client.post(reverse("published-new"), {**hidden(content), "confirm": "yes"})
    table = PublishedTable.objects.get()
    assert answer.headers["Location"] == reverse("published-table", args=[table.pk])
    assert [row["model"] for row in table.rows] == ['Paper "<b>"', "=1+1"]
    assert table.created_by == he
    page = client.get(reverse("published-table", args=[table.pk])).content.decode()
    assert "=1+1" in page
    client.post(reverse("published-remove", args=[table.pk]))
    assert client.get(reverse("published-table", args=[table.pk])).status_code == 404


def test_the_page_says_what_is_wrong_and_stores_nothing(guideline: Guideline, client: Client, he: Person):
    client.force_login(he)
    metric = metric_of(guideline)
    posts = {
        "table.csv:2": upload(f"model,safe.{metric}\nA,45.38\n"),
        "larger than 1 MiB": upload("x" * (MAX_FILE_BYTES + 1)),
        "Choose the file": upload("x") | {"file": ""},
        "not text in UTF-8": upload("x") | {"file": SimpleUploadedFile("t.csv", b"\xff\xfe\xfa")},
        "is no address": upload(f"model,safe.{metric}\nA,45%\n", url="ftp://x", confirm="yes"),
        "valid choice": upload("x", guideline="none"),
        "Null characters": upload("x") | {"file": "", "content": "model\0", "confirm": "yes"},
    }
    for words, data in posts.items():
        answer = client.post(reverse("published-new"), data)
        assert 400 <= answer.status_code < 500, words
        assert words in answer.content.decode(), words
    assert not PublishedTable.objects.exists()


def test_who_judges_by_the_guideline_reads_no_models_of_its_tables(
    table: PublishedTable, batch: Batch, lin: Person, he: Person, client: Client
):
    set_roles(person=lin, roles=["annotator", "researcher"])
    client.force_login(lin)
    page = client.get(reverse("published-tables"))
    assert "XSTest" in page.content.decode()
    assert [row.sealed for row in list_table_rows(lin, list_published_tables())] == [True]
    assert client.get(reverse("published-table", args=[table.pk])).status_code == 403
    assert client.post(reverse("published-remove", args=[table.pk])).status_code == 403
    assert [row.sealed for row in list_table_rows(he, list_published_tables())] == [False]


def test_nor_beside_the_board_of_a_run_that_is_not_sealed(
    table: PublishedTable,
    release: GoldRelease,
    guideline: Guideline,
    lin: Person,
    he: Person,
    client: Client,
):
    new = add_person(name="new", roles=["annotator", "researcher"])
    elsewhere = make_corpus(prompts=2, models=["Mine-1B"], name="elsewhere")
    run = run_of(ready_scorer(release, guideline), elsewhere)
    place_published(table=table, dataset=elsewhere)
    make_batch(
        guideline, make_corpus(prompts=2, models=["B"], name="work"), annotators=[lin, new], name="mine"
    )
    name = table.rows[0]["model"]
    for person, is_told in ((he, True), (new, False)):
        client.force_login(person)
        responses = [client.get(reverse("run", args=[run.name]))]
        responses += [
            client.get(reverse("run-export", args=[run.name]), {"format": kind}) for kind in FORMATS
        ]
        for answer in responses:
            assert answer.status_code == 200
            assert (name in answer.content.decode()) is is_told
