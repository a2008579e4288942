"""A bundle of another site taken in: its release comes out again by the rules, or nothing is stored.

Everything goes through the services by which files are taken in, and the labels through the same replay. At the end a
release is cut from the new batches; only if it has the sha256 of the bundle's release is the import kept.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4

from django.db import transaction
from django.db.models import F

from annotation.core.errors import N_, AssayError, Conflict, Forbidden, InputError
from annotation.core.garbage import collect_rarely
from annotation.core.names import check_name, check_printable_name
from annotation.core.write_behind import WriteBehind
from annotation.domain.annotations import MARKABLE
from annotation.domain.batch_spec import Policy
from annotation.domain.datasets import response_sha256
from annotation.domain.formats import ANNOTATIONS as KIND
from annotation.domain.formats import (
    FORMATS,
    AnnotationRecord,
    Format,
    PromptRecord,
    Reader,
    ResponseRecord,
    Source,
)
from annotation.domain.formats.base import Judgement
from annotation.domain.formats.bundle import (
    ADJUDICATIONS,
    ANNOTATIONS,
    FORMAT,
    PROMPTS,
    RESPONSES,
    TASKS,
    BatchFacts,
    Bundle,
    BundleManifest,
)
from annotation.domain.formats.generic import read_prompt_ref
from annotation.domain.formats.rows import FileRow
from annotation.domain.release_spec import ReleaseSpec
from annotation.domain.releases.origins import check_protocol, read_carried_protocols
from annotation.domain.releases.selection import DrawnStratum
from annotation.domain.slates import group_entries
from annotation.models import (
    Batch,
    Dataset,
    GoldRelease,
    Guideline,
    Import,
    Person,
)
from annotation.selectors.access import sealed_datasets
from annotation.selectors.imports import find_prompts_by_key
from annotation.selectors.selection import NO_DIMENSION
from annotation.services.batches.batches import create_empty_batch, set_state
from annotation.services.batches.collection import settle_imported
from annotation.services.batches.draws import record_draw
from annotation.services.guidelines import load_guideline
from annotation.services.imports.bundle_labels import (
    LabelGroup,
    parse_adjudication,
    parse_annotation,
    parse_task,
)
from annotation.services.imports.datasets import PromptShelf, ResponseShelf
from annotation.services.imports.places import Members
from annotation.services.imports.run import CHUNK, PLAIN, ImportReport, Intake, Problems, Run
from annotation.services.releases import cut_release
from annotation.services.slates import StatedSlate, add_slates
from annotation.services.studies import find_or_make_study

# How far each part goes, of the whole; the rest is the release that is cut at the end.
CHECK_SHARE, STORE_SHARE = 0.1, 0.9
USERNAME_FORMAT = "bundle-{sha256}-{pseudonym}"
_PARSE = FORMATS["jsonl"]
Group: TypeAlias = tuple[str, str]
"""The names of a batch and a dataset."""
R = TypeVar("R")


@dataclass(frozen=True)
class BundleNames:
    """What is to be called otherwise here: batches by their names in the bundle. ``release`` is cut if it is named.
    ``protocol`` is what whoever imports the bundle has to say of how its labels were made.
    """

    batches: Mapping[str, str] = field(default_factory=dict)
    release: str = ""
    protocol: str = ""


@transaction.atomic
def import_bundle(*, source: Source, called: BundleNames = BundleNames(), run: Run = PLAIN) -> ImportReport:
    """Take in the guidelines, datasets, models, responses, people and labels of a bundle, and make its batches.

    What is here already must be the same; the batches must not be here. They are closed at the end: what came from
    elsewhere is finished. The same file again changes nothing.
    """
    bundle = Bundle(source)
    names = batch_names(bundle.manifest, called.batches)
    _refuse_blind(bundle.manifest, run.actor)
    bundle_import = _BundleImport(bundle, names, run)
    before = bundle_import.earlier()
    if before is not None:
        _refuse_late(called.release, bundle.manifest)
        return before
    refuse_taken(names, called.release)
    bundle_import.begin()
    bundle.check(lambda done: run.progress(CHECK_SHARE * done))
    with collect_rarely(), WriteBehind() as writes:
        bundle_import.take_all(writes)
    bundle_import.verify(called.release)
    return bundle_import.finish(check_protocol(called.protocol))


def batch_names(manifest: BundleManifest, called: Mapping[str, str]) -> dict[str, str]:
    """What each batch of the bundle is called here; refused where two would be called alike."""
    known = [batch.name for batch in manifest.batches]
    for name in called:
        if name not in known:
            raise AssayError(
                N_("The bundle has no batch {name}; it has: {known}."), name=name, known=", ".join(known)
            )
    names = {name: check_name(called.get(name) or name) for name in known}
    if len(set(names.values())) < len(names):
        raise AssayError(N_("Two batches of the bundle would be called alike; give each its own name."))
    return names


def check_coming(bundle: Bundle, called: BundleNames, actor: Person | None) -> None:
    """Raise at once what ``import_bundle`` would refuse before it looks at the contents."""
    names = batch_names(bundle.manifest, called.batches)
    _refuse_blind(bundle.manifest, actor)
    refuse_taken(names, called.release)


def refuse_taken(names: Mapping[str, str], release: str) -> None:
    batch = Batch.objects.filter(name__in=names.values()).first()
    if batch is not None:
        raise Conflict(
            N_("There is already a batch named {name}; give the bundle's another name."), name=batch.name
        )
    if release and GoldRelease.objects.filter(name=check_name(release)).exists():
        raise Conflict(N_("There is already a gold release named {name}."), name=release)


def _refuse_late(release: str, manifest: BundleManifest) -> None:
    """Who asks for the release only when the bundle is here already is told where to get it."""
    if release and not GoldRelease.objects.filter(name=release, sha256=manifest.sha256).exists():
        raise Conflict(
            N_("This bundle was taken in before, without keeping its release: cut {name} from its batches."),
            name=release,
        )


def _refuse_blind(manifest: BundleManifest, actor: Person | None) -> None:
    """A bundle's report, and its batches, would tell whoever judges the same responses blind too much."""
    blind = sealed_datasets(actor).filter(name__in=manifest.datasets).first() if actor else None
    if blind is not None:
        raise Forbidden(
            N_("You work in a batch of the dataset {name}: somebody else must import this."), name=blind.name
        )


