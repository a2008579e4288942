"""Every command, given something bad: one clear line, exit code 1, nothing stored."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr
from io import StringIO
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command, get_commands, load_command_class
from django.db import connection, transaction

from annotation.models import AuditEvent
from tests.support import FIXTURES, first_batch

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("batch")]

# A good line of each kind of file, for the seventh line to be bad after six good ones.
PROMPT = {"prompt": "Is it?", "dimension": "safe"}
RESPONSE = {"prompt": "Is it?", "model": "M", "response": "It is."}
ROW = {"model": "M", "dimension": "Fairness", "predicted": 3}
XSTEST_HEADER = "id,type,prompt,completion,annotation_1,annotation_2,agreement,final_label\n"

FILE_COMMANDS: dict[str, list[str]] = {
    "load_guideline": [],
    "import_prompts": ["--dataset", "new", "--format", "jsonl"],
    "import_responses": ["--dataset", "small", "--format", "jsonl"],
    "import_annotations": ["--batch", "first", "--format", "jsonl"],
    "import_bundle": [],
    "leaderboard": ["--guideline", "flames"],
    "regression_cases": ["--guideline", "xstest"],
    "import_published": ["--guideline", "xstest", "--dataset", "none", "--name", "T", "--source", "A paper"],
    "import_questions": ["--dataset", "new", "--format", "fine"],
    "import_judge_labels": [
        *("--judge", "j", "--guideline", "xstest", "--dataset", "small", "--model", "Hidden-13B"),
        *("--format", "jsonl"),
    ],
    "import_proposals": ["--campaign", "spring", "--format", "jsonl"],
}
BEFORE_A_FILE = {"leaderboard": ["--from-file"], "regression_cases": ["add", "--file"]}
CAMPAIGN = [
    *("--dataset", "small", "--guideline", "xstest", "--success", "compliance=3"),
    *("--target", "M=http://127.0.0.1:9/v1", "--wanted", "1"),
]
UNKNOWN: dict[str, list[list[str]]] = {
    "backup": [[], ["docs"], ["README.md"], ["README.md/backup"]],
    "restore": [[], ["nowhere"], ["docs"], ["docs", "--check"], ["README.md"]],
    "clean_up": [["everything"]],
    "add_study": [["default"], ["a/b"], ["new", "--managers", "nobody"]],
    "audit_trail": [
        ["--head", "1:ab"],
        ["--verify", "--head", "1:ab"],
        ["--verify", "--head", "x:" + "0" * 64],
    ],
    "list_permissions": [],
    "send_test_mail": [[], ["lin"], ["lin@example.org"]],
    "jobs": [
        ["stop"],
        ["list", "--state", "lost"],
        ["list", "--limit", "0"],
        ["retry"],
        ["retry", "999999"],
        ["cancel"],
        ["cancel", "999999"],
        ["cancel", "first"],
    ],
    "archive_study": [["nowhere"], []],
    "delete_study": [["nowhere"], ["nowhere", "--yes"], ["default"], []],
    "erase_person": [["nobody"], ["nobody", "--yes"], []],
    "doctor": [["--only", "weather"]],
    "allow_password": [["nobody"], ["lin"], ["lin", "--minutes", "0"], ["lin", "--minutes", "100000"]],
    "set_roles": [["nobody"], ["lin", "--roles", "king"], ["lin", "--study", "nowhere"]],
    "add_person": [
        ["lin"],
        ["new", "--groups", "king"],
        ["a/b", "--groups", "annotator"],
        [".."],
        ["new", "--languages", "Chinese language"],
        ["new", "--own-models", "none"],
    ],
    "create_batch": [
        ["b", "--guideline", "none", "--dataset", "small", "--annotators", "lin", "chen"],
        ["b", "--guideline", "xstest", "--dataset", "none", "--annotators", "lin", "chen"],
        [
            "b",
            "--guideline",
            "xstest",
            "--dataset",
            "small",
            "--models",
            "none",
            "--annotators",
            "lin",
            "chen",
        ],
        ["b", "--guideline", "xstest", "--dataset", "small", "--annotators", "lin"],
        ["b", "--guideline", "xstest", "--dataset", "small", "--annotators", "lin", "nobody"],
        ["b", "--guideline", "xstest", "--dataset", "small", "--annotators", "lin", "chen", "--overlap", "9"],
        ["first", "--guideline", "xstest", "--dataset", "small", "--annotators", "lin", "chen"],
        ["b", "--guideline", "xstest", "--dataset", "small", "--agreement-threshold", "2"],
        ["b", "--guideline", "xstest", "--dataset", "small", "--alarm", "shout"],
        ["b", "--guideline", "xstest", "--dataset", "small", "--draft", "--from", "no-such-file.csv"],
        ["b", "--guideline", "none", "--dataset", "new", "--draft", "--from", "README.md"],
        ["b", "--guideline", "xstest", "--dataset", "small", "--draft", "--format", "csv"],
        ["b", "--guideline", "xstest", "--dataset", "small", "--draft", "--model", "Hidden-13B"],
        *(
            ["b", "--guideline", "xstest", "--dataset", "small", "--annotators", "lin", "chen", *bad]
            for bad in (
                ["--tolerance", "nan"],
                ["--tolerance", "inf"],
                ["--lease", "0"],
                ["--lease", "1000000000000"],
                ["--pairing", "circle"],
                ["--order", "backwards"],
                ["--seed", "-1"],
                ["--seed", "first"],
                ["--pairing", "fixed"],
                ["--pairs", "lin+chen"],
                ["--pairing", "fixed", "--pairs", "lin+nobody"],
                ["--pairing", "fixed", "--pairs", "lin+chen+zhou"],
                ["--pairing", "fixed", "--pairs", "lin+lin"],
                ["--quota", "many"],
                ["--quota", "0"],
                ["--quota", "lin=-1"],
                ["--quota", "nobody=5"],
                ["--quota", "wu=5"],
                ["--pairing", "balanced", "--quota", "7"],
                ["--pairing", "fixed", "--pairs", "lin+chen", "--quota", "chen=7"],
                ["--exclude", "lin"],
                ["--exclude", "lin=weather"],
                ["--exclude", "nobody=safe"],
                ["--check-share", "0.6"],
                ["--qualifying", "luck", "--qualifying-threshold", "0.5"],
                ["--qualifying", "kappa"],
                ["--qualifying", "kappa", "--qualifying-threshold", "0.5"],
            )
        ),
    ],
    "add_gold_questions": [
        ["first"],
        ["none", "--from-batches", "first"],
        ["first", "--from-batches", "first"],
        ["first", "--from-release", "none"],
        ["first", "--file", "none.jsonl"],
        ["first", "--kind", "luck", "--file", str(FIXTURES / "demo" / "prompts.jsonl")],
        ["first", "--file", str(FIXTURES / "demo" / "prompts.jsonl")],
        ["first", "--from-batches", "first", "--sources", "rumour"],
    ],
    "import_prompts": [[str(FIXTURES / "demo" / "prompts.jsonl"), "--dataset", "new", "--format", "none"]],
    "import_responses": [
        [str(FIXTURES / "demo" / "responses.jsonl"), "--dataset", "none", "--format", "jsonl"]
    ],
    "import_annotations": [
        [str(FIXTURES / "demo" / "annotations.jsonl"), "--batch", "none", "--format", "jsonl"],
        [str(FIXTURES / "demo" / "annotations.jsonl"), "--batch", "first", "--format", "none"],
    ],
    "import_bundle": [
        [],
        [str(FIXTURES / "demo" / "annotations.jsonl")],
        [str(FIXTURES / "demo" / "annotations.jsonl"), "--as-batch", "a/b"],
    ],
    "agreement": [["--batch", "none"], ["--by", "weather"]],
    "end_collection": [[], ["none"], ["first"]],
    "aggregate_labels": [
        [],
        ["--batch", "none"],
        ["--batch", "first", "--method", "luck"],
        ["--batch", "first", "--out", str(FIXTURES)],
    ],
    "people_quality": [["--batch", "none"]],
    "report": [[], ["--batches", "none"], ["--release", "none"], ["--batches", "first", "--release", "none"]],
    "release_gold": [
        ["r", "--batches", "none"],
        ["r", "--batches", "first"],
        ["r", "--batches", "first", "--supersedes", "none"],
        ["a/b", "--batches", "first", "--detach"],
    ],
    "compare_releases": [["none", "none"]],
    "plan_study": [
        [],
        ["--half-width", "2"],
        ["--difference", "10", "--rate", "120"],
        ["--half-width", "0.1", "--shares", "a"],
    ],
    "confirm_closing": [["none"], ["first"]],
    "export_gold": [
        ["none", "--format", "jsonl", "--out", "OUT"],
        ["none", "--format", "none", "--out", "OUT"],
        ["none", "--format", "labels", "--table", "xml", "--out", "OUT"],
    ],
    "train_scorer": [
        ["s", "--release", "none"],
        ["s", "--release", "none", "--set", "batch_size=8"],
        ["s", "--release", "none", "--encoder", "a/b", "--tuning", "full", "--set", "batch_size"],
    ],
    "score_responses": [["--scorer", "none", "--dataset", "small"]],
    "check_drift": [["--scorer", "none", "--model", "M"], ["--scorer", "none", "--model", "none"]],
    "promote_scorer": [[], ["none"], ["--back", "none"], ["--back", "xstest"], ["none", "--back", "xstest"]],
    "export_scorer": [["none", "--out", "OUT"]],
    "regression_cases": [
        ["list", "--guideline", "none"],
        ["keep", "--guideline", "xstest"],
        ["remove", "--guideline", "xstest"],
        ["remove", "7", "--guideline", "xstest"],
        ["add", "--guideline", "xstest"],
        *(
            ["add", "--guideline", "xstest", "--dataset", "small", "--prompt", "p0", "--model", *rest]
            for rest in (
                ["none"],
                ["Hidden-13B", "--criterion", "none"],
                ["Hidden-13B", "--refused", "9"],
                ["Hidden-13B", "--refused", "1", "2", "3"],
                ["Hidden-13B", "--collection", "none"],
            )
        ),
    ],
    "run_benchmark": [["r", "--scorer", "none", "--dataset", "small"]],
    "correlate": [
        [],
        ["--release", "none"],
        ["--release", "r1", "--level", "prompt"],
        ["--release", "r1", "--metrics", "nowhere.csv"],
        ["--release", "r1", "--judges", "none"],
        ["--release", "r1", "--scorers", "none"],
    ],
    "compare_boards": [["--metric", "none"]],
    "compare_forms": [
        [],
        ["--run", "none", "--report", "none"],
        ["--run", "none"],
        ["--report", "none"],
    ],
    "create_campaign": [
        [],
        ["spring", *CAMPAIGN],
        ["..", *CAMPAIGN],
        *(
            ["c", *CAMPAIGN, *bad]
            for bad in (
                ["--dataset", "none"],
                ["--guideline", "none"],
                ["--success", "compliance"],
                ["--success", "compliance=9"],
                ["--success", "harm=1"],
                ["--success", "compliance=1", "compliance=2"],
                ["--target", "N"],
                ["--target", "N=127.0.0.1:9"],
                ["--target", "N=https://user:key@api.example.com/v1"],
                ["--target", "M=http://127.0.0.1:9/v1"],
                [word for n in range(5) for word in ("--target", f"N{n}=http://127.0.0.1:9/v1")],
                ["--wanted", "0"],
                ["--wanted", "some"],
                ["--per-person", "0"],
                ["--quotas", "quotas.csv"],
                ["--authors", "nobody"],
                ["--authors", "lin", "--reviewers", "lin"],
                ["--languages", ","],
                ["--requests", "0"],
                ["--requests-per-person", "-1"],
                ["--warn-jaccard", "0.9"],
                ["--block-edit", "2"],
                ["--disclosure-en", "@nowhere.txt"],
                ["--temperature", "nan"],
                ["--set", 'api_key="x"'],
                ["--timeout", "0"],
                ["--open"],
            )
        ),
    ],
    "import_proposals": [
        [],
        [str(FIXTURES / "demo" / "prompts.jsonl"), "--campaign", "none"],
        [str(FIXTURES / "demo" / "prompts.jsonl"), "--campaign", "spring"],
        [str(FIXTURES / "demo" / "prompts.jsonl"), "--campaign", "spring", "--format", "none"],
        [str(FIXTURES / "demo" / "prompts.jsonl"), "--campaign", "spring", "--malice", "some"],
        [str(FIXTURES / "demo" / "prompts.jsonl"), "--campaign", "spring", "--map", "author"],
        [
            *(str(FIXTURES / "demo" / "prompts.jsonl"), "--campaign", "spring"),
            *("--format", "table", "--map", "author=nobody"),
        ],
    ],
    "campaign_report": [[], ["none"]],
    "export_campaign": [
        ["spring"],
        ["none", "--out", "OUT"],
        ["spring", "--format", "none", "--out", "OUT"],
        ["spring", "--out", "README.md"],
    ],
    "make_slates": [
        ["s", "--dataset", "none"],
        ["a/b", "--dataset", "small"],
        ["s", "--dataset", "small", "--models", "nobody"],
        ["s", "--dataset", "small", "--pairs", "some"],
    ],
    "make_expert_responses": [["none"], ["first"]],
    "preference_board": [["none"], ["none", "--labels", "whose"]],
    "make_questions": [
        [],
        ["out.jsonl"],
        *(
            ["out.jsonl", "--release", *rest]
            for rest in (
                ["none", "--safe", "compliance>=3", "--unsafe", "compliance<=1"],
                ["r1", "--safe", "compliance", "--unsafe", "compliance<=1"],
                ["r1", "--safe", "harm>=3", "--unsafe", "compliance<=1"],
                ["r1", "--safe", "compliance>=2", "--unsafe", "compliance<=2"],
            )
        ),
    ],
    "make_dialogues": [
        [],
        ["r"],
        *(
            ["r", "--dataset", "small", "--model", "M", "--agent", "A", "--endpoint", *rest]
            for rest in (
                ["127.0.0.1:9"],
                ["http://127.0.0.1:9/v1", "--agent-endpoint", "https://user:key@api.example.com/v1"],
                ["http://127.0.0.1:9/v1", "--rounds", "0"],
                ["http://127.0.0.1:9/v1", "--rounds", "51"],
                ["http://127.0.0.1:9/v1", "--agent-temperature", "nan"],
                ["http://127.0.0.1:9/v1", "--agent-set", "stream=true"],
                ["http://127.0.0.1:9/v1", "--template", "@nowhere.txt"],
                ["http://127.0.0.1:9/v1", "--opening", " "],
                ["http://127.0.0.1:9/v1", "--collection", ".."],
                ["http://127.0.0.1:9/v1", "--concurrency", "0"],
            )
        ),
        ["r", "--dataset", "none", "--model", "M", "--agent", "A", "--endpoint", "http://127.0.0.1:9/v1"],
        ["..", "--dataset", "small", "--model", "M", "--agent", "A", "--endpoint", "http://127.0.0.1:9/v1"],
        ["r", "--dataset", "small", "--model", "M", "--agent", "..", "--endpoint", "http://127.0.0.1:9/v1"],
    ],
    "collect_responses": [
        [],
        ["--model", "M", "--dataset", "none", "--endpoint", "http://127.0.0.1:9/v1"],
        ["--model", "..", "--dataset", "small", "--endpoint", "http://127.0.0.1:9/v1"],
        *(
            ["--model", "M", "--dataset", "small", "--endpoint", *rest]
            for rest in (
                ["127.0.0.1:9"],
                ["https://user:key@api.example.com/v1"],
                ["https://api.example.com/v1?key=1"],
                ["http://127.0.0.1:9/v1", "--collection", ".."],
                ["http://127.0.0.1:9/v1", "--temperature", "hot"],
                ["http://127.0.0.1:9/v1", "--temperature", "nan"],
                ["http://127.0.0.1:9/v1", "--max-tokens", "0"],
                ["http://127.0.0.1:9/v1", "--concurrency", "0"],
                ["http://127.0.0.1:9/v1", "--timeout", "inf"],
                ["http://127.0.0.1:9/v1", "--set", "top_k"],
                ["http://127.0.0.1:9/v1", "--set", "top_k={"],
                ["http://127.0.0.1:9/v1", "--set", 'api_key="x"'],
                ["http://127.0.0.1:9/v1", "--set", "stream=true"],
                ["http://127.0.0.1:9/v1", "--seed", "1", "--set", "seed=2"],
                ["http://127.0.0.1:9/v1", "--system", "@nowhere.txt"],
            )
        ),
    ],
    "judge_responses": [
        ["j", "--dataset", "small"],
        *(
            ["j", "--endpoint", endpoint, "--served-model", "m", "--guideline", "xstest", *rest]
            for endpoint, *rest in (
                ["127.0.0.1:9", "--dataset", "small"],
                ["http://127.0.0.1:9/v1", "--dataset", "none"],
                ["http://127.0.0.1:9/v1", "--dataset", "small", "--models", "none"],
                ["http://127.0.0.1:9/v1", "--dataset", "small", "--template", "9"],
                ["http://127.0.0.1:9/v1", "--dataset", "small", "--concurrency", "0"],
                ["http://127.0.0.1:9/v1", "--dataset", "small", "--timeout", "nan"],
                ["http://127.0.0.1:9/v1", "--dataset", "small", "--set", 'api_key="x"'],
            )
        ),
    ],
    "import_judge_labels": [
        [str(FIXTURES / "demo" / "prompts.jsonl"), "--judge", "j", *rest]
        for rest in (
            ["--guideline", "none", "--dataset", "small", "--format", "jsonl"],
            ["--guideline", "xstest", "--dataset", "none", "--format", "jsonl"],
            ["--guideline", "xstest", "--dataset", "small", "--format", "flames"],
            ["--guideline", "xstest", "--dataset", "small", "--format", "jsonl", "--collection", "none"],
            ["--guideline", "xstest", "--dataset", "small", "--format", "jsonl"],
            ["--guideline", "xstest", "--dataset", "small", "--format", "inspect"],
            ["--guideline", "xstest", "--dataset", "small", "--format", "lm_eval", "--levels", "C"],
        )
    ],
    "compare_judges": [["--release", "none"], []],
    "leaderboard": [["none"], []],
    "plan_labels": [["none"], ["none", "--points", "0"], ["none", "--pair", "A", "B"]],
    "retrain": [["--release", "none"]],
    "import_published": [
        [
            str(FIXTURES / "demo" / "prompts.jsonl"),
            *("--guideline", "none", "--dataset", "none"),
            "--name",
            "T",
            "--source",
            "A paper",
        ],
        [
            str(FIXTURES / "demo" / "prompts.jsonl"),
            *("--guideline", "xstest", "--dataset", "none"),
            "--name",
            "T",
            "--source",
            "A paper",
        ],
        [str(FIXTURES / "demo" / "prompts.jsonl"), "--guideline", "xstest"],
    ],
    "import_questions": [
        [],
        [str(FIXTURES / "demo" / "prompts.jsonl"), "--dataset", "new", "--format", "none"],
        [str(FIXTURES / "demo" / "prompts.jsonl"), "--dataset", "new", "--format", "fine"],
        [
            *(str(FIXTURES / "demo" / "prompts.jsonl"), "--dataset", "new", "--format", "fine"),
            *("--language", "fr"),
        ],
    ],
    "multiple_choice_report": [
        [],
        ["none"],
        ["none", "--make-batch"],
        ["r", "--dataset", "small"],
        ["r", "--kind", "fine"],
        ["r", "--kind", "none", "--dataset", "small"],
        ["r", "--kind", "fine", "--dataset", "none"],
        ["r", "--kind", "fine", "--dataset", "small"],
        ["r", "--kind", "fine", "--dataset", "small", "--collection", "none"],
        ["r", "--kind", "fine", "--dataset", "small", "--judge", "none"],
        ["r", "--kind", "fine", "--dataset", "small", "--scorer", "none"],
        ["r", "--kind", "cvalues", "--dataset", "small", "--models", "none"],
        ["r", "--kind", "cvalues", "--dataset", "small", "--annotators", "nobody"],
    ],
    "load_guideline": [],
    "demo": [["--port", "eighty"]],
}


def _write(folder: Path, name: str, content: str | bytes) -> str:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


BAD_FILES: dict[str, Callable[[Path], str]] = {
    "missing": lambda folder: str(folder / "nowhere.jsonl"),
    "a name too long for any file": lambda _folder: "a" * 300,
    "folder": str,
    "empty": lambda folder: _write(folder, "empty.jsonl", ""),
    "binary": lambda folder: _write(folder, "binary.jsonl", bytes(range(256)) * 20),
    "not UTF-8": lambda folder: _write(folder, "gbk.jsonl", '{"prompt": "你好"}\n'.encode("gb18030")),
}


@pytest.fixture(scope="module", autouse=True)
def _first_batch(module_db: None) -> None:
    """The batch ``first`` and what it is of, and the campaign ``spring``, for all tests: none of them may change
    anything.
    """
    first_batch()
    call_command("create_campaign", "spring", *CAMPAIGN, stdout=StringIO())


def counts() -> dict[str, int]:
    """How many rows each table of ours holds, by one query."""
    tables = [
        model._meta.db_table
        for app in ("annotation", "scoring", "benchmark")
        for model in apps.get_app_config(app).get_models()
        if model is not AuditEvent
    ]
    each = (f"SELECT '{table}', count(*) FROM {table}" for table in tables)  # noqa: S608 (names of our own)
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(each))
        return dict(cursor.fetchall())


def refused(command: str, arguments: list[str]) -> str:
    """The one line with which the command refuses; it must leave every table as it was."""
    before = counts()
    err = StringIO()
    with pytest.raises(SystemExit) as exit_, redirect_stderr(err):
        call_command(command, *arguments, stderr=err)
    assert exit_.value.code == 1
    assert counts() == before
    lines = [line for line in err.getvalue().splitlines() if line.strip()]
    assert len(lines) == 1, lines
    return lines[0]


def wrong(check: Callable[..., None], cases: Iterable[tuple[Any, ...]]) -> list[str]:
    """The cases that do not pass the check, each with what it said. What one stores is not there for the next."""
    faults = []
    for case in cases:
        with transaction.atomic():
            try:
                check(*case)
            except (Exception, pytest.fail.Exception) as error:
                faults.append(f"{case}: {error!r}")
            transaction.set_rollback(True)
    return faults


def test_every_command_is_in_the_tables_above():
    ours = {
        name
        for name, app in get_commands().items()
        if app in {"annotation", "scoring", "benchmark"} and not load_command_class(app, name).former_name
    }
    assert ours == set(UNKNOWN)


@pytest.mark.parametrize("command", sorted(FILE_COMMANDS))
def test_a_bad_file_is_named(command: str, tmp_path: Path):
    def check(kind: str) -> None:
        path = BAD_FILES[kind](tmp_path)
        assert path in refused(command, [*BEFORE_A_FILE.get(command, []), path, *FILE_COMMANDS[command]])

    assert wrong(check, ((kind,) for kind in BAD_FILES)) == []


@pytest.mark.parametrize(
    ("command", "good"),
    [("import_prompts", PROMPT), ("import_responses", RESPONSE), ("leaderboard", ROW)],
)
def test_what_is_wrong_on_line_7_is_found_there(command: str, good: dict[str, object], tmp_path: Path):
    lines = [json.dumps(good | ({"prompt": f"Is it {n}?"} if "prompt" in good else {})) for n in range(6)]
    if command == "import_responses":
        lines = [json.dumps(RESPONSE | {"prompt_id": f"p{n % 4}", "model": f"M{n}"}) for n in range(6)]

    def check(seventh: str) -> None:
        path = _write(tmp_path, "seven.jsonl", "\n".join([*lines, seventh]) + "\n")
        option = BEFORE_A_FILE.get(command, [])
        assert f"{path}:7" in refused(command, [*option, path, *FILE_COMMANDS[command]])

    assert wrong(check, [("{not json",), ('["a", "list"]',), ("{}",)]) == []


def test_a_wrong_column_is_named(tmp_path: Path):
    def check(command: str, format_: str) -> None:
        text = "colour,shape\nred,round\n" if format_ in {"csv", "xstest"} else '{"colour": "red"}\n'
        path = _write(tmp_path, f"wrong.{format_}", text)
        place = ["--batch", "first"] if command == "import_annotations" else ["--dataset", "small"]
        line = refused(command, [path, *place, "--format", format_])
        assert path in line or (command, format_) == ("import_annotations", "flames")  # which has none

    commands = ("import_prompts", "import_responses", "import_annotations")
    assert wrong(check, product(commands, ("jsonl", "csv", "flames", "xstest"))) == []


def test_a_label_off_the_scale_is_named_with_its_line(tmp_path: Path):
    good = "1,homonyms,Is it?,It is.,1_full_compliance,1_full_compliance,True,1_full_compliance\n"
    bad = "2,homonyms,Was it?,It was.,9_something,1_full_compliance,False,1_full_compliance\n"
    path = _write(tmp_path, "xstest_v2_completions_some.csv", XSTEST_HEADER + good + bad)
    line = refused("import_annotations", [path, "--batch", "other", "--format", "xstest"])
    assert f"{path}:3 [annotation_1]" in line


def test_a_prediction_off_the_scale_is_named_with_its_line(tmp_path: Path):
    path = _write(tmp_path, "rows.jsonl", json.dumps(ROW) + "\n" + json.dumps(ROW | {"predicted": 7}) + "\n")
    assert f"{path}:2 [predicted]" in refused("leaderboard", ["--from-file", path, "--guideline", "flames"])


@pytest.mark.parametrize("command", sorted(command for command, cases in UNKNOWN.items() if cases))
def test_what_does_not_exist_is_named(command: str, tmp_path: Path):
    def check(*arguments: str) -> None:
        command_arguments = [
            str(tmp_path / "out") if argument == "OUT" else argument for argument in arguments
        ]
        assert refused(command, command_arguments)
        assert not (tmp_path / "out").exists()

    assert wrong(check, map(tuple, UNKNOWN[command])) == []


def test_a_case_that_is_not_refused_is_told():
    def check(command: str, *arguments: str) -> None:
        refused(command, list(arguments))

    assert len(wrong(check, [("add_person", "new"), ("agreement", "--batch", "none"), ("agreement",)])) == 2
