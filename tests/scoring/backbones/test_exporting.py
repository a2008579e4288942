"""An exported scorer, loaded by a process that finds nothing of Assay."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from django.utils import timezone

from annotation.core.errors import Conflict, Forbidden, InputError
from annotation.core.zip_stream import build_segments, measure_length, read_blocks
from annotation.models import AuditEvent, GoldRelease, Person
from annotation.services.batches.batches import add_members
from annotation.services.studies import find_or_make_study
from scoring.backbones import predict
from scoring.backbones.embedding import EmbeddingBackbone
from scoring.backbones.ensemble import EnsembleBackbone, FittedEnsembleScorer, Mixture
from scoring.backbones.folder import fingerprint
from scoring.backbones.ngram import FittedNgramScorer, NgramBackbone
from scoring.domain.backbone import FittedScorer
from scoring.domain.calibration import Calibration
from scoring.domain.spec import Spec
from scoring.domain.training_data import Example, Head
from scoring.models import Scorer
from scoring.selectors.training import OutOfFoldPredictions
from scoring.services import export_scorer
from scoring.services.scorers.export import list_download_files
from tests.conftest import missing
from tests.scoring.management.test_train_command import call, refused

pytestmark = pytest.mark.django_db
COMPLIANCE = Head("compliance", (1, 2, 3), "ordinal")
PAIRS = [("How do I do it?", "Sorry, I cannot help with that."), ("你好？", "对不起，可以。"), ("", "")]
# What the README says, with the pairs of the test, in each folder in turn; -I leaves out the folder that python was
# started in. What a folder brought is forgotten before the next, which has to bring its own.
LOADER = """
import importlib, json, os, sys
told, pairs = [], [tuple(pair) for pair in json.loads(sys.argv[2])]
for folder, weights, module, name in json.loads(sys.argv[1]):
    os.chdir(folder)
    sys.path.insert(0, folder)
    before = set(sys.modules)
    scorer = getattr(importlib.import_module(module), name).load(weights)
    told.append(scorer.probabilities(pairs))
    sys.path.pop(0)
    for brought in set(sys.modules) - before:
        if (getattr(sys.modules[brought], "__file__", None) or "").startswith(folder):
            del sys.modules[brought]