class _BundleImport:
    """A bundle on its way in. ``names`` are what its batches are called here."""

    def __init__(self, bundle: Bundle, names: Mapping[str, str], run: Run) -> None:
        self._bundle, self._names, self._run = bundle, names, run
        self._manifest = bundle.manifest
        self._report = ImportReport(kind=KIND, format=FORMAT, file=bundle.source.name)
        self._sha256 = bundle.source.sha256
        self._datasets: dict[str, Dataset] = {}
        self._batches: dict[str, Batch] = {}
        self._members: dict[str, Members] = {}
        self._groups: dict[Group, LabelGroup] = {}
        self._done = 0
        tables = (PROMPTS, RESPONSES, TASKS, ANNOTATIONS, ADJUDICATIONS)
        self._total = max(1, sum(map(self._manifest.lines, tables)))

    def earlier(self) -> ImportReport | None:
        """The report of a file that was taken in before under these names: all of it is there."""
        for row in Import.objects.filter(format=FORMAT, sha256=self._sha256):
            if "taken" in row.report and row.options.get("batches") == self._names:
                self._report.already_there = row.report["taken"] + row.report["already_there"]
                return self._report
        return None

    def begin(self) -> None:
        """Make the row of the file, to which its labels point, with what the bundle says of how they were made."""
        self._run = self._run.start(self._bundle.source)
        row = self._run.get_or_build_row(self._bundle.source)
        row.carried_protocols = {
            self._names[name]: protocol.to_json()
            for name, protocol in read_carried_protocols(self._manifest.release).items()
            if name in self._names
        }

    def take_all(self, writes: WriteBehind) -> None:
        guidelines = {facts.reference: self._import_guideline(facts) for facts in self._manifest.guidelines}
        self._datasets = {
            name: self._intake(PROMPTS).get_or_make_dataset(name) for name in self._manifest.datasets
        }
        self._import_prompts()
        self._import_responses()
        if any(guideline.document.unit == "slate" for guideline in guidelines.values()):
            self._make_slates()
        for facts in self._manifest.batches:
            self._batches[facts.name] = self._batch(facts, guidelines[facts.guideline])
        if self._manifest.lines(TASKS):
            self._import_tasks(writes)
        self._import_labels(ANNOTATIONS, parse_annotation, writes)
        for facts in self._manifest.batches:
            if facts.plan is not None and facts.plan.ends_collection:
                settle_imported(self._batches[facts.name])
        self._import_labels(ADJUDICATIONS, parse_adjudication, writes)
        for facts in self._manifest.batches:
            self._finish_batch(facts)

    def verify(self, name: str) -> None:
        """Cut the release, for good where it is named, else to see its hash alone."""
        batches = tuple(batch.pk for batch in self._batches.values())
        if name:
            release = cut_release(ReleaseSpec(name=name, batches=batches), actor=self._run.actor)
            sha256 = release.sha256
            self._report.add_made("releases")
        else:
            with transaction.atomic():
                sha256 = cut_release(ReleaseSpec(name=f"bundle-{uuid4().hex}", batches=batches)).sha256
                transaction.set_rollback(True)
        if sha256 != self._manifest.sha256:
            raise self._bundle.error(
                N_("its labels give a release with the sha256 {found}, not {expected}; nothing was kept."),
                found=sha256,
                expected=self._manifest.sha256,
            )
        self._report.note(
            N_("Checked: a release cut from it has the sha256 of the bundle's, {sha256}."), sha256=sha256
        )
        self._run.progress(1.0)

    def finish(self, protocol: str | None) -> ImportReport:
        options: dict[str, Any] = {"batches": dict(self._names), "datasets": list(self._manifest.datasets)}
        if len(self._names) == 1:
            options["batch"] = next(iter(self._names.values()))
        if len(self._datasets) == 1:
            options["dataset"] = next(iter(self._datasets))
        target = f"batch:{', '.join(self._names.values())}"
        return self._intake(ANNOTATIONS).finish(target=target, protocol=protocol, **options)

    def _import_guideline(self, facts: Any) -> Guideline:
        """The version as it was published; one of this name that is here must be the same."""
        stored = Guideline.objects.filter(name=facts.name, version=facts.version).first()
        if stored is not None and stored.sha256 != facts.sha256:
            raise self._bundle.error(
                N_(
                    "the guideline {guideline} is here with another text; the bundle's cannot take its place."
                ),
                facts.file,
                guideline=facts.reference,
            )
        self._report.add_made("guidelines", int(stored is None))
        text, place = self._bundle.text(facts.file), self._bundle.place(facts.file)
        guideline = load_guideline(text=text, path=place, publish=True, actor=self._run.actor)
        if (guideline.name, guideline.version, guideline.sha256) != (facts.name, facts.version, facts.sha256):
            raise self._bundle.error(N_("this is not the guideline that the manifest names."), facts.file)
        return guideline

    def _batch(self, facts: BatchFacts, guideline: Guideline) -> Batch:
        plan = {} if facts.plan is None else facts.plan.model_dump(exclude={"annotations"})
        policy = Policy(overlap=facts.overlap, tolerance=facts.tolerance, second_reading_share=0, **plan)
        name = self._names[facts.name]
        self._report.add_made("batches")
        study = find_or_make_study(actor=self._run.actor)
        batch = create_empty_batch(
            name=name, study=study, guideline=guideline, policy=policy, actor=self._run.actor
        )
        self._members[facts.name] = Members(
            batch, may_make=True, is_own=True, tell=False, report=self._report
        )
        return batch

    def _finish_batch(self, facts: BatchFacts) -> None:
        batch = self._batches[facts.name]
        tasks, complete = batch.tasks.count(), batch.tasks.filter(slots_taken=F("overlap")).count()
        if not tasks == complete == facts.tasks:
            raise self._bundle.error(
                N_(
                    "the batch {batch} has {found} responses with all their annotations; its manifest says {expected}."
                ),
                ANNOTATIONS,
                batch=facts.name,
                found=complete,
                expected=facts.tasks,
            )
        record_draw(batch, _list_strata(batch, facts), imported=True)
        set_state(batch=batch, state=Batch.State.CLOSED, actor=self._run.actor)
        # It was closed elsewhere: whoever brings it here has its labels in their file.
        Batch.objects.filter(pk=batch.pk).update(closed_by=None)

    def _import_prompts(self) -> None:
        shelves: dict[str, PromptShelf] = {}
        for name, records in self._group_records(PROMPTS, _parse_prompt, self._dataset_of):
            intake = self._intake(PROMPTS, dataset=name)
            shelf = shelves.setdefault(name, PromptShelf(intake, self._datasets[name]))
            self._refuse_other_prompts(intake, self._datasets[name], records)
            self._report.add_made("prompts", sum(shelf.add_records(records)))

    def _refuse_other_prompts(
        self, intake: Intake, dataset: Dataset, records: Sequence[PromptRecord]
    ) -> None:
        """Of a prompt that is here all must be the same: its dimension decides what is asked."""
        stored = find_prompts_by_key(dataset, (record.ref.key for record in records))
        for record in records:
            known = stored.get(record.ref.key)
            for name in ("dimension", "subcomponent", "language", "attack_method", "malice"):
                if known is not None and (getattr(known, name) or "") != (getattr(record, name) or ""):
                    raise intake.build_error(
                        record.line,
                        name,
                        N_("the prompt {id} of the dataset {dataset} is here with another {what}: “{kept}”."),
                        id=record.ref.key,
                        dataset=dataset.name,
                        what=name,
                        kept=getattr(known, name) or "",
                    )

    def _import_responses(self) -> None:
        shelves: dict[str, ResponseShelf] = {}
        for name, records in self._group_records(RESPONSES, _parse_response, self._dataset_of):
            intake = self._intake(RESPONSES, dataset=name)
            own = replace(intake, report=ImportReport(kind=KIND, format=FORMAT, file=intake.source.name))
            shelf = shelves.setdefault(name, ResponseShelf(own, self._datasets[name]))
            before = shelf.report.imported
            shelf.add_records(records)
            self._report.add_made("responses", shelf.report.imported - before)
        for shelf in shelves.values():
            self._report.include(shelf.report)

    def _make_slates(self) -> None:
        """What of the responses are slates, with the responses that stand on them."""
        rows = (
            row for row in self._bundle.rows(RESPONSES) if isinstance(row, FileRow) and ENTRIES in row.fields
        )
        while chunk := list(islice(rows, CHUNK)):
            slates: dict[str, list[StatedSlate]] = defaultdict(list)
            for row in chunk:
                slates[self._dataset_of(row)].append(_build_slate(row))
            for name, stated in slates.items():
                add_slates(self._datasets[name], stated)

    def _import_tasks(self, writes: WriteBehind) -> None:
        """Make the tasks of which the bundle says how many annotations each has, with what a model said of them."""
        for (batch, dataset), records in self._group_records(TASKS, parse_task, self._group_of):
            group = self._get_group(batch, dataset, self._intake(TASKS, dataset=dataset), writes)
            overlaps = {record.place: record.annotations for record in records}
            self._report.add_made("tasks", group.make_tasks(overlaps, overlaps))
            group.add_posteriors(records)

    def _import_labels(
        self, table: str, parse: Callable[[FileRow], Iterable[Judgement]], writes: WriteBehind
    ) -> None:
        for (batch, dataset), records in self._group_records(table, parse, self._group_of):
            group = self._get_group(batch, dataset, self._intake(table, dataset=dataset), writes)
            known = [self._rename_person(record) for record in records]
            if table == ANNOTATIONS:
                places = {(record.ref.key, record.model, record.collection or "") for record in known}
                self._report.add_made("tasks", group.make_tasks(places))
            self._report.imported += group.take(known)
        for group in self._groups.values():
            group.finish()

    def _rename_person(self, record: Judgement) -> Judgement:
        """Under the name that the person has here: it tells of which file they came, and cannot be anybody's else."""
        if isinstance(record, AnnotationRecord):
            return replace(record, annotator=self._build_username(record.annotator))
        return replace(record, adjudicator=self._build_username(record.adjudicator))

    def _build_username(self, pseudonym: str) -> str:
        return USERNAME_FORMAT.format(sha256=self._sha256[:8], pseudonym=pseudonym)

    def _get_group(self, batch: str, dataset: str, intake: Intake, writes: WriteBehind) -> LabelGroup:
        group = self._groups.get((batch, dataset))
        if group is None or group.intake.source.name != intake.source.name:
            members = self._members[batch]
            group = LabelGroup(intake, self._batches[batch], self._datasets[dataset], members, writes)
            self._groups[batch, dataset] = group
        return group

    def _group_records(
        self, table: str, parse: Callable[[FileRow], Iterable[R]], key: Callable[[FileRow], Any]
    ) -> Iterator[tuple[Any, list[R]]]:
        """The records of a table, about a thousand at a time, those with one key together."""
        rows = self._bundle.rows(table)
        while chunk := list(islice(rows, CHUNK)):
            records_by_key: dict[Any, list[R]] = defaultdict(list)
            for row in chunk:
                if isinstance(row, InputError):
                    raise row
                records_by_key[key(row)].extend(parse(row))
            yield from records_by_key.items()
            self._done += len(chunk)
            self._run.progress(CHECK_SHARE + (STORE_SHARE - CHECK_SHARE) * self._done / self._total)

    def _dataset_of(self, row: FileRow) -> str:
        name = row.text("dataset")
        if name not in self._datasets:
            raise row.error(
                N_("the manifest names no dataset {name}."), field="dataset", name=repr(name[:100])
            )
        return name

    def _group_of(self, row: FileRow) -> Group:
        name = row.text("batch")
        if name not in self._names:
            raise row.error(N_("the manifest names no batch {name}."), field="batch", name=repr(name[:100]))
        return name, self._dataset_of(row)

    def _intake(self, table: str, *, dataset: str | None = None) -> Intake:
        return Intake(
            source=Source(self._bundle.source.path, self._bundle.place(table)),
            form=_build_format(self._bundle, dataset),
            run=self._run,
            report=self._report,
            problems=Problems(1),
            sha256=self._sha256,
        )


