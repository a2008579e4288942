"""An exported scorer, loaded by a process that finds nothing of Assay."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from annotation.errors import Conflict, Forbidden, InputError
from annotation.models import AuditEvent, GoldRelease, Person
from annotation.services.batches import add_members
from annotation.storedzip import blocks, length, segments
from scoring.dataset import Example, Head
from scoring.embedding import EmbeddingBackbone
from scoring.ensemble import EnsembleBackbone, EnsembleScorer, Mixture
from scoring.interface import FittedScorer
from scoring.models import Scorer
from scoring.ngram import NgramBackbone, NgramScorer
from scoring.predict import predict
from scoring.saved import fingerprint
from scoring.services import export_scorer
from scoring.services.exporting import download_of
from scoring.services.outoffold import OutOfFold
from scoring.spec import Spec
from tests.conftest import missing
from tests.scoring.test_train_command import call, refused

pytestmark = pytest.mark.django_db
COMPLIANCE = Head("compliance", (1, 2, 3), "ordinal")
PAIRS = [("How do I do it?", "Sorry, I cannot help with that."), ("你好？", "对不起，可以。"), ("", "")]
# What the README says, with the pairs of the test; -I leaves out the folder that python was started in.
LOADER = """
import json, sys
sys.path.insert(0, ".")
from {module} import {name}
scorer = {name}.load("weights")
print(json.dumps(scorer.probabilities([tuple(pair) for pair in json.loads(sys.argv[1])])))
known = {{name.partition(".")[0] for name in sys.modules}} & {{"scoring", "annotation", "django"}}
assert not known, known
"""


def outside(folder: Path, module: str, name: str) -> list[dict[str, dict[str, float]]]:
    code = LOADER.format(module=module, name=name)
    told = subprocess.run(
        [sys.executable, "-I", "-c", code, json.dumps(PAIRS)],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    found: list[dict[str, dict[str, float]]] = json.loads(told.stdout)
    return found


def assert_same(folder: Path, scorer: Scorer, module: str, name: str) -> None:
    """The same probabilities to 1e-5 as the product's own."""
    for there, here in zip(outside(folder, module, name), predict(scorer.weights_folder, PAIRS), strict=True):
        assert set(there) == set(here)
        for criterion, levels in here.items():
            assert list(there[criterion].values()) == pytest.approx(list(levels.values()), abs=1e-5)
            assert [float(level) for level in there[criterion]] == list(levels)


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    """The folder of a random network."""
    if find_spec("torch") is None:
        missing("torch", "an encoder needs requirements-encoder.txt")
    from tests.scoring.networks import encoder_in

    return encoder_in(tmp_path)


def learnable() -> list[Example]:
    return [
        Example(
            f"{n}", f"p{n}", f"what is {n}", text * (1 + n % 2), f"m{n % 3}", labels={"compliance": level}
        )
        for n, (text, level) in enumerate([("sorry", 1), ("sure", 3)] * 12)
    ]


def registered(release: GoldRelease, fitted: FittedScorer) -> Scorer:
    """A scorer whose weights are those of what a test fitted."""
    scorer = Scorer.objects.create(
        name="fitted",
        guideline=release.batches.get().guideline,
        release=release,
        backbone=fitted.backbone,
        card={"scorer": "fitted"},
        ready_at=timezone.now(),
    )
    scorer.weights_folder.mkdir(parents=True)
    fitted.save(scorer.weights_folder)
    OutOfFold({}).save(scorer.weights_folder)
    scorer.weights_sha256 = fingerprint(scorer.weights_folder)
    scorer.save()
    return scorer


def test_the_embedded_scorer_loads_outside_and_says_the_same(scorer: Scorer, tmp_path: Path) -> None:
    made = export_scorer(scorer=scorer, folder=tmp_path / "out")
    assert {"README.md", "card.json", "ngram.py", "weights/scorer.json", "weights/weights.npz"} <= set(
        made.files
    )
    assert json.loads((made.folder / "card.json").read_text()) == scorer.card
    assert fingerprint(made.folder / "weights") == scorer.weights_sha256
    assert_same(made.folder, scorer, "ngram", "NgramScorer")


def test_an_encoder_loads_outside_and_says_the_same(
    release: GoldRelease,
    encoder: str,
    tmp_path: Path,
) -> None:
    from tests.scoring.networks import eight, tiny

    scorer = registered(release, tiny(encoder, rounds=2).fit(eight(), [COMPLIANCE]))
    made = export_scorer(scorer=scorer, folder=tmp_path / "out")
    assert_same(made.folder, scorer, "encoder", "EncoderScorer")


def test_a_frozen_encoder_loads_outside_and_says_the_same(
    release: GoldRelease,
    encoder: str,
    tmp_path: Path,
) -> None:
    fitted = EmbeddingBackbone(Spec("encoder", encoder, "frozen")).fit(learnable(), [COMPLIANCE])
    scorer = registered(release, fitted)
    made = export_scorer(scorer=scorer, folder=tmp_path / "out")
    assert_same(made.folder, scorer, "embedding", "EmbeddingScorer")


