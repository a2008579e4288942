"""What the people work on: a fresh database, a corpus with texts of a real length, people who can sign in."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

ROOT = Path(__file__).resolve().parents[3]
DEMO = ROOT / "fixtures" / "demo"
CHUNK = 2000
RESPONSES_TO_A_PROMPT = 5
# Characters of a response: most models say several hundred.
SHORTEST, LONGEST = 200, 800


@dataclass(frozen=True)
class Account:
    name: str
    token: str
    session: str


@contextmanager
def database(url: str, *, replace: bool, keep: bool, begin_with: Path | None = None) -> Iterator[Path]:
    """A fresh, migrated database that this process and its children use. Gives a folder for logs.

    ``url`` is ``sqlite`` (in a folder of its own) or ``postgres://HOST/NAME``, where NAME is made here,
    and dropped again unless ``keep``; one that is there already is only replaced if ``replace``. On SQLite a copy of
    ``begin_with`` saves the ten seconds that the migrations take.
    """
    on_server = url.startswith("postgres")
    if on_server:
        _create(url, replace=replace)
    folder = Path(tempfile.mkdtemp(prefix="assay-loop-"))
    if begin_with is not None and not on_server:
        shutil.copyfile(begin_with, folder / "assay.sqlite3")
    os.environ |= {
        "DATABASE_URL": url if on_server else f"sqlite:///{folder / 'assay.sqlite3'}",
        "ASSAY_DATA_DIR": str(folder / "data"),
        "ASSAY_STATIC_ROOT": str(folder / "static"),
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "LOG_LEVEL": "WARNING",
    }
    try:
        _set_up()
        yield folder
    finally:
        _close_connections()
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
            if on_server:
                _administer(url, f"DROP DATABASE IF EXISTS {_quoted(url)} WITH (FORCE)")


def _set_up() -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0, interactive=False)


def collect_static() -> None:
    """Styles and scripts hashed and compressed, as docs/production.md has them served; before the server starts."""
    command = [sys.executable, "manage.py", "collectstatic", "--noinput"]
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def command(name: str, *arguments: str) -> Any:
    """What the product's command prints with ``--json``."""
    from django.core.management import call_command

    out = StringIO()
    call_command(name, *arguments, "--json", stdout=out)
    return json.loads(out.getvalue())


def make_people(count: int, *, prefix: str = "a") -> list[Account]:
    """People who may annotate and adjudicate, each with a token and a session."""
    names = [f"{prefix}{number:03}" for number in range(1, count + 1)]
    return [make_account(name, "annotator,adjudicator") for name in names]


def make_manager() -> Account:
    return make_account("manager", "manager")


def make_account(name: str, groups: str, *, scope: str = "work") -> Account:
    from annotation.models import Person

    made = command("add_person", name, "--groups", groups, "--token", "--scope", scope)
    return Account(name, made["token"], _session(Person.objects.get(username=name)))


def _session(person: Any) -> str:
    """Signed in as the sign-in page does it, without the seconds that a password's hash takes."""
    from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
    from django.contrib.sessions.backends.db import SessionStore

    session = SessionStore()
    session[SESSION_KEY] = str(person.pk)
    session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session[HASH_SESSION_KEY] = person.get_session_auth_hash()
    session.create()
    return str(session.session_key)


def load_guideline(path: str) -> str:
    made = command("load_guideline", path, "--publish")
    return f"{made['name']}@{made['version']}"


def make_corpus(name: str, *, tasks: int, guideline: str, seed: int = 0) -> None:
    """A dataset with ``tasks`` responses, several to a prompt, in the guideline's dimensions by turns.

    The sentences are those of the demo's invented prompts and responses, put together anew.
    """
    from annotation.models import Collection, Dataset, EvaluatedModel, Guideline
    from annotation.services.studies import find_or_make_study

    document = Guideline.objects.get(name=guideline.split("@", maxsplit=1)[0]).document
    dimensions = [
        dimension_name for dimension_name in document.dimension_names if document.criteria_for(dimension_name)
    ]
    dataset = Dataset.objects.create(study=find_or_make_study(), name=name)
    collection, _made = Collection.objects.get_or_create(name="")
    models = [
        EvaluatedModel.objects.get_or_create(name=f"Model-{letter}")[0]
        for letter in "ABCDE"[:RESPONSES_TO_A_PROMPT]
    ]
    texts = _Texts(random.Random(seed))
    step = CHUNK * RESPONSES_TO_A_PROMPT
    for first in range(0, tasks, step):
        places = range(first, min(first + step, tasks))
        _add(places, dataset, collection, models, dimensions, texts)


