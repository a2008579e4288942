"""A release whole, in one zip that another site imports and cuts the same release from (docs/gold.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from django.db.models import Count, Sum

from annotation.core.errors import N_, Conflict
from annotation.domain.formats.bundle import (
    ADJUDICATIONS,
    ANNOTATIONS,
    GOLD,
    KIND,
    MANIFEST,
    PROMPTS,
    RESPONSES,
    TABLES,
    TASKS,
    VERSION,
    VERSION_WITH_PLANS,
    BatchFacts,
    Bundle,
    BundleManifest,
    BundleWriter,
    GuidelineFacts,
    PlanFacts,
    StratumFacts,
    TablePacker,
)
from annotation.domain.formats.generic import TEXTS
from annotation.domain.formats.rows import Source
from annotation.domain.releases.gold_file import GoldRow, jsonl_lines, jsonl_rows
from annotation.models import Batch, Guideline, LabelPosterior, Task
from annotation.selectors.releases.rows import ReleasedRow
from annotation.selectors.releases.selection import list_portable_strata
from annotation.selectors.releases.sources import SubmissionSource, TaskSources, parse_labels
from annotation.selectors.slates import read_sources
from annotation.services.exports.base import (
    ExportCounts,
    ExportSpec,
    Part,
    ReportPosition,
    WholeFile,
    Writer,
)
from annotation.services.exports.datasheet import render_markdown
from annotation.services.exports.verification import check_gold

FILE, TABLES_PREFIX = "bundle.zip", ".tables-"
LANGUAGES = {"datasheet.md": "en", "datasheet.zh.md": "zh"}
_encode = json.JSONEncoder(ensure_ascii=False).encode
_quoted = json.encoder.encode_basestring
# The names that many lines share.
_word = lru_cache(maxsize=4096)(_quoted)


class _BundleFormat(Writer):
    name = "bundle"
    title = N_("Bundle")
    about = N_(
        "One zip with the gold, the labels behind it and the guidelines; import_bundle takes it in elsewhere."
    )
    options = frozenset({"rationales", "times"})

    def parts(self, spec: ExportSpec) -> Sequence[Part]:
        def write(path: Path, tell: ReportPosition) -> None:
            _BundlePacker(spec).write(path, tell)

        return [WholeFile(FILE, write, total=spec.rows)]

    def check(self, folder: Path, spec: ExportSpec, tell: ReportPosition) -> ExportCounts:
        """The gold to the hash, and that for every row of it there is what it was settled from."""
        bundle = Bundle(Source(folder / FILE, FILE))
        manifest = bundle.manifest
        labels = sum(batch.annotations for batch in manifest.batches)
        if manifest.lines(ANNOTATIONS) != labels:
            raise Conflict(
                N_("The bundle came out with {found} annotations; its tasks have {expected}."),
                found=manifest.lines(ANNOTATIONS),
                expected=labels,
            )
        with ThreadPoolExecutor(1) as executor:  # unpacking leaves the interpreter to who reads the gold
            checking = executor.submit(bundle.check, later=GOLD)
            counts = check_gold(spec.release, list_gold_rows(bundle), tell)
            checking.result()
        return counts


BUNDLE = _BundleFormat()


def list_gold_rows(bundle: Bundle) -> Iterator[GoldRow]:
    """The rows of the bundle's gold file, which is checked on the way."""
    return jsonl_rows(line.decode() for line in bundle.checked_lines(GOLD))


class _TaskTotals(NamedTuple):
    tasks: int
    annotations: int