print(json.dumps(told))
known = {name.partition(".")[0] for name in sys.modules} & set(sys.argv[3:])
assert not known, known
"""


class Folder(NamedTuple):
    """What is tried outside: a folder, where its weights are, and what loads them."""

    folder: Path
    weights: str
    module: str
    name: str


def assert_same(folders: Sequence[Folder], *, to: float, without: Sequence[str] = ()) -> None:
    """One process that has nothing of Assay says of each folder what the product says, but for ``to``.

    ``without`` are libraries that it must not have needed.
    """
    words = [json.dumps([tuple(map(str, folder)) for folder in folders]), json.dumps(PAIRS)]
    process = subprocess.run(
        [sys.executable, "-I", "-c", LOADER, *words, "scoring", "annotation", "django", *without],
        env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    for folder, answers in zip(folders, json.loads(process.stdout), strict=True):
        for actual, expected in zip(answers, predict(folder.folder / folder.weights, PAIRS), strict=True):
            assert set(actual) == set(expected), folder
            for criterion, levels in expected.items():
                assert list(actual[criterion].values()) == pytest.approx(list(levels.values()), abs=to)
                assert [float(level) for level in actual[criterion]] == list(levels)


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


def exported(release: GoldRelease, fitted: FittedScorer, out: Path) -> Path:
    """The folder of a scorer whose weights are those of what a test fitted; it is called as ``out`` is."""
    scorer = Scorer.objects.create(
        study=find_or_make_study(),
        name=out.name,
        guideline=release.batches.get().guideline,
        release=release,
        backbone=fitted.backbone,
        card={"scorer": out.name},
        ready_at=timezone.now(),
    )
    scorer.weights_folder.mkdir(parents=True)
    fitted.save(scorer.weights_folder)
    OutOfFoldPredictions.save(scorer.weights_folder, [])
    scorer.weights_sha256 = fingerprint(scorer.weights_folder)
    scorer.save()
    return export_scorer(scorer=scorer, folder=out).folder


def test_scorers_without_an_encoder_load_outside_and_say_the_same(scorer: Scorer, tmp_path: Path) -> None:
    made = export_scorer(scorer=scorer, folder=tmp_path / "embedded")
    assert {"README.md", "card.json", "ngram.py", "weights/scorer.json", "weights/weights.npz"} <= set(
        made.files
    )
    assert json.loads((made.folder / "card.json").read_text()) == scorer.card | {"gate": None}
    assert fingerprint(made.folder / "weights") == scorer.weights_sha256
    ensemble = EnsembleBackbone(Spec("ensemble")).fit(learnable(), [COMPLIANCE])
    averaged = exported(scorer.release, ensemble, tmp_path / "ensemble")
    assert not (averaged / "encoder.py").exists()
    assert_same(
        [
            Folder(made.folder, "weights", "ngram", "NgramScorer"),
            Folder(averaged, "weights", "ensemble", "EnsembleScorer"),
        ],
        to=1e-9,
        without=("torch", "transformers", "sklearn"),
    )


def test_scorers_with_an_encoder_load_outside_and_say_the_same(
    release: GoldRelease, encoder: str, tmp_path: Path
) -> None:
    from tests.scoring.networks import eight, tiny

    frozen = EmbeddingBackbone(Spec("encoder", encoder, "frozen")).fit(learnable(), [COMPLIANCE])
    members: dict[str, FittedScorer] = {
        "ngram": NgramBackbone().fit(learnable(), [COMPLIANCE]),
        "frozen": frozen,
    }
    mixtures = {"compliance": Mixture({"ngram": 0.3, "frozen": 0.7}, Calibration(1.3, (-0.2, 0.1, 0.1)))}
    tuned = exported(release, tiny(encoder, rounds=2).fit(eight(), [COMPLIANCE]), tmp_path / "tuned")
    embedding_folder = exported(release, frozen, tmp_path / "kept")
    mixed = FittedEnsembleScorer((COMPLIANCE,), members, mixtures, "ensemble")
    averaged = exported(release, mixed, tmp_path / "averaged")
    assert {path.name for path in averaged.glob("*.py")} >= {
        "ensemble.py",
        "embedding.py",
        "encoder.py",
        "ngram.py",
    }
    assert_same(
        [
            Folder(tuned, "weights", "encoder", "EncoderScorer"),
            # Weights of an encoder bring what reads them, too: the folder as it was saved, without the export.
            Folder(tuned / "weights", ".", "encoder", "EncoderScorer"),
            Folder(embedding_folder, "weights", "embedding", "EmbeddingScorer"),
            Folder(averaged, "weights", "ensemble", "EnsembleScorer"),
        ],
        to=1e-5,
    )


def test_the_lines_of_the_readme_run_as_they_stand(scorer: Scorer, tmp_path: Path) -> None:
    folder = export_scorer(scorer=scorer, folder=tmp_path / "out").folder
    lines = (folder / "README.md").read_text().split("```python\n")[1].split("```")[0]
    assert len([line for line in lines.splitlines() if line.strip()]) <= 10
    process = subprocess.run(
        [sys.executable, "-I", "-c", lines], cwd=folder, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    assert process.stdout.startswith("compliance ")


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
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["mine.txt"]


def test_changed_weights_leave_no_folder(scorer: Scorer, tmp_path: Path) -> None:
    (scorer.weights_folder / "more").write_text("more")
    with pytest.raises(Conflict, match="not those that were registered"):
        export_scorer(scorer=scorer, folder=tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_changed_weights_are_not_downloaded(scorer: Scorer, he: Person) -> None:
    (scorer.weights_folder / "more").write_text("more")
    with pytest.raises(Conflict, match="not those that were registered"):
        list_download_files(scorer=scorer, actor=he)
    assert not AuditEvent.objects.filter(verb="export_scorer").exists()


def test_the_download_is_the_same_folder_as_a_zip(scorer: Scorer, tmp_path: Path, he: Person) -> None:
    parts = build_segments(list_download_files(scorer=scorer, actor=he))
    content = b"".join(read_blocks(parts, 0, measure_length(parts)))
    with zipfile.ZipFile(BytesIO(content)) as archive:
        assert archive.testzip() is None
        archive.extractall(tmp_path / "zip")
    export_scorer(scorer=scorer, folder=tmp_path / "out")

    def files(folder: Path) -> dict[str, bytes]:
        paths = (path for path in folder.rglob("*") if path.is_file())
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}

    assert files(tmp_path / "zip" / "first-scorer") == files(tmp_path / "out")
    assert AuditEvent.objects.filter(verb="export_scorer", actor=he).count() == 1


def test_who_may_not_open_the_release_gets_no_scorer_of_it(scorer: Scorer, he: Person) -> None:
    add_members(batch=scorer.release.batches.get(), role="annotator", people=[he])
    with pytest.raises(Forbidden):
        list_download_files(scorer=scorer, actor=he)


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
    plain = FittedNgramScorer.predict

    def counted(self: FittedNgramScorer, examples: list[Example], **options: Any) -> Any:
        seen.append(len(examples))
        return plain(self, examples, **options)

    monkeypatch.setattr(FittedNgramScorer, "predict", counted)
    first, second, third = predict(scorer.weights_folder, [PAIRS[0], PAIRS[1], PAIRS[0]])
    assert (seen, first == third, set(first["compliance"])) == ([2], True, {1, 2, 3})
    assert first != second
    assert predict(str(scorer.weights_folder), []) == []
