"""What each published data set and each shape of file becomes: the table of docs/formats.md.

    python -m tests.performance.formats_table

Each file goes through the import commands into a new database: what was in it, what came in, and why the rest did not.
"""

from __future__ import annotations

import csv
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
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


def listening(*, optional: bool) -> str:
    """The six criteria of Lend an Ear, 1 to 5, as a guideline; of its crowd some left criteria open."""

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
            "optional": optional,
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
        "name": "listening-crowd" if optional else "listening",
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
    of_crowd = ["--guideline", "listening-crowd", *OF_EAR[2:], "--plan", "open"]
    yield labels, [f"{EAR}/crowd_annotations.csv"], ["--batch", "crowd with levels left open", *of_crowd]
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


def label_steps(folder: Path) -> Iterator[tuple[str, Step]]:
    """Responses and labels in the shapes in which people have them, of a guideline that asks in every way."""
    from tests.annotation.kinds import TURNS, kinds_guideline
    from tests.annotation.services.test_harness_logs import FRUITS, LOGS

    kinds_guideline()
    harm, topics, empathy = "harm", "topics", "empathy@0"
    answered = [harm, topics, empathy]

    def write(name: str, header: Sequence[str], *rows: Sequence[object]) -> str:
        path = folder / name
        with path.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows([header, *rows])
        return str(path)

    def labels(batch: str, *files: str, dataset: str = "asked", plan: str = "") -> Step:
        target = ["--batch", batch, "--guideline", "kinds", "--dataset", dataset]
        return "import_annotations", list(files), [*target, *(["--plan", plan] if plan else [])]

    prompts, responses = "import_prompts", "import_responses"
    questions = write("questions.csv", ["id", "问题"], *([f"q{n}", f"问题{n}？"] for n in range(4)))
    yield "4 prompts, Chinese header", (prompts, [questions], ["--dataset", "asked"])
    models = ["Qwen/Qwen2.5-7B-Instruct", "model, with a comma"]
    answers = write("wide.csv", ["id", *models], *([f"q{n}", f"a{n}", f"b{n}"] for n in range(4)))
    columns = ["--map", 'models="{}","{}"'.format(*models)]
    yield "a column for each of 2 models", (responses, [answers], ["--dataset", "asked", *columns])
    head = ["prompt_id", "model", "annotator"]
    of_first = [(f"q{n}", models[0]) for n in range(4)]
    unequal = [
        (*place, f"worker/{rater}", 1, 1, 2) for n, place in enumerate(of_first) for rater in range(1 + n % 3)
    ]
    yield (
        "1 to 3 people a response",
        labels("unequal", write("unequal.csv", [*head, *answered], *unequal), plan="open"),
    )
    na = [(*place, f"p{rater}", 1, "N/A", "不适用") for place in of_first for rater in range(2)]
    yield "not applicable", labels("na", write("na.csv", [*head, *answered], *na), plan="open")
    sets = [(*place, f"p{rater}", 1, "Violence; Privacy", 2) for place in of_first for rater in range(2)]
    yield (
        "sets of options in a cell",
        labels("sets", write("sets.csv", [*head, *answered], *sets), plan="open"),
    )
    each = [(*place, f"p{rater}", 1, 1, 0, 0, 2) for place in of_first for rater in range(2)]
    options = [harm, "topics:1", "topics:2", "topics:4", empathy]
    yield "a column for each option", labels("each", write("each.csv", [*head, *options], *each), plan="open")
    texts = [(*place, f"p{rater}", 1, 1, 2, "它这样写。") for place in of_first for rater in range(2)]
    yield "texts", labels("texts", write("texts.csv", [*head, *answered, "why"], *texts), plan="open")
    times = [(*place, "p0", 1, 1, 2, "2026-05-31 14:05", 12, "round 1") for place in of_first]
    timed = write("times.csv", [*head, *answered, "at", "seconds", "round"], *times)
    yield "times, seconds and rounds", labels("times", timed, plan="open")
    files = [
        write(f"{name}.csv", ["prompt_id", "model", *answered], *((*place, 1, 1, 2) for place in of_first))
        for name in ("lin", "chen", "zhou")
    ]
    yield "a file for each of 3 people", labels("files", *files)
    misspelt = write("misspelt.csv", [*head, "harmm", topics, empathy], *unequal)
    yield "a misspelt criterion", labels("misspelt", misspelt, plan="open")
    dialogue = folder / "dialogue.jsonl"
    record = {"prompt_id": "q0", "model": "speaker", "turns": TURNS}
    dialogue.write_text(json.dumps(record, ensure_ascii=False), encoding="utf-8")
    yield "a dialogue", (responses, [str(dialogue)], ["--dataset", "asked", "--format", "jsonl"])
    turns = [("q0", "speaker", f"p{rater}", 1, 1, "3; 2") for rater in range(2)]
    judged = write("turns.csv", [*head, harm, topics, "empathy"], *turns)
    yield "a level of each of 2 turns", labels("turns", judged, plan="open")
    yield "a log of Inspect", (responses, [str(LOGS / "questions.eval")], ["--dataset", "inspect"])
    yield "a log of lm_eval", (responses, [str(LOGS / FRUITS)], ["--dataset", "lm_eval"])
    scores = [
        *["--dataset", "lm_eval", "--guideline", "xstest"],
        *["--format", "lm_eval", "--levels", "0=1", "1=3"],
    ]
    yield "its scores, as a judge's labels", ("import_judge_labels", [str(LOGS / FRUITS)], scores)
    soft = folder / "soft.jsonl"
    shares = [
        {"prompt_id": key, "model": model, "criterion": "harm", "labels_by_level": {"1": 2, "3": 8}}
        for key, model in of_first
    ]
    soft.write_text("\n".join(map(json.dumps, shares)), encoding="utf-8")
    of_soft = ["--dataset", "asked", "--guideline", "kinds", "--format", "jsonl", "--judge", "crowd"]
    yield "distributions, as a judge's labels", ("import_judge_labels", [str(soft)], of_soft)


