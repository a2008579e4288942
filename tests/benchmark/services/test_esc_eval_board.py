"""Dialogues over role cards in two languages: a board that is read by language, with the published table of each beside
its numbers. Dialogues, labels and tables are invented, but for GPT-4's English fluency: 984 over 331, 74.32.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client

from annotation.core.errors import AssayError
from annotation.domain.formats import Source
from annotation.models import AuditEvent, Collection, Dataset, Person
from annotation.selectors.guidelines import get_guideline
from annotation.selectors.releases.releases import get_release
from benchmark.models import BenchmarkRun, PublishedTable
from benchmark.selectors.published_tables import list_reference_rows
from benchmark.services.leaderboards.execution import finish_run, write_items
from benchmark.services.leaderboards.runs import create_run
from benchmark.services.published_tables import add_published, place_published, read_published
from tests.benchmark.support import ready_scorer
from tests.support import FIXTURES, make_corpus

pytestmark = pytest.mark.django_db
CRITERIA = ("fluency", "expression", "empathy", "information", "skill", "humanoid", "overall")
ENGLISH, CHINESE = 331, 12
HEADS = "model,fluency,expression,empathy,information,skill,humanoid,overall,average\n"
PUBLISHED = {
    "en": HEADS + "GPT-4,74.32,71.68,71.68,71.6,71.98,32.25,51.96,63.64\nOther-7B,70,50.5,,,,,60.1,-\n",
    "zh": HEADS + "GPT-4,73.1,70.04,70.2,71.11,70.0,35.5,50.02,62.9\n",
}
SOURCE = "Zhao et al., ESC-Eval, EMNLP 2024"


def run(*arguments: str) -> Any:
    out = io.StringIO()
    call_command(*arguments, "--json", stdout=out, stderr=io.StringIO())
    return json.loads(out.getvalue())


def printed(*arguments: str) -> str:
    out = io.StringIO()
    call_command(*arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def judge(model: str, place: int) -> dict[str, int]:
    """GPT-4's English fluency: 322 times 3 and nine times 2."""
    labels = {name: (place + at) % 5 for at, name in enumerate(CRITERIA)}
    if model == "GPT-4":
        labels["fluency"] = 2 if place < 9 else 3
    return labels


@pytest.fixture
def board(tmp_path: Path, db: None) -> BenchmarkRun:
    run("load_guideline", str(FIXTURES / "guidelines" / "esc_eval.yaml"), "--publish")
    cards = [
        {"id": place, "base": f"Card {language} {place}", "res": "family", "language": language}
        for language, n in (("english", ENGLISH), ("chinese", CHINESE))
        for place in range(1000 * (language == "chinese"), 1000 * (language == "chinese") + n)
    ]
    path = tmp_path / "cards.json"
    path.write_text(json.dumps(cards), encoding="utf-8")
    run("import_prompts", str(path), "--format", "esc_eval", "--dataset", "cards")
    labels = []
    for model, own in (("GPT-4", cards), ("Qwen-7B", [*cards[:30], *cards[ENGLISH:]])):
        dialogues = [
            {
                "prompt_id": str(card["id"]),
                "turns": [
                    {"role": "opening", "text": "Hello"},
                    {"role": "user", "text": f"I am {card['id']}."},
                    {"role": "assistant", "text": f"{model} hears {card['id']}."},
                ],
            }
            for card in own
        ]
        lines = write_lines(tmp_path / f"{model}.jsonl", dialogues)
        run("import_responses", lines, "--dataset", "cards", "--model", model)
        labels += [
            {
                "prompt_id": str(card["id"]),
                "model": model,
                "annotator": "rater",
                "labels": judge(model, int(card["id"]) % 1000),
            }
            for card in own
        ]
    run(
        *("import_annotations", write_lines(tmp_path / "labels.jsonl", labels), "--batch", "judged"),
        *("--guideline", "esc_eval", "--dataset", "cards", "--overlap", "1"),
    )
    run("release_gold", "gold", "--batches", "judged")
    scorer = ready_scorer(get_release("gold"), get_guideline("esc_eval"))
    made = create_run(
        name="board",
        scorer=scorer,
        dataset=Dataset.objects.get(name="cards"),
        collection=Collection.objects.get(name=""),
        send=False,
    )
    write_items(made, lambda _done: None)
    finish_run(made)
    return made


def enter(folder: Path, language: str, name: str = "") -> PublishedTable:
    path = folder / f"{language}.csv"
    path.write_text(PUBLISHED[language], encoding="utf-8")
    made = run(
        *("import_published", str(path), "--guideline", "esc_eval", "--dataset", "cards"),
        *("--name", name or f"ESC-Eval, {language}", "--source", SOURCE, "--language", language),
    )
    assert made["language"] == language
    return PublishedTable.objects.get(pk=made["id"])


