"""The figures as a person reads them."""

from __future__ import annotations

from typing import Any


def table(measured: dict[str, Any]) -> str:
    settings, figures = measured["settings"], measured["figures"]
    lines = [f"{measured['stage']}: {measured['where']}", ""]
    if "annotators" in settings:
        lines.append(
            f"{settings['annotators']} annotators via {', '.join(settings['via'])}, {settings['tasks']} tasks, "
            f"overlap {settings['overlap']}, {settings['pairing']}, {settings['workers']} workers x "
            f"{settings['threads']} threads"
        )
    lines += _facts(figures)
    if "milliseconds" in figures:
        lines += ["", "| call | n | p50, ms | p95, ms | p99, ms |", "| --- | ---: | ---: | ---: | ---: |"]
        lines += [
            f"| {call} | {of['n']} | {of['p50']:.1f} | {of['p95']:.1f} | {of['p99']:.1f} |"
            for call, of in figures["milliseconds"].items()
        ]
    lines += ["", "| counted from the database | wrong |", "| --- | ---: |"]
    for check in measured["checks"]:
        example = f" (such as {check['example'][:300]})" if check["wrong"] else ""
        lines.append(f"| {check['rule']} | {check['wrong']}{example} |")
    return "\n".join(lines)


def _facts(figures: dict[str, Any]) -> list[str]:
    """Every figure in a line of its own, those of many rows in a table, without those that are nothing."""
    lines = []
    for name, value in figures.items():
        if name == "milliseconds" or not value:
            continue
        words = name.replace("_", " ")
        if isinstance(value, list):
            lines += ["", f"{words}:", "", *_rows(value), ""]
        else:
            lines.append(f"{words}: {_text(value)}")
    return lines


def _rows(rows: list[dict[str, Any]]) -> list[str]:
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *([_text(row[name]) for name in names] for row in rows)]
    return ["| " + " | ".join(line) + " |" for line in lines]


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(part)}" for name, part in value.items())
    return f"{value:.2f}" if isinstance(value, float) else str(value)
