from __future__ import annotations

import ast
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile

import pytest
from rjsmin import jsmin

from tests.conftest import ROOT

SETTINGS = ROOT / "config" / "settings.py"
# Each request is answered by a child, which reads the settings as a process does that has only just started: what is
# imported before has no settings, and takes most of a start.
FORKS = """
import json, os, sys
import csp.constants, dj_database_url, django.utils.translation, kombu, pydantic, yaml
from celery.schedules import crontab
for line in sys.stdin:
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
request = json.loads(line)
os.environ.clear()
os.environ.update(request["environment"])
for number, path in ((1, request["output"]), (2, request["errors"])):
    os.dup2(os.open(path, os.O_WRONLY), number)
import config.settings
print(*(getattr(config.settings, name) for name in request["names"]), sep="\\n")
"""
Start = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def start() -> Iterator[Start]:
    """``start(folder, *names, **environment)``: the settings read in a process with this environment alone."""
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:

        def read(folder: Path, *names: str, **environment: str) -> subprocess.CompletedProcess[str]:
            assert server.stdin is not None
            assert server.stdout is not None
            with NamedTemporaryFile() as output, NamedTemporaryFile() as errors:
                request = {
                    "names": names,
                    "environment": {
                        "PATH": os.environ["PATH"],
                        "ASSAY_DATA_DIR": str(folder),
                        **environment,
                    },
                    "output": output.name,
                    "errors": errors.name,
                }
                print(json.dumps(request), file=server.stdin, flush=True)
                code = int(server.stdout.readline())
                return subprocess.CompletedProcess(
                    names, code, output.read().decode(), errors.read().decode()
                )

        yield read


def read_by_settings() -> set[str]:
    """The names of the variables, from the source: the first argument of env() and of os.environ.get()."""
    names = set()
    for node in ast.walk(ast.parse(SETTINGS.read_text())):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in {"env", "os.environ.get", "os.getenv"}:
            first = node.args[0]
            if isinstance(first, ast.Constant):
                names.add(str(first.value))
    return names


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DEBUG", "perhaps"),
        ("DATABASE_URL", "mysql://localhost/assay"),
        ("DATABASE_URL", "sqlite:///"),
        ("DATABASE_URL", "sqlite://:memory:"),
        ("DATABASE_URL", "postgres://127.0.0.1:5432"),
        ("CSRF_TRUSTED_ORIGINS", "assay.example"),
        ("CELERY_BROKER_URL", "carrier-pigeon://"),
        ("ASSAY_WORKERS", "0"),
        ("ASSAY_WORKERS", "many"),
        ("ASSAY_JOB_STALE_SECONDS", "-3"),
        ("ASSAY_LANGUAGE", "klingon"),
        ("LOG_LEVEL", "loud"),
        ("ASSAY_DATA_DIR", "/etc/passwd"),
        ("ASSAY_DATA_DIR", "/proc/nowhere"),
        ("TIME_ZONE", "Mars/Olympus"),
        ("ASSAY_DEMO_PROCESS", "2"),
        ("ASSAY_HTTPS", "sometimes"),
    ],
)
def test_a_bad_value_names_itself_and_stops_the_start(start: Start, tmp_path: Path, name: str, value: str):
    output = start(tmp_path, **{name: value})
    assert output.returncode == 1
    last = output.stderr.strip().splitlines()[-1]
    assert f"{name}={value!r}: " in last


def test_a_beat_slower_than_its_patience_is_refused(start: Start, tmp_path: Path):
    output = start(tmp_path, ASSAY_JOB_HEARTBEAT_SECONDS="15", ASSAY_JOB_STALE_SECONDS="15")
    assert output.returncode == 1
    assert "ASSAY_JOB_STALE_SECONDS=15: " in output.stderr.strip().splitlines()[-1]


def test_an_empty_value_is_the_default(start: Start, tmp_path: Path):
    output = start(tmp_path, "LANGUAGE_CODE", "CELERY_BROKER_URL", ASSAY_LANGUAGE="", CELERY_BROKER_URL="")
    assert output.stdout.split() == ["en", "filesystem://"]


def test_every_variable_is_documented_and_every_documented_one_is_read():
    documented = set(
        re.findall(r"^\| `([A-Z_]+)`", (ROOT / "docs" / "production.md").read_text(), re.MULTILINE)
    )
    assert documented == read_by_settings()
    assert len(documented) > 10