def write_markdown(characters: int) -> None:
    """Put an answer in Markdown in the place of each response."""
    from annotation.domain.datasets import response_sha256
    from annotation.models import Response
    from tests.annotation.domain.texts.documents import write_answer

    responses = list(Response.objects.all())
    for number, response in enumerate(responses):
        response.text = write_answer(characters, number)
        response.sha256 = response_sha256(response.text, [])
    Response.objects.bulk_update(responses, ["text", "sha256"], batch_size=CHUNK)


def _add(places: range, dataset: Any, collection: Any, models: Any, dimensions: Any, texts: _Texts) -> None:
    from annotation.domain.datasets import response_sha256
    from annotation.models import Prompt, Response

    numbers = range(places[0] // RESPONSES_TO_A_PROMPT, places[-1] // RESPONSES_TO_A_PROMPT + 1)
    prompts = Prompt.objects.bulk_create(
        [
            Prompt(
                dataset=dataset,
                key=f"p{number:07}",
                text=texts.prompt(number),
                dimension=dimensions[number % len(dimensions)],
                language="zh",
            )
            for number in numbers
        ],
        batch_size=CHUNK,
    )
    responses = []
    for place in places:
        text = texts.response(place)
        prompt = prompts[place // RESPONSES_TO_A_PROMPT - numbers[0]]
        model = models[place % RESPONSES_TO_A_PROMPT]
        responses.append(
            Response(
                prompt=prompt, model=model, collection=collection, text=text, sha256=response_sha256(text, [])
            )
        )
    Response.objects.bulk_create(responses, batch_size=CHUNK)


class _Texts:
    """A response has sentences until it is as long as a number of ``characters``, drawn from the least to the most."""

    def __init__(self, chance: random.Random, characters: tuple[int, int] = (SHORTEST, LONGEST)) -> None:
        self.chance, self.characters = chance, characters
        self.prompts = [row["prompt"] for row in _rows("prompts.jsonl")]
        self.sentences = [row["response"] for row in _rows("responses.jsonl")]

    def prompt(self, number: int) -> str:
        return f"{self.chance.choice(self.prompts)}（{number}）"

    def response(self, place: int) -> str:
        length = self.chance.randint(*self.characters)
        text = f"{place}. "
        while len(text) < length:
            text += self.chance.choice(self.sentences) + "\n"
        return text.strip()


def _rows(name: str) -> list[Mapping[str, str]]:
    return [json.loads(line) for line in (DEMO / name).read_text(encoding="utf-8").splitlines()]


def make_batch(
    name: str, *, dataset: str, guideline: str, annotators: list[Account], adjudicators: list[Account],
    overlap: int, pairing: str, lease: int = 1800,
) -> int:  # fmt: skip
    """By the product's own command, the introduction read by everybody. The number of tasks."""
    made = command("create_batch", *batch_arguments(
        name, dataset=dataset, guideline=guideline, annotators=annotators, adjudicators=adjudicators,
        overlap=overlap, pairing=pairing, lease=lease,
    ))  # fmt: skip
    from annotation.models import Batch
    from tests.support import read_introduction

    read_introduction(Batch.objects.get(name=name))
    return int(made["tasks"])


def batch_arguments(
    name: str, *, dataset: str, guideline: str, annotators: list[Account], adjudicators: list[Account],
    overlap: int, pairing: str, lease: int = 1800,
) -> list[str]:  # fmt: skip
    arguments = [name, "--guideline", guideline, "--dataset", dataset]
    arguments += ["--overlap", str(overlap), "--pairing", pairing, "--lease", str(lease)]
    arguments += ["--annotators", *(annotator.name for annotator in annotators)]
    if adjudicators:
        arguments += ["--adjudicators", *(adjudicator.name for adjudicator in adjudicators)]
    return arguments


def _create(url: str, *, replace: bool) -> None:
    if replace:
        _administer(url, f"DROP DATABASE IF EXISTS {_quoted(url)} WITH (FORCE)")
    elif _administer(url, "SELECT 1 FROM pg_database WHERE datname = %s", [_name(url)]):
        raise SystemExit(f"The database {_name(url)} is there already; say --replace to drop it first.")
    _administer(url, f"CREATE DATABASE {_quoted(url)}")


def _administer(url: str, sql: str, values: list[str] | None = None) -> bool:
    """Run one statement beside the database; True if it gave a row."""
    import psycopg2

    parts = urlsplit(url)
    connection = psycopg2.connect(urlunsplit(parts._replace(path="/postgres")))
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(sql, values)
            return bool(cursor.description and cursor.fetchone())
    finally:
        connection.close()


def _close_connections() -> None:
    from django.db import connections

    connections.close_all()


def _name(url: str) -> str:
    name = urlsplit(url).path.removeprefix("/")
    if not name or name == "postgres":
        raise SystemExit("Name a database of its own: postgres://HOST/NAME")
    return name


def _quoted(url: str) -> str:
    return '"' + _name(url).replace('"', '""') + '"'
