"""How long an annotator waits for the next item: from Enter to the frame that shows it, in Chromium.

    python -m tests.performance.enter_to_next --database postgres://HOST/NAME

The page measures itself. Without a pause between two items (``--think 0``) the person outruns the item ahead and
waits for the server's answer. It also tells what the page weighs, as it came over the wire. ``--trace`` adds what the
page works on meanwhile: milliseconds of the processor, which a busy machine does not change as it does the clock.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
from statistics import quantiles
from typing import Any

from tests.chromium import launch
from tests.performance import press_traces
from tests.performance.annotate_loop import world
from tests.performance.annotate_loop.server import Server

WATCH = """() => {
  window.times = [];
  let pressed = 0, before = null;
  addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    pressed = performance.now();
    performance.mark("pressed");
    before = document.querySelector("form[data-item]");
    requestAnimationFrame(function look() {
      const now = document.querySelector("form[data-item]");
      if (!now || now === before || now.getAttribute("aria-busy")) return requestAnimationFrame(look);
      setTimeout(() => {
        performance.mark("shown");
        times.push(performance.now() - pressed);
      });
    });
  }, true);
}"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--database", default="sqlite", metavar="URL", help="sqlite, or postgres://HOST/NAME")
    parser.add_argument("--replace", action="store_true", help="drop a database of that name first")
    parser.add_argument("--tasks", type=int, default=5000)
    parser.add_argument("--items", type=int, default=200, help="how many are decided")
    parser.add_argument("--think", type=float, default=0.5, metavar="SECONDS", help="before each decision")
    parser.add_argument(
        "--markdown",
        type=int,
        default=0,
        metavar="CHARACTERS",
        help="answers in Markdown of so many characters",
    )
    parser.add_argument(
        "--trace", action="store_true", help="also the page's processor time, by kind of work"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    return parser.parse_args()


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with world.database(options.database, replace=options.replace, keep=False) as folder:
        guideline = world.load_guideline(str(world.ROOT / "fixtures/guidelines/flames.yaml"))
        world.make_corpus("corpus", tasks=options.tasks, guideline=guideline)
        if options.markdown:
            world.write_markdown(options.markdown)
        people = world.make_people(2)
        world.make_batch(
            "batch",
            dataset="corpus",
            guideline=guideline,
            annotators=people,
            adjudicators=[],
            overlap=2,
            pairing="pool",
        )
        world.collect_static()
        with Server(workers=2, threads=8, log=folder / "server.log") as server:
            times, weight, work = _annotate(options, f"http://127.0.0.1:{server.port}", people[0].session)
        from annotation.models import Annotation

        cuts = quantiles(times, n=100)
        return {
            "where": f"Python {platform.python_version()}, {os.cpu_count()} processors, "
            f"{options.database.split(':')[0]}",
            "tasks": options.tasks,
            "think": options.think,
            "items": len(times),
            "annotations": Annotation.objects.count(),
            "milliseconds": {"p50": cuts[49], "p95": cuts[94], "longest": max(times)},
            "bytes": weight,
            "work": work,
        }


def _annotate(
    options: argparse.Namespace, address: str, session: str
) -> tuple[list[float], dict[str, Any], dict[str, dict[str, float]]]:
    from django.conf import settings

    with launch() as browser:
        context = browser.new_context(base_url=address, viewport={"width": 1440, "height": 900})
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": address}])
        page = context.new_page()
        weight = weigh_page(page)
        page.evaluate(WATCH)
        if options.trace:
            browser.start_tracing(page=page, categories=press_traces.CATEGORIES)
        for done in range(1, options.items + 1):
            page.wait_for_timeout(options.think * 1000)
            page.keyboard.press("1")
            page.keyboard.press("Enter")
            page.wait_for_function("(done) => times.length === done", arg=done)
        times: list[float] = page.evaluate("times")
        traced = json.loads(browser.stop_tracing())["traceEvents"] if options.trace else []
        page.wait_for_function(
            "() => Object.keys(localStorage).every((key) => !key.startsWith('assay-outbox'))"
        )
    return times, weight, press_traces.sum_presses(traced) if traced else {}


def weigh_page(page: Any) -> dict[str, Any]:
    """Opens the page; what it loaded, in bytes on the wire, and its own scripts as they stand."""
    wire = page.context.new_cdp_session(page)
    wire.send("Network.enable")
    names: dict[str, str] = {}
    sizes: dict[str, int] = {}
    wire.on(
        "Network.responseReceived", lambda event: names.update({event["requestId"]: event["response"]["url"]})
    )
    wire.on(
        "Network.loadingFinished",
        lambda event: sizes.update({event["requestId"]: int(event["encodedDataLength"])}),
    )
    with page.expect_response("**/ahead/"):
        page.goto("/work/batch/")
    page.wait_for_load_state("networkidle")
    loaded = {
        names[request_id].rpartition("/")[2] or "page": size
        for request_id, size in sizes.items()
        if request_id in names
    }
    own = page.evaluate(
        """() => Promise.all([...document.scripts].map(({src}) => src).filter((src) => src && !src.includes("htmx"))
          .map(async (src) => [src.split("/").pop(), (await (await fetch(src)).text()).length]))"""
    )
    return {"loaded": loaded, "all": sum(loaded.values()), "own scripts, uncompressed": dict(own)}


def main() -> None:
    options = arguments()
    figures = measure(options)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    times, weight = figures["milliseconds"], figures["bytes"]
    print(f"{figures['where']}, {figures['tasks']} tasks, {figures['think']} s of thought")
    print(
        f"Enter to the next item, {figures['items']} times: median {times['p50']:.1f} ms, "
        f"p95 {times['p95']:.1f} ms, longest {times['longest']:.1f} ms; {figures['annotations']} annotations stored"
    )
    for phase, kinds in figures["work"].items():
        print(
            f"work of the page {phase}, ms: {', '.join(f'{kind} {time:.1f}' for kind, time in kinds.items())}"
        )
    print(f"the page loads {weight['all']:,} bytes: {weight['loaded']}")
    own = weight["own scripts, uncompressed"]
    print(f"its own scripts, uncompressed: {sum(own.values()):,} bytes: {own}")


if __name__ == "__main__":
    main()
