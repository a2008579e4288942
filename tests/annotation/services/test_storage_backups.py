"""A backup out of a bucket and a restore into one: the same backup as that of a data folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.conf import LazySettings

from annotation.core.errors import Conflict
from annotation.models import Batch, Import, Person
from annotation.selectors.imports.uploads import find_upload_file
from annotation.services.upkeep.backups import make_backup
from annotation.services.upkeep.restores import restore_backup
from tests.annotation.services.test_backups import Elsewhere, data_folder, empty_site, upload
from tests.bucket import Bucket, build_storage, s3_port, store

__all__ = ["data_folder", "empty_site", "s3_port", "store", "upload"]  # fixtures
pytestmark = pytest.mark.django_db(transaction=True)
CONTENT = b'{"prompt": "Is it?"}'


def test_from_a_bucket_into_a_folder_and_into_another_bucket(
    store: Bucket,
    s3_port: int,
    data_folder: Path,
    he: Person,
    batch: Batch,
    upload: Import,
    empty_site: Elsewhere,
    settings: LazySettings,
    tmp_path: Path,
) -> None:
    manifest = make_backup(tmp_path / "backup")
    assert [file.path for file in manifest.files] == [f"uploads/{upload.path}"]
    assert manifest.missing == []
    other = Bucket(s3_port)
    settings.STORAGES = {**settings.STORAGES, "bucket": build_storage(other.url)}
    other.client.put_object(Bucket=other.name, Key="site/somebody-elses", Body=b"x")
    with empty_site() as folder:
        with pytest.raises(Conflict, match="is not empty"):
            restore_backup(tmp_path / "backup")
        other.client.delete_object(Bucket=other.name, Key="site/somebody-elses")
        restore_backup(tmp_path / "backup")
        assert other.read(f"uploads/{upload.path}") == CONTENT
        assert not (folder / "uploads").exists()
        assert find_upload_file(Import.objects.get()).read_bytes() == CONTENT
