"""A client of Assay's API in one file: copy it beside your program. It needs Python 3.11 and httpx.

    from assay import Assay

    with Assay("https://assay.example.org", token="assay_..", study="default") as assay:
        assay.load_guideline(Path("xstest.yaml").read_text(), publish=True)
        assay.import_file("prompts.csv", kind="prompts", dataset="mine", guideline="xstest")
        assay.create_batch("first", guideline="xstest", dataset="mine", annotators=["lin", "chen"])

Each call that makes something carries an Idempotency-Key of its own. Where the answer is lost, or the server is busy or
away for a while, the same call is sent again with the same key: nothing is made twice. Long work is a job on the
server; the methods below wait for it, unless ``wait=False``.

A refusal is an ``AssayRefusal``: the server's words, its code, and what is wrong in which field or line.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote
from uuid import uuid4

import httpx

__all__ = ["Assay", "AssayRefusal", "JobFailed"]
JSON = dict[str, Any]
API = "/api/v1/"
AGAIN = frozenset({408, 429, 502, 503, 504})
"""Statuses that say nothing of the call: it is sent again."""


class AssayRefusal(Exception):
    """The server refuses the call. ``code`` is a stable word, ``fields`` says what is wrong by field, ``problems`` what
    is wrong with a file: ``{"message", "line", "field"}`` each.
    """

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        self.status = status
        self.code: str = error.get("code", "")
        self.message: str = error.get("message", "")
        self.fields: JSON = error.get("fields", {})
        self.problems: list[JSON] = error.get("problems", [])
        details = "".join(f"; {name}: {reasons}" for name, reasons in self.fields.items())
        super().__init__(f"{status} {self.code}: {self.message}{details}")


class JobFailed(Exception):
    """A job on the server failed or was cancelled; ``job`` is its last state."""

    def __init__(self, job: JSON) -> None:
        self.job = job
        super().__init__(f"job {job['id']} ({job['kind']}, {job['title']}) {job['state']}: {job['error']}")


class Assay:
    """``url`` is that of the site, ``token`` one of your account with the scope manage, and ``study`` the name of a
    study, needed where you are a member of several.

    ``timeout`` is of one request and ``patience`` of trying it again, both in seconds; ``transport`` is for tests.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str,
        study: str = "",
        timeout: float = 60,
        patience: float = 120,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._root = f"{API}s/{quote(study)}/" if study else API
        self._patience = patience
        self._http = httpx.Client(
            base_url=url.rstrip("/"),
            headers={"Authorization": f"Token {token}"},
            timeout=timeout,
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    # Any call.

    def get(self, address: str, **query: Any) -> JSON:
        """What stands at the address: one that an answer names, or the part after ``/api/v1/``."""
        return self._ask("GET", address, params=query or None)

    def post(
        self,
        address: str,
        content: Mapping[str, Any] | None = None,
        *,
        key: str = "",
        file: tuple[str, bytes] | None = None,
    ) -> JSON:
        """Send the content, with ``file`` (its name and its bytes) as a form. ``key`` is the Idempotency-Key: give your
        own where your program may die and try again, the same for the same thing; else each call has a new one.
        """
        headers = {"Idempotency-Key": key or uuid4().hex}
        if file is not None:
            name, data = file
            return self._ask(
                "POST", address, headers=headers, data=dict(content or {}), files={"file": (name, data)}
            )
        return self._ask("POST", address, headers=headers, json=dict(content or {}))

    def list_all(self, address: str, **query: Any) -> Iterator[JSON]:
        """Every row of a list, part after part, the newest first."""
        part = self.get(address, **query)
        while True:
            yield from part["rows"]
            if part["next"] is None:
                return
            part = self.get(part["next"])

    def wait(self, job: str, *, every: float = 1, timeout: float | None = None) -> JSON:
        """The job at this address once it is done. JobFailed where it comes to no good end, TimeoutError where that
        takes more than ``timeout`` seconds; None is for ever.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            state = self.get(job)
            if state["state"] == "done":
                return state
            if state["state"] in {"failed", "cancelled"}:
                raise JobFailed(state)
            if end is not None and time.monotonic() > end:
                raise TimeoutError(f"job {state['id']} is {state['state']} after {timeout} seconds")
            time.sleep(every)

    def cancel(self, job: str) -> JSON:
        return self.post(f"{job}cancel/")

    # The loop.

    def load_guideline(self, text: str, *, publish: bool = False, key: str = "") -> JSON:
        """Check and store a guideline, a YAML document; published it never changes."""
        return self.post("manage/guidelines/-/load/", {"text": text, "publish": publish}, key=key)

    def upload(self, path: str | Path, *, kind: str = "", key: str = "") -> JSON:
        """Upload a file of prompts, responses or annotations; nothing of it is stored before it is confirmed."""
        file = Path(path)
        fields = {"kind": kind} if kind else {}
        return self.post("manage/imports/-/upload/", fields, key=key, file=(file.name, file.read_bytes()))

    def preview_import(self, upload: str, **reading: Any) -> JSON:
        """How the uploaded file at this address reads, and what would come of importing it."""
        return self.post(f"{upload}preview/", reading)

    def confirm_import(self, upload: str, *, wait: bool = True, key: str = "", **reading: Any) -> JSON:
        """Import the uploaded file at this address."""
        job = self.post(f"{upload}confirm/", reading, key=key)
        return self._finish(job["url"], upload, wait=wait)

    def import_file(self, path: str | Path, *, kind: str = "", wait: bool = True, **reading: Any) -> JSON:
        """Upload and import a file: ``reading`` says how it is read (format, columns) and where it goes (dataset,
        model, guideline, batch), as ``/api/v1/docs/`` describes it.
        """
        upload = self.upload(path, kind=kind)
        stated = {"kind": kind, **reading} if kind else reading
        return self.confirm_import(upload["url"], wait=wait, **stated)

    def add_person(self, name: str, *, roles: Sequence[str] = (), key: str = "", **fields: Any) -> JSON:
        return self.post("manage/people/-/add/", {"name": name, "roles": list(roles), **fields}, key=key)

    def create_batch(
        self, name: str, *, guideline: str, dataset: str, wait: bool = True, key: str = "", **policy: Any
    ) -> JSON:
        """Make a batch and open it; ``policy`` are the people and the rules, ``draft=True`` leaves it closed."""
        content = {"name": name, "guideline": guideline, "dataset": dataset, **policy}
        made = self.post("manage/batches/-/create/", content, key=key)
        if "kind" not in made:
            return made
        return self._finish(made["url"], f"manage/batches/{quote(name, safe='')}/", wait=wait)

    def set_batch_state(self, name: str, state: str) -> JSON:
        """``open``, ``paused`` or ``closed``."""
        return self.post(f"manage/batches/{quote(name, safe='')}/state/", {"state": state})

    def agreement(self, *batches: str, by: str = "") -> JSON:
        return self.get("manage/agreement/", batch=list(batches), by=by)

    def cut_release(
        self,
        name: str,
        *,
        batches: Sequence[str],
        about: str = "",
        supersedes: str = "",
        wait: bool = True,
        key: str = "",
    ) -> JSON:
        content = {"name": name, "batches": list(batches), "about": about}
        content |= {"supersedes": supersedes} if supersedes else {}
        job = self.post("manage/releases/-/cut/", content, key=key)
        return self._finish(job["url"], f"manage/releases/{quote(name, safe='')}/", wait=wait)

    def export_release(
        self, name: str, folder: str | Path, *, file_format: str = "jsonl", key: str = "", **options: Any
    ) -> list[Path]:
        """Write the files of the release into the folder; waits for the job. The paths of the files."""
        address = f"manage/releases/{quote(name, safe='')}/exports/-/start/"
        started = self.post(address, {"format": file_format, **options}, key=key)
        self.wait(started["job"])
        root, paths = Path(folder), []
        for file in self.get(started["url"])["files"]:
            path = root.joinpath(*(part for part in file["name"].split("/") if part not in {"", ".", ".."}))
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._http.stream("GET", file["url"]) as answer:
                if answer.status_code != 200:
                    answer.read()
                    raise _build_refusal(answer)
                with path.open("wb") as target:
                    for block in answer.iter_bytes():
                        target.write(block)
            paths.append(path)
        return paths

    def train_scorer(
        self, name: str, *, release: str, wait: bool = True, key: str = "", **training: Any
    ) -> JSON:
        started = self.post(
            "manage/scorers/-/train/", {"name": name, "release": release, **training}, key=key
        )
        return self._finish(started["job"], started["url"], wait=wait)

    def promote_scorer(self, name: str, *, wait: bool = True, key: str = "", **terms: Any) -> JSON:
        address = f"manage/scorers/{quote(name, safe='')}/"
        job = self.post(f"{address}promote/", terms, key=key)
        return self._finish(job["url"], address, wait=wait)

    def run_benchmark(
        self, name: str, *, scorer: str, dataset: str, wait: bool = True, key: str = "", **options: Any
    ) -> JSON:
        content = {"name": name, "scorer": scorer, "dataset": dataset, **options}
        started = self.post("manage/runs/-/start/", content, key=key)
        return self._finish(started["job"], started["url"], wait=wait)

    def leaderboard(self, run: str, *parts: str) -> JSON:
        """The board of a finished run; ``parts`` are of groups, pairs and estimates."""
        return self.get(f"manage/runs/{quote(run, safe='')}/board/", part=list(parts))

    def _finish(self, job: str, made: str, *, wait: bool) -> JSON:
        """What was made, once its job is done; else the job as it is."""
        if not wait:
            return self.get(job)
        self.wait(job)
        return self.get(made)

    def _ask(self, method: str, address: str, **options: Any) -> JSON:
        """Send the call, and again while nobody answers or the server is busy, for as long as there is patience."""
        path = address if address.startswith("/") else f"{self._root}{address}"
        end, pause = time.monotonic() + self._patience, 0.5
        while True:
            answer, lost = None, None
            try:
                answer = self._http.request(method, path, **options)
            except httpx.TransportError as error:
                lost = error
            if answer is not None and answer.status_code not in AGAIN:
                return _read(answer)
            if time.monotonic() + pause > end:
                if answer is None:
                    assert lost is not None
                    raise lost
                raise _build_refusal(answer)
            time.sleep(_read_pause(answer, pause))
            pause = min(2 * pause, 10)


def _read(answer: httpx.Response) -> JSON:
    if answer.is_success:
        return dict(answer.json())
    raise _build_refusal(answer)


def _build_refusal(answer: httpx.Response) -> AssayRefusal:
    try:
        error = answer.json()["error"]
    except (ValueError, KeyError, TypeError):
        error = {"message": answer.text[:500]}
    return AssayRefusal(answer.status_code, error)


def _read_pause(answer: httpx.Response | None, usual: float) -> float:
    """Seconds, as the server wishes them."""
    stated = "" if answer is None else answer.headers.get("Retry-After", "")
    return min(float(stated), 60) if stated.isdigit() else usual
