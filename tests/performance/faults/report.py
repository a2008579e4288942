"""The table: a row for each fault, into a page of the documentation or alone."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from tests.performance.faults.scene import Outcome

HEAD = (
    "| fault | what happened | lost | what a person saw | what an operator sees | recovery, s |\n"
    "| --- | --- | --- | --- | --- | --- |"
)
BEGIN, END = "<!-- table of faults: begin -->", "<!-- table of faults: end -->"
ROW = re.compile(r"^\| (?P<title>[^|]+) \|.*$", re.MULTILINE)


def build_row(title: str, outcome: Outcome) -> str:
    cells = [
        title,
        "; ".join(outcome.happened) or "-",
        _tell_lost(outcome),
        _tell_person(outcome),
        _tell_operator(outcome),
        _tell_recovery(outcome),
    ]
    return "| " + " | ".join(cell.replace("|", "/").replace("\n", " ") for cell in cells) + " |"


def build_skipped_row(title: str, reason: str) -> str:
    return f"| {title} | not brought about: {reason} | - | - | - | - |"


def list_wrong(outcome: Outcome) -> list[str]:
    wrong = [
        f"{check.rule}: {check.wrong}, such as {check.example}" for check in outcome.checks if check.wrong
    ]
    if outcome.seconds is None:
        wrong.append("no page was answered afterwards")
    if outcome.job_seconds is None:
        wrong.append("a job did not end")
    return [*wrong, *(f"the log of {name} has a traceback" for name in outcome.tracebacks)]


def _tell_lost(outcome: Outcome) -> str:
    wrong = list_wrong(outcome)
    if wrong:
        return "**" + "; ".join(wrong) + "**"
    return f"nothing (of {outcome.receipts} receipts and {outcome.jobs} jobs)"


def _tell_person(outcome: Outcome) -> str:
    counts = Counter(sighting.outcome for sighting in outcome.sightings if not sighting.is_good)
    good = sum(sighting.is_good for sighting in outcome.sightings)
    parts = [
        f"{good} good answers",
        *(f"{outcome_text}: {count}" for outcome_text, count in counts.most_common()),
    ]
    parts.append(f"longest wait {outcome.longest:.1f} s")
    if outcome.sent_again:
        parts.append(f"{outcome.sent_again} submissions sent again, each stored once")
    return "; ".join(parts)


def _tell_operator(outcome: Outcome) -> str:
    look = outcome.look
    parts = [f"doctor: {state} `{name}`" for name, state in sorted(look.doctor.items())]
    parts += [f"`/readyz`: {answer}" for answer, _count in look.ready.most_common(3)]
    parts += [f"`{name}` {value}" for name, value in sorted(look.metrics.items())]
    return "; ".join(parts) or "the log alone"


def _tell_recovery(outcome: Outcome) -> str:
    pages = "-" if outcome.seconds is None else f"{outcome.seconds:.1f}"
    jobs = "-" if outcome.job_seconds is None else f"{outcome.job_seconds:.0f}"
    return f"pages {pages}, jobs {jobs}"


def build_table(rows: list[str]) -> str:
    return "\n".join([HEAD, *rows])


def write_report(file: Path, rows: list[str], where: str) -> None:
    """Between the page's marks, where it has them; the rows of faults that were not tried stay as they were."""
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    if BEGIN not in text:
        file.write_text(f"{where}\n\n{build_table(rows)}\n", encoding="utf-8")
        return
    before, _mark, rest = text.partition(BEGIN)
    old, _mark, after = rest.partition(END)
    former = {
        match["title"]: match[0] for match in ROW.finditer(old) if match["title"] not in {"fault", "---"}
    }
    former |= {ROW.match(row)["title"]: row for row in rows}  # type: ignore[index]
    table = build_table(list(former.values()))
    file.write_text(f"{before}{BEGIN}\n{where}\n\n{table}\n{END}{after}", encoding="utf-8")
