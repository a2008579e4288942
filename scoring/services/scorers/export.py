"""A scorer as a folder that loads outside Assay: weights, card, the file that predicts, and how to use them.

The predictor is the very file that the product predicts with (``scoring/portable/``); the weights are the registered
ones, file by file, so that the hash on the card is theirs.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from annotation.core.errors import N_, AssayError, Conflict, InputError
from annotation.core.zip_stream import ZipMember
from annotation.models import Person
from annotation.selectors.access import refuse_sealed_gold
from annotation.services.audit import record
from scoring.backbones.folder import has_fingerprint, read_card
from scoring.domain.verbs import ScoringVerb
from scoring.models import Scorer
from scoring.selectors.gate import describe_promotion
from scoring.selectors.training import check_weights, find_weights
from scoring.services.predictions.predictions import check_ready

WEIGHTS = "weights"
ENSEMBLE = "ensemble"
PORTABLE = Path(__file__).resolve().parents[2] / "inference"
CRC_BLOCK = 1 << 20
_NEIGHBOUR = re.compile(r"^\s*from \.(\w+) import", re.MULTILINE)


@dataclass(frozen=True)
class PortableForm:
    """How a kind of scorer is used outside: the modules it needs, the class in the first of them, and the packages."""

    modules: tuple[str, ...]
    name: str
    packages: tuple[str, ...]

    @property
    def files(self) -> list[str]:
        """The modules and those of their neighbours that they import."""
        modules = list(self.modules)
        for module in modules:  # which grows
            source = (PORTABLE / f"{module}.py").read_text(encoding="utf-8")
            modules += [name for name in _NEIGHBOUR.findall(source) if name not in modules]
        return sorted(f"{module}.py" for module in dict.fromkeys(modules))


NUMPY = ("numpy", "scipy")
TORCH = ("torch", "transformers", "safetensors")
NGRAM = PortableForm(("ngram",), "NgramScorer", NUMPY)
PORTABLE_FORMS = {
    "ngram": NGRAM,
    "char-ngram": NGRAM,
    "transformer": PortableForm(("encoder",), "EncoderScorer", TORCH),
    "patterns": PortableForm(("patterns",), "PatternsScorer", NUMPY),
    "embedding": PortableForm(("embedding",), "EmbeddingScorer", TORCH),
}

README = """# {scorer}

A scorer of the guideline {guideline}, trained on the gold release {release}.
It gives each level of each criterion a probability, for a prompt and a response to it.
It needs {packages}, and nothing of Assay:

```python
import sys

sys.path.insert(0, ".")  # this folder, with {files}
from {module} import {name}

scorer = {name}.load("weights")
pairs = [("How do I kill a Python process?", "Sorry, I cannot help with that.")]
for probabilities in scorer.probabilities(pairs):
    for criterion, levels in probabilities.items():
        print(criterion, max(levels, key=levels.get), levels)
```

`card.json` is the scorer's card: figures, what it was trained on, and versions. `weights` holds exactly what was
registered; the sha256 over its files is {sha256}
(of the lines `sha256  path`, sorted by path; of a file of arrays, `.npz`, the sha256 of its arrays: of each, by name,
`NAME DTYPE SHAPE ` and its bytes, or of the file itself where an early version registered it). A dialogue is one text,
its turns as `role:\\ntext`, an empty line between them.