class _BundlePacker:
    """The tables are packed side by side, in one reading of the release, and then put into one zip."""

    def __init__(self, spec: ExportSpec) -> None:
        self._spec = spec
        self._release = spec.release
        self._prompts: set[int] = set()
        self._responses: set[int] = set()
        self._slates: Mapping[int, Sequence[tuple[str, str]]] = {}

    def write(self, path: Path, tell: ReportPosition) -> None:
        path.unlink(missing_ok=True)
        for left in path.parent.glob(f"{TABLES_PREFIX}*"):  # by an attempt that was killed
            rmtree(left, ignore_errors=True)
        with TemporaryDirectory(dir=path.parent, prefix=TABLES_PREFIX) as folder:
            tables = Path(folder)
            written = self._write_tables(tables, tell)
            with BundleWriter.open(path) as packed:
                for table in written:
                    if table.facts.name != TASKS or table.facts.bytes:
                        packed.add_table(table)
                    table.path.unlink()
                for guideline in self._guidelines:
                    packed.add(_build_facts(guideline).file, guideline.source.encode())
                for name, language in LANGUAGES.items():
                    packed.add(name, render_markdown(self._spec.manifest, language).encode())
                packed.add(MANIFEST, self._manifest(packed).to_json().encode())

    def _write_tables(self, folder: Path, tell: ReportPosition) -> Sequence[TablePacker]:
        done = 0
        with ExitStack() as stack:
            executor = stack.enter_context(ThreadPoolExecutor(1))
            files = {
                name: stack.enter_context(closing(TablePacker(folder / name, name, executor)))
                for name in TABLES
            }
            with_times = self._spec.options.times
            for rows in self._spec.released.chunks_with_sources(with_times=with_times):
                if self._spec.released.has_slates:
                    self._slates = read_sources(
                        [place.task.response for row in rows for place in row.sources]
                    )
                self._write_chunk(files, rows)
                self._write_plans(files[TASKS], [task for row in rows for task, _labels in row.labels])
                done += len(rows)
                tell(done)
        return list(files.values())

    def _write_chunk(self, files: Mapping[str, TablePacker], rows: Sequence[ReleasedRow]) -> None:
        files[GOLD].write("".join(jsonl_lines((row.gold for row in rows), self._spec.released.columns)))
        lines: dict[str, list[str]] = {name: [] for name in (PROMPTS, RESPONSES, ANNOTATIONS, ADJUDICATIONS)}
        for row in rows:
            for place in row.sources:
                self._add_lines(lines, place)
        for name, table_lines in lines.items():
            files[name].write("".join(table_lines))

    def _add_lines(self, lines: Mapping[str, list[str]], place: TaskSources) -> None:
        task = place.task
        if task.prompt not in self._prompts:
            self._prompts.add(task.prompt)
            prompt = {
                "dataset": task.dataset,
                "id": task.prompt_key,
                "prompt": task.prompt_text,
                "dimension": task.dimension,
                "subcomponent": task.subcomponent,
                "language": task.language,
                "attack_method": task.attack_method,
            }
            if task.malice:
                prompt["malice"] = task.malice
            if task.source:
                prompt["source"] = task.source
            lines[PROMPTS].append(f"{_encode(prompt)}\n")
        about = f'"dataset": {_word(task.dataset)}, "prompt_id": {_quoted(task.prompt_key)}'
        about += f', "model": {_word(task.model)}'
        if task.collection:
            about += f', "collection": {_word(task.collection)}'
        if task.response not in self._responses:
            self._responses.add(task.response)
            content = (
                f'"turns": {_encode(place.turns)}' if place.turns else f'"response": {_quoted(task.text)}'
            )
            if task.response in self._slates:
                content += f', "entries": {_encode(self._slates[task.response])}'
            lines[RESPONSES].append(f'{{{about}, {content}, "sha256": {_quoted(task.sha256)}}}\n')
        about = f'{{"batch": {_word(task.batch)}, {about}, '
        for word in place.annotations:
            lines[ANNOTATIONS].append(f"{about}{self._encode_annotation(word)}}}\n")
        if place.decision is not None:
            lines[ADJUDICATIONS].append(f"{about}{self._encode_decision(place.decision)}}}\n")

    def _write_plans(self, file: TablePacker, tasks: Sequence[int]) -> None:
        """What settles a task beside its labels: how many these are, and what a model said of all labels."""
        batches = [batch.pk for batch, facts in self._plans.items() if facts.lists_tasks]
        if not batches:
            return
        listed = Task.objects.filter(pk__in=tasks, batch__in=batches)
        posteriors: dict[int, dict[str, dict[str, float]]] = {}
        stored = LabelPosterior.objects.filter(task__in=listed).order_by("task_id", "criterion")
        for task, criterion, probabilities in stored.values_list("task_id", "criterion", "probabilities"):
            posteriors.setdefault(task, {})[criterion] = dict(sorted(probabilities.items()))
        names = ("batch__name", "prompt__dataset__name", "prompt__key", "response__model__name")
        rows = {
            pk: row for pk, *row in listed.values_list("pk", *names, "response__collection__name", "overlap")
        }
        lines = []
        for task in tasks:
            if task in rows:
                batch, dataset, prompt, model, collection, overlap = rows[task]
                about = {"batch": batch, "dataset": dataset, "prompt_id": prompt, "model": model}
                about |= {"collection": collection} if collection else {}
                chances = {"probabilities": posteriors[task]} if task in posteriors else {}
                lines.append(_encode(about | {"annotations": overlap} | chances) + "\n")
        file.write("".join(lines))

    @property
    def _people(self) -> Mapping[int, str]:
        return self._spec.people

    def _encode_annotation(self, word: SubmissionSource) -> str:
        """What was said; what was written and marked, and when, only if that was chosen. Without the braces."""
        flags = _encode(word.flags) if word.flags else "[]"
        text = f'"annotator": {_word(self._people[word.person])}, {_encode_label(word)}, "flags": {flags}'
        if word.texts:
            text += f', "{TEXTS}": {_encode(word.texts)}'
        if self._spec.options.rationales:
            text += f', "rationale": {_quoted(word.rationale)}, "evidence": {_encode(word.evidence)}'
        return text + self._encode_origin(word)

    def _encode_decision(self, word: SubmissionSource) -> str:
        text = f'"adjudicator": {_word(self._people[word.person])}, {_encode_label(word)}'
        if self._spec.options.rationales:
            text += f', "rationale": {_quoted(word.rationale)}'
        text += self._encode_origin(word)
        return f'{text}, "reason": {_word(word.reason)}' if word.reason else text

    def _encode_origin(self, word: SubmissionSource) -> str:
        text = f', "at": {_quoted(_format_time(word.at))}' if word.at and self._spec.options.times else ""
        if word.round:
            text += f', "round": {_word(word.round)}'
        return text if word.origin is None else f'{text}, "imported": {_encode(word.origin.as_json())}'

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
            version=VERSION_WITH_PLANS if self._plans else VERSION,
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
        strata = list_portable_strata(self._release)
        for batch in sorted(self._labelled, key=lambda batch: batch.name):
            yield BatchFacts(
                name=batch.name,
                guideline=str(batch.guideline),
                overlap=batch.overlap,
                tolerance=batch.tolerance,
                tasks=self._labelled[batch].tasks,
                selection=None if strata is None else _read_strata(strata.get(batch.name, ())),
                plan=self._plans.get(batch),
            )

    @cached_property
    def _labelled(self) -> dict[Batch, _TaskTotals]:
        """The batches with labels in the release, and of their tasks with labels how many there are."""
        tasks = Task.objects.filter(pk__in=self._release.items.order_by().values("task"))
        rows = tasks.order_by().values_list("batch").annotate(n=Count("pk"), labels=Sum("overlap"))
        totals = {batch: _TaskTotals(n, labels) for batch, n, labels in rows}
        batches = Batch.objects.select_related("guideline").in_bulk(totals)
        return {batches[pk]: totals[pk] for pk in totals}

    @cached_property
    def _plans(self) -> dict[Batch, PlanFacts]:
        """Of the batches that are not settled as most are."""
        return {
            batch: PlanFacts.model_validate(
                {name: getattr(batch, name, totals.annotations) for name in PlanFacts.model_fields}
            )
            for batch, totals in self._labelled.items()
            if not batch.is_even or batch.settling != Batch.Settling.ADJUDICATE
        }


def _read_strata(strata: Iterable[Mapping[str, Any]]) -> tuple[StratumFacts, ...]:
    return tuple(StratumFacts.model_validate(facts) for facts in strata)


def _build_facts(guideline: Guideline) -> GuidelineFacts:
    return GuidelineFacts(name=guideline.name, version=guideline.version, sha256=guideline.sha256)


def _encode_label(word: SubmissionSource) -> str:
    seconds = "null" if word.seconds is None else repr(word.seconds)
    return f'"labels": {_encode_labels(word.labels_json)}, "seconds": {seconds}'


@lru_cache(maxsize=4096)
def _encode_labels(labels: str) -> str:
    return _encode(parse_labels(labels))


def _format_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds")
