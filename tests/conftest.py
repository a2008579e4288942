"""The cast: the same people in every test file, so that each says at once who may do what.

``lin``, ``chen`` and ``zhou`` annotate, ``wu`` adjudicates, ``ma`` manages, ``he`` researches;
``stranger`` signs in and belongs to nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection
from django.utils import translation

from annotation.models import Batch, Dataset, Guideline, Person
from annotation.selectors import quality, units
from annotation.services.people import add_person
from tests.support import XSTEST_GUIDELINE, make_batch, make_corpus, put_in_reasons

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"


def missing(part: str, why: str) -> None:
    """Skip, saying why; or fail where ASSAY_REQUIRE says that this machine must have the part."""
    if part in os.environ.get("ASSAY_REQUIRE", "").split(","):
        pytest.fail(f"{part} is required here: {why}")
    pytest.skip(why)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("postgres"):
            item.fixturenames.insert(0, "on_postgres")


@pytest.fixture(autouse=True)
def _in_english() -> Iterator[None]:
    """A request in Chinese leaves its language in this thread; the next test begins in the default one."""
    yield
    translation.deactivate()


@pytest.fixture(autouse=True)
def _nothing_read_yet() -> None:
    """What a process keeps of the database is of another one's rows when the next test begins."""
    units.forget()
    quality.forget()


@pytest.fixture(autouse=True)
def _what_migrations_put_in(request: pytest.FixtureRequest) -> None:
    """A test that empties the tables takes the reasons along that every site begins with; those after it need them."""
    uses_database = {"db", "transactional_db"} & set(request.fixturenames)
    if uses_database or request.node.get_closest_marker("django_db"):
        request.getfixturevalue("_django_db_helper")
        put_in_reasons()


@pytest.fixture
def on_postgres() -> None:
    if connection.vendor != "postgresql":
        pytest.skip("needs DATABASE_URL to name a PostgreSQL database")


@pytest.fixture(scope="session")
def shared() -> Path:
    """The published data kept beside the project."""
    if not SHARED.is_dir():
        missing("shared", f"the published data are not at {SHARED}")
    return SHARED


def _person(name: str, *roles: str) -> Person:
    return add_person(name=name, roles=roles, password=f"{name}-password")


@pytest.fixture
def lin(db: None) -> Person:
    return _person("lin", "annotator")


@pytest.fixture
def chen(db: None) -> Person:
    return _person("chen", "annotator")


@pytest.fixture
def zhou(db: None) -> Person:
    return _person("zhou", "annotator")


@pytest.fixture
def wu(db: None) -> Person:
    return _person("wu", "adjudicator")


@pytest.fixture
def ma(db: None) -> Person:
    return _person("ma", "manager")


@pytest.fixture
def he(db: None) -> Person:
    return _person("he", "researcher")


@pytest.fixture
def stranger(db: None) -> Person:
    return _person("stranger")


@pytest.fixture
def guideline(db: None) -> Guideline:
    return XSTEST_GUIDELINE.load()


@pytest.fixture
def dataset(db: None) -> Dataset:
    return make_corpus(prompts=4, models=["Secretive-7B", "Hidden-13B"])


@pytest.fixture
def batch(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, zhou: Person, wu: Person
) -> Batch:
    """Eight tasks, overlap 2; lin, chen and zhou annotate, wu adjudicates."""
    return make_batch(guideline, dataset, annotators=[lin, chen, zhou], adjudicators=[wu])