def test_on_loopback_a_secret_key_is_made_once_and_only_its_owner_reads_it(start: Start, tmp_path: Path):
    first, second = (start(tmp_path, "SECRET_KEY").stdout.strip() for _ in range(2))
    assert first == second == (tmp_path / "secret_key").read_text()
    assert len(first) > 50
    assert stat.S_IMODE((tmp_path / "secret_key").stat().st_mode) == 0o600


@pytest.mark.parametrize("hosts", ["assay.example.org", "localhost,10.0.0.7", ".example.org"])
@pytest.mark.parametrize("database", ["", "postgres://assay@db/assay"])
def test_beyond_loopback_a_secret_key_is_demanded_whatever_the_database(
    start: Start, tmp_path: Path, hosts: str, database: str
):
    refused = start(tmp_path, ALLOWED_HOSTS=hosts, DATABASE_URL=database)
    assert refused.returncode == 1
    assert "SECRET_KEY is empty" in refused.stderr.strip().splitlines()[-1]
    assert not (tmp_path / "secret_key").exists()
    output = start(tmp_path, "SECRET_KEY", ALLOWED_HOSTS=hosts, DATABASE_URL=database, SECRET_KEY="k" * 50)
    assert output.stdout.strip() == "k" * 50


@pytest.mark.parametrize(
    ("variable", "environment"),
    [
        ("SECRET_KEY", {"SECRET_KEY": "k" * 31}),
        ("SECRET_KEY", {"SECRET_KEY": "k" * 31, "ALLOWED_HOSTS": "assay.example.org"}),
        ("DEBUG", {"DEBUG": "true", "SECRET_KEY": "k" * 32, "ALLOWED_HOSTS": "localhost,assay.example.org"}),
        ("ALLOWED_HOSTS", {"SECRET_KEY": "k" * 32, "ALLOWED_HOSTS": "*"}),
        ("ALLOWED_HOSTS", {"SECRET_KEY": "k" * 32, "ALLOWED_HOSTS": "assay.example.org,*"}),
    ],
    ids=["short", "short-public", "debug", "any-host", "any-host-besides"],
)
def test_what_opens_a_public_server_stops_the_start(
    start: Start, tmp_path: Path, variable: str, environment: dict[str, str]
):
    refused = start(tmp_path, **environment)
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert line.startswith(f"Assay cannot start. {variable}")
    assert "k" * 31 not in line, "a secret stands in no log"


def test_what_is_safe_starts(start: Start, tmp_path: Path):
    public = {"SECRET_KEY": "k" * 32, "ALLOWED_HOSTS": "assay.example.org"}
    assert start(tmp_path, "DEBUG", **public).stdout.strip() == "False"
    assert start(tmp_path, "DEBUG", DEBUG="true").stdout.strip() == "True"


def test_the_demo_serves_loopback_only(start: Start, tmp_path: Path):
    refused = start(
        tmp_path, ASSAY_DEMO_PROCESS="true", ALLOWED_HOSTS="assay.example.org", SECRET_KEY="k" * 50
    )
    assert refused.returncode == 1
    assert "ASSAY_DEMO_PROCESS" in refused.stderr.strip().splitlines()[-1]


def test_the_embedded_default_needs_no_server(start: Start, tmp_path: Path):
    output = start(tmp_path, "DATABASES", "CELERY_BROKER_URL")
    assert str(tmp_path / "assay.sqlite3") in output.stdout
    assert "'transaction_mode': 'IMMEDIATE'" in output.stdout


def test_production_is_chosen_by_two_addresses_alone(start: Start, tmp_path: Path):
    output = start(
        tmp_path,
        "DATABASES",
        "CELERY_BROKER_URL",
        DATABASE_URL="postgres://assay:secret@db.example.org:5433/gold",
        CELERY_BROKER_URL="redis://broker.example.org:6379/2",
    )
    assert "'ENGINE': 'django.db.backends.postgresql'" in output.stdout
    assert "'CONN_MAX_AGE': 600" in output.stdout
    assert output.stdout.rstrip().endswith("redis://broker.example.org:6379/2")


def test_behind_https_cookies_are_secure(start: Start, tmp_path: Path):
    names = ("SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE", "SECURE_HSTS_SECONDS")
    assert start(tmp_path, *names, ASSAY_HTTPS="true").stdout.split() == ["True", "True", "31536000"]
    assert start(tmp_path, *names).stdout.split() == ["False", "False", "0"]


