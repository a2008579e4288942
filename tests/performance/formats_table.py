"""What each published data set and each shape of file becomes: the table of docs/formats.md.

    python -m tests.performance.formats_table

Each file goes through the import commands into a new database: what was in it, what came in, and why the rest did not.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"
LISTENING = (
    "validating_emotions",
    "encouraging_elaboration",
    "demonstrating_understanding",
    "advice_giving",
    "self_oriented",
    "dismissing_emotions",
)
MAX_NOTES = 4
Step = tuple[str, list[str], list[str]]
EAR = "lend_an_ear"
TO_EAR = ["--dataset", EAR]
OF_EAR = ["--guideline", "listening", "--model", "people", *TO_EAR]


def listening() -> str:
    """The six criteria of Lend an Ear, 1 to 5, as a guideline."""

    def words(text: str) -> dict[str, str]:
        return {"en": text.replace("_", " ")}

    levels = [
        {"value": value, "name": words(f"{value} of 5"), "definition": words(f"{value} of 5.")}
        for value in range(1, 6)
    ]
    criteria = [
        {
            "name": name,
            "label": words(name),
            "question": words(f"How much {name}?"),
            "applies_to": "all",
            "measurement": "ordinal",
            "scale": levels,
        }
        for name in LISTENING
    ]
    metric = {
        "name": "validation",
        "label": words("validation"),
        "kind": "mean",
        "formula": "100 * mean / 5",
        "criteria": [LISTENING[0]],
        "overall": "pooled",
    }
    document = {
        "name": "listening",
        "version": "1.0",
        "languages": ["en"],
        "title": words("Listening"),
        "source": "Kumar et al., 2025",
        "introduction": words("How does who listens answer?"),
        "criteria": criteria,
        "metrics": [metric],
        "rank_by": "validation",
    }
    return json.dumps(document, ensure_ascii=False, indent=1)  # which is YAML, too


def data_steps() -> Iterator[Step]:
    """A command, its files and its arguments, in the order in which they need each other."""
    prompts, responses, labels = "import_prompts", "import_responses", "import_annotations"
    yield prompts, ["xstest/xstest_prompts.csv"], ["--dataset", "xstest"]
    people = sorted(DATA.glob("xstest/*_completions_*.csv"))
    yield labels, [f"xstest/{path.name}" for path in people], ["--batch", "xstest"]
    yield prompts, ["flames/Flames_1k_Chinese.jsonl"], ["--dataset", "flames", "--guideline", "flames"]
    yield prompts, ["flames/flames_leaderboard.json"], ["--dataset", "flames"]
    yield prompts, ["fine/safety.jsonl"], ["--dataset", "fine"]
    yield prompts, ["cvalues/cvalues_responsibility_prompts.jsonl"], ["--dataset", "cvalues"]
    texts = ["prompt=full_conversation", "id=conversation_id"]
    yield prompts, [f"{EAR}/conversations.csv"], [*TO_EAR, "--map", *texts]
    answers = ["response=full_conversation", "prompt_id=conversation_id"]
    yield responses, [f"{EAR}/conversations.csv"], [*TO_EAR, "--model", "people", "--map", *answers]
    experts = [f"{EAR}/expert{number}_ratings.csv" for number in (1, 2, 3)]
    yield labels, experts, ["--batch", "experts", *OF_EAR]
    yield labels, [f"{EAR}/crowd_annotations.csv"], ["--batch", "crowd", *OF_EAR]
    judges = [f"{EAR}/{name}_ratings.csv" for name in ("claude", "gemini", "gpt")]
    yield labels, judges, ["--batch", "judges", *OF_EAR]
    yield prompts, [f"{EAR}/published_pairs.csv"], ["--dataset", "pairs"]
    yield prompts, ["pandalm/testset_even.json"], ["--dataset", "pandalm"]
    yield responses, ["pandalm/testset_even.json"], ["--dataset", "pandalm"]


def shape_steps(folder: Path) -> Iterator[tuple[str, Step]]:
    from tests.annotation.domain.test_files_as_they_come import HEADERS, ROWS
    from tests.annotation.table_files import SHAPES

    for number, (shape, write) in enumerate(SHAPES.items()):
        place = folder / str(number)
        place.mkdir()
        path = write(place, HEADERS["Chinese"], ROWS)
        yield shape, ("import_prompts", [str(path)], ["--dataset", f"shape {number}"])


def run(step: Step) -> tuple[dict[str, Any] | None, str]:
    """What the command reports, or the line with which it refuses."""
    from django.core.management import call_command

    command, files, arguments = step
    out, err = StringIO(), StringIO()
    try:
        call_command(command, *files, *arguments, "--json", stdout=out, stderr=err)
    except SystemExit:
        return None, err.getvalue().strip()
    return json.loads(out.getvalue()), ""


def print_row(name: str, step: Step) -> None:
    report, refusal = run((step[0], [str(DATA / file) for file in step[1]], step[2]))
    command = step[0].removeprefix("import_")
    if report is None:
        reason = refusal.replace(f"{DATA}/", "").replace("|", "/")
        print(f"| {name} | {command} | 0 | {reason} |")
        return
    reports = report.get("files", [report])
    made = {}
    for part in reports:
        for kind, number in part["made"].items():
            made[kind] = made.get(kind, 0) + number
    notes = dict.fromkeys(note for part in reports for note in part["notes"])
    skipped = [f"{len(judges)} files of judges' labels."] if (judges := report.get("passed_over")) else []
    also = "".join(f", {number} {kind} made" for kind, number in made.items())
    repeated = f", {report['already_there']} already there" if report["already_there"] else ""
    print(f"| {name} | {command} | {report['taken']}{repeated}{also} | {_shorten([*notes, *skipped])} |")


def _shorten(notes: Sequence[str]) -> str:
    """The first few of them."""
    rest = f" (and {len(notes) - MAX_NOTES} more)" if len(notes) > MAX_NOTES else ""
    return " ".join(notes[:MAX_NOTES]) + rest if notes else "-"


def print_table(folder: Path) -> None:
    from django.core.management import call_command

    (folder / "listening.yaml").write_text(listening(), encoding="utf-8")
    for path in (ROOT / "fixtures" / "guidelines" / "flames.yaml", folder / "listening.yaml"):
        call_command("load_guideline", str(path), "--publish", stdout=StringIO())
    print("| file | as | came in | left out, or refused |\n| --- | --- | --- | --- |")
    for step in data_steps():
        print_row(_name_files(step[1]), step)
    for shape, step in shape_steps(folder):
        print_row(f"6 prompts: {shape}", step)


def _name_files(files: Sequence[str]) -> str:
    return f"`{files[0]}`" if len(files) == 1 else f"`{files[0]}` and {len(files) - 1} more"


def main() -> None:
    if not DATA.is_dir():
        sys.exit(f"the published data are not at {DATA}")
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {
            "ASSAY_DATA_DIR": folder,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "LOG_LEVEL": "WARNING",
            "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
        }
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        print_table(Path(folder))


if __name__ == "__main__":
    main()
