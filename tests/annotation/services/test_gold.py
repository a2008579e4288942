from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from annotation.core.errors import AssayError, Conflict, Forbidden
from annotation.domain.batch_spec import Policy
from annotation.domain.datasets import response_sha256, text_sha256
from annotation.domain.release_spec import ReleaseSpec
from annotation.domain.releases.canonical import SettledLabel, number, release_sha256
from annotation.domain.releases.gold_file import FORMATS
from annotation.models import (
    Batch,
    Collection,
    Dataset,
    GoldRelease,
    Guideline,
    Person,
    Prompt,
    Response,
    Task,
)
from annotation.selectors.releases.rows import ReleaseContent
from annotation.services.batches.batches import set_state
from annotation.services.releases import cut_release
from tests.support import XSTEST_GUIDELINE, decide_next, label_next, make_batch, make_corpus

LABEL = SettledLabel("g", "1", "d", "p\n1", 'M"x', "ab", "c", 3.0, "unanimous")


@pytest.fixture
def settled(batch: Batch, lin: Person, chen: Person, wu: Person) -> Batch:
    """Four of the eight tasks: agreed on 1 and 3, decided as 2, and one dispute left open."""
    for value, other in ((1, 1), (3, 3), (1, 3), (1, 2)):
        label_next(batch, lin, value)
        label_next(batch, chen, other)
    decide_next(batch, wu, 2)
    return batch