def test_collected_styles_are_hashed_and_compressed_and_then_served_so(start: Start, tmp_path: Path) -> None:
    folder = tmp_path / "static"
    where = {**os.environ, "ASSAY_DATA_DIR": str(tmp_path), "ASSAY_STATIC_ROOT": str(folder)}
    command = [sys.executable, "manage.py", "collectstatic", "--noinput", "--verbosity", "0"]
    subprocess.run(command, cwd=ROOT, env=where, check=True)
    (packed,) = folder.glob("css/assay.*.css.gz")
    assert packed.stat().st_size < (folder / "css" / "assay.css").stat().st_size / 2
    (script,) = folder.glob("js/work.*.js")
    written = (ROOT / "static" / "js" / "work.js").read_text()
    assert script.read_text() == jsmin(written)
    assert len(script.read_text()) < len(written)
    printed = start(tmp_path, "WHITENOISE_USE_FINDERS", ASSAY_STATIC_ROOT=str(folder)).stdout
    assert "False" in printed


MAIL = {"EMAIL_URL": "smtp://localhost", "ASSAY_MAIL_FROM": "Assay <assay@example.org>"}
SITE = {"ASSAY_SITE_URL": "http://localhost:8000"}


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mail.example.org", "write smtp://HOST"),
        ("http://mail.example.org", "write smtp://HOST"),
        ("smtp://", "percent-encoded"),
        ("smtps://user:s3cret/word@mail.example.org", ""),
        ("smtps://user@mail.example.org", "both the user and the password"),
        ("smtp://user:s3cret@mail.example.org", "in clear"),
        ("submission://mail.example.org:99999", "up to 65535"),
        ("submission://mail.example.org/path", "percent-encoded"),
        ("file://folder", "whole"),
    ],
)
def test_a_bad_mail_server_is_refused_without_its_password(
    start: Start, tmp_path: Path, url: str, words: str
):
    output = start(tmp_path, EMAIL_URL=url)
    assert output.returncode == 1
    last = output.stderr.strip().splitlines()[-1]
    assert "EMAIL_URL: " in last
    assert words in last
    assert "s3cret" not in output.stderr


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ASSAY_MAIL_FROM": ""}, "ASSAY_MAIL_FROM is empty"),
        ({"ASSAY_MAIL_FROM": "Assay"}, "ASSAY_MAIL_FROM='Assay': write an address"),
        ({"ASSAY_SITE_URL": ""}, "ASSAY_SITE_URL is empty"),
        ({"ASSAY_SITE_URL": "assay.example.org"}, "ASSAY_SITE_URL='assay.example.org': write the address"),
        ({"ASSAY_SITE_URL": "https://elsewhere.example"}, "ALLOWED_HOSTS does not name its host"),
        ({"ASSAY_REMIND_AT": "morning"}, "ASSAY_REMIND_AT='morning': say an hour"),
        ({"ASSAY_DUE_DAYS": "-1"}, "ASSAY_DUE_DAYS='-1': say a whole number"),
        ({"ASSAY_MAIL_DAYS": "0"}, "ASSAY_MAIL_DAYS='0': say a whole number above 0"),
    ],
)
def test_mail_needs_a_sender_and_the_address_of_the_site(
    start: Start, tmp_path: Path, changes: dict[str, str], words: str
):
    output = start(tmp_path, **{**MAIL, **SITE, **changes})
    assert output.returncode == 1
    assert words in output.stderr.strip().splitlines()[-1]


def test_mail_settings_as_they_should_be(start: Start, tmp_path: Path):
    encoded = "submission://assay%40example.org:p%2Fw%3A1@mail.example.org"
    environment = {**MAIL, "EMAIL_URL": encoded, "ASSAY_SITE_URL": "https://a.example.org/"}
    hosts = {"ALLOWED_HOSTS": ".example.org", "SECRET_KEY": "abcdefghij" * 5}
    output = start(tmp_path, "MAIL_SERVER", "MAIL_FROM", "SITE_URL", **environment, **hosts)
    assert output.stdout.splitlines() == [
        "submission://mail.example.org:587",
        "('Assay', 'assay@example.org')",
        "https://a.example.org",
    ]
    # Without a server nothing else is asked for, and beat has nothing to do.
    output = start(tmp_path, "MAIL_SERVER", "CELERY_BEAT_SCHEDULE")
    assert output.stdout.startswith("None\n")
    assert "send-mail" not in output.stdout
