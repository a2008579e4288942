"""Reading an export back: what the written files hold must be what the release holds, to the hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from annotation.core.errors import N_, Conflict
from annotation.domain.datasets import response_sha256
from annotation.domain.releases.canonical import SettledLabel, release_sha256
from annotation.domain.releases.gold_file import GoldRow
from annotation.models import GoldRelease
from annotation.services.exports.base import ExportCounts, ReportPosition

STEP = 1000


def check_gold(release: GoldRelease, rows: Iterable[GoldRow], tell: ReportPosition) -> ExportCounts:
    """Counts and the canonical sha256, computed from the rows as they were read from the file alone."""
    counted = 0

    def labels() -> Iterator[SettledLabel]:
        nonlocal counted
        for counted, row in enumerate(rows, 1):
            yield from list_settled_labels(row)
            if counted % STEP == 0:
                tell(counted)

    counter = _LabelCounter()
    sha256 = release_sha256(counter.lines(labels()))
    _check_release(release, ExportCounts(counted, counter.labels), sha256)
    return ExportCounts(counted, counter.labels)


def check_labels(release: GoldRelease, labels: Iterable[SettledLabel], tell: ReportPosition) -> int:
    """The same of gold labels that were settled anew from a file of raw ones; their number."""
    counter = _LabelCounter(tell)
    sha256 = release_sha256(counter.lines(labels))
    _check_release(release, ExportCounts(release.manifest["counts"]["rows"], counter.labels), sha256)
    return counter.labels


class _LabelCounter:
    """Counts labels on their way to the hash."""

    def __init__(self, tell: ReportPosition | None = None) -> None:
        self.labels = 0
        self._tell = tell

    def lines(self, labels: Iterable[SettledLabel]) -> Iterator[bytes]:
        for self.labels, label in enumerate(labels, 1):
            yield label.line
            if self._tell is not None and self.labels % STEP == 0:
                self._tell(self.labels)


def list_settled_labels(row: GoldRow) -> Iterator[SettledLabel]:
    """The labels of a row of the gold file, as the canonical form knows them."""
    text, turns = (row.response, []) if isinstance(row.response, str) else ("", row.response)
    sha256 = response_sha256(text, turns)
    for criterion, value in row.labels.items():
        yield SettledLabel(
            row.guideline,
            row.guideline_version,
            row.dataset,
            row.prompt_id,
            row.model,
            sha256,
            criterion,
            value,
            row.sources[criterion],
        )


def _check_release(release: GoldRelease, counted: ExportCounts, sha256: str) -> None:
    expected = release.manifest["counts"]
    if counted != (expected["rows"], expected["labels"]):
        raise Conflict(
            N_(
                "The file came out with {rows} rows and {labels} labels, the release has {all_rows} and {all_labels}."
            ),
            rows=counted.rows,
            labels=counted.labels,
            all_rows=expected["rows"],
            all_labels=expected["labels"],
        )
    if sha256 != release.sha256:
        raise Conflict(
            N_("The file came out with the sha256 {found}; the release has {expected}."),
            found=sha256,
            expected=release.sha256,
        )
