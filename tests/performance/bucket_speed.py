"""What a bucket costs beside a folder: an upload, an export and a download of the same, by turns in one run.

    python -m tests.performance.bucket_speed
    python -m tests.performance.bucket_speed --megabytes 64 --labels 20000 --rounds 5

The bucket is moto's S3 server on this machine, in a process of its own. Each round is a process of its own on a fresh
SQLite site, once with ASSAY_STORAGE and once without. Processor time is that of the process that serves or works alone,
without the server of the bucket. A download is the first on its host (nothing in the cache) and the second.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.performance.annotate_loop import world
from tests.serving import ROOT, connected, free_port, until

PLACES = ("folder", "bucket")
ACTS = ("upload", "export", "download", "second download")
KEYS = {"AWS_ACCESS_KEY_ID": "assay", "AWS_SECRET_ACCESS_KEY": "assay-secret"}
REGION = "us-east-1"
LEVEL = "1_full_compliance"


@contextmanager
def s3_server() -> Iterator[int]:
    port = free_port()
    script = (
        "import logging, sys; from moto.server import main; "
        "logging.getLogger('werkzeug').setLevel('ERROR'); main(['-H', '127.0.0.1', '-p', sys.argv[1]])"
    )
    server = subprocess.Popen(
        [sys.executable, "-c", script, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until(lambda: listens(port), 60)
        yield port
    finally:
        server.kill()
        server.wait()


def listens(port: int) -> bool:
    try:
        connected(port).close()
    except OSError:
        return False
    return True


def make_bucket(port: int) -> str:
    """The address for ASSAY_STORAGE of one that is new."""
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name=REGION,
        aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
    )
    name = f"assay-{uuid4().hex[:12]}"
    client.create_bucket(Bucket=name)
    return f"s3://{name}/site?endpoint=http://127.0.0.1:{port}&region={REGION}"


# ---- one round, in a process of its own


def take(act: Callable[[], Any]) -> tuple[dict[str, float], Any]:
    wall, processor = time.perf_counter(), time.process_time()
    result = act()
    return {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}, result


def run_round(megabytes: int, labels: int) -> dict[str, dict[str, float]]:
    with world.database("sqlite", replace=False, keep=False) as folder:
        from django.core.files.uploadedfile import SimpleUploadedFile
        from django.test import Client
        from django.urls import reverse

        from annotation.models import GoldRelease, Person
        from annotation.services import jobs
        from annotation.services.exports.base import Options
        from annotation.services.exports.downloads import start_export
        from annotation.services.imports.uploads import receive_upload

        world.load_guideline(str(ROOT / "fixtures/guidelines/xstest.yaml"))
        world.command(
            "import_annotations", str(write_labels(folder, labels)), "--batch", "b", "--format", "xstest"
        )
        world.command("release_gold", "r", "--batches", "b")
        world.make_account("head", "manager,researcher")
        head, release = Person.objects.get(username="head"), GoldRelease.objects.get()
        row = json.dumps({"prompt": "p" * 1000}).encode() + b"\n"
        content = SimpleUploadedFile("p.jsonl", row * (megabytes * 1024 * 1024 // len(row)))
        results = {}
        results["upload"], _upload = take(lambda: receive_upload(file=content, name="p.jsonl", actor=head))
        export = start_export(
            release=release, format_name="jsonl", options=Options(rationales=True), actor=head, send=False
        )
        assert export.job is not None
        job = export.job
        results["export"], _job = take(lambda: jobs.run_now(job))
        forget_files(folder)
        client = Client(headers={"host": "localhost"})
        client.force_login(head)
        address = reverse("export-file", args=["r", export.pk, "gold.jsonl"])
        for name in ("download", "second download"):
            results[name], size = take(lambda: count_bytes(client.get(address)))
            results[name]["bytes"] = size
        return results


def count_bytes(answer: Any) -> int:
    return sum(len(block) for block in answer.streaming_content)


def forget_files(folder: Path) -> None:
    """As on a host that has nothing of the bucket yet."""
    for path in (folder / "data" / "cache").glob("*"):
        if path.is_file():
            path.unlink()


def write_labels(folder: Path, labels: int) -> Path:
    lines = ["id,type,prompt,completion,annotation_1,annotation_2,agreement,final_label"]
    lines += [
        f"v2-{row + 1},homonyms,How do I end process {row}?,{'An answer of some words. ' * 26}{row},"
        f"{LEVEL},{LEVEL},True,{LEVEL}"
        for row in range(labels)
    ]
    file = folder / "xstest_v2_completions_m.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


# ---- all rounds


def start_round(storage: str, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    command = [sys.executable, "-m", "tests.performance.bucket_speed", "--round"]
    command += ["--megabytes", str(options.megabytes), "--labels", str(options.labels)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **KEYS, "ASSAY_STORAGE": storage},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    results: dict[str, dict[str, float]] = json.loads(done.stdout)
    return results


def measure(options: argparse.Namespace) -> dict[str, list[dict[str, dict[str, float]]]]:
    rounds: dict[str, list[dict[str, dict[str, float]]]] = {place: [] for place in PLACES}
    with s3_server() as port:
        for _ in range(options.rounds):
            rounds["folder"].append(start_round("", options))
            rounds["bucket"].append(start_round(make_bucket(port), options))
    return rounds


def show(rounds: dict[str, list[dict[str, dict[str, float]]]], options: argparse.Namespace) -> None:
    print(
        f"Python {platform.python_version()}, {os.cpu_count()} processors, {options.rounds} rounds, medians; upload "
        f"{options.megabytes} MiB, export {options.labels} labels, download "
        f"{rounds['folder'][0]['download']['bytes'] / 1024**2:.1f} MiB\n"
    )
    print("| | folder, processor s | bucket, processor s | ratio | folder, wall s | bucket, wall s | ratio |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for act in ACTS:
        cells = [act]
        for clock in ("processor", "wall"):
            folder, bucket = (
                statistics.median(results[act][clock] for results in rounds[place]) for place in PLACES
            )
            cells += [f"{folder:.2f}", f"{bucket:.2f}", f"{bucket / folder:.1f}"]
        print("| " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=64, help="of the upload")
    parser.add_argument("--labels", type=int, default=20_000, help="of the export")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--round", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.round:
        print(json.dumps(run_round(options.megabytes, options.labels)))
    else:
        show(measure(options), options)


if __name__ == "__main__":
    main()
