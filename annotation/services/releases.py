"""Cutting a gold release: one transaction that freezes the settled labels of chosen batches.

It sees one state of the database from its first statement to its last: what is settled meanwhile is neither among the
labels nor counted in the manifest.

It is cut at once, or by a job where there are many labels. A failed, cancelled or killed job leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby
from operator import attrgetter
from typing import Any, TypeAlias

from django.db import IntegrityError, transaction
from django.db.models import F, Max, QuerySet

from annotation.core.databases import run_in_snapshot
from annotation.core.errors import N_, Conflict, NotFound
from annotation.domain.release_spec import ReleaseSpec
from annotation.domain.releases.canonical import number, release_sha256
from annotation.domain.verbs import AnnotationVerb
from annotation.models import AuditEvent, Batch, GoldRelease, Job, Person, ReleasedLabel
from annotation.models.sql.releases import FrozenLabel, freeze_labels
from annotation.selectors.access import refuse_sealed_gold
from annotation.selectors.releases.candidates import ReleaseNames, iterate_frozen_labels, list_settled_labels
from annotation.selectors.releases.manifest import ManifestCounts, build_manifest
from annotation.selectors.releases.releases import RELEASE_JOB
from annotation.selectors.releases.selection import store_chances
from annotation.selectors.selection import read_selection
from annotation.services import jobs
from annotation.services.audit import record
from annotation.services.jobs import ProgressReporter
from annotation.services.sharing import refuse_borrowed
from annotation.services.table_statistics import refresh_statistics

MAX_EXAMPLES = 10
"""How many contradictions an error names; the rest are counted, and ``list_contradicted_keys`` finds all of them."""
CONTRADICTED = N_("{count} labels are settled in two ways; leave out one of their batches: {listed}")
DROPPED_AT_ONCE = 500
Report: TypeAlias = Callable[[float, str], object]  # from 0 to 1, and what is being done


class Contradicted(Conflict):
    """One response is settled in two ways by the chosen batches."""

    code = "contradicted"


def cut_release(
    spec: ReleaseSpec,
    *,
    actor: Person | None = None,
    report: Report = lambda _done, _stage: None,
    job: int | None = None,
) -> GoldRelease:
    """Freeze the settled labels of the batches' work tasks, with everything behind them.

    A response that two tasks settled alike is taken once; settled differently, everything is refused. The release
    that it supersedes stays as it is, and says from now on by what it is superseded. ``job`` is the one that cuts it.
    """
    # Who opens results is noted first, in a transaction of its own: the lock against joining a batch at this moment is
    # worth something only to who then sees the memberships of this moment, which a snapshot does not.
    with transaction.atomic():
        check_release(spec, actor=actor)
    return run_in_snapshot(lambda: _cut_release(spec, actor, report, job))


def _cut_release(spec: ReleaseSpec, actor: Person | None, report: Report, job: int | None) -> GoldRelease:
    # Nobody edits how a batch was drawn or worked on while that is written down.
    list(Batch.objects.select_for_update(no_key=True).filter(pk__in=spec.batches).order_by("pk").only("pk"))
    batches = list_batches(spec)
    check_release(spec, actor=actor)
    release = _create_release(spec, batches, actor)
    report(0, N_("freezing the labels"))
    selection = read_selection(batches)
    labels = _freeze_labels(release, chance=1.0 if selection.is_whole else None)
    counts = _hash_labels(release, batches, labels, report)
    store_chances(release, selection)
    report(0.8, N_("measuring agreement"))
    release.manifest = build_manifest(release, batches, counts, selection.rows)
    release.save()
    superseded = {"supersedes": release.supersedes.name} if release.supersedes else {}
    record(
        actor=actor,
        verb=AnnotationVerb.RELEASE_GOLD,
        target=f"release:{release.name}",
        sha256=release.sha256,
        labels=release.labels,
        **superseded,
        **({} if job is None else {"job": job}),
    )
    report(1, "")
    return release


def list_batches(spec: ReleaseSpec) -> list[Batch]:
    """The batches in the order in which they are named."""
    batches = Batch.objects.select_related("guideline").in_bulk(spec.batches)
    if not batches:
        raise NotFound(N_("Its batches are not there any more."))
    if len({batch.study_id for batch in batches.values()}) > 1:
        raise Conflict(N_("These batches are of several studies: a release is of one."))
    return [batches[pk] for pk in spec.batches if pk in batches]


def check_release(spec: ReleaseSpec, *, actor: Person | None = None) -> None:
    """Raise at once what ``cut_release`` would refuse before it looks at the labels."""
    batches = list_batches(spec)
    superseded = _find_superseded(spec, GoldRelease.objects.all())
    if actor is not None:
        refuse_sealed_gold(actor, batches)
        if superseded is not None:
            refuse_sealed_gold(actor, superseded.batches.all())
    if GoldRelease.objects.filter(name=spec.name).exists():
        raise Conflict(N_("There is already a gold release named {name}."), name=spec.name)
    if superseded is not None:
        _check_heir(superseded, batches)


def _find_superseded(spec: ReleaseSpec, releases: QuerySet[GoldRelease]) -> GoldRelease | None:
    superseded = None if spec.supersedes is None else releases.filter(pk=spec.supersedes).first()
    if superseded is not None:
        refuse_borrowed(superseded)
    return superseded


def _check_heir(old: GoldRelease, batches: Sequence[Batch]) -> None:
    """A release has one heir at most, which is of the same kind: an overlapping batch, or the same guideline."""
    heir = GoldRelease.objects.filter(supersedes=old).first()
    if heir is not None:
        raise Conflict(
            N_("{name} is superseded by {heir} already: name that one, or the last that superseded it."),
            name=old.name,
            heir=heir.name,
        )
    before = set(old.batches.values_list("pk", flat=True))
    guidelines = set(old.batches.values_list("guideline__name", flat=True))
    if before.isdisjoint(batch.pk for batch in batches) and guidelines.isdisjoint(
        batch.guideline.name for batch in batches
    ):
        raise Conflict(
            N_(
                "{name} has none of these batches and none of their guidelines, so nothing here can supersede it."
            ),
            name=old.name,
        )


def _create_release(spec: ReleaseSpec, batches: Sequence[Batch], actor: Person | None) -> GoldRelease:
    superseded = _find_superseded(spec, GoldRelease.objects.all())
    if superseded is not None:
        # Written as it is: of two that would supersede it at once, the second begins again, and finds the first.
        GoldRelease.objects.filter(pk=superseded.pk).update(name=F("name"))
        _check_heir(superseded, batches)
    fields: dict[str, Any] = {
        "created_by": actor,
        "about": spec.about,
        "supersedes": superseded,
        "labels": 0,
        "adjudicated": 0,
    }
    try:
        with transaction.atomic():
            release = GoldRelease.objects.create(study=batches[0].study, name=spec.name, **fields)
    except IntegrityError as error:
        raise Conflict(N_("There is already a gold release named {name}."), name=spec.name) from error
    release.batches.set(batches)
    return release


def _freeze_labels(release: GoldRelease, *, chance: float | None) -> tuple[int, int]:
    """Write the released labels. Their ids are above the first and up to the second number."""
    last = ReleasedLabel.objects.aggregate(pk=Max("pk"))["pk"] or 0
    written = freeze_labels(release.pk, chance=chance)
    if not written:
        names = ", ".join(sorted(release.batches.values_list("name", flat=True)))
        raise Conflict(N_("Nothing is settled yet in {batches}; there is no gold to release."), batches=names)
    refresh_statistics(ReleasedLabel, rows=written)
    return last, ReleasedLabel.objects.aggregate(pk=Max("pk"))["pk"]


def _hash_labels(
    release: GoldRelease, batches: Sequence[Batch], labels: tuple[int, int], report: Report
) -> ManifestCounts:
    """Read what was frozen, once: hash it, count it, and drop what is there twice."""
    names = ReleaseNames(batches)
    counts, doubles = ManifestCounts(names), DuplicateLabels(names)
    parts = _report_chunks(iterate_frozen_labels(release, after=labels[0], to=labels[1]), labels, report)
    release.sha256 = release_sha256(
        names.settled(label).line
        for of_prompt in _group_by_prompt(chain.from_iterable(parts))
        for label in counts.counted(doubles.drop_duplicates(of_prompt))
    )
    doubles.refuse_contradictions()
    doubles.delete_dropped()
    release.labels, release.adjudicated = counts.labels, counts.adjudicated
    return counts


def _report_chunks(
    parts: Iterable[list[FrozenLabel]], labels: tuple[int, int], report: Report
) -> Iterator[list[FrozenLabel]]:
    for part in parts:
        if part:
            done = (part[-1].pk - labels[0]) / (labels[1] - labels[0])
            report(0.4 + 0.4 * done, N_("hashing and counting"))
        yield part


def _group_by_prompt(labels: Iterable[FrozenLabel]) -> Iterator[list[FrozenLabel]]:
    last = 0
    for prompt, of_prompt in groupby(labels, key=attrgetter("prompt")):
        if prompt <= last:
            raise RuntimeError("The database did not write the labels in the order of their prompts.")
        last = prompt
        yield list(of_prompt)


@dataclass
class DuplicateLabels:
    """Takes one label for each thing that was labelled, and notes which are too many, or contradict each other."""

    names: ReleaseNames
    dropped: list[int] = field(default_factory=list)
    contradicted: int = 0
    examples: list[list[FrozenLabel]] = field(default_factory=list)

    def drop_duplicates(self, of_prompt: list[FrozenLabel]) -> list[FrozenLabel]:
        by_key: dict[tuple[object, ...], list[FrozenLabel]] = {}
        for label in of_prompt:
            key = (self.names.guidelines[label.batch][0], label.model, label.response_sha256, label.criterion)
            by_key.setdefault(key, []).append(label)
        if len(by_key) == len(of_prompt):
            return of_prompt
        return [self._pick_label(same) for same in by_key.values()]

    def _pick_label(self, same: list[FrozenLabel]) -> FrozenLabel:
        if len({label.value for label in same}) > 1:
            self.contradicted += 1
            self.examples += [same] if self.contradicted <= MAX_EXAMPLES else []
        first = min(same, key=self._build_sort_key)
        self.dropped += [label.pk for label in same if label is not first]
        return first

    def _build_sort_key(self, label: FrozenLabel) -> tuple[bytes, str, int]:
        """Which of several equal labels is taken: the first in this order, the same on any machine."""
        return self.names.settled(label).line, self.names.batches[label.batch].name, label.position

    def refuse_contradictions(self) -> None:
        if not self.contradicted:
            return
        more = self.contradicted - len(self.examples)
        raise Contradicted(
            CONTRADICTED,
            count=self.contradicted,
            listed="; ".join(map(self._format_contradiction, self.examples))
            + (f"; + {more}" if more else ""),
        )

    def _format_contradiction(self, same: list[FrozenLabel]) -> str:
        label = self.names.settled(same[0])
        places = sorted(
            (self.names.batches[other.batch].name, other.position, str(number(other.value))) for other in same
        )
        values = ", ".join(f"{batch}: {value}" for batch, _position, value in places)
        return f"{label.dataset}/{label.prompt} {label.model} {label.criterion} ({values})"

    def delete_dropped(self) -> None:
        for start in range(0, len(self.dropped), DROPPED_AT_ONCE):
            ReleasedLabel.objects.filter(pk__in=self.dropped[start : start + DROPPED_AT_ONCE]).delete()


# So many labels are frozen while the page waits: a few seconds.
MAX_LABELS_AT_ONCE = 20_000
UNDER_WAY = (Job.State.QUEUED, Job.State.RUNNING)


def create_or_enqueue_release(spec: ReleaseSpec, *, actor: Person) -> GoldRelease | Job:
    """The release, or the job that cuts it. What cannot be cut is refused at once (AssayError)."""
    if list_settled_labels(list_batches(spec))[: MAX_LABELS_AT_ONCE + 1].count() <= MAX_LABELS_AT_ONCE:
        return cut_release(spec, actor=actor)
    return enqueue_release(spec, actor=actor)


def enqueue_release(spec: ReleaseSpec, *, actor: Person | None = None, send: bool = True) -> Job:
    """The job that cuts the release. With ``send`` False the caller runs it in its own process."""
    check_release(spec, actor=actor)
    if Job.objects.filter(kind=RELEASE_JOB, state__in=UNDER_WAY, payload__name=spec.name).exists():
        raise Conflict(N_("A release named {name} is being cut now."), name=spec.name)
    payload = spec.model_dump(mode="json")
    return jobs.enqueue(kind=RELEASE_JOB, payload=payload, title=spec.name, actor=actor, send=send)


def execute_release_job(context: jobs.JobContext) -> dict[str, Any]:
    """The body of the job. Done again after a worker died, it finds the release cut, or nothing of it.

    The job's row is written on its own, for its progress was written while the release was cut: the release's snapshot
    is of before that. The audit trail says which job cut a release.
    """
    if "release" in context.job.result:
        return dict(context.job.result)
    spec = ReleaseSpec.model_validate(context.payload)
    context.report(0, N_("freezing the labels"))
    release = _find_cut_release(spec, context.job)
    if release is None:
        with ProgressReporter(context) as reporter:
            release = cut_release(
                spec, actor=context.job.created_by, report=reporter.report, job=context.job.pk
            )
    result = {"release": release.name, "labels": release.labels, "sha256": release.sha256}
    context.save_result(result)
    return result


def _find_cut_release(spec: ReleaseSpec, job: Job) -> GoldRelease | None:
    """The release that this job has cut already."""
    cuts = AuditEvent.objects.filter(
        verb=AnnotationVerb.RELEASE_GOLD, target=f"release:{spec.name}", data__job=job.pk
    )
    return GoldRelease.objects.filter(name=spec.name).first() if cuts.exists() else None
