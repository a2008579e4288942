"""A batch of a file by one command: its prompts and responses go in, and the batch is made of them, or nothing is."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from annotation.models import Batch, Dataset, Import, Prompt, Response, Task
from tests.support import XSTEST_GUIDELINE, person

pytestmark = pytest.mark.django_db

ROWS = [
    {"question": "why?", "type": "safe", "model": "a/1", "response": "because"},
    {"question": "why?", "type": "safe", "model": "b", "response": "no idea"},
    {"question": "how?", "type": "unsafe", "model": "a/1", "response": "so"},
]
MAPPED = ("--map", "prompt=question", "dimension=type")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "answers.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    return str(path)


def create(name: str, *options: str) -> dict[str, Any]:
    XSTEST_GUIDELINE.load()
    out = StringIO()
    call_command(
        "create_batch", name, "--guideline", "xstest", "--dataset", "new", "--json", *options, stdout=out
    )
    return dict(json.loads(out.getvalue()))


def test_one_command_makes_the_dataset_the_prompts_the_responses_and_the_batch(file: str):
    for name in ("lin", "chen"):
        person(name)
    made = create("first", "--annotators", "lin", "chen", "--from", file, *MAPPED)
    assert (made["state"], made["tasks"]) == ("open", 3)
    assert made["file"]["taken"] == 3
    assert made["file"]["made"] == {"datasets": 1, "prompts": 2, "models": 2}
    tasks = Task.objects.filter(batch__name="first").values_list("response__prompt__text", "response__text")
    assert sorted(tasks) == [("how?", "so"), ("why?", "because"), ("why?", "no idea")]
    assert set(Prompt.objects.values_list("dataset__name", "dimension")) == {
        ("new", "safe"),
        ("new", "unsafe"),
    }
    assert Import.objects.get().options["dataset"] == "new"


def test_the_same_file_for_another_batch_puts_nothing_in_twice(file: str):
    create("first", "--draft", "--from", file, *MAPPED)
    made = create("second", "--draft", "--models", "b", "--from", file, *MAPPED)
    assert (made["tasks"], made["file"]["taken"], made["file"]["already_there"]) == (1, 0, 3)
    assert Response.objects.count() == 3


def test_what_a_file_brings_is_not_stored_where_the_batch_is_refused(
    file: str, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(SystemExit):
        create("first", "--annotators", "lin", "nobody", "--from", file, *MAPPED)
    assert "nobody" in capsys.readouterr().err
    assert not (Dataset.objects.exists())
    assert not (Response.objects.exists())
    assert not (Batch.objects.exists())
    assert not Import.objects.exists()


def test_a_preview_stores_nothing(file: str):
    preview = create("first", "--draft", "--preview", "--from", file, *MAPPED)["preview"][0]
    assert preview["outcome"]["taken"] == 3
    assert not (Dataset.objects.exists())
    assert not (Batch.objects.exists())


def test_what_says_how_a_file_is_read_needs_the_file(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        create("first", "--draft", "--sheet", "two", "--model", "b")
    assert capsys.readouterr().err == "--model, --sheet says how a file is read; give the file with --from.\n"