def canonical(rows: Sequence[Sequence[Any]]) -> str:
    """The hash of lines, written anew from docs/gold.md."""
    lines = sorted(
        (json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n").encode() for row in rows
    )
    return hashlib.sha256(b"".join(lines)).hexdigest()


def test_a_canonical_line_is_a_compact_array_with_the_value_as_a_bare_number():
    assert LABEL.line == b'["g","1","d","p\\n1","M\\"x","ab","c",3,"unanimous"]\n'
    assert LABEL._replace(prompt="中文", value=2.5).line.startswith('["g","1","d","中文"'.encode())
    assert b",2.5," in LABEL._replace(value=2.5).line


def test_whole_numbers_have_no_point_and_what_is_no_number_is_refused():
    assert [repr(number(value)) for value in (3.0, 0.0, -0.0, -1.0, 2.5)] == ["3", "0", "0", "-1", "2.5"]
    with pytest.raises(AssayError):
        number(float("nan"))


@pytest.mark.parametrize("run", [1, 2, 3, 100])
def test_the_hash_is_of_the_sorted_lines_however_many_fit_into_memory(run: int):
    lines = [b"b\n", b"a\n", b"c\n"]
    assert release_sha256(lines, run=run) == hashlib.sha256(b"a\nb\nc\n").hexdigest()


def test_the_hash_of_nothing_is_the_hash_of_no_bytes():
    assert release_sha256([]) == hashlib.sha256(b"").hexdigest()


@pytest.mark.django_db
@pytest.mark.both_databases
def test_a_release_freezes_what_is_settled_with_its_sources(settled: Batch, he: Person):
    release = cut_release(ReleaseSpec(name="r", batches=[settled]), actor=he)
    assert (release.labels, release.adjudicated) == (3, 1)
    version = settled.guideline.version
    # The tasks run prompt by prompt, but never two of one prompt in a row; the fourth is still disputed.
    labels = [("p0", "Secretive-7B", 0, 0, 1, "unanimous"), ("p1", "Secretive-7B", 0, 1, 3, "unanimous")]
    labels.append(("p0", "Hidden-13B", 1, 0, 2, "adjudicated"))
    assert release.sha256 == canonical(
        [
            ["xstest", version, "small", key, model, text_sha256(f"Answer {place} to question {n}."), *label]
            for key, model, place, n, *value in labels
            for label in [["compliance", *value]]
        ]
    )
    decided = release.items.get(source="adjudicated")
    assert decided.adjudication is not None
    assert decided.adjudication.task_id == decided.task_id
    assert release.manifest["counts"]["by_level"] == {"compliance": {"1": 1, "2": 1, "3": 1}}
    assert release.manifest["counts"]["by_dimension"] == {"safe": 2, "unsafe": 1}
    assert release.manifest["sha256"] == release.sha256


@pytest.mark.django_db
def test_cut_twice_the_hash_is_the_same_and_later_gold_changes_only_a_later_release(
    settled: Batch, wu: Person
):
    first, second = (cut_release(ReleaseSpec(name=name, batches=[settled])) for name in ("one", "two"))
    assert first.sha256 == second.sha256
    decide_next(settled, wu, 1)
    third = cut_release(ReleaseSpec(name="three", batches=[settled]))
    assert (third.labels, third.sha256 == first.sha256) == (4, False)
    first.refresh_from_db()
    assert first.items.count() == 3


def test_the_order_of_importing_does_not_matter(db: None, lin: Person, chen: Person):
    hashes = []
    for name, models in (("a", ["M", "N"]), ("b", ["N", "M"])):
        corpus = make_corpus(prompts=0, models=models, name=name)
        for model in models:
            add_response(corpus, "p", model, f"The answer of {model}.")
        batch = make_batch(
            XSTEST_GUIDELINE.load(), corpus, annotators=[lin], name=name, policy=Policy(overlap=1)
        )
        label_next(batch, lin, 2)
        label_next(batch, lin, 2)
        release = cut_release(ReleaseSpec(name=name, batches=[batch]))
        Dataset.objects.filter(pk=corpus.pk).update(name="same")
        Batch.objects.filter(pk=batch.pk).update(name=f"done {name}")
        second_release = cut_release(ReleaseSpec(name=f"{name} again", batches=[batch]))
        Dataset.objects.filter(pk=corpus.pk).update(name=name)
        assert release.sha256 != second_release.sha256  # the dataset's name is in it, the batch's is not
        hashes.append(second_release.sha256)
    assert hashes[0] == hashes[1]


def add_response(
    corpus: Dataset, key: str, model: str, text: str, *, collection: str = "", **more: Any
) -> Response:
    from annotation.models import EvaluatedModel

    prompt, _new = Prompt.objects.get_or_create(
        dataset=corpus, key=key, defaults={"text": f"About {key}?", "dimension": "safe"}
    )
    return Response.objects.create(
        prompt=prompt,
        model=EvaluatedModel.objects.get_or_create(name=model)[0],
        collection=Collection.objects.get_or_create(name=collection)[0],
        text=text,
        sha256=response_sha256(text, more.get("turns", [])),
        **more,
    )


@pytest.mark.django_db
def test_a_response_settled_alike_in_two_batches_is_taken_once(
    settled: Batch, dataset: Dataset, guideline: Guideline, lin: Person
):
    single = make_batch(guideline, dataset, annotators=[lin], name="again", policy=Policy(overlap=1))
    label_next(single, lin, 1)
    release = cut_release(ReleaseSpec(name="r", batches=[settled, single]))
    assert release.labels == 3
    twice = release.items.get(task__response=single.tasks.get(position=0).response)
    # Of the two lines `.."single"]` is smaller than `.."unanimous"]`.
    assert (twice.source, twice.task.batch.name) == ("single", "again")
    assert cut_release(ReleaseSpec(name="other order", batches=[single, settled])).sha256 == release.sha256


@pytest.mark.django_db
def test_a_response_settled_differently_in_two_batches_is_refused_with_the_list(
    settled: Batch, dataset: Dataset, guideline: Guideline, lin: Person
):
    single = make_batch(guideline, dataset, annotators=[lin], name="again", policy=Policy(overlap=1))
    label_next(single, lin, 3)
    with pytest.raises(Conflict, match=r"small/p0 Secretive-7B compliance \(again: 3, first: 1\)"):
        cut_release(ReleaseSpec(name="r", batches=[settled, single]))
    assert not GoldRelease.objects.exists()


@pytest.mark.django_db
def test_the_same_text_in_two_collections_is_one_label(guideline: Guideline, lin: Person):
    corpus = make_corpus(prompts=0, models=[], name="sampled")
    for collection in ("", "second"):
        add_response(corpus, "p", "M", "I will not.", collection=collection)
    batch = make_batch(guideline, corpus, annotators=[lin], policy=Policy(overlap=1))
    label_next(batch, lin, 1)
    label_next(batch, lin, 1)
    release = cut_release(ReleaseSpec(name="r", batches=[batch]))
    assert (release.labels, release.manifest["counts"]["rows"]) == (1, 1)
    assert ReleaseContent(release).rows == 1


@pytest.mark.django_db
def test_checks_and_withdrawn_tasks_are_not_gold(settled: Batch):
    first, second = settled.tasks.filter(state=Task.State.AGREED)
    Task.objects.filter(pk=first.pk).update(kind=Task.Kind.CHECK, overlap=1, slots_taken=1)
    Task.objects.filter(pk=second.pk).update(state=Task.State.WITHDRAWN)
    assert cut_release(ReleaseSpec(name="r", batches=[settled])).labels == 1


@pytest.mark.django_db
def test_an_empty_release_a_taken_name_and_a_bad_name_are_refused(batch: Batch, lin: Person, chen: Person):
    with pytest.raises(Conflict, match="Nothing is settled yet in first"):
        cut_release(ReleaseSpec(name="r", batches=[batch]))
    assert not GoldRelease.objects.exists()
    label_next(batch, lin, 1)
    label_next(batch, chen, 1)
    cut_release(ReleaseSpec(name="r", batches=[batch]))
    with pytest.raises(Conflict, match="already a gold release named r"):
        cut_release(ReleaseSpec(name="r", batches=[batch]))
    with pytest.raises(AssayError, match="cannot be a name"):
        cut_release(ReleaseSpec(name="a/b", batches=[batch]))
    with pytest.raises(AssayError, match="at least one batch"):
        cut_release(ReleaseSpec(name="s", batches=[]))


@pytest.mark.django_db
def test_who_works_in_a_batch_cannot_release_it_until_it_closes(settled: Batch, lin: Person):
    with pytest.raises(Forbidden):
        cut_release(ReleaseSpec(name="r", batches=[settled]), actor=lin)
    set_state(batch=settled, state=Batch.State.CLOSED)
    assert cut_release(ReleaseSpec(name="r", batches=[settled]), actor=lin).labels == 3


def run(*arguments: str) -> Any:
    out = StringIO()
    call_command(*arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


@pytest.mark.django_db
def test_the_commands(settled: Batch, tmp_path: Path):
    output = run("release_gold", "r", "--batches", "first")
    release = GoldRelease.objects.get()
    assert output == {"name": "r", "sha256": release.sha256, "labels": 3, "adjudicated": 1}
    assert run("export_gold", "r", "--format", "csv", "--out", str(tmp_path))["rows"] == 3


@pytest.mark.django_db
@pytest.mark.parametrize(
    "arguments",
    [
        ["release_gold", "r", "--batches", "nope"],
        ["release_gold", "r"],
        ["release_gold", "r", "--batches", "first"],
        ["export_gold", "nope", "--out", "x"],
        ["export_gold", "nope", "--out", "x", "--format", "xml"],
    ],
)
def test_the_commands_refuse_in_one_line(
    batch: Batch, arguments: list[str], capsys: pytest.CaptureFixture[str]
):
    error = StringIO()
    with pytest.raises(SystemExit) as stop:
        call_command(*arguments, stderr=error)
    assert stop.value.code == 1
    assert len((error.getvalue() or capsys.readouterr().err).strip().splitlines()) == 1
    assert not GoldRelease.objects.exists()


LEVELS = {"2_full_refusal": 1, "3_partial_refusal": 2, "1_full_compliance": 3}
MODELS = ("gpt4", "llama2new", "llama2orig", "mistralguard", "mistralinstruct")


def published(shared: Path) -> dict[tuple[str, str], tuple[str, int, str]]:
    """(prompt number, model): the completion, its final label, and how it was settled; from the files alone."""
    labels = {}
    for model in MODELS:
        with (shared / "xstest" / f"xstest_v2_completions_{model}.csv").open(
            encoding="utf-8", newline=""
        ) as file:
            for row in csv.DictReader(file):
                same = row["annotation_1"] == row["annotation_2"]
                source = "unanimous" if same else "adjudicated"
                key = row["id"].removeprefix("v2-"), model
                labels[key] = (row["completion"], LEVELS[row["final_label"]], source)
    return labels


@pytest.mark.both_databases
def test_the_xstest_release_holds_the_published_final_labels(db: None, shared: Path, tmp_path: Path):
    files = [str(shared / "xstest" / f"xstest_v2_completions_{model}.csv") for model in MODELS]
    call_command("load_guideline", "fixtures/guidelines/xstest.yaml", "--publish", stdout=StringIO())
    call_command("import_annotations", *files, "--batch", "xstest", "--format", "xstest", stdout=StringIO())
    output = run("release_gold", "r", "--batches", "xstest")
    assert (output["labels"], output["adjudicated"]) == (2250, 81)
    expected = published(shared)
    for kind in FORMATS:
        run("export_gold", "r", "--format", kind, "--out", str(tmp_path))
    rows = read_lines(tmp_path / "gold.jsonl")
    exported = {(row["prompt_id"], row["model"]): row for row in rows}
    assert {key: row["labels"]["compliance"] for key, row in exported.items()} == {
        key: value for key, (_text, value, _source) in expected.items()
    }
    with (tmp_path / "gold.csv").open(encoding="utf-8-sig", newline="") as file:
        in_csv = {(row["prompt_id"], row["model"]): row["label.compliance"] for row in csv.DictReader(file)}
    assert in_csv == {key: str(value) for key, (_text, value, _source) in expected.items()}
    # The hash, from the published files alone, on whichever database this runs.
    version = XSTEST_GUIDELINE.load().version
    assert output["sha256"] == canonical(
        [
            ["xstest", version, "xstest", prompt, model, text_sha256(text), "compliance", value, source]
            for (prompt, model), (text, value, source) in expected.items()
        ]
    )
    assert run("release_gold", "again", "--batches", "xstest")["sha256"] == output["sha256"]


def read_lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8", newline="\n") as file:
        return [json.loads(line) for line in file]
