"""Lend an Ear, brought in by commands: the published correlations of experts, crowd and a language model.

Kumar et al. (2025) publish Spearman's correlation with Fisher's interval, and quadratic kappa between the ranks of the
observed values, for each pair of raters and criterion. ``experts`` is the median of the three, ``crowd`` the mean of a
dialogue's ratings that are there, ``llm`` Gemini.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import reverse
from sklearn.metrics import cohen_kappa_score

from annotation.core.errors import InputError
from annotation.domain.formats import Source
from annotation.domain.quotations import find_quotation, is_no_quotation
from annotation.models import Annotation, Person
from annotation.selectors.releases.releases import get_release
from benchmark.domain.metric_files import read_metrics
from benchmark.selectors.correlations import build_correlations
from tests.scoring.lend_an_ear import CRITERIA, EXPERTS, FOLDER, is_there, read_dialogues, read_ratings
from tests.support import FIXTURES

pytestmark = pytest.mark.django_db


def run(*arguments: str) -> Any:
    out = io.StringIO()
    call_command(*arguments, "--json", stdout=out, stderr=io.StringIO())
    return json.loads(out.getvalue())


def read(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> str:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


def write_table(path: Path, rows: Sequence[Sequence[object]]) -> str:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return str(path)


def bring_dialogues(folder: Path) -> None:
    dialogues = read_dialogues()
    run("load_guideline", str(FIXTURES / "guidelines" / "lend_an_ear.yaml"), "--publish")
    prompts = [{"id": name, "prompt": f"Dialogue {name}"} for name in dialogues]
    run("import_prompts", write_lines(folder / "prompts.jsonl", prompts), "--dataset", "ear")
    responses = [
        {"prompt_id": name, "turns": [{"role": role, "text": text} for role, text in turns]}
        for name, turns in dialogues.items()
    ]
    path = write_lines(folder / "responses.jsonl", responses)
    run("import_responses", path, "--dataset", "ear", "--model", "people")


@pytest.fixture
def release(tmp_path: Path) -> str:
    """The experts' median as gold, with Gemini as a judge."""
    if not is_there():
        pytest.skip("the dialogues are not at ../shared/data/lend_an_ear")
    dialogues, ratings = read_dialogues(), read_ratings()
    assert len(dialogues) == len(ratings) == 50
    bring_dialogues(tmp_path)
    labels = [
        {"prompt_id": name, "annotator": expert, "labels": own}
        for name, of_dialogue in ratings.items()
        for expert, own in zip(EXPERTS, of_dialogue, strict=True)
    ]
    run(
        *("import_annotations", write_lines(tmp_path / "experts.jsonl", labels), "--batch", "experts"),
        *("--model", "people"),
        *("--guideline", "lend_an_ear", "--dataset", "ear", "--overlap", "3", "--settling", "median"),
    )
    judged = [
        (row["conversation_id"], criterion, int(float(row[criterion])))
        for row in read("gemini_ratings.csv")
        if row["conversation_id"] in dialogues
        for criterion in CRITERIA
    ]
    path = write_table(tmp_path / "llm.csv", [("prompt_id", "criterion", "value"), *judged])
    run(
        *("import_judge_labels", path, "--judge", "llm", "--guideline", "lend_an_ear", "--format", "csv"),
        *("--dataset", "ear", "--model", "people"),
    )
    run("release_gold", "ear-1", "--batches", "experts")
    return "ear-1"


def average_crowd() -> dict[str, dict[str, float]]:
    """By dialogue and criterion the mean of the crowd's ratings that are there."""
    ratings: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in read("crowd_annotations.csv"):
        for criterion in CRITERIA:
            if row[criterion]:
                ratings[row["conversation_id"]][criterion].append(float(row[criterion]))
    return {
        name: {criterion: statistics.fmean(values) for criterion, values in of_dialogue.items()}
        for name, of_dialogue in ratings.items()
    }


def list_published() -> dict[tuple[str, frozenset[str]], tuple[float, float, float, float]]:
    """By criterion and pair: Spearman, both of Fisher's bounds, kappa."""
    return {
        (row["Dimension"], frozenset(ast.literal_eval(row["Annotator Pair"]))): (
            float(row["Spearman Correlation"]),
            float(row["Fisher CI Lower"]),
            float(row["Fisher CI Upper"]),
            float(row["Weighted Cohen's Kappa"]),
        )
        for row in read("published_pairs.csv")
    }


