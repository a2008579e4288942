"""A server that speaks S3 on this machine, and hosts that share a bucket on it and no folder."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import httpx
import pytest
from django.conf import LazySettings
from moto.server import ThreadedMotoServer

from tests.serving import Relay, free_port

REGION = "us-east-1"
KEYS = {"AWS_ACCESS_KEY_ID": "assay", "AWS_SECRET_ACCESS_KEY": "assay-secret"}
ANYBODY = "1000000000"
"""So many requests are let in before the server looks at who asks."""


class Bucket:
    """A bucket of its own; requests go through ``relay``, which can be closed."""

    def __init__(self, port: int) -> None:
        self.name = f"assay-{uuid4().hex[:12]}"
        self.port = port
        self.relay = Relay(port)
        self.client = boto3.client(
            "s3",
            endpoint_url=f"http://127.0.0.1:{port}",
            region_name=REGION,
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )
        self.client.create_bucket(Bucket=self.name)

    @property
    def url(self) -> str:
        """ASSAY_STORAGE."""
        return f"s3://{self.name}/site?endpoint=http://127.0.0.1:{self.relay.port}&region={REGION}"

    def names(self) -> set[str]:
        """Below the prefix."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        return {entry["Key"].removeprefix("site/") for page in pages for entry in page.get("Contents", ())}

    def read(self, name: str) -> bytes:
        return bytes(self.client.get_object(Bucket=self.name, Key=f"site/{name}")["Body"].read())

    def change(self, name: str, content: bytes) -> None:
        """As somebody does who has the keys, and leaves what the object says of itself."""
        metadata = self.client.head_object(Bucket=self.name, Key=f"site/{name}")["Metadata"]
        self.client.put_object(Bucket=self.name, Key=f"site/{name}", Body=content, Metadata=metadata)

    @contextmanager
    def checking_keys(self) -> Iterator[None]:
        """Nobody has an account there."""
        address = f"http://127.0.0.1:{self.port}/moto-api/reset-auth"
        httpx.post(address, content="0").raise_for_status()
        try:
            yield
        finally:
            httpx.post(address, content=ANYBODY).raise_for_status()


@pytest.fixture(scope="session")
def s3_port() -> Iterator[int]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=free_port(), verbose=False)
    server.start()
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    yield int(server.get_host_and_port()[1])
    server.stop()


@pytest.fixture
def store(s3_port: int, settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    bucket = Bucket(s3_port)
    settings.STORAGES = {**settings.STORAGES, "bucket": build_storage(bucket.url)}
    yield bucket
    bucket.relay.close()


def build_storage(url: str) -> dict[str, Any]:
    from config.settings import read_storage

    return {"BACKEND": "annotation.core.storage.backend.BucketStorage", "OPTIONS": read_storage(url)}


class Hosts:
    """Machines with a data folder each; this process is one after the other."""

    def __init__(self, settings: LazySettings, root: Path) -> None:
        self.settings, self.root = settings, root

    def be(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        self.settings.ASSAY_DATA_DIR, self.settings.MEDIA_ROOT = folder, folder / "uploads"
        self.settings.BROKER_FOLDER = folder / "broker"
        self.settings.CELERY_BEAT_SCHEDULE_FILENAME = str(folder / "celerybeat-schedule")
        return folder


@pytest.fixture
def hosts(settings: LazySettings, tmp_path: Path) -> Hosts:
    hosts = Hosts(settings, tmp_path)
    hosts.be("first")
    return hosts


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Whoever connects waits for an answer for ever."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield int(listener.getsockname()[1])
