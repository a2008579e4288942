"""What a browser works on after a press, from its trace: processor time of the page's main thread, by kind of work."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

CATEGORIES = ["devtools.timeline", "blink.user_timing", "v8.execute"]
# The page says when it was pressed and when the next item was on the screen.
PRESSED, SHOWN = "pressed", "shown"
# How long after the item was shown work is counted that was put off until then.
LATER = 400_000  # microseconds
KINDS = {
    **dict.fromkeys(("UpdateLayoutTree", "RecalculateStyles"), "style"),
    "Layout": "layout",
    **dict.fromkeys(("EventDispatch", "FunctionCall", "TimerFire", "RunMicrotasks"), "script"),
    **dict.fromkeys(("FireAnimationFrame", "EvaluateScript", "v8.callFunction"), "script"),
    **dict.fromkeys(("PrePaint", "Paint", "Layerize", "Commit", "UpdateLayer", "UpdateLayerTree"), "paint"),
    "IntersectionObserverController::computeIntersections": "observers",
    "ParseHTML": "parsing",
    "HitTest": "hit test",
}


@dataclass(frozen=True)
class Span:
    name: str
    began: float
    ended: float
    processor: float  # microseconds; of the clock where the trace has no other


def sum_presses(events: list[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """The median milliseconds of the presses in a trace, of each kind of work: until the item is shown, and later."""
    marks = sorted(
        (
            event
            for event in events
            if "blink.user_timing" in event.get("cat", "") and event["name"] in (PRESSED, SHOWN)
        ),
        key=lambda event: float(event["ts"]),
    )
    if not marks:
        raise SystemExit("The trace has no press.")
    thread = (marks[0]["pid"], marks[0]["tid"])
    spans = _read_spans([event for event in events if (event.get("pid"), event.get("tid")) == thread])
    windows = [
        (float(first["ts"]), float(second["ts"]))
        for first, second in pairwise(marks)
        if (first["name"], second["name"]) == (PRESSED, SHOWN)
    ]
    own = _take_out_inner(spans)
    ends = [began for began, _ended in windows[1:]] + [float("inf")]
    phases: dict[str, list[dict[str, float]]] = {"until it is shown": [], "later": []}
    for (began, ended), end in zip(windows, ends, strict=True):
        phases["until it is shown"].append(_sum_kinds(spans, own, began, ended))
        phases["later"].append(_sum_kinds(spans, own, ended, min(end, ended + LATER)))
    return {phase: _take_medians(sums) for phase, sums in phases.items()}


def _read_spans(events: list[dict[str, Any]]) -> list[Span]:
    spans: list[Span] = []
    begun: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in sorted(events, key=lambda event: float(event.get("ts", 0))):
        name, began = event["name"], float(event.get("ts", 0))
        if event["ph"] == "X":
            length = float(event.get("dur", 0))
            spans.append(Span(name, began, began + length, float(event.get("tdur", length))))
        elif event["ph"] == "B":
            begun[name].append(event)
        elif event["ph"] == "E" and begun[name]:
            first = begun[name].pop()
            clock = "tts" if "tts" in first and "tts" in event else "ts"
            spans.append(Span(name, float(first["ts"]), began, float(event[clock]) - float(first[clock])))
    return sorted(spans, key=lambda span: (span.began, -span.ended))


def _take_out_inner(spans: list[Span]) -> list[float]:
    """The time of each span without that of the spans in it."""
    own = [span.processor for span in spans]
    outer: list[int] = []
    for number, span in enumerate(spans):
        while outer and spans[outer[-1]].ended <= span.began:
            outer.pop()
        if outer:
            own[outer[-1]] -= span.processor
        outer.append(number)
    return own


def _sum_kinds(spans: list[Span], own: list[float], began: float, ended: float) -> dict[str, float]:
    sums = dict.fromkeys(dict.fromkeys(KINDS.values()), 0.0)
    for span, time in zip(spans, own, strict=True):
        kind = KINDS.get(span.name)
        if kind and began <= span.began < ended:
            sums[kind] += time / 1000
    sums["all"] = sum(sums.values())
    return sums


def _take_medians(sums: list[dict[str, float]]) -> dict[str, float]:
    return {kind: median(press[kind] for press in sums) for kind in sums[0]}