ENTRIES = "entries"


def _build_slate(row: FileRow) -> StatedSlate:
    return StatedSlate(
        read_prompt_ref(row).key,
        row.name("model"),
        row.optional_name("collection") or "",
        tuple((model, collection) for model, collection in row.fields[ENTRIES]),
    )


def _restore_entries(row: FileRow, record: ResponseRecord) -> ResponseRecord:
    """With the turns as they stand there: those of a slate say of which entry they are."""
    return replace(record, turns=row.fields["turns"]) if ENTRIES in row.fields else record


def _list_entries(row: FileRow, slate: ResponseRecord) -> Iterator[ResponseRecord]:
    entries, groups = row.fields[ENTRIES], group_entries(slate.turns)
    is_list = isinstance(entries, list) and all(
        isinstance(entry, list) and len(entry) == 2 and all(isinstance(name, str) for name in entry)
        for entry in entries
    )
    if not is_list or list(groups) != list(range(1, len(entries) + 1)):
        raise row.error(
            N_("write the model and the collection of each entry of the slate, in its order."), field=ENTRIES
        )
    for (model, collection), places in zip(entries, groups.values(), strict=True):
        turns = [{name: slate.turns[place][name] for name in ("role", "text")} for place in places]
        is_text = len(turns) == 1 and turns[0]["role"] == MARKABLE
        yield replace(
            slate,
            model=check_printable_name(model),
            collection=collection,
            text=turns[0]["text"] if is_text else "",
            turns=[] if is_text else turns,
        )


