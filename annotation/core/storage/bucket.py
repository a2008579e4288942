"""The bucket: files are put there whole or not at all, and read a block at a time.

Raises StorageAway where it does not answer, which passes, and StorageRefused where it does not let us in, which
somebody must mend. What is missing is a FileNotFoundError, as of any file.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.core.files.storage import storages

from annotation.core.errors import N_, AssayError, StorageAway, StorageRefused

logger = logging.getLogger(__name__)
ALIAS = "bucket"
BLOCK = 1 << 20
SHA256 = "sha256"
"""Under this name an object says what was put there."""
MAX_DELETED = 1000
"""Objects that one request deletes."""
MISSING = {"NoSuchKey", "404", "NotFound"}
BUSY = {
    "SlowDown",
    "RequestTimeout",
    "ServiceUnavailable",
    "InternalError",
    "Throttling",
    "ThrottlingException",
}
SERVER_ERROR = 500


@dataclass(frozen=True)
class StoredObject:
    """``name`` is that below the prefix of the setting; ``changed_at`` is when it was put there."""

    name: str
    bytes: int
    changed_at: datetime


def is_used() -> bool:
    """Whether files are shared by a bucket, and not in the data folder alone."""
    return ALIAS in settings.STORAGES


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def put_file(path: Path, name: str, sha256: str = "") -> None:
    """The file under this name: nobody sees it before it is whole."""
    storage = _storage()
    metadata = {SHA256: sha256 or hash_file(path)}
    with path.open("rb") as file, _translate_errors(name):
        storage.connection.meta.client.upload_fileobj(
            file,
            storage.bucket_name,
            _build_key(name),
            ExtraArgs={"Metadata": metadata, "ContentType": "application/octet-stream"},
            Config=storage.transfer_config,
        )


def put_folder(folder: Path, name: str) -> None:
    """Its files, one after the other: whoever reads them waits for a row that says that all are there."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        put_file(path, f"{name}/{path.relative_to(folder).as_posix()}")


def read_blocks(name: str) -> Iterator[bytes]:
    """The content, a block at a time. A connection that breaks off is an error, never a shorter file."""
    storage = _storage()
    with _translate_errors(name):
        answer = storage.connection.meta.client.get_object(Bucket=storage.bucket_name, Key=_build_key(name))
        with closing(answer["Body"]) as body:
            yield from body.iter_chunks(BLOCK)


def find_sha256(name: str) -> str:
    """What was put there by its own word; empty where it was put there by something else."""
    storage = _storage()
    with _translate_errors(name):
        head = storage.connection.meta.client.head_object(Bucket=storage.bucket_name, Key=_build_key(name))
    return str(head["Metadata"].get(SHA256, ""))


def list_objects(folder: str = "") -> Iterator[StoredObject]:
    """All that lies in the folder, however deep; with an empty one all there is."""
    storage = _storage()
    start = _build_key("")
    pages = storage.connection.meta.client.get_paginator("list_objects_v2").paginate(
        Bucket=storage.bucket_name, Prefix=_build_key(f"{folder}/" if folder else "")
    )
    with _translate_errors(folder):
        for page in pages:
            for entry in page.get("Contents", ()):
                yield StoredObject(entry["Key"].removeprefix(start), entry["Size"], entry["LastModified"])


def list_files(name: str) -> list[StoredObject]:
    """The object of this name; else, as of a folder, those in it."""
    storage = _storage()
    try:
        with _translate_errors(name):
            head = storage.connection.meta.client.head_object(
                Bucket=storage.bucket_name, Key=_build_key(name)
            )
    except FileNotFoundError:
        return list(list_objects(name))
    return [StoredObject(name, head["ContentLength"], head["LastModified"])]


def delete_objects(names: Iterable[str]) -> None:
    """What is gone already stays so."""
    storage, keys = _storage(), [_build_key(name) for name in names]
    for start in range(0, len(keys), MAX_DELETED):
        entries = [{"Key": key} for key in keys[start : start + MAX_DELETED]]
        with _translate_errors(keys[start]):
            answer = storage.connection.meta.client.delete_objects(
                Bucket=storage.bucket_name, Delete={"Objects": entries, "Quiet": True}
            )
        for error in answer.get("Errors", ()):
            raise _build_refusal(error.get("Key", ""), str(error.get("Code", "")))


def delete_unless_away(*names: str) -> None:
    """These and, as of folders, what is in them. What cannot be deleted now is named by no row, and the nightly
    clean-up takes it.
    """
    try:
        delete_objects([entry.name for name in names for entry in list_files(name)])
    except AssayError as error:
        logger.warning("%s stays in the bucket until the clean-up: %s", ", ".join(names), error)


def abort_uploads(before: datetime, *, remove: bool) -> int:
    """End what killed processes began to put there and never finished; how many. No reader ever sees of it."""
    storage, number = _storage(), 0
    client = storage.connection.meta.client
    with _translate_errors(""):
        pages = client.get_paginator("list_multipart_uploads").paginate(
            Bucket=storage.bucket_name, Prefix=_build_key("")
        )
        for page in pages:
            for upload in page.get("Uploads", ()):
                if upload["Initiated"] < before:
                    number += 1
                    if remove:
                        client.abort_multipart_upload(
                            Bucket=storage.bucket_name, Key=upload["Key"], UploadId=upload["UploadId"]
                        )
    return number


def check_access() -> None:
    """Put something there, read it and delete it: raises what stands in the way."""
    storage, key = _storage(), _build_key(f".health-{uuid4().hex}")
    client, place = storage.connection.meta.client, {"Bucket": storage.bucket_name, "Key": key}
    with _translate_errors(key):
        client.put_object(**place, Body=b"assay")
        try:
            content = client.get_object(**place)["Body"].read()
        finally:
            client.delete_object(**place)
    if content != b"assay":
        raise StorageRefused(N_("The bucket does not return the content that was written."))


def describe() -> str:
    """For the operator: which bucket it is."""
    storage = _storage()
    place = "/".join(filter(None, (storage.bucket_name, storage.location.strip("/"))))
    return f"s3://{place}" + (f" ({storage.endpoint_url})" if storage.endpoint_url else "")


def _storage() -> Any:
    return storages[ALIAS]


def _build_key(name: str) -> str:
    prefix = _storage().location.strip("/")
    return f"{prefix}/{name}" if prefix else name


@contextmanager
def _translate_errors(name: str) -> Iterator[None]:
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

    try:
        yield
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in MISSING:
            raise FileNotFoundError(2, "there is no such object", name) from error
        if code in BUSY or status >= SERVER_ERROR:
            raise _build_absence(error) from error
        raise _build_refusal(name, code) from error
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise _build_refusal(name, "NoCredentials") from error
    except (BotoCoreError, Boto3Error) as error:
        raise _build_absence(error) from error


def _build_absence(error: Exception) -> StorageAway:
    logger.error("the bucket is away: %s", " ".join(str(error).split()))
    return StorageAway(N_("The file storage does not answer. Nothing was lost; try again in a moment."))


def _build_refusal(name: str, code: str) -> StorageRefused:
    logger.error("the bucket refuses %s: %s", name or "a listing", code)
    return StorageRefused(
        N_("The file storage refuses this server ({code}). Tell whoever runs it; nothing was lost."),
        code=code,
    )
