"""Styles and scripts as production serves them: hashed, compressed, and our own scripts without what only we read."""

from __future__ import annotations

from typing import Any

from django.core.files.base import ContentFile
from rjsmin import jsmin
from whitenoise.storage import CompressedManifestStaticFilesStorage


class CollectedFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Takes comments and indentation out of ``js/``, which is all ours; nothing is renamed, so errors stay readable."""

    def _save(self, name: str, content: Any) -> str:
        if name.startswith("js/") and name.endswith(".js"):
            content.seek(0)  # whoever made the hash has read it to its end
            content = ContentFile(jsmin(content.read().decode()).encode())
        saved: str = super()._save(name, content)
        return saved
