"""Gold that was settled otherwise than by a third person leaves as a bundle and as raw labels, and comes in again."""

from __future__ import annotations

import csv
import hashlib
import json
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from annotation.core.errors import InputError
from annotation.domain.batch_spec import Policy
from annotation.domain.formats import Source
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, GoldLabel, GoldRelease, Guideline, LabelPosterior, Person
from annotation.services.batches.collection import end_collection
from annotation.services.exports import Options, export_release
from annotation.services.imports import BundleNames, import_bundle
from annotation.services.releases import cut_release
from tests.annotation.invariants import Tables, counts_are_right, places_are_right
from tests.annotation.services.test_bundle import arrives, elsewhere, packed
from tests.annotation.services.test_how_gold_is_settled import MODEL, put
from tests.annotation.several_criteria import criterion, guideline_of, scale
from tests.support import decide_next, label_next, make_batch, make_corpus

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]

THREE = [
    (name, unit, value)
    for unit, values in enumerate([(1, 1, 1), (2, 2, 3), (1, 3, 5), (4, 4, 1)])
    for name, value in zip("abc", values, strict=True)
]
UNEQUAL = [
    (f"person{person}", unit, 1 + (unit % 3 if person < 4 else (unit + person) % 3))
    for unit in range(12)
    for person in range(2 + unit % 4)
]
ENDS = {"overlap": 1, "plan": "open"}
POLICIES: dict[str, tuple[dict[str, Any], list[tuple[str, int, int]], Mapping[int, int], set[str]]] = {
    "majority": (
        {"overlap": 3, "settling": "majority"},
        THREE,
        {2: 2},
        {"unanimous", "majority", "adjudicated"},
    ),
    "median": (
        {"overlap": 3, "settling": "median", "tolerance": 1},
        THREE,
        {},
        {"unanimous", "within_tolerance", "median"},
    ),
    "experts": ({"overlap": 3, "settling": "experts"}, THREE, {0: 5, 1: 3, 2: 3, 3: 4}, {"expert"}),
    "experts, some": ({"overlap": 3, "settling": "experts"}, THREE, {1: 3, 2: 3}, {"unanimous", "expert"}),
    "open": (ENDS | {"settling": "majority"}, UNEQUAL, {}, {"unanimous", "majority"}),
    "open, decided": (ENDS, UNEQUAL, {3: 2}, {"unanimous", "adjudicated"}),
    "aggregate": (ENDS | {"settling": "aggregate"}, UNEQUAL, {}, {"aggregated"}),
    "mace": (ENDS | {"settling": "aggregate", "aggregation": "mace"}, UNEQUAL, {}, {"aggregated"}),
    "aggregate, decided": (
        ENDS | {"settling": "aggregate"},
        UNEQUAL,
        {3: 2},
        {"aggregated", "adjudicated"},
    ),
}


@pytest.fixture(autouse=True)
def guidelines() -> None:
    guideline_of("five", [criterion("kind", scale({value: f"Level {value}" for value in range(1, 6)}))])
    levels = scale({value: f"Level {value}" for value in range(1, 4)})
    guideline_of("named", [criterion("kind", levels) | {"measurement": "nominal"}])


@pytest.mark.parametrize("name", list(POLICIES))
def test_every_policy_leaves_and_comes_in_with_the_same_hash(name: str, tmp_path: Path):
    fields, labels, finals, sources = POLICIES[name]
    make_corpus(prompts=12, models=[MODEL])
    guideline = "named" if fields.get("settling") == "aggregate" else "five"
    put(tmp_path, "b", labels, final=finals, policy=Policy(**fields), guideline=guideline)
    batch = Batch.objects.get(name="b")
    batch.tasks.filter(slots_taken=0).update(state="withdrawn")
    if fields.get("plan") == "open":
        end_collection(batch=batch)
    release = cut_release(ReleaseSpec(name="r", batches=[batch]))
    assert release.manifest["counts"]["by_source"].keys() >= sources
    comes_in_alike(release, tmp_path)
    raw_labels_settle_alike(release, tmp_path)


def comes_in_alike(release: GoldRelease, folder: Path) -> None:
    source = packed(release, folder, times=True)
    before = describe()

    def work() -> Any:
        release_there, report = arrives(source)
        for batch in Batch.objects.all():
            tables = Tables.read(batch)
            places_are_right(batch, tables)
            counts_are_right(batch, tables)
        bytes_there = packed(release_there, folder / "there", times=True).path.read_bytes()
        return release_there.sha256, describe(), tables_of(bytes_there, folder), report

    sha256, after, tables, report = elsewhere(work)
    assert sha256 == release.sha256
    assert after == before
    assert tables["tasks.jsonl"] == tables_of(source.path.read_bytes(), folder)["tasks.jsonl"]
    assert report["made"]["tasks"] == release.manifest["counts"]["rows"]


