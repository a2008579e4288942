"""A pooler between Assay and PostgreSQL, which hands a connection of the server from one process to the next."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection, transaction
from django.db.utils import DatabaseError

from annotation.core import sql
from annotation.core import sql as sql_core
from annotation.models import Batch, Guideline
from annotation.services.people.people import add_person
from tests.annotation.invariants import nothing_is_broken
from tests.annotation.views.test_jobs import database_url
from tests.conftest import ROOT, missing
from tests.support import make_batch, make_corpus

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
ANNOTATORS = 6
LABEL_ALL = """
import sys
import config.wsgi  # as a process that serves requests
from annotation.models import Batch, Person
from tests.support import label_next
batch, person = Batch.objects.get(), Person.objects.get(username=sys.argv[1])
done = 0
while label_next(batch, person, 1 if done % 3 else 3) is not None:
    done += 1
print(done, sum(1 for _ in batch.tasks.iterator(chunk_size=7)))
"""


@pytest.fixture
def pgbouncer() -> Iterator[str]:
    """The address of the tests' database through pgbouncer in transaction mode: two connections for everybody."""
    if shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        missing("pgbouncer", "there is no pgbouncer")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="assay-pgbouncer-"))
    folder.chmod(0o755)  # as root it becomes somebody else
    url = urlsplit(database_url())
    name, account = url.path.lstrip("/"), f"user={url.username}"
    account += f" password={url.password}" if url.password else ""
    (folder / "users").write_text(f'"{url.username}" "{url.password or ""}"\n')
    (folder / "pgbouncer.ini").write_text(f"""
[databases]
{name} = host={url.hostname} port={url.port or 5432} {account}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {folder}/users
pool_mode = transaction
default_pool_size = 2
ignore_startup_parameters = extra_float_digits,options
""")
    as_nobody = ["-u", "nobody"] if os.getuid() == 0 else []
    environment = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin"}
    command = ["pgbouncer", "-q", *as_nobody, str(folder / "pgbouncer.ini")]
    process = subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)
    _wait_for(port, process)
    yield f"postgres://{url.username}@127.0.0.1:{port}/{name}"
    process.terminate()
    process.wait(timeout=120)
    shutil.rmtree(folder)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 120
    while True:
        assert process.poll() is None, "pgbouncer did not start"
        assert time.monotonic() < end
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return


@pytest.fixture
def batch(guideline: Guideline) -> Batch:
    people = [add_person(name=f"annotator{n}", roles=["annotator"]) for n in range(ANNOTATORS)]
    return make_batch(guideline, make_corpus(prompts=50, models=["A"]), annotators=people)


def label_all(address: str, *, knows: str) -> list[subprocess.CompletedProcess[str]]:
    """Every annotator in a process of their own labels until nothing is left, all at once."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DATABASE_URL": address,
        "DISABLE_SERVER_SIDE_CURSORS": knows,
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", LABEL_ALL, f"annotator{number}"],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(ANNOTATORS)
    ]
    results = [(process, *process.communicate(timeout=300)) for process in processes]
    return [subprocess.CompletedProcess(p.args, p.returncode, out, errors) for p, out, errors in results]


@pytest.mark.parametrize("knows", ["false", "true"])
def test_behind_a_pooler_everything_is_labelled(pgbouncer: str, batch: Batch, knows: str):
    """Also where nobody told Assay of the pooler."""
    ended = label_all(pgbouncer, knows=knows)
    assert [process.returncode for process in ended] == [0] * ANNOTATORS, ended[0].stderr[-2000:]
    done, read = zip(*(map(int, process.stdout.split()) for process in ended), strict=True)
    assert sum(done) == 100
    assert set(read) == {50}
    assert not batch.tasks.filter(state="open").exists()
    nothing_is_broken(batch)
    warned = [process.stderr.count("DISABLE_SERVER_SIDE_CURSORS=true") for process in ended]
    assert warned == [1 if knows == "false" else 0] * ANNOTATORS


@pytest.fixture
def preparing() -> Iterator[None]:
    """A new connection, and the settings as they were afterwards."""
    connection.close()
    yield
    connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"] = False
    connection.close()


ONE, TWO = "SELECT 1 + %s::int", "SELECT 2 + %s::int"


def prepared() -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, statement FROM pg_prepared_statements")
        return dict(cursor.fetchall())


@pytest.mark.parametrize("order", [(ONE, TWO), (TWO, ONE)])
def test_a_name_means_the_same_text_in_every_process(preparing: None, order: tuple[str, str]):
    assert {sql: sql_core.fetch_first(sql, [1]) for sql in order} == {ONE: (2,), TWO: (3,)}
    text = {"1": "SELECT 1 + $1::int", "2": "SELECT 2 + $1::int"}
    named = {
        f"assay_{hashlib.sha256(text_value.encode()).hexdigest()[:40]}": text_value
        for text_value in text.values()
    }
    assert {name: sql.partition(" AS ")[2] for name, sql in prepared().items()} == named


def test_without_a_pooler_it_is_prepared(preparing: None):
    assert sql.fetch_first(ONE, [1]) == (2,)
    assert len(prepared()) == 1
    assert not connection.settings_dict["DISABLE_SERVER_SIDE_CURSORS"]


def test_a_statement_that_is_gone_is_asked_without(preparing: None):
    """As behind a pooler that cannot be told from a server."""
    assert sql.fetch_first(ONE, [1]) == (2,)
    with connection.cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")
    assert sql.fetch_first(ONE, [5]) == (6,)
    assert sql.fetch_rows(ONE, [6]) == [(7,)]
    assert prepared() == {}


def test_within_a_transaction_that_costs_one_answer_and_no_more(preparing: None):
    assert sql.fetch_first(ONE, [1]) == (2,)
    with connection.cursor() as cursor:
        cursor.execute("DEALLOCATE ALL")
    with pytest.raises(DatabaseError, match="does not exist"), transaction.atomic():
        sql.fetch_first(ONE, [5])
    with transaction.atomic():
        assert sql.fetch_first(ONE, [5]) == (6,)


def test_a_statement_that_another_process_left_is_no_error(preparing: None):
    with connection.cursor() as cursor:
        text = "SELECT 1 + $1::int"
        cursor.execute(f"PREPARE assay_{hashlib.sha256(text.encode()).hexdigest()[:40]} AS {text}")
    assert sql.fetch_first(ONE, [5]) == (6,)