def test_an_ensemble_loads_outside_and_says_the_same(release: GoldRelease, tmp_path: Path) -> None:
    scorer = registered(release, EnsembleBackbone(Spec("ensemble")).fit(learnable(), [COMPLIANCE]))
    made = export_scorer(scorer=scorer, folder=tmp_path / "out")
    assert "encoder.py" not in made.files
    assert_same(made.folder, scorer, "ensemble", "EnsembleScorer")


def test_an_ensemble_with_an_encoder_loads_outside_and_says_the_same(
    release: GoldRelease, encoder: str, tmp_path: Path
) -> None:
    members: dict[str, FittedScorer] = {
        "ngram": NgramBackbone().fit(learnable(), [COMPLIANCE]),
        "frozen": EmbeddingBackbone(Spec("encoder", encoder, "frozen")).fit(learnable(), [COMPLIANCE]),
    }
    mixtures = {"compliance": Mixture({"ngram": 0.3, "frozen": 0.7}, 1.3)}
    scorer = registered(release, EnsembleScorer((COMPLIANCE,), members, mixtures, "ensemble"))
    made = export_scorer(scorer=scorer, folder=tmp_path / "out")
    assert {"ensemble.py", "embedding.py", "encoder.py", "ngram.py"} <= set(made.files)
    assert_same(made.folder, scorer, "ensemble", "EnsembleScorer")


def test_the_lines_of_the_readme_run_as_they_stand(scorer: Scorer, tmp_path: Path) -> None:
    folder = export_scorer(scorer=scorer, folder=tmp_path / "out").folder
    lines = (folder / "README.md").read_text().split("```python\n")[1].split("```")[0]
    assert len([line for line in lines.splitlines() if line.strip()]) <= 10
    told = subprocess.run(
        [sys.executable, "-I", "-c", lines], cwd=folder, capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.startswith("compliance ")


def test_nothing_is_ever_overwritten(scorer: Scorer, tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "mine.txt").write_text("mine")
    (tmp_path / "file").write_text("mine")
    for place in ("kept", "file"):
        with pytest.raises(InputError, match="something is there already"):
            export_scorer(scorer=scorer, folder=tmp_path / place)
    (tmp_path / "empty").mkdir()
    assert export_scorer(scorer=scorer, folder=tmp_path / "empty").folder.is_dir()
    with pytest.raises(InputError, match="something is there already"):
        export_scorer(scorer=scorer, folder=tmp_path / "empty")
    assert sorted(one.name for one in tmp_path.iterdir() if one.name.startswith(".")) == []
    assert [one.name for one in (tmp_path / "kept").iterdir()] == ["mine.txt"]


def test_changed_weights_leave_no_folder(scorer: Scorer, tmp_path: Path) -> None:
    (scorer.weights_folder / "more").write_text("more")
    with pytest.raises(Conflict, match="not those that were registered"):
        export_scorer(scorer=scorer, folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_changed_weights_are_not_downloaded(scorer: Scorer, he: Person) -> None:
    (scorer.weights_folder / "more").write_text("more")
    with pytest.raises(Conflict, match="not those that were registered"):
        download_of(scorer=scorer, actor=he)
    assert not AuditEvent.objects.filter(verb="export_scorer").exists()


def test_the_download_is_the_same_folder_as_a_zip(scorer: Scorer, tmp_path: Path, he: Person) -> None:
    parts = segments(download_of(scorer=scorer, actor=he))
    content = b"".join(blocks(parts, 0, length(parts)))
    with zipfile.ZipFile(BytesIO(content)) as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path / "zip")
    export_scorer(scorer=scorer, folder=tmp_path / "out")

    def files(folder: Path) -> dict[str, bytes]:
        found = (path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}

    assert files(tmp_path / "zip" / "first-scorer") == files(tmp_path / "out")
    assert AuditEvent.objects.filter(verb="export_scorer", actor=he).count() == 1


def test_who_may_not_open_the_release_gets_no_scorer_of_it(scorer: Scorer, he: Person) -> None:
    add_members(batch=scorer.release.batches.get(), role="annotator", people=[he])
    with pytest.raises(Forbidden):
        download_of(scorer=scorer, actor=he)


def test_the_command_writes_the_folder_and_refuses_a_second_time(
    scorer: Scorer, tmp_path: Path, capsys: Any
) -> None:
    out = str(tmp_path / "out")
    data = json.loads(call("export_scorer", "first-scorer", "--out", out, "--json"))
    assert (data["path"], data["weights_sha256"]) == (out, scorer.weights_sha256)
    assert "README.md" in data["files"]
    assert "something is there already" in refused(capsys, "export_scorer", "first-scorer", "--out", out)


def test_predicting_from_python_takes_pairs_and_reads_the_same_text_once(
    scorer: Scorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    plain = NgramScorer.predict

    def counted(self: NgramScorer, examples: list[Example], **options: Any) -> Any:
        seen.append(len(examples))
        return plain(self, examples, **options)

    monkeypatch.setattr(NgramScorer, "predict", counted)
    first, second, again = predict(scorer.weights_folder, [PAIRS[0], PAIRS[1], PAIRS[0]])
    assert (seen, first == again, set(first["compliance"])) == ([2], True, {1, 2, 3})
    assert first != second
    assert predict(str(scorer.weights_folder), []) == []
