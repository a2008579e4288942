"""A release whole, in one zip that another site imports and cuts the same release from (docs/gold.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import IO, Any

from django.db.models import Count

from annotation.core.errors import N_, Conflict, InputError
from annotation.domain.formats.bundle import (
    ADJUDICATIONS,
    ANNOTATIONS,
    GOLD,
    KIND,
    MANIFEST,
    PIECE,
    PROMPTS,
    RESPONSES,
    TABLES,
    VERSION,
    BatchFacts,
    Bundle,
    BundleManifest,
    BundleWriter,
    GuidelineFacts,
    StratumFacts,
)
from annotation.domain.formats.rows import Source
from annotation.domain.releases.gold_file import GoldRow, jsonl_lines
from annotation.models import Batch, Guideline
from annotation.selectors.releases.lineage import SubmissionSource, TaskSources, list_task_sources
from annotation.selectors.releases.rows import ReleasedRow
from annotation.selectors.releases.selection import list_portable_strata
from annotation.services.exports.base import (
    ExportCounts,
    ExportSpec,
    Part,
    ReportPosition,
    WholeFile,
    Writer,
    refuse_other_settling,
)
from annotation.services.exports.datasheet import render_markdown
from annotation.services.exports.verification import check_gold

FILE, TABLES_PREFIX = "bundle.zip", ".tables-"
LANGUAGES = {"datasheet.md": "en", "datasheet.zh.md": "zh"}
_encode = json.JSONEncoder(ensure_ascii=False).encode


class _BundleFormat(Writer):
    name = "bundle"
    title = N_("Bundle")
    about = N_(
        "One zip with the gold, the labels behind it and the guidelines; import_bundle takes it in elsewhere."
    )
    options = frozenset({"rationales", "times"})

    def parts(self, spec: ExportSpec) -> Sequence[Part]:
        batches = spec.release.batches.all()
        refuse_other_settling(batches)
        uneven = batches.exclude(plan=Batch.Plan.FIXED, overlap_share=1).first()
        if uneven is not None:
            raise Conflict(
                N_(
                    "A bundle holds batches whose responses have equal numbers of labels; those of {batch} have"
                    " unequal ones. Choose another format."
                ),
                batch=uneven.name,
            )

        def write(path: Path, tell: ReportPosition) -> None:
            _BundlePacker(spec).write(path, tell)

        return [WholeFile(FILE, write, total=spec.rows)]

    def check(self, folder: Path, spec: ExportSpec, tell: ReportPosition) -> ExportCounts:
        """The gold to the hash, and that for every row of it there is what it was settled from."""
        bundle = Bundle(Source(folder / FILE, FILE))
        bundle.check()
        manifest = bundle.manifest
        labels = sum(batch.overlap * batch.tasks for batch in manifest.batches)
        if manifest.lines(ANNOTATIONS) != labels:
            raise Conflict(
                N_("The bundle came out with {found} annotations; its tasks have {expected}."),
                found=manifest.lines(ANNOTATIONS),
                expected=labels,
            )
        return check_gold(spec.release, list_gold_rows(bundle), tell)


BUNDLE = _BundleFormat()


def list_gold_rows(bundle: Bundle) -> Iterator[GoldRow]:
    """The rows of the bundle's gold file."""
    for row in bundle.rows(GOLD):
        if isinstance(row, InputError):
            raise row
        yield GoldRow(**{name: value for name, value in row.fields.items() if name != "split"})