def test_a_sum_of_984_over_331_is_74_32_everywhere(
    board: BenchmarkRun, tmp_path: Path, client: Client, he: Person
):
    enter(tmp_path, "en")
    enter(tmp_path, "zh")
    groups = run("leaderboard", "board", "--by", "language")["groups"]["language"]
    assert [(column["name"], column["n_prompts"]) for column in groups["columns"]] == [
        ("en", 331),
        ("zh", 12),
    ]
    cells = {row["model"]: row["cells"] for row in groups["rows"]}
    assert cells["GPT-4"][0]["fluency"]["value"] == pytest.approx(25 * 984 / 331)
    average = sum(cells["GPT-4"][0][name]["value"] for name in CRITERIA) / len(CRITERIA)
    assert cells["GPT-4"][0]["average"]["value"] == pytest.approx(average)
    lines = printed("leaderboard", "board", "--by", "language").splitlines()
    assert "74.32" in next(line for line in lines if line.split()[:2] == ["en", "GPT-4"])
    client.force_login(he)
    page = client.get("/runs/board/?view=groups&by=language").content.decode()
    english = page[page.index("Language: en") : page.index("Language: zh")]
    assert english.count("74.32") == 2  # measured, and published
    assert english.index("74.32") < english.index("ESC-Eval, en") < english.rindex("74.32")
    assert "71.60" in english
    assert "ESC-Eval, zh" not in english
    chinese = page[page.index("Language: zh") :]
    assert "73.10" in chinese
    assert "ESC-Eval, en" not in chinese
    table = PublishedTable.objects.get(language="en")
    table_page = client.get(f"/runs/-/published/{table.pk}/").content.decode()
    assert "74.32" in table_page
    assert "71.60" in table_page
    assert table_page.count("74.32") == 1


def test_a_table_of_a_language_stands_on_no_board_of_all(
    board: BenchmarkRun, tmp_path: Path, client: Client, he: Person
):
    enter(tmp_path, "en")
    assert [row["model"] for row in list_reference_rows(board, None, of_language=True)] == [
        "GPT-4",
        "Other-7B",
    ]
    assert list_reference_rows(board, None, of_language=False) == []
    client.force_login(he)
    page = client.get("/runs/board/").content.decode()
    assert "Other-7B" not in page
    assert "1 published table is of the prompts of one language" in page
    assert "?view=groups&amp;by=language" in page
    assert "Other-7B" in client.get("/runs/board/?view=groups&by=language").content.decode()
    report = client.get("/runs/board/export/?format=report").content.decode()
    assert "Other-7B†" in report
    assert report.count("74.32") >= 2
    latex = client.get("/runs/board/export/?format=latex").content.decode()
    assert "Other-7B" in latex
    table = csv.DictReader(
        client.get("/runs/board/export/?format=csv").content.decode("utf-8-sig").splitlines()
    )
    published = [row for row in table if row["model"] == "Other-7B"]
    assert {row["language"] for row in published} == {"en"}
    parts = json.loads(client.get("/runs/board/export/?format=json").content)
    assert {row["published"]["language"] for row in parts["published"]} == {"en"}


def test_a_table_without_dimensions_says_the_overall_of_its_metrics(
    board: BenchmarkRun, tmp_path: Path, client: Client, he: Person
):
    """``fluency`` alone is the column of all responses, which the board calls overall."""
    path = tmp_path / "all.csv"
    path.write_text("model,fluency,average\nOther-7B,61.2,44\n", encoding="utf-8")
    run(
        *("import_published", str(path), "--guideline", "esc_eval", "--dataset", "cards"),
        *("--name", "Paper", "--source", SOURCE),
    )
    client.force_login(he)
    page = client.get("/runs/board/").content.decode()
    assert "61.20" in page
    assert "44.00" in page


def test_a_language_that_no_prompt_has_is_refused(board: BenchmarkRun, tmp_path: Path):
    path = tmp_path / "fr.csv"
    path.write_text(PUBLISHED["en"], encoding="utf-8")
    guideline, rows = read_published(Source(path), "esc_eval")
    cards = Dataset.objects.get(name="cards")
    with pytest.raises(
        AssayError, match="No prompt of cards is in the language fr; its languages are: en, zh"
    ):
        add_published(
            guideline=guideline, dataset=cards, name="Paper", source=SOURCE, language="fr", rows=rows
        )
    assert not PublishedTable.objects.exists()
    other = make_corpus(prompts=2, models=["M"], name="other")
    with pytest.raises(AssayError, match="No prompt of other is in the language en"):
        place_published(table=enter(tmp_path, "en"), dataset=other)


def test_the_page_takes_the_language_and_keeps_it(
    board: BenchmarkRun, tmp_path: Path, client: Client, he: Person
):
    client.force_login(he)
    answers = {
        "guideline": "esc_eval",
        "dataset": Dataset.objects.get(name="cards").pk,
        "language": "en",
        "name": "Paper",
        "source": SOURCE,
        "file_name": "t.csv",
        "content": PUBLISHED["en"],
    }
    looked_at = client.post("/runs/-/published/new/", answers).content.decode()
    assert '<input type="hidden" name="language" value="en">' in looked_at
    assert not PublishedTable.objects.exists()
    client.post("/runs/-/published/new/", answers | {"confirm": "yes"})
    table = PublishedTable.objects.get()
    assert table.language == "en"
    event = AuditEvent.objects.filter(verb="add_published_table").get()
    assert event.data["language"] == "en"
    assert (
        "beside the numbers of these prompts" in client.get(f"/runs/-/published/{table.pk}/").content.decode()
    )
    other = make_corpus(prompts=2, models=["M"], name="other")
    refused = client.post(f"/runs/-/published/{table.pk}/dataset/", {"dataset": other.pk})
    assert refused.status_code == 400
    assert "No prompt of other is in the language en" in refused.content.decode()
    table.refresh_from_db()
    assert table.dataset.name == "cards"
    unknown = client.post("/runs/-/published/new/", answers | {"language": "fr"})
    assert unknown.status_code == 422
