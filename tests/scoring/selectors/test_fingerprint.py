"""The sha256 of a scorer: of what it holds, however the Python that wrote it made its zip."""

from __future__ import annotations

import hashlib
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from annotation.core.errors import Conflict
from scoring.backbones.folder import fingerprint
from scoring.models import Scorer
from scoring.selectors.training import check_weights
from tests.scoring.support import change_weights


def write(folder: Path, arrays: dict[str, np.ndarray], *, year: int, system: int, method: int) -> Path:
    """The arrays in a zip as another Python, or another system, writes it."""
    folder.mkdir()
    (folder / "scorer.json").write_text("{}")
    with zipfile.ZipFile(folder / "weights.npz", "w") as zipped:
        for name, array in arrays.items():
            npy = io.BytesIO()
            np.save(npy, array)
            info = zipfile.ZipInfo(f"{name}.npy", (year, 1, 1, 0, 0, 0))
            info.create_system, info.compress_type = system, method
            zipped.writestr(info, npy.getvalue())
    return folder


ARRAYS = {"w": np.arange(12, dtype="f4").reshape(3, 4), "names": np.array(["a", "中"]), "b": np.zeros(0)}


def test_two_zips_of_the_same_arrays_are_one_scorer(tmp_path: Path):
    first = write(tmp_path / "a", ARRAYS, year=1980, system=3, method=zipfile.ZIP_STORED)
    second = write(
        tmp_path / "b", dict(reversed(ARRAYS.items())), year=2026, system=0, method=zipfile.ZIP_DEFLATED
    )
    assert (first / "weights.npz").read_bytes() != (second / "weights.npz").read_bytes()
    assert fingerprint(first) == fingerprint(second)


@pytest.mark.parametrize(
    "changed",
    [
        {"w": ARRAYS["w"] + np.float32(1e-7)},
        {"w": ARRAYS["w"].reshape(4, 3)},
        {"w": ARRAYS["w"].view("i4")},
        {"w2": ARRAYS["w"]},
        {"names": np.array(["a", "国"])},
    ],
)
def test_another_value_shape_type_or_name_is_another_scorer(tmp_path: Path, changed: dict[str, np.ndarray]):
    zip_options = {"year": 1980, "system": 3, "method": zipfile.ZIP_STORED}
    first = write(tmp_path / "a", ARRAYS, **zip_options)  # type: ignore[arg-type]
    second = write(tmp_path / "b", ARRAYS | changed, **zip_options)  # type: ignore[arg-type]
    assert fingerprint(first) != fingerprint(second)


def test_what_is_no_zip_is_compared_by_its_bytes(tmp_path: Path):
    for name, content in (("a", b"cut o"), ("b", b"cut of")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "weights.npz").write_bytes(content)
    assert fingerprint(tmp_path / "a") != fingerprint(tmp_path / "b")


def old_fingerprint(folder: Path) -> str:
    """As the first version computed it, of the zip itself."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        total.update(f"{digest}  {path.relative_to(folder).as_posix()}\n".encode())
    return total.hexdigest()


@pytest.mark.django_db
def test_the_hash_of_an_earlier_version_stays_valid(scorer: Scorer):
    folder = scorer.weights_folder
    old = old_fingerprint(folder)
    assert old != scorer.weights_sha256
    check_weights(folder, old)
    check_weights(folder, scorer.weights_sha256)
    change_weights(folder)
    for sha256 in (old, scorer.weights_sha256):
        with pytest.raises(Conflict, match="not those that were registered"):
            check_weights(folder, sha256)
