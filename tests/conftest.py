"""The cast: the same people in every test file, so that each says at once who may do what.

``lin``, ``chen`` and ``zhou`` annotate, ``wu`` adjudicates, ``ma`` manages, ``he`` researches;
``stranger`` signs in and belongs to nothing.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.db import connection, transaction
from django.test import TransactionTestCase
from django.test.client import ClientHandler
from django.test.signals import setting_changed
from django.utils import translation
from playwright.sync_api import sync_playwright

from annotation.models import Batch, Dataset, Guideline, Person
from annotation.selectors import quality
from annotation.selectors.agreement import label_table
from tests import databases
from tests.chromium import CHROMIUM, Chromium, find_executable
from tests.databases import MigratedDatabase
from tests.serving import until
from tests.support import XSTEST_GUIDELINE, first_batch, person, small_dataset

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"

# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile(
    "assay", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("assay")


def missing(part: str, reason: str) -> None:
    """Skip, saying why; or fail where ASSAY_REQUIRE says that this machine must have the part."""
    if part in os.environ.get("ASSAY_REQUIRE", "").split(","):
        pytest.fail(f"{part} is required here: {reason}")
    pytest.skip(reason)


# Files whose tests take minutes, the longest first: begun last, one of them keeps a worker busy while the other waits.
LONG = (
    "test_accessibility.py",
    "test_access_matrix.py",
    "test_query_strings.py",
    "test_viewports.py",
    "test_jobs_of_training.py",
    "test_job_liveness.py",
    "test_frozen_broker.py",
    "test_state_machine.py",
    "test_annotate_loop.py",
    "test_xstest_loop.py",
    "test_restore_drill.py",
    "test_everyone_everywhere.py",
    "test_client.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))
    for item in items:
        if item.get_closest_marker("postgres"):
            item.fixturenames.insert(0, "on_postgres")
        if item.get_closest_marker("postgres") or item.get_closest_marker("both_databases"):
            # What never breaks has not broken once: a race that is lost now and then is lost.
            item.add_marker(pytest.mark.flaky(reruns=0))


def pytest_collection_finish() -> None:
    """What was imported stays to the end: the garbage collector need not walk through it again and again. And it need
    not walk through what a test made as often as by default, where it took a fifteenth of the pages' time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)


@pytest.fixture(scope="session")
def migrated_database(request: pytest.FixtureRequest) -> MigratedDatabase | None:
    is_sqlite = connection.vendor == "sqlite"
    return MigratedDatabase(request.config.cache.mkdir("migrated")) if is_sqlite else None


@pytest.fixture(scope="session")
def django_db_keepdb(django_db_keepdb: bool, migrated_database: MigratedDatabase | None) -> bool:
    """A copy is there already when the databases are made; it goes with its folder at the end."""
    return django_db_keepdb or migrated_database is not None


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    request: pytest.FixtureRequest,
    django_db_modify_db_settings: None,
    migrated_database: MigratedDatabase | None,
    django_db_blocker: Any,
) -> None:
    if migrated_database is not None:
        migrated_database.copy_to(Path(connection.settings_dict["TEST"]["NAME"]))
        return
    with django_db_blocker.unblock():
        template = databases.make_postgres_template(request.config.cache.mkdir("migrated"))
    connection.settings_dict["TEST"]["TEMPLATE"] = template


@pytest.fixture(scope="session")
def django_db_setup(
    django_db_setup: None, migrated_database: MigratedDatabase | None, django_db_blocker: Any
) -> Iterator[None]:
    """Django's own way to empty the tables makes all permissions anew, a tenth of a second after each such test."""
    empty = databases.empty
    if migrated_database is not None:
        migrated_database.keep(Path(connection.settings_dict["NAME"]))
        empty = migrated_database.restore
    TransactionTestCase._fixture_teardown = lambda _case: empty()
    yield
    if migrated_database is None:
        # The session of a process that a test killed may last for some seconds, and no database in use is dropped.
        with django_db_blocker.unblock():
            until(lambda: databases.cut_other_sessions() == 0, 60)


@pytest.fixture(scope="session", autouse=True)
def _middleware_once() -> None:
    """Each client of a test would make the middleware anew, and WhiteNoise then reads the place of every static file: a
    fifth of the time of a page's test. It is made anew after a setting changed, because it reads settings when it is
    made.
    """
    load, shared = ClientHandler.load_middleware, dict[str, Any]()

    def load_shared(handler: ClientHandler, is_async: bool = False) -> None:
        if not shared:
            load(handler, is_async)
            shared.update((name, value) for name, value in vars(handler).items() if "middleware" in name)
        vars(handler).update(shared)

    ClientHandler.load_middleware = load_shared  # type: ignore[assignment, method-assign]
    setting_changed.connect(lambda **_: shared.clear(), weak=False)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """The browser of all tests, in this file alone: in one process a second Playwright refuses to start."""
    executable = find_executable()
    if executable is None:
        missing("chromium", f"there is no Chromium at {CHROMIUM}")
    # Playwright runs its own event loop in this thread, which Django would take for asynchronous code.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        browser = Chromium(playwright, executable)
        yield browser
        browser.close()


@pytest.fixture(autouse=True)
def _in_english() -> Iterator[None]:
    """A request in Chinese leaves its language in this thread; the next test begins in the default one."""
    yield
    translation.deactivate()


@pytest.fixture(autouse=True)
def _nothing_read_yet() -> None:
    """What a process keeps of the database is of another one's rows when the next test begins."""
    label_table.clear_units()
    quality.clear_caches()


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


@pytest.fixture(scope="module")
def module_db(
    request: pytest.FixtureRequest, django_db_setup: None, django_db_blocker: Any
) -> Iterator[None]:
    """What module fixtures that ask for this store is there for every test of the module, made once.

    It lies in a transaction around those of the tests, each of which finds it as it was made; the cast below, the
    guideline, the dataset and the batch are then those that are there. Not for a module with tests that commit: they
    would empty the tables under the others.
    """
    markers = [
        item.get_closest_marker("django_db") for item in request.session.items if item.path == request.path
    ]
    assert not any(marker is not None and marker.kwargs.get("transaction") for marker in markers), (
        "these tests commit"
    )
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.fixture
def lin(db: None) -> Person:
    return person("lin")


@pytest.fixture
def chen(db: None) -> Person:
    return person("chen")


@pytest.fixture
def zhou(db: None) -> Person:
    return person("zhou")


@pytest.fixture
def wu(db: None) -> Person:
    return person("wu")


@pytest.fixture
def ma(db: None) -> Person:
    return person("ma")


@pytest.fixture
def he(db: None) -> Person:
    return person("he")


@pytest.fixture
def stranger(db: None) -> Person:
    return person("stranger")


@pytest.fixture
def guideline(db: None) -> Guideline:
    return XSTEST_GUIDELINE.load()


@pytest.fixture
def dataset(db: None) -> Dataset:
    return small_dataset()


@pytest.fixture
def batch(
    guideline: Guideline, dataset: Dataset, lin: Person, chen: Person, zhou: Person, wu: Person
) -> Batch:
    """Eight tasks, overlap 2; lin, chen and zhou annotate, wu adjudicates."""
    return first_batch()