def run(step: Step) -> tuple[dict[str, Any] | None, str]:
    """What the command reports, or the line with which it refuses."""
    from django.core.management import call_command

    command, files, arguments = step
    out, err = StringIO(), StringIO()
    try:
        with redirect_stderr(err):
            call_command(command, *files, *arguments, "--json", stdout=out, stderr=err)
    except SystemExit:
        return None, err.getvalue().strip()
    return json.loads(out.getvalue()), ""


def print_row(name: str, step: Step) -> None:
    report, refusal = run((step[0], [str(DATA / file) for file in step[1]], step[2]))
    command = step[0].removeprefix("import_").replace("_", " ")
    if report is None:
        reason = re.sub(r"/\S*/", "", refusal.replace(f"{DATA}/", "")).replace("|", "/")
        print(f"| {name} | {command} | 0 | {reason} |")
        return
    reports = report.get("files", [report])
    made = {}
    for part in reports:
        for kind, number in part.get("made", {}).items():
            made[kind] = made.get(kind, 0) + number
    notes = dict.fromkeys(note for part in reports for note in part.get("notes", ()))
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

    guidelines = [ROOT / "fixtures" / "guidelines" / "flames.yaml"]
    for optional in (False, True):
        guidelines.append(folder / f"listening-{optional}.yaml")
        guidelines[-1].write_text(listening(optional=optional), encoding="utf-8")
    for path in guidelines:
        call_command("load_guideline", str(path), "--publish", stdout=StringIO())
    print("| file | as | came in | left out, or refused |\n| --- | --- | --- | --- |")
    for step in data_steps():
        print_row(_name_files(step[1]), step)
    for shape, step in shape_steps(folder):
        print_row(f"6 prompts: {shape}", step)
    for name, step in label_steps(folder):
        print_row(name, step)


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
