"""Reading an export back: what the written files hold must be what the release holds, to the hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from annotation.content import response_sha256
from annotation.errors import N_, Conflict
from annotation.gold import SettledLabel, release_sha256
from annotation.goldfile import GoldRow
from annotation.models import GoldRelease
from annotation.services.exports.shape import Counted, Tell

STEP = 1000


def check_gold(release: GoldRelease, rows: Iterable[GoldRow], tell: Tell) -> Counted:
    """Counts and the canonical sha256, computed from the rows as they were read from the file alone."""
    reader = _Reader(tell)
    sha256 = release_sha256(reader.lines(rows))
    check_counts(release, reader.counted)
    if sha256 != release.sha256:
        raise Conflict(
            N_("The file came out with the sha256 {found}; the release has {expected}."),
            found=sha256,
            expected=release.sha256,
        )
    return reader.counted


def check_counts(release: GoldRelease, counted: Counted) -> None:
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


@dataclass
class _Reader:
    tell: Tell
    counted: Counted = field(default_factory=lambda: Counted(0, 0))

    def lines(self, rows: Iterable[GoldRow]) -> Iterator[bytes]:
        """The canonical lines of the rows."""
        count = labels = 0
        for count, row in enumerate(rows, 1):
            labels += len(row.labels)
            yield from canonical_lines(row)
            if count % STEP == 0:
                self.tell(count)
        self.counted = Counted(count, labels)


def canonical_lines(row: GoldRow) -> Iterator[bytes]:
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
        ).line