class _BundlePacker:
    """The tables are written side by side, in one reading of the release, and then packed one after the other."""

    def __init__(self, spec: ExportSpec) -> None:
        self._spec = spec
        self._release = spec.release
        self._prompts: set[int] = set()
        self._responses: set[int] = set()

    def write(self, path: Path, tell: ReportPosition) -> None:
        path.unlink(missing_ok=True)
        for left in path.parent.glob(f"{TABLES_PREFIX}*"):  # by an attempt that was killed
            rmtree(left, ignore_errors=True)
        with TemporaryDirectory(dir=path.parent, prefix=TABLES_PREFIX) as folder:
            tables = Path(folder)
            self._write_tables(tables, tell)
            with BundleWriter.open(path) as packed:
                for name in TABLES:
                    packed.add(name, _read_pieces(tables / name), is_table=True)
                    (tables / name).unlink()
                for guideline in self._guidelines:
                    packed.add(_build_facts(guideline).file, [guideline.source.encode()])
                for name, language in LANGUAGES.items():
                    packed.add(name, [render_markdown(self._spec.manifest, language).encode()])
                packed.add(MANIFEST, [self._manifest(packed).to_json().encode()])

    def _write_tables(self, folder: Path, tell: ReportPosition) -> None:
        done = 0
        with ExitStack() as stack:
            files = {
                name: stack.enter_context((folder / name).open("w", encoding="utf-8", newline=""))
                for name in TABLES
            }
            for rows in self._spec.released.chunks():
                sources = list_task_sources(self._release, (task for row in rows for task in row.tasks))
                self._write_chunk(files, rows, sources)
                done += len(rows)
                tell(done)

    def _write_chunk(
        self, files: Mapping[str, IO[str]], rows: Sequence[ReleasedRow], sources: Mapping[int, TaskSources]
    ) -> None:
        files[GOLD].writelines(jsonl_lines((row.gold for row in rows), self._spec.released.criteria))
        for row in rows:
            for task in row.tasks:
                self._write_task(files, sources[task])

    def _write_task(self, files: Mapping[str, IO[str]], place: TaskSources) -> None:
        task = place.task
        if task.prompt not in self._prompts:
            self._prompts.add(task.prompt)
            _write_line(
                files[PROMPTS],
                dataset=task.dataset,
                id=task.prompt_key,
                prompt=task.prompt_text,
                dimension=task.dimension,
                subcomponent=task.subcomponent,
                language=task.language,
                attack_method=task.attack_method,
            )
        about = {"dataset": task.dataset, "prompt_id": task.prompt_key, "model": task.model}
        about |= {"collection": task.collection} if task.collection else {}
        if task.response not in self._responses:
            self._responses.add(task.response)
            content = {"turns": place.turns} if place.turns else {"response": task.text}
            _write_line(files[RESPONSES], **about, **content, sha256=task.sha256)
        about = {"batch": task.batch, **about}
        for word in place.annotations:
            _write_line(
                files[ANNOTATIONS],
                **about,
                annotator=self._people[word.person],
                **self._describe_label(word, evidence=True),
            )
        if place.decision is not None:
            word = place.decision
            reason = {"reason": word.reason} if word.reason else {}
            _write_line(
                files[ADJUDICATIONS],
                **about,
                adjudicator=self._people[word.person],
                **self._describe_label(word, evidence=False),
                **reason,
            )

    @property
    def _people(self) -> Mapping[int, str]:
        return self._spec.people

    def _describe_label(self, word: SubmissionSource, *, evidence: bool) -> dict[str, Any]:
        """What was said; what was written and marked, and when, only if that was chosen."""
        fields: dict[str, Any] = {"labels": word.labels, "seconds": word.seconds}
        if evidence:
            fields["flags"] = word.flags
        if self._spec.options.rationales:
            fields |= {"rationale": word.rationale} | ({"evidence": word.evidence} if evidence else {})
        if self._spec.options.times:
            fields["at"] = _format_time(word.at)
        fields |= {"round": word.round} if word.round else {}
        return fields | ({"imported": word.origin.as_json()} if word.origin else {})

    @cached_property
    def _guidelines(self) -> list[Guideline]:
        used = self._release.items.order_by().values("task__batch__guideline")
        return sorted(
            Guideline.objects.filter(pk__in=used), key=lambda guideline: (guideline.name, guideline.version)
        )

    def _manifest(self, packed: BundleWriter) -> BundleManifest:
        release = self._release.manifest
        return BundleManifest(
            kind=KIND,
            version=VERSION,
            release=release,
            sha256=self._release.sha256,
            datasets=tuple(release["datasets"]),
            guidelines=tuple(_build_facts(guideline) for guideline in self._guidelines),
            batches=tuple(self._batches()),
            people=len(self._people),
            files=tuple(packed.facts),
        )

    def _batches(self) -> Iterator[BatchFacts]:
        """Those with labels in the release; of the others nothing is told."""
        counts = (
            self._release.items.order_by().values_list("task__batch").annotate(n=Count("task", distinct=True))
        )
        tasks = dict(counts)
        batches = Batch.objects.filter(pk__in=tasks).select_related("guideline")
        strata = list_portable_strata(self._release)
        for batch in sorted(batches, key=lambda batch: batch.name):
            yield BatchFacts(
                name=batch.name,
                guideline=str(batch.guideline),
                overlap=batch.overlap,
                tolerance=batch.tolerance,
                tasks=tasks[batch.pk],
                selection=None if strata is None else _read_strata(strata.get(batch.name, ())),
            )


def _read_strata(strata: Iterable[Mapping[str, Any]]) -> tuple[StratumFacts, ...]:
    return tuple(StratumFacts.model_validate(facts) for facts in strata)


def _build_facts(guideline: Guideline) -> GuidelineFacts:
    return GuidelineFacts(name=guideline.name, version=guideline.version, sha256=guideline.sha256)


def _write_line(file: IO[str], **fields: Any) -> None:
    file.write(_encode(fields) + "\n")


def _format_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds")


def _read_pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            yield piece
