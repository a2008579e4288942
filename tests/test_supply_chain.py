"""What is installed: locked with hashes, complete, from no index of anybody's own, under licences that are allowed."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from datetime import date
from functools import cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from annotation.core.version import VERSION
from tests.conftest import ROOT

LOCKS = {"requirements.lock": "requirements.txt", "requirements-encoder.lock": "requirements-encoder.txt"}
RUN = runpy.run_path(str(ROOT / "run"))


def read_requirements(file: str) -> list[Requirement]:
    lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if line and line[0] != "#"]


@cache
def read_lock(file: str) -> list[tuple[Requirement, int]]:
    """Each package with the number of its hashes."""
    text = re.sub(r"^#.*\n", "", (ROOT / file).read_text(encoding="utf-8"), flags=re.MULTILINE)
    entries = re.split(r"\n(?=\S)", text.strip())
    return [
        (Requirement(entry.split("\\")[0]), len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", entry)))
        for entry in entries
    ]


def locked_here(file: str) -> dict[str, str]:
    """Names and versions of what a lock file installs with this Python on this machine."""
    return {
        canonicalize_name(package.name): str(package.specifier)
        for package, _hashes in read_lock(file)
        if package.marker is None or package.marker.evaluate()
    }


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_is_locked_by_hash_and_from_no_index_of_ones_own(lock: str):
    assert all(hashes > 0 for _package, hashes in read_lock(lock))
    assert all(re.fullmatch(r"==[^,]+", str(package.specifier)) for package, _hashes in read_lock(lock))
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    form = re.compile(r"#.*|    --hash=sha256:[0-9a-f]{64}( \\)?|[a-z0-9][a-z0-9.-]*==\S+( ; .+)? \\")
    assert [line for line in lines if not form.fullmatch(line)] == []
    assert not any("://" in line for line in lines)


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_file_is_of_the_present_requirements(lock: str):
    assert RUN["stamp_of_lock"](lock) in (ROOT / lock).read_text(encoding="utf-8").splitlines()
    locked = locked_here(lock)
    for requirement in read_requirements(LOCKS[lock]):
        assert locked[canonicalize_name(requirement.name)] == str(requirement.specifier)


def test_a_changed_pin_fails_the_check(tmp_path: Path):
    for name in ("run", *LOCKS, *LOCKS.values()):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "run", "lock", "--check"]
    assert subprocess.run(command, cwd=tmp_path, check=False).returncode == 0
    pins = (tmp_path / "requirements.txt").read_text()
    (tmp_path / "requirements.txt").write_text(pins.replace("whitenoise==", "whitenoise==1"))
    process = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    assert process.stdout == "requirements.lock: the requirements have changed since; run ./run lock\n"


def test_both_lock_files_have_the_same_versions():
    user, encoder = (dict(locked_here(lock)) for lock in LOCKS)
    assert {name: user[name] for name in user.keys() & encoder.keys()} == {
        name: encoder[name] for name in user.keys() & encoder.keys()
    }


def test_a_lock_file_names_all_that_its_packages_need():
    """By what the packages that are installed here say themselves."""
    locked = locked_here("requirements.lock")
    waiting = [(requirement, "") for requirement in read_requirements("requirements.txt")]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement, extra = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = canonicalize_name(requirement.name)
        assert name in locked, requirement
        for option in ("", *requirement.extras):
            if (name, option) not in seen:
                seen.add((name, option))
                needs = distribution(name).requires or []
                waiting += [(Requirement(need), option) for need in needs]
    assert {name for name, _extra in seen} == set(locked), "and nothing else"


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], str]:
    """The list of parts and the report of licences, as the command writes them."""
    folder = tmp_path_factory.mktemp("parts")
    command = [sys.executable, "run", "sbom", str(folder / "sbom.json"), str(folder / "licences.md")]
    # The environment in which the tests run is there; the command makes the user's beside it.
    environment = {**os.environ, "ASSAY_VENV": str(Path(sys.executable).parent.parent)}
    process = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    return json.loads((folder / "sbom.json").read_text()), (folder / "licences.md").read_text()


def test_the_list_of_parts_is_cyclonedx_and_has_what_is_locked(parts: tuple[dict[str, Any], str]):
    sbom, _licences = parts
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(sbom)) is None
    listed = {canonicalize_name(part["name"]): f"=={part['version']}" for part in sbom["components"]}
    assert listed == locked_here("requirements.lock")
    assert (sbom["metadata"]["component"]["name"], sbom["metadata"]["component"]["version"]) == (
        "assay",
        VERSION,
    )
    (direct,) = [entry["dependsOn"] for entry in sbom["dependencies"] if entry["ref"] == "root-component"]
    pinned = {canonicalize_name(requirement.name) for requirement in read_requirements("requirements.txt")}
    assert {canonicalize_name(ref.split("==")[0]) for ref in direct} == pinned


def test_no_licence_outside_the_list_is_in_a_users_installation(parts: tuple[dict[str, Any], str]):
    _sbom, licences = parts
    configured = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pip-licenses"]["allow-only"]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in licences.splitlines()[2:]]
    assert {canonicalize_name(name) for name, *_rest in rows} == set(locked_here("requirements.lock"))
    allowed = set(configured.split(";"))
    unlisted = {row[0]: row[2] for row in rows if not set(row[2].split("; ")) <= allowed}
    # Its own text is BSD-3-Clause, of code under MIT; the second classifier is about the trademark "QR Code".
    assert unlisted == {"qrcode": "BSD License; Other/Proprietary License"}
    assert not any("GPL" in licence and "Lesser" not in licence for licence in allowed)


def test_the_version_is_one_everywhere_and_needs_no_git(tmp_path: Path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == VERSION
    heads = re.findall(r"^## (\S+) \((\S+)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    (newest, when), *older = heads
    assert newest == VERSION
    assert when == "unreleased" or date.fromisoformat(when)
    assert all(date.fromisoformat(day) for _version, day in older)
    for command in (
        ["manage.py", "--version"],
        ["manage.py", "version"],
        ["run", "version"],
        ["run", "--version"],
    ):
        with_git, without = (
            subprocess.run(
                [sys.executable, *command],
                cwd=ROOT,
                env={"PATH": path, "ASSAY_DATA_DIR": str(tmp_path)},
                capture_output=True,
                text=True,
                check=True,
            ).stdout
            for path in (os.environ["PATH"], str(tmp_path))
        )
        assert re.fullmatch(rf"Assay {re.escape(VERSION)}\+[0-9a-f]{{7,}}(\.dirty)?\n", with_git)
        assert without == f"Assay {VERSION}\n"


def test_what_comes_after_a_release_has_another_version():
    """A tag is on the one commit that bears its version, of which the changelog says the day (docs/releasing.md)."""
    command = ["git", "tag", "--list", f"v{VERSION}", "--no-contains", "HEAD"]
    earlier = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split()
    assert not earlier, f"{VERSION} is released: raise the version for what comes after it"
    command = ["git", "tag", "--list", f"v{VERSION}", "--points-at", "HEAD"]
    if subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.split():
        assert f"## {VERSION} (unreleased)" not in (ROOT / "CHANGELOG.md").read_text()


def test_a_checkout_of_somebody_else_tells_its_commit():
    """Git distrusts it, as where the code belongs to root and the pages are served by another user."""
    if os.geteuid():
        pytest.skip("only root can be somebody else")
    script = "import sys; sys.path.insert(0, '.'); from annotation.core.version import code_version as v; print(v())"
    process = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "/usr/bin/python3", "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    assert re.fullmatch(rf"{re.escape(VERSION)}\+[0-9a-f]{{7,}}(\.dirty)?\n", process.stdout)
