"""A folder that ``datasets.load_dataset`` opens: Parquet files by split, and a card (README.md).

The layout is that of the Hugging Face Hub: the card's YAML names the files of each split and the features
(https://huggingface.co/docs/hub/datasets-manual-configuration). Several files make a split of many rows, so that a
killed export loses one of them at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from annotation.core.errors import N_
from annotation.domain.releases.gold_file import LABELS_BY_LEVEL
from annotation.domain.releases.splits import SPLITS
from annotation.selectors.releases.rows import RowOrder
from annotation.services.exports.base import (
    ExportCounts,
    ExportSpec,
    Part,
    ReportPosition,
    TextFile,
    WholeFile,
    Writer,
)
from annotation.services.exports.datasheet import render_markdown
from annotation.services.exports.formats.parquet import (
    LABELS,
    LEVEL,
    ROW_GROUP,
    build_schema,
    read_parquet,
    write_parquet,
)
from annotation.services.exports.verification import check_gold

FILE_ROWS = 200_000
# https://huggingface.co/docs/hub/datasets-cards: the words for how many rows there are.
SIZES = (
    (10**3, "n<1K"),
    (10**4, "1K<n<10K"),
    (10**5, "10K<n<100K"),
    (10**6, "100K<n<1M"),
    (10**7, "1M<n<10M"),
)
LARGER = "10M<n<100M"


class _HuggingFace(Writer):
    name = "hf"
    title = N_("Hugging Face dataset")
    about = N_("A folder that datasets.load_dataset opens: train, validation and test, with a dataset card.")
    options = frozenset({"license"})

    def parts(self, spec: ExportSpec) -> list[Part]:
        orders = spec.released.orders
        files = [part for split in SPLITS for part in _list_files(spec, split, orders[split])]
        card = TextFile("README.md", lambda _position: iter(()), total=0, head=render_card(spec))
        return [*files, card]

    def check(self, folder: Path, spec: ExportSpec, tell: ReportPosition) -> ExportCounts:
        return check_gold(spec.release, read_parquet(sorted((folder / "data").iterdir())), tell)


def _list_files(spec: ExportSpec, split: str, order: RowOrder) -> Iterator[Part]:
    number = -(-order.rows // FILE_ROWS)
    for place in range(number):
        start = place * FILE_ROWS
        stop = min(start + FILE_ROWS, order.rows)
        name = f"data/{split}-{place:05d}-of-{number:05d}.parquet"
        yield WholeFile(name, _SplitWriter(spec, order, start, stop), total=stop - start)


class _SplitWriter:
    def __init__(self, spec: ExportSpec, order: RowOrder, start: int, stop: int) -> None:
        self._spec, self._order, self._start, self._stop = spec, order, start, stop

    def __call__(self, path: Path, tell: ReportPosition) -> None:
        rows = self._spec.released.chunks(self._start, self._stop, order=self._order, size=ROW_GROUP)
        write_parquet(path, rows, build_schema(self._spec, dictionaries=False), tell)


def render_card(spec: ExportSpec) -> str:
    """The card: its YAML, and what the release says of itself."""
    facts = yaml.safe_dump(_build_card_data(spec), allow_unicode=True, sort_keys=False, width=1000)
    return f"---\n{facts}---\n\n{render_markdown(spec.manifest, 'en')}"


def _build_card_data(spec: ExportSpec) -> dict[str, Any]:
    splits = [split for split, order in spec.released.orders.items() if order.rows]
    return {
        "pretty_name": spec.release.name,
        "license": spec.options.license,
        "size_categories": [next((word for most, word in SIZES if spec.rows < most), LARGER)],
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": split, "path": f"data/{split}-*"} for split in splits],
            }
        ],
        "dataset_info": {
            "features": [_build_feature(field) for field in build_schema(spec, dictionaries=False)],
        },
    }


def _build_feature(field: Any) -> dict[str, Any]:
    if field.name == "turns":
        turn = field.type.value_type
        return {"name": "turns", "list": [{"name": part.name, "dtype": str(part.type)} for part in turn]}
    if field.name.startswith(f"{LABELS_BY_LEVEL}."):
        parts = [{"name": LEVEL, "dtype": "string"}, {"name": LABELS, "dtype": "int64"}]
        return {"name": field.name, "list": parts}
    return {"name": field.name, "dtype": {"double": "float64"}.get(str(field.type), str(field.type))}


HF = _HuggingFace()
