"""Imported dialogues are checked as those that are made here, and a batch leaves out those with a fault."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from annotation.models import Batch, DialogueFault, Guideline, Import, Person, Response
from annotation.services.guidelines import load_guideline
from tests.support import FIXTURES

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]
CARD = "Age: 41\nProblem: The seeker's father has died, and the seeker cannot enter his room since."
GREETING = "AI assitant：Hello, I am here."
DIALOGUES = {
    "0": [GREETING, "ESC-Role：My father died.", "AI assitant：I am sorry."],
    "1": [
        GREETING,
        f"ESC-Role：{CARD}",
        "AI assitant：I am sorry.",
        "ESC-Role：",
        "AI assitant：i am SORRY.",
    ],
    "2": [GREETING, "ESC-Role：As an AI language model, I have no father.", "AI assitant：I see."],
    "3": [GREETING, "ESC-Role：", "AI assitant：I see."],
}


def run(*arguments: object) -> Any:
    out = StringIO()
    call_command(*map(str, arguments), "--json", stdout=out)
    return json.loads(out.getvalue())


def put(path: Path, content: Any) -> Path:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return path


def put_lines(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def list_stored() -> list[tuple[str, str]]:
    return list(
        DialogueFault.objects.order_by("response__prompt__key", "pk").values_list(
            "response__prompt__key", "kind"
        )
    )


@pytest.fixture(autouse=True)
def _cards(tmp_path: Path) -> None:
    cards = [
        {"id": f"c{place}", "base": CARD, "res": "loss", "language": "english"}
        for place in range(len(DIALOGUES))
    ]
    run("import_prompts", put(tmp_path / "cards.json", cards), "--dataset", "cards", "--format", "esc_eval")


@pytest.fixture
def guideline() -> Guideline:
    text = (FIXTURES / "guidelines" / "esc_eval.yaml").read_text(encoding="utf-8")
    return load_guideline(text=text, path="g.yaml", publish=True)


def test_a_batch_leaves_out_what_the_import_found(
    tmp_path: Path, guideline: Guideline, lin: Person, chen: Person
):
    file = put(tmp_path / "Qwen_7B_en.json", DIALOGUES)
    arguments = ("import_responses", file, "--dataset", "cards", "--format", "esc_eval")
    preview = run(*arguments, "--preview")["preview"][0]["outcome"]
    assert not Response.objects.exists()
    report = run(*arguments)
    assert report["faults"] == {"empty": 2, "card_copied": 1, "repeated": 1, "unmasked": 1}
    assert preview["faults"] == report["faults"]
    assert "Dialogues with an empty turn: 2." in report["notes"]
    assert list_stored() == [
        ("c1", "empty"),
        ("c1", "card_copied"),
        ("c1", "repeated"),
        ("c2", "unmasked"),
        ("c3", "empty"),
    ]
    stored = Import.objects.latest("pk").report["notes"]
    assert {"template": "Dialogues with an empty turn: {number}.", "params": {"number": 2}} in stored
    out = StringIO()
    call_command(*map(str, arguments), stdout=out)
    assert "0 responses taken, 4 already there" in out.getvalue()
    assert "note" not in out.getvalue()
    people = ("--annotators", "lin", "chen")
    options = ("--dataset", "cards", "--guideline", "esc_eval", *people, "--draft")
    run("create_batch", "every", *options)
    run("create_batch", "sound", *options, "--without-faults")
    counts = [Batch.objects.get(name=name).tasks.count() for name in ("every", "sound")]
    assert counts == [4, 1]


def test_the_rules_about_a_card_are_for_dialogues_that_begin_with_a_greeting(tmp_path: Path):
    turns = [{"role": "user", "text": CARD}, {"role": "assistant", "text": "Oh."}]
    greeting = {"role": "opening", "text": "Hello"}
    records = [
        {"prompt_id": "c0", "turns": turns},
        {"prompt_id": "c1", "turns": [greeting, *turns]},
        {"prompt_id": "c2", "turns": [*turns, *turns]},
        {"prompt_id": "c3", "response": " "},
    ]
    file = put_lines(tmp_path / "dialogues.jsonl", *records)
    report = run("import_responses", file, "--dataset", "cards", "--model", "m", "--format", "jsonl")
    assert report["faults"] == {"card_copied": 1, "repeated": 1}
    assert list_stored() == [("c1", "card_copied"), ("c2", "repeated")]


def test_a_turn_may_say_that_the_limit_cut_it_off(tmp_path: Path):
    turns = [{"role": "user", "text": "Hi"}, {"role": "assistant", "text": "I", "finish_reason": "length"}]
    other = [{"role": "user", "text": "Hi"}, {"role": "assistant", "text": "I", "finish_reason": "stop"}]
    records = [{"prompt_id": "c0", "turns": turns}, {"prompt_id": "c1", "turns": other}]
    file = put_lines(tmp_path / "dialogues.jsonl", *records)
    run("import_responses", file, "--dataset", "cards", "--model", "m", "--format", "jsonl")
    assert list_stored() == [("c0", "cut")]
    assert Response.objects.get(prompt__key="c0").turns[1] == {"role": "assistant", "text": "I"}


def test_what_is_refused_leaves_no_fault(tmp_path: Path):
    file = put(tmp_path / "Qwen_7B_en.json", DIALOGUES | {"9": DIALOGUES["0"]})
    with pytest.raises(SystemExit):
        call_command(
            "import_responses", str(file), "--dataset", "cards", "--format", "esc_eval", stderr=StringIO()
        )
    assert not list_stored()