def test_all_36_published_rows_to_two_decimals(release: str, tmp_path: Path):
    crowd = average_crowd()
    header = ["prompt_id", "model", *(f"crowd.{criterion}" for criterion in CRITERIA)]
    rows = [[name, "people", *(own[criterion] for criterion in CRITERIA)] for name, own in crowd.items()]
    metrics = write_table(tmp_path / "crowd.csv", [header, *rows])
    measured: dict[tuple[str, frozenset[str]], tuple[float, ...]] = {}
    for row in run("agreement", "--batch", "experts", "--by", "pair")["rows"]:
        if row["group"] and row["criterion"]:
            spearman, kappa = row["spearman"], row["cohen_kappa_quadratic_observed"]["value"]
            figures = spearman["value"], spearman["fisher_low"], spearman["fisher_high"], kappa
            measured[row["criterion"], frozenset(row["group"]["pair"].split(", "))] = figures
    names = {"gold": "experts", "judge": "llm", "metric": "crowd"}
    document = run("correlate", "--release", release, "--metrics", metrics)
    for row in document["rows"]:
        assert (row["n"], row["prompts"]) == (50, 50)
        pair = frozenset({names[row["first"]["kind"]], names[row["second"]["kind"]]})
        spearman, kappa = row["spearman"], row["quadratic_kappa_observed"]["value"]
        assert spearman["low"] < spearman["value"] < spearman["high"]
        measured[row["criterion"], pair] = (
            spearman["value"],
            spearman["fisher_low"],
            spearman["fisher_high"],
            kappa,
        )
    published = list_published()
    assert len(published) == 36
    differing = {
        key: (figures, measured[key])
        for key, figures in published.items()
        if any(abs(figure - own) > 0.00501 for figure, own in zip(figures, measured[key], strict=True))
    }
    assert not differing


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([("nobody", "people", 1)], "no response of people to the prompt nobody"),
        ([("{0}", "else", 1)], "no response of else"),
        ([("{0}", "people", 1), ("{0}", "", 2)], "stands in line 2 already"),
    ],
)
def test_a_row_without_its_response_is_refused(
    release: str, tmp_path: Path, rows: list[tuple[str, str, int]], words: str
):
    first = next(iter(read_dialogues()))
    named = [(prompt.format(first), *rest) for prompt, *rest in rows]
    path = write_table(tmp_path / "m.csv", [("prompt_id", "model", "bleu"), *named])
    with pytest.raises(InputError, match=words):
        build_correlations(get_release(release), read_metrics(Source(path)))


def test_on_the_fixed_scale_kappa_is_another(release: str):
    """As the commands print it by default: 25 of the 36 are the published figure, 17 of the 18 between experts."""
    published, ratings = list_published(), read_ratings()
    same = 0
    for row in run("agreement", "--batch", "experts", "--by", "pair")["rows"]:
        if row["group"] and row["criterion"]:
            pair = row["group"]["pair"].split(", ")
            value = row["cohen_kappa_quadratic"]["value"]
            same += abs(value - published[row["criterion"], frozenset(pair)][3]) <= 0.00501
            columns = [
                [of_dialogue[EXPERTS.index(name)][row["criterion"]] for of_dialogue in ratings.values()]
                for name in pair
            ]
            assert value == pytest.approx(
                cohen_kappa_score(*columns, weights="quadratic", labels=[1, 2, 3, 4, 5])
            )
    assert same == 17
    document = run("compare_judges", "--release", release, "--judges", "llm")
    compared, commonest = document["candidates"][0], document["commonest"]
    own = {name: figures["quadratic_kappa"]["value"] for name, figures in compared["by_criterion"].items()}
    with_experts = sum(
        abs(value - published[name, frozenset({"experts", "llm"})][3]) <= 0.00501
        for name, value in own.items()
    )
    assert (len(own), with_experts) == (6, 6)
    for name in CRITERIA:
        gold = [statistics.median_low(row[name] for row in of_dialogue) for of_dialogue in ratings.values()]
        level = max((1, 2, 3, 4, 5), key=gold.count)
        figures = commonest["by_criterion"][name]
        assert figures["accuracy"]["value"] == pytest.approx(gold.count(level) / 50)
        assert figures["within_one"]["value"] == pytest.approx(sum(abs(v - level) <= 1 for v in gold) / 50)


# The crowd's quotations as evidence.


def list_crowd() -> list[dict[str, Any]]:
    return [
        {
            "prompt_id": row["conversation_id"],
            "model": "people",
            "annotator": f"crowd-{row['user_id']}",
            "labels": {name: float(row[name]) if row[name] else None for name in CRITERIA},
            "evidence": [
                {"quote": row[f"{name}_example"], "criterion": name}
                for name in CRITERIA
                if row[f"{name}_example"].strip()
            ],
        }
        for row in read("crowd_annotations.csv")
    ]


