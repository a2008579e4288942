"""ESC-Eval's files, one after the other: cards, dialogues of a model, and the scores that ESC-RANK gave them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from annotation.core.errors import AssayError
from annotation.domain.formats import Source
from annotation.models import Dataset, Person, Prompt, Response
from annotation.selectors.datasets import count_parts
from annotation.selectors.guidelines import get_guideline
from annotation.services.guidelines import load_guideline
from annotation.services.imports import import_prompts, import_responses
from benchmark.models import JudgeLabel
from benchmark.selectors.leaderboards.runs import get_collection
from benchmark.services.judges.labels import JudgeLabelTarget, import_judge_labels
from tests.support import FIXTURES

pytestmark = pytest.mark.django_db
SCORES = {"fluency": 3, "diversity": 2, "empathic": 4, "suggestion": 0, "human": 1, "tech": -1, "overall": 2}


def put(path: Path, content: Any) -> Source:
    path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    return Source(path, path.name)


def put_cards(folder: Path, languages: tuple[str, ...] = ("english",) * 3) -> None:
    cards = [
        {"id": 500 - place, "base": f"Card {place}", "res": "family", "language": language}
        for place, language in enumerate(languages)
    ]
    import_prompts(source=put(folder / "cards.json", cards), format="esc_eval", dataset="cards")


def test_the_source_of_a_card_is_on_the_page_of_its_dataset(tmp_path: Path, client: Client, ma: Person):
    client.force_login(ma)
    cards = [
        {"id": number, "base": f"Card {number}", "res": "family", "language": "english", "source": source}
        for number, source in enumerate(("ESConv", "ESConv", "AugESC"))
    ]
    put_cards(tmp_path)
    page = client.get(reverse("dataset", args=["cards"])).content.decode()
    assert 'id="sources"' not in page
    report = import_prompts(source=put(tmp_path / "a.json", cards), format="esc_eval", dataset="sourced")
    assert report.imported == 3
    assert not report.notes
    parts = count_parts(Dataset.objects.get(name="sourced"), ma)
    assert [(part.name, part.prompts) for part in parts.sources] == [("ESConv", 2), ("AugESC", 1)]
    page = client.get(reverse("dataset", args=["sourced"])).content.decode()
    assert 'id="sources"' in page
    assert "AugESC" in page
    cards[0]["source"] = "PsyQA"
    report = import_prompts(source=put(tmp_path / "b.json", cards), format="esc_eval", dataset="sourced")
    assert [note for note in report.as_json()["notes"] if "has another source" in note]
    assert Prompt.objects.get(dataset__name="sourced", key="0").source == "ESConv"


@pytest.mark.parametrize("format_name", ["jsonl", "csv", "table"])
def test_the_generic_formats_have_a_source(tmp_path: Path, format_name: str):
    path = tmp_path / "prompts"
    column = "data_source" if format_name == "table" else "source"
    if format_name == "jsonl":
        path.write_text(json.dumps({"prompt": "Card", column: " ESConv "}) + "\n", encoding="utf-8")
    else:
        path.write_text(f"prompt,{column}\nCard, ESConv \n", encoding="utf-8")
    import_prompts(source=Source(path, path.name), format=format_name, dataset="cards")
    assert Prompt.objects.get().source == "ESConv"


def put_dialogues(folder: Path, places: tuple[str, ...]) -> Any:
    dialogues = {
        place: ["AI assitant：Hello", f"ESC-Role：I am {place}", "AI assitant：I see"] for place in places
    }
    source = put(folder / "Qwen_7B_en.json", dialogues)
    return import_responses(source=source, format="esc_eval", dataset="cards")


def put_scores(folder: Path, scores: Any) -> Any:
    into = JudgeLabelTarget(
        judge="ESC-RANK",
        guideline=get_guideline("esc_eval"),
        dataset=Dataset.objects.get(),
        collection=get_collection(""),
    )
    source = put(folder / "Qwen_7B_en.json", scores)
    return import_judge_labels(source=source, format_name="esc_eval", into=into)


@pytest.fixture
def guideline() -> None:
    text = (FIXTURES / "guidelines" / "esc_eval.yaml").read_text(encoding="utf-8")
    load_guideline(text=text, path="g.yaml", publish=True)


def test_cards_dialogues_and_scores(tmp_path: Path, guideline: None):
    put_cards(tmp_path)
    put_dialogues(tmp_path, ("0", "2"))
    response = Response.objects.get(prompt__key="498")
    assert response.model.name == "Qwen_7B"
    assert [turn["role"] for turn in response.turns] == ["opening", "user", "assistant"]
    assert response.turns[1]["text"] == "I am 2"
    assert Prompt.objects.get(key="498").text == "Card 2"
    report = put_scores(tmp_path, {"0": SCORES, "2": SCORES})
    assert (report.imported, report.off_scale) == (14, 2)
    labels = dict(JudgeLabel.objects.filter(response=response).values_list("criterion", "value"))
    assert labels == {
        "fluency": 3,
        "expression": 2,
        "empathy": 4,
        "information": 0,
        "humanoid": 1,
        "skill": None,
        "overall": 2,
    }
    assert put_scores(tmp_path, {"0": SCORES, "2": SCORES}).already_there == 14


def test_a_place_without_a_card_is_refused_with_its_number(tmp_path: Path, guideline: None):
    put_cards(tmp_path)
    with pytest.raises(AssayError, match="there is no prompt 3 in the dataset cards"):
        put_dialogues(tmp_path, ("0", "3"))
    assert not Response.objects.exists()
    put_dialogues(tmp_path, ("0",))
    with pytest.raises(AssayError, match="no role card at the place 7"):
        put_scores(tmp_path, {"0": SCORES, "7": SCORES})
    with pytest.raises(AssayError, match="there is no score warmth"):
        put_scores(tmp_path, {"0": {"warmth": 1}})
    with pytest.raises(AssayError, match="write the scores as"):
        put_scores(tmp_path, {"0": [3]})
    assert not JudgeLabel.objects.exists()


def test_places_in_a_dataset_of_two_languages_mean_nothing(tmp_path: Path):
    put_cards(tmp_path, ("english", "chinese"))
    with pytest.raises(AssayError, match="import each language into a dataset of its own"):
        put_dialogues(tmp_path, ("0",))
