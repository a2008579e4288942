"""Logs that Inspect 0.3.285 and lm-evaluation-harness 0.4.13 wrote themselves, of our own questions and mock models."""

from __future__ import annotations

import json
import shutil
import zipfile
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.urls import reverse

from annotation.core.errors import InputError
from annotation.domain.formats import Guess, ResponseRecord, Source, get_format, guess_format
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import (
    Assignment,
    Batch,
    Dataset,
    GoldLabel,
    Guideline,
    Import,
    Person,
    Prompt,
    Response,
)
from annotation.services import jobs
from annotation.services.batches.batches import set_state
from annotation.services.releases import cut_release
from benchmark.models import Judge
from tests.annotation.services.test_imports import command
from tests.annotation.views.test_work_pages import send, visit
from tests.support import make_batch, read_introduction

LOGS = Path(__file__).parent.parent / "harness_logs"
TIME = "2026-11-23T19-51-47.909602"
RIVERS, FRUITS = f"samples_rivers_{TIME}.jsonl", f"samples_fruits_{TIME}.jsonl"


def run(name: str, *arguments: str) -> Any:
    out = StringIO()
    call_command(name, *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def read(name: str, format_name: str = "inspect") -> list[ResponseRecord]:
    return list(get_format(format_name).read_responses(Source(LOGS / name)))


@pytest.mark.parametrize(
    ("name", "format_name"),
    [
        ("questions.eval", "inspect"),
        ("options.eval", "inspect"),
        ("options.json", "inspect"),
        (RIVERS, "lm_eval"),
        (FRUITS, "lm_eval"),
    ],
)
def test_a_log_is_known_by_its_content(name: str, format_name: str, tmp_path: Path) -> None:
    shutil.copy(LOGS / name, tmp_path / "upload")
    assert guess_format(Source(tmp_path / "upload")) == Guess(format_name, "responses")


def test_inspect_compresses_its_logs_by_zstandard() -> None:
    with zipfile.ZipFile(LOGS / "questions.eval") as log:
        assert {member.compress_type for member in log.infolist()} == {93}


def test_epochs_are_collections_in_the_order_of_the_samples() -> None:
    assert [(r.ref.id, r.collection, r.text) for r in read("questions.eval")] == [
        ("capital", "epoch 1", "It is Paris."),
        ("capital", "epoch 2", "Lyon."),
        ("capital", "epoch 3", "Paris"),
        ("river", "epoch 1", "长江。"),
        ("river", "epoch 2", "黄河。"),
        ("river", "epoch 3", "我不知道"),
    ]


def test_choices_stand_under_their_question_in_both_kinds_of_log() -> None:
    records = read("options.eval")
    assert [record.ref.text for record in records] == [
        "Which is a fruit?\n\nA) Stone\nB) Apple\nC) Chair",
        "Which are metals?\n\nA) Iron\nB) Wood\nC) Tin",
    ]
    assert [(r.ref, r.text, r.model) for r in read("options.json")] == [
        (r.ref, r.text, r.model) for r in records
    ]


def test_a_call_of_a_tool_is_a_turn_with_its_answer() -> None:
    (record,) = read("sums.eval")
    assert [dict(turn) for turn in record.turns] == [
        {"role": "assistant", "text": "tool call for tool add"},
        {"role": "tool", "text": 'add({"x": 2, "y": 3})\n5'},
        {"role": "assistant", "text": "It is 5."},
    ]


def test_a_response_that_the_limit_cut_off_says_so(tmp_path: Path) -> None:
    log = json.loads((LOGS / "options.json").read_text())
    log["samples"][0]["output"]["choices"][0]["stop_reason"] = "max_tokens"
    source = Source(tmp_path / "log.json")
    source.path.write_text(json.dumps(log))
    assert [record.is_cut for record in get_format("inspect").read_responses(source)] == [True, False]


def test_repeats_are_epochs_and_the_likeliest_choice_is_the_answer() -> None:
    assert [(r.ref.id, r.collection, r.text, r.model) for r in read(RIVERS, "lm_eval")] == [
        ("rivers-0", "epoch 1", "lol", "dummy"),
        ("rivers-0", "epoch 2", "lol", "dummy"),
        ("rivers-1", "epoch 1", "lol", "dummy"),
        ("rivers-1", "epoch 2", "lol", "dummy"),
    ]
    assert [(r.ref.id, r.collection, r.text) for r in read(FRUITS, "lm_eval")] == [
        ("fruits-0", None, "Stone"),
        ("fruits-1", None, "苹果"),
    ]


def test_a_sample_that_failed_is_left_out_and_counted(tmp_path: Path) -> None:
    log = json.loads((LOGS / "options.json").read_text())
    log["samples"][0]["error"] = {"message": "the endpoint is gone"}
    source = Source(tmp_path / "log.json")
    source.path.write_text(json.dumps(log))
    assert [record.ref.id for record in get_format("inspect").read_responses(source)] == ["2"]
    assert [number for words, number in source.passed_over.items() if "failed" in words] == [1]


def test_what_is_measured_of_a_given_text_is_no_response(tmp_path: Path) -> None:
    line = json.loads((LOGS / FRUITS).read_text().splitlines()[0])
    line["arguments"] = {"gen_args_0": line["arguments"]["gen_args_0"]}
    line["resps"] = line["resps"][:1]
    source = Source(tmp_path / "samples.jsonl")
    source.path.write_text(json.dumps(line))
    assert list(get_format("lm_eval").read_responses(source)) == []
    assert [number for words, number in source.passed_over.items() if "how likely" in words] == [1]


@pytest.mark.parametrize("member", ["header.json", "samples/1_epoch_1.json"])
def test_a_broken_log_is_refused(tmp_path: Path, member: str) -> None:
    content = bytearray((LOGS / "sums.eval").read_bytes())
    with zipfile.ZipFile(LOGS / "sums.eval") as log:
        middle = log.getinfo(member).header_offset + log.getinfo(member).compress_size // 2
    content[middle : middle + 8] = b"\0" * 8
    source = Source(tmp_path / "broken.eval")
    source.path.write_bytes(content)
    with pytest.raises(InputError, match="broken"):
        list(get_format("inspect").read_responses(source))


@pytest.mark.usefixtures("db")
def test_one_command_brings_everything_and_says_what_it_left_out() -> None:
    file = str(LOGS / "questions.eval")
    report = run("import_responses", file, "--dataset", "harness", "--format", "inspect")
    assert (report["taken"], report["made"]) == (6, {"datasets": 1, "prompts": 2, "models": 1})
    notes = " ".join(report["notes"])
    assert "6 samples were asked with a system message" in notes
    assert "temperature=0.7" in notes
    assert Import.objects.get().options["settings"] == {"temperature": 0.7, "max_tokens": 64}
    assert set(Response.objects.values_list("model__name", flat=True)) == {"mockllm/model"}
    repeated = run("import_responses", file, "--dataset", "harness", "--format", "inspect")
    assert (repeated["taken"], repeated["already_there"]) == (0, 6)
    named = ("--dataset", "harness", "--format", "inspect", "--collection", "May")
    assert run("import_responses", file, *named)["taken"] == 6
    names = set(Response.objects.values_list("collection__name", flat=True))
    assert names == {f"{of}epoch {number}" for of in ("", "May ") for number in (1, 2, 3)}


@pytest.mark.parametrize(("name", "responses"), [("sums.eval", 1), ("options.json", 2), (FRUITS, 2)])
def test_a_log_comes_in_by_one_upload(ma: Person, name: str, responses: int) -> None:
    client = visit(ma).client
    file = SimpleUploadedFile(name, (LOGS / name).read_bytes())
    page = client.post(reverse("import-new"), {"file": file})["Location"]
    upload = Import.objects.get()
    data = {"kind": upload.kind, "format": upload.format, "dataset": "logs", "model": "mockllm/model"}
    answer = client.post(f"{page}confirm/", data)
    assert answer.status_code == 302, answer.content.decode()
    upload.refresh_from_db()
    assert upload.job is not None
    jobs.run_now(upload.job)
    assert Response.objects.filter(prompt__dataset__name="logs").count() == responses


def test_without_its_results_a_log_of_lm_eval_needs_the_model(db: None, tmp_path: Path) -> None:
    shutil.copy(LOGS / RIVERS, tmp_path / "samples.jsonl")
    arguments = [str(tmp_path / "samples.jsonl"), "--dataset", "d", "--format", "lm_eval"]
    code, _out, error = command("import_responses", *arguments)
    assert code == 1
    assert "--model" in error
    run("import_responses", *arguments, "--model", "Qwen/Qwen2.5-7B-Instruct")
    assert Prompt.objects.filter(responses__model__name="Qwen/Qwen2.5-7B-Instruct", key="0").exists()


@pytest.mark.parametrize(
    ("name", "format_name", "judge", "levels", "texts"),
    [
        (
            "sums.eval",
            "inspect",
            "inspect/includes",
            ["C=3", "I=1"],
            ["Tool", "&quot;y&quot;: 3}", "It is 5."],
        ),
        (FRUITS, "lm_eval", "lm_eval/acc", ["0=1", "1=3"], ["A) Stone", "B) 椅子", "苹果"]),
    ],
)
def test_a_log_is_labelled_in_the_browser_and_released(
    guideline: Guideline,
    lin: Person,
    chen: Person,
    name: str,
    format_name: str,
    judge: str,
    levels: list[str],
    texts: list[str],
) -> None:
    place = ("--dataset", "harness", "--format", format_name)
    run("import_responses", str(LOGS / name), *place)
    scores = ("--guideline", "xstest", "--levels", *levels)
    run("import_judge_labels", str(LOGS / name), *place, *scores)
    labels = Judge.objects.get(name=judge).labels.order_by("response__prompt__key")
    assert [label.value for label in labels] == ([3.0] if format_name == "inspect" else [1.0, 3.0])
    assert '"target"' in labels[0].said
    batch = make_batch(guideline, Dataset.objects.get(name="harness"), annotators=[lin, chen])
    read_introduction(batch)
    for person in (lin, chen):
        visitor, pages = visit(person), ""
        for _task in batch.tasks.all():
            pages += visitor.get(f"/work/{batch.name}/").content.decode()
            claimed = Assignment.objects.get(person=person, state=Assignment.State.CLAIMED)
            assert send(visitor, claimed).status_code in {200, 302}
        assert all(text in pages for text in texts)
        assert "mockllm" not in pages
    set_state(batch=Batch.objects.get(pk=batch.pk), state=Batch.State.CLOSED)
    release = cut_release(ReleaseSpec(name="of-a-log", batches=[batch]))
    assert GoldLabel.objects.filter(task__batch=batch, value=3).count() == Response.objects.count()
    assert release.sha256