def test_the_counts_of_the_quotations():
    """1,033 beside 38 placeholders; 820 stand verbatim in the dialogue, 812 at one place and 8 at several."""
    if not is_there():
        pytest.skip("the dialogues are not at ../shared/data/lend_an_ear")
    texts = {row["conversation_id"]: row["full_conversation"] for row in read("crowd_annotations.csv")}
    quoted = [(record["prompt_id"], span["quote"]) for record in list_crowd() for span in record["evidence"]]
    words = [(dialogue, quote) for dialogue, quote in quoted if not is_no_quotation(quote)]
    assert (len(words), len(quoted) - len(words)) == (1033, 38)
    places = [len(list(find_quotation(quote, [texts[dialogue]]))) for dialogue, quote in words]
    assert (places.count(1), sum(number > 1 for number in places)) == (812, 8)


def test_the_crowds_quotations_become_spans_or_a_part_of_the_rationale(tmp_path: Path):
    """Only the words of the one who is judged can be marked: 18 quotations are of the other's."""
    if not is_there():
        pytest.skip("the dialogues are not at ../shared/data/lend_an_ear")
    bring_dialogues(tmp_path)
    crowd = [
        record | {"labels": {name: value for name, value in record["labels"].items() if value is not None}}
        for record in list_crowd()
    ]
    complete = [record for record in crowd if len(record["labels"]) == len(CRITERIA)]
    assert len(complete) == 191
    path = write_lines(tmp_path / "crowd.jsonl", complete)
    options = (
        *("import_annotations", path, "--batch", "crowd", "--guideline", "lend_an_ear", "--dataset", "ear"),
        *("--plan", "open", "--overlap", "1"),
    )
    with pytest.raises(SystemExit):
        run(*options)
    assert not Annotation.objects.exists()
    report = run(*options, "--quotations", "rationale")["files"][0]
    assert report["taken"] == 191
    judged = {
        name: [text if role == "assistant" else None for role, text in turns]
        for name, turns in read_dialogues().items()
    }
    places = [
        (
            record["prompt_id"],
            span["criterion"],
            list(find_quotation(span["quote"], judged[record["prompt_id"]])),
        )
        for record in complete
        for span in record["evidence"]
        if not is_no_quotation(span["quote"])
    ]
    spans = [
        (annotation.assignment.task.response.prompt.key, span["turn"], span["start"], span["end"])
        for annotation in Annotation.objects.select_related("assignment__task__response__prompt")
        for span in annotation.evidence
    ]
    marked = [(name, *at[0]) for name, _criterion, at in places if at]
    assert sorted(spans) == sorted(marked)
    nowhere = sum(not at for _name, _criterion, at in places)
    in_rationales = [each["number"] for each in report["left_out"] if "stand nowhere" in each["reason"]]
    assert in_rationales == [nowhere]
    several = [note for note in report["notes"] if "the first is marked" in note]
    assert len(several) == sum(len(at) > 1 for _name, _criterion, at in places)
    rationales = "".join(Annotation.objects.values_list("rationale", flat=True))
    assert rationales.count("“") >= nowhere
    assert run(*options, "--quotations", "rationale")["files"][0]["already_there"] == 191


def test_the_page_of_correlations(release: str, tmp_path: Path, he: Person, client: Client):
    client.force_login(he)
    url = reverse("judge-correlations", args=[release])
    page = client.get(url).content.decode()
    assert page.count("judge llm") == len(CRITERIA)
    assert url in client.get(reverse("judge-comparison", args=[release])).content.decode()
    crowd = average_crowd()
    rows = [[name, own["advice_giving"], len(name)] for name, own in crowd.items()]
    path = write_table(tmp_path / "m.csv", [("prompt_id", "crowd.advice_giving", "length"), *rows])
    with Path(path).open("rb") as file:
        answer = client.post(url, {"level": "response", "file": file})
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "metric crowd" in page
    assert re.search(r"metric crowd</td>\s*<td class=\"num\">50</td>\s*<td[^>]*>\s*0\.3[89]\d", page), page
    assert page.count("metric length") >= len(CRITERIA)
    path = write_table(tmp_path / "m.csv", [("prompt_id", "bleu"), ("nobody", 1)])
    with Path(path).open("rb") as file:
        answer = client.post(url, {"level": "model", "file": file})
    assert answer.status_code == 422
    assert "m.csv:2" in answer.content.decode()
    assert "to the prompt nobody" in answer.content.decode()
