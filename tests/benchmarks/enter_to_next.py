"""How long an annotator waits for the next item: from Enter to the frame that shows it, in Chromium.

    python -m tests.benchmarks.enter_to_next --database postgres://HOST/NAME

The page measures itself. Without a pause between two items (``--think 0``) the person outruns the item ahead and
waits for the server's answer. It also tells what the page weighs, as it came over the wire.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
from pathlib import Path
from statistics import quantiles
from typing import Any

from tests.benchmarks.annotate_loop import world
from tests.benchmarks.annotate_loop.server import Server

CHROMIUM = os.environ.get("ASSAY_CHROMIUM", "/usr/bin/chromium")
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
WATCH = """() => {
  window.times = [];
  let pressed = 0, before = null;
  addEventListener("keydown", (event) => {
    if (event.key !== "Enter") return;
    pressed = performance.now();
    before = document.querySelector("form[data-item]");
    requestAnimationFrame(function look() {
      const now = document.querySelector("form[data-item]");
      if (!now || now === before || now.getAttribute("aria-busy")) return requestAnimationFrame(look);
      setTimeout(() => times.push(performance.now() - pressed));
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
    parser.add_argument("--json", action="store_true", help="print JSON, for machines")
    return parser.parse_args()


def measure(given: argparse.Namespace) -> dict[str, Any]:
    with world.database(given.database, replace=given.replace, keep=False) as folder:
        guideline = world.load_guideline(str(world.ROOT / "fixtures/guidelines/flames.yaml"))
        world.make_corpus("corpus", tasks=given.tasks, guideline=guideline)
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
            times, weight = _annotate(given, f"http://127.0.0.1:{server.port}", people[0].session)
        from annotation.models import Annotation

        cuts = quantiles(times, n=100)
        return {
            "where": f"Python {platform.python_version()}, {os.cpu_count()} processors, {given.database.split(':')[0]}",
            "tasks": given.tasks,
            "think": given.think,
            "items": len(times),
            "annotations": Annotation.objects.count(),
            "milliseconds": {"p50": cuts[49], "p95": cuts[94], "longest": max(times)},
            "bytes": weight,
        }


def _annotate(given: argparse.Namespace, address: str, session: str) -> tuple[list[float], dict[str, Any]]:
    from django.conf import settings
    from playwright.sync_api import sync_playwright

    found = CHROMIUM if Path(CHROMIUM).exists() else shutil.which("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        context = browser.new_context(base_url=address, viewport={"width": 1440, "height": 900})
        context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": address}])
        page = context.new_page()
        weight = _weighed(page)
        page.evaluate(WATCH)
        for done in range(1, given.items + 1):
            page.wait_for_timeout(given.think * 1000)
            page.keyboard.press("1")
            page.keyboard.press("Enter")
            page.wait_for_function("(done) => times.length === done", arg=done)
        times: list[float] = page.evaluate("times")
        page.wait_for_function(
            "() => Object.keys(localStorage).every((key) => !key.startsWith('assay-outbox'))"
        )
        browser.close()
    return times, weight


def _weighed(page: Any) -> dict[str, Any]:
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
    loaded = {names[one].rpartition("/")[2] or "page": size for one, size in sizes.items() if one in names}
    own = page.evaluate(
        """() => Promise.all([...document.scripts].map(({src}) => src).filter((src) => src && !src.includes("htmx"))
          .map(async (src) => [src.split("/").pop(), (await (await fetch(src)).text()).length]))"""
    )
    return {"loaded": loaded, "all": sum(loaded.values()), "own scripts, uncompressed": dict(own)}


def main() -> None:
    given = arguments()
    found = measure(given)
    if given.json:
        print(json.dumps(found, indent=2))
        return
    times, weight = found["milliseconds"], found["bytes"]
    print(f"{found['where']}, {found['tasks']} tasks, {found['think']} s of thought")
    print(
        f"Enter to the next item, {found['items']} times: median {times['p50']:.1f} ms, "
        f"p95 {times['p95']:.1f} ms, longest {times['longest']:.1f} ms; {found['annotations']} annotations stored"
    )
    print(f"the page loads {weight['all']:,} bytes: {weight['loaded']}")
    own = weight["own scripts, uncompressed"]
    print(f"its own scripts, uncompressed: {sum(own.values()):,} bytes: {own}")


if __name__ == "__main__":
    main()