def describe() -> Any:
    """What settles a batch, its gold and what a model said of it, by names that are the same everywhere."""
    of_batches = Batch.objects.values_list(
        "name", "plan", "overlap_share", "settling", "aggregation", "aggregation_threshold", "overlap"
    )
    gold = GoldLabel.objects.filter(task__batch__in=Batch.objects.all())
    # A bundle holds the tasks that the release has a label of.
    released = LabelPosterior.objects.filter(task__in=gold.values("task"))
    posteriors = released.values_list("task__prompt__key", "criterion", "probabilities")
    return (
        list(of_batches),
        sorted(gold.values_list("task__prompt__key", "criterion", "value", "source")),
        sorted(posteriors, key=str),
    )


def tables_of(content: bytes, folder: Path) -> dict[str, list[Any]]:
    path = folder / "looked-at.zip"
    path.write_bytes(content)
    with zipfile.ZipFile(path) as zipped:
        names = [name for name in zipped.namelist() if name.endswith(".jsonl")]
        rows = {name: [json.loads(line) for line in zipped.read(name).splitlines()] for name in names}
    return {"tasks.jsonl": [], **rows}


def raw_labels_settle_alike(release: GoldRelease, folder: Path) -> None:
    """The export settles its own rows once more and compares them with the release; each row says what it is."""
    for table in ("csv", "jsonl"):
        out = folder / table
        export_release(release=release, format_name="labels", folder=out, options=Options(table=table))
    with (folder / "csv" / "labels.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    kinds = {
        source: {row["kind"] for row in rows if row["source"] == source} for source in by_source(release)
    }
    for source, of_source in kinds.items():
        extra = {"adjudicated": {"adjudication"}, "expert": {"expert"}, "aggregated": {"aggregation"}}
        assert of_source == {"annotation"} | extra.get(source, set())
    models = [row for row in rows if row["kind"] == "aggregation"]
    assert len(models) == by_source(release)["aggregated"]
    assert all(float(row["probability"]) >= 0.9 for row in models)
    assert {row["worker"] for row in models} <= {"dawid-skene", "mace"}


def by_source(release: GoldRelease) -> Counter[str]:
    return Counter(release.manifest["counts"]["by_source"])


def test_a_share_of_the_items_labelled_twice_travels(lin: Person, chen: Person, wu: Person, tmp_path: Path):
    batch = make_batch(
        Guideline.objects.get(name="five"),
        make_corpus(prompts=10, models=[MODEL, "B"]),
        annotators=[lin, chen],
        adjudicators=[wu],
        policy=Policy(overlap=2, overlap_share=0.3, seed=3),
    )
    for person, value in ((lin, 1), (chen, 2)):
        while label_next(batch, person, value, "kind"):
            pass
    decide_next(batch, wu, 2, "kind")
    release = cut_release(ReleaseSpec(name="r", batches=[batch]))
    assert by_source(release).keys() == {"single", "adjudicated"}
    comes_in_alike(release, tmp_path)
    raw_labels_settle_alike(release, tmp_path)


def test_a_final_that_came_after_the_release_is_in_none_of_its_files(tmp_path: Path):
    make_corpus(prompts=4, models=[MODEL])
    put(tmp_path, "b", THREE, policy=Policy(overlap=3, settling="experts"), guideline="five")
    batch = Batch.objects.get(name="b")
    release = cut_release(ReleaseSpec(name="r", batches=[batch]))
    put(tmp_path, "b", [], final={0: 5})
    assert GoldLabel.objects.get(task__prompt__key="p0").value == 5
    raw_labels_settle_alike(release, tmp_path)
    source = packed(release, tmp_path)
    sha256, source_there = elsewhere(
        lambda: (arrives(source)[0].sha256, GoldLabel.objects.get(task__prompt__key="p0").source)
    )
    assert (sha256, source_there) == (release.sha256, "unanimous")