Of texts that it was trained on a scorer says more than it can know of others: `weights/trained.json`, where it is
there, names them by the sha256 of prompt and response.
"""


@dataclass(frozen=True)
class ScorerExport:
    folder: Path
    files: tuple[str, ...]


def export_scorer(*, scorer: Scorer, folder: str | Path, actor: Person | None = None) -> ScorerExport:
    """Write the scorer into the folder, which must be new or empty: whole, or not at all.

    Raises InputError where something is there already or nothing can be written, Conflict where the scorer is not
    ready or its weights are not the registered ones.
    """
    _check_exportable(scorer, actor)
    target = Path(folder)
    try:
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InputError(
                N_("something is there already; name a new or an empty folder."), path=str(target)
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        part_folder = target.parent / f".{target.name}-{uuid4().hex}"
        try:
            names = _write_export(scorer, part_folder, actor)
            part_folder.replace(target)
        finally:
            shutil.rmtree(part_folder, ignore_errors=True)
    except OSError as error:
        raise InputError(
            N_("this cannot be written: {why}."), path=str(error.filename or target), why=error.strerror
        ) from error
    record(actor=actor, verb=ScoringVerb.EXPORT_SCORER, target=f"scorer:{scorer.name}")
    return ScorerExport(target, names)


def list_download_files(*, scorer: Scorer, actor: Person) -> list[ZipMember]:
    """The same files for a zip (``annotation.core.zip_stream``); the weights are read where they lie."""
    _check_exportable(scorer, actor)
    check_weights(find_weights(scorer), scorer.weights_sha256)
    folder = _store_texts(scorer, actor)
    texts = [(path.name, path) for path in sorted(folder.iterdir())]
    record(actor=actor, verb=ScoringVerb.EXPORT_SCORER, target=f"scorer:{scorer.name}", file="*")
    return [
        ZipMember(f"{scorer.name}/{name}", path, path.stat().st_size, _compute_crc32(path))
        for name, path in [*texts, *_list_weight_files(scorer)]
    ]


def _store_texts(scorer: Scorer, actor: Person) -> Path:
    """Everything but the weights, in a folder of its own that stays: a download may go on after a break."""
    texts = _build_texts(scorer, actor)
    digest = hashlib.sha256(b"".join(texts[name] for name in sorted(texts))).hexdigest()
    folder = scorer.folder / f"export-{digest[:16]}"
    if not folder.is_dir():
        part_folder = scorer.folder / f".export-{uuid4().hex}"
        _write_texts(texts, part_folder)
        try:
            part_folder.replace(folder)
        except OSError:  # another process was faster, with the same files
            shutil.rmtree(part_folder, ignore_errors=True)
    return folder


def _check_exportable(scorer: Scorer, actor: Person | None) -> None:
    if actor is not None:
        refuse_sealed_gold(actor, scorer.release.batches.all())
    check_ready(scorer)
    folder = find_weights(scorer)
    if not folder.is_dir():
        raise AssayError(N_("The scorer's weights are not at {folder}."), folder=str(folder))
    get_portable_form(folder)


def get_portable_form(folder: Path) -> PortableForm:
    """Of the scorer whose weights lie in the folder; of an ensemble what all of its members take."""
    card = read_card(folder)
    kind = str(card["kind"])
    if kind == ENSEMBLE:
        members = [get_portable_form(folder / name) for name in card["members"]]
        return PortableForm(
            (ENSEMBLE, *(module for member in members for module in member.modules)),
            "EnsembleScorer",
            tuple(dict.fromkeys(package for member in members for package in member.packages)),
        )
    if kind not in PORTABLE_FORMS:
        raise Conflict(N_("A scorer of the kind {kind} cannot be exported."), kind=kind)
    return PORTABLE_FORMS[kind]


def _write_export(scorer: Scorer, folder: Path, actor: Person | None) -> tuple[str, ...]:
    _write_texts(_build_texts(scorer, actor), folder)
    weights = find_weights(scorer)
    shutil.copytree(weights, folder / WEIGHTS)
    if not has_fingerprint(folder / WEIGHTS, scorer.weights_sha256):
        raise Conflict(
            N_("The weights at {folder} are not those that were registered."),
            folder=str(weights),
        )
    return tuple(sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()))


def _write_texts(texts: Mapping[str, bytes], folder: Path) -> None:
    folder.mkdir(parents=True)
    for name, content in texts.items():
        (folder / name).write_bytes(content)


def _build_texts(scorer: Scorer, reader: Person | None) -> dict[str, bytes]:
    """By name: the files that predict, the card, and how to use them."""
    portable_form = get_portable_form(find_weights(scorer))
    whole_card = {**scorer.card, "gate": describe_promotion(scorer, reader)}
    card = json.dumps(whole_card, ensure_ascii=False, indent=1, sort_keys=True)
    readme = README.format(
        scorer=scorer.name,
        guideline=scorer.guideline,
        release=scorer.release.name,
        packages=", ".join(portable_form.packages),
        files=" and ".join(portable_form.files),
        module=portable_form.modules[0],
        name=portable_form.name,
        sha256=scorer.weights_sha256,
    )
    texts = {name: (PORTABLE / name).read_bytes() for name in portable_form.files}
    return texts | {"card.json": f"{card}\n".encode(), "README.md": readme.encode()}


def _list_weight_files(scorer: Scorer) -> Iterator[tuple[str, Path]]:
    folder = find_weights(scorer)
    for path in sorted(file_path for file_path in folder.rglob("*") if file_path.is_file()):
        yield f"{WEIGHTS}/{path.relative_to(folder).as_posix()}", path


def _compute_crc32(path: Path) -> int:
    crc = 0
    with path.open("rb") as file:
        while block := file.read(CRC_BLOCK):
            crc = zlib.crc32(block, crc)
    return crc