def _list_strata(batch: Batch, facts: BatchFacts) -> list[DrawnStratum]:
    """How its responses were selected where it was made; nothing of a batch whose release did not know."""
    by_name: dict[tuple[str, str, str, str], int] = {}
    counts: Counter[tuple[str, str]] = Counter()
    rows = batch.tasks.order_by().values_list(
        "response",
        "response__model__name",
        "prompt__dataset__name",
        "prompt__key",
        "response__collection__name",
        "prompt__dimension",
    )
    for response, model, *name, dimension in rows:
        by_name[model, name[0], name[1], name[2]] = response
        counts[model, dimension if batch.guideline.document.dimensions else NO_DIMENSION] += 1
    strata = []
    for stratum in facts.selection or ():
        names = None if stratum.responses is None else [(stratum.model, *name) for name in stratum.responses]
        responses = None if names is None else tuple(by_name[name] for name in names if name in by_name)
        strata.append(
            DrawnStratum(
                model=stratum.model,
                dimension=stratum.dimension,
                low=stratum.low,
                high=stratum.high,
                pool=stratum.pool,
                size=counts[stratum.model, stratum.dimension] if responses is None else len(responses),
                chance=stratum.chance,
                reason=stratum.reason,
                responses=responses,
            )
        )
    return strata


def _build_format(bundle: Bundle, dataset: str | None) -> Format:
    """The bundle's tables as a format, for whoever looks up where a prompt or a response was first."""

    def rows(table: str) -> Callable[[Source], Iterator[FileRow | InputError]]:
        return lambda _source: (
            row
            for row in bundle.rows(table)
            if isinstance(row, FileRow) and row.fields.get("dataset") == dataset
        )

    return Format(
        name=FORMAT,
        is_json=True,
        guess=lambda _fields: None,
        prompts=Reader(rows=rows(PROMPTS), parse=_parse_prompt, known=None),
        responses=Reader(rows=rows(RESPONSES), parse=_parse_response, known=None),
    )


def _parse_prompt(row: FileRow) -> Iterable[PromptRecord]:
    return _PARSE.prompt_reader().parse(row)


def _parse_response(row: FileRow) -> Iterator[ResponseRecord]:
    """Of a slate first the responses that stand on it."""
    for record in map(partial(_restore_entries, row), _PARSE.response_reader().parse(row)):
        if ENTRIES in row.fields:
            yield from _list_entries(row, record)
        if response_sha256(record.text, record.turns) != row.fields.get("sha256"):
            raise row.error(N_("the response has not this sha256."), field="sha256")
        yield record
