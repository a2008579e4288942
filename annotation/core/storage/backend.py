"""The bucket as one of Django's storages (STORAGES in the settings): django-storages with limits to its patience."""

from __future__ import annotations

from typing import Any

from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from storages.backends.s3 import S3Storage

CONNECT_SECONDS, READ_SECONDS = 5, 30
MAX_ATTEMPTS = 3


class BucketStorage(S3Storage):  # type: ignore[misc] # it has no types
    """Nothing is public, and nothing is checked in ways that only Amazon's own servers know."""

    def get_default_settings(self) -> dict[str, Any]:
        config = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"total_max_attempts": MAX_ATTEMPTS, "mode": "standard"},
            signature_version="s3v4",
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        )
        # One part at a time, in the thread that asked: memory is bounded, and a killed process has no threads to end.
        defaults: dict[str, Any] = super().get_default_settings()
        return defaults | {
            "client_config": config,
            "transfer_config": TransferConfig(use_threads=False),
            "file_overwrite": True,
            "default_acl": None,
        }
