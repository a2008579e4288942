from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from annotation.core.names import split_name_lists
from annotation.domain.release_spec import ReleaseSpec
from annotation.management.base import AssayCommand
from annotation.models import GoldRelease
from annotation.selectors.batches import get_batches
from annotation.selectors.releases.releases import get_release
from annotation.services.releases import cut_release, enqueue_release


class Command(AssayCommand):
    help = "Freeze the settled labels of chosen batches as a gold release."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name")
        parser.add_argument("--batches", nargs="+", required=True, help="the batches whose gold it takes")
        parser.add_argument(
            "--about",
            default="",
            metavar="TEXT",
            help="why it is made and for what, as its datasheet says it",
        )
        parser.add_argument("--supersedes", metavar="RELEASE", help="the release in whose place it comes")
        parser.add_argument("--detach", action="store_true", help="queue it for a worker")

    def act(self, **options: Any) -> dict[str, Any]:
        old = options["supersedes"]
        spec = ReleaseSpec(
            name=options["name"],
            batches=tuple(batch.pk for batch in get_batches(split_name_lists(options["batches"]))),
            about=options["about"],
            supersedes=None if old is None else get_release(old).pk,
        )
        if options["detach"]:
            job = enqueue_release(spec)
            return {"name": spec.name, "job": job.pk, "state": job.state}
        release = self._cut(spec)
        return {
            "name": release.name,
            "sha256": release.sha256,
            "labels": release.labels,
            "adjudicated": release.adjudicated,
        }

    def _cut(self, spec: ReleaseSpec) -> GoldRelease:
        with self.progress(total=1.0, bar_format="{l_bar}{bar}| {elapsed}<{remaining}") as bar:

            def report(done: float, stage: str) -> None:
                bar.set_description(stage)
                bar.update(max(0.0, done - bar.n))

            return cut_release(spec, report=report)

    def show(self, data: dict[str, Any]) -> None:
        if "job" in data:
            self.stdout.write(f"{data['name']} waits for a worker (job {data['job']})")
            return
        self.stdout.write(
            f"{data['name']}: {data['labels']} labels, {data['adjudicated']} adjudicated\nsha256 {data['sha256']}"
        )