def test_a_bundle_of_batches_as_most_are_is_of_the_first_version(tmp_path: Path):
    make_corpus(prompts=4, models=[MODEL])
    put(tmp_path, "b", THREE, final={1: 2, 2: 2, 3: 4}, policy=Policy(overlap=3), guideline="five")
    release = cut_release(ReleaseSpec(name="r", batches=[Batch.objects.get(name="b")]))
    with zipfile.ZipFile(packed(release, tmp_path).path) as zipped:
        manifest = json.loads(zipped.read("manifest.json"))
        assert "tasks.jsonl" not in zipped.namelist()
    assert manifest["version"] == 1
    assert "plan" not in manifest["batches"][0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"probabilities": {"kind": {"1": 0.5, "2": 0.4, "9": 0.1}}}, "no such probabilities"),
        ({"probabilities": {"other": {"1": 1.0}}}, "other"),
        ({"probabilities": {"kind": {"1": 2, "2": 0, "3": 0}}}, "write the probabilities as"),
        ({"probabilities": [1]}, "write the probabilities as"),
        ({"annotations": 0}, "no number of annotations"),
        ({"annotations": 7}, "annotations"),
        ({"probabilities": {"kind": {"1": 0.1, "2": 0.1, "3": 0.8}}}, "nothing was kept"),
    ],
)
def test_what_a_stranger_says_of_a_task_is_checked(change: dict[str, Any], message: str, tmp_path: Path):
    make_corpus(prompts=12, models=[MODEL])
    put(
        tmp_path, "b", UNEQUAL, policy=Policy(plan="open", overlap=1, settling="aggregate"), guideline="named"
    )
    batch = Batch.objects.get(name="b")
    end_collection(batch=batch)
    release = cut_release(ReleaseSpec(name="r", batches=[batch]))
    source = forge(packed(release, tmp_path).path, change)
    with pytest.raises(InputError, match=message):
        import_bundle(source=source, called=BundleNames({"b": "c"}))
    assert not Batch.objects.filter(name="c").exists()


def forge(path: Path, change: dict[str, Any]) -> Source:
    """The bundle with another first line of its tasks, and a manifest that agrees."""
    with zipfile.ZipFile(path) as zipped:
        files = {name: zipped.read(name) for name in zipped.namelist()}
    first, *other_lines = files["tasks.jsonl"].splitlines(keepends=True)
    files["tasks.jsonl"] = json.dumps(json.loads(first) | change).encode() + b"\n" + b"".join(other_lines)
    manifest = json.loads(files["manifest.json"])
    for facts in manifest["files"]:
        if facts["name"] == "tasks.jsonl":
            content = files["tasks.jsonl"]
            facts |= {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    files["manifest.json"] = json.dumps(manifest).encode()
    forged = path.with_name("forged.zip")
    with zipfile.ZipFile(forged, "w") as zipped:
        for name, content in files.items():
            zipped.writestr(name, content)
    return Source(forged, "forged.zip")


@settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.generate],
)
@given(
    settling=st.sampled_from(["adjudicate", "majority", "median", "experts", "aggregate"]),
    values_by_task=st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=4), min_size=1, max_size=5),
    tolerance=st.integers(0, 1),
    finals=st.dictionaries(st.integers(0, 4), st.integers(1, 3), max_size=3),
)
def test_any_open_batch_gives_the_same_release_elsewhere(
    tmp_path_factory: pytest.TempPathFactory,
    db: None,
    settling: Any,
    values_by_task: list[list[int]],
    tolerance: int,
    finals: dict[int, int],
):
    folder = tmp_path_factory.mktemp("any")

    def system() -> None:
        guideline_of("any", [criterion("kind", scale({1: "a", 2: "b", 3: "c"}))])
        make_corpus(prompts=len(values_by_task), models=[MODEL])
        labels = [
            (f"annotator-{place}", unit, value)
            for unit, values in enumerate(values_by_task)
            for place, value in enumerate(values)
        ]
        policy = Policy(plan="open", overlap=1, settling=settling, tolerance=tolerance)
        put(folder, "b", labels, policy=policy, guideline="any")
        batch = Batch.objects.get(name="b")
        end_collection(batch=batch)
        for unit, value in finals.items():
            disputed = batch.tasks.filter(prompt__key=f"p{unit}", state="disputed").exists()
            if disputed or (settling == "experts" and unit < len(values_by_task)):
                put(folder, "b", [], final={unit: value})
        if not GoldLabel.objects.exists():
            return
        release = cut_release(ReleaseSpec(name="r", batches=[batch]))
        comes_in_alike(release, folder)
        raw_labels_settle_alike(release, folder)

    elsewhere(system)
