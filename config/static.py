"""Static files: the stylesheet is joined from its layers, and production serves files hashed and compressed."""

from __future__ import annotations

import logging
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from django.conf import settings
from django.contrib.staticfiles.finders import BaseFinder
from django.contrib.staticfiles.utils import matches_patterns
from django.core.files.base import ContentFile
from django.core.files.storage import FileSystemStorage
from rjsmin import jsmin
from whitenoise.storage import CompressedManifestStaticFilesStorage

logger = logging.getLogger(__name__)
STYLES = Path(__file__).resolve().parent.parent / "styles"
LAYERS = ("tokens", "base", "components", "pages", "print")
STYLESHEET = "css/assay.css"


def join_styles() -> str:
    """The stylesheet that pages load: each file of ``styles/`` in the cascade layer of its name."""
    layers = (
        f"@layer {layer} {{\n{(STYLES / f'{layer}.css').read_text(encoding='utf-8')}}}\n" for layer in LAYERS
    )
    return f"@layer {', '.join(LAYERS)};\n\n" + "\n".join(layers)


class StylesheetFinder(BaseFinder):
    """Finds the joined stylesheet, which is written into the data folder whenever a layer has changed.

    On a full disk the system's folder for temporary files takes it.
    """

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        self.storage = FileSystemStorage(location=settings.ASSAY_DATA_DIR / "static")

    def check(self, **_options: Any) -> list[Any]:
        return []

    def find(self, path: str, find_all: bool = False, **_options: Any) -> Any:
        if path != STYLESHEET:
            return []
        place = str(self._keep())
        return [place] if find_all else place

    def list(self, ignore_patterns: Iterable[str] | None) -> Iterator[tuple[str, FileSystemStorage]]:
        if not matches_patterns(STYLESHEET, ignore_patterns or ()):
            self._keep()
            yield STYLESHEET, self.storage

    def _keep(self) -> Path:
        try:
            return write_stylesheet(Path(self.storage.path(STYLESHEET)))
        except OSError as error:
            logger.warning("The stylesheet cannot be kept in the data folder: %s", error)
            self.storage = FileSystemStorage(location=tempfile.mkdtemp(prefix="assay-static-"))
            return write_stylesheet(Path(self.storage.path(STYLESHEET)))


def write_stylesheet(path: Path) -> Path:
    """Whole or not at all, since another process may be reading it."""
    text = join_styles()
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{uuid4().hex}")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    return path


class CollectedFiles(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    """Takes comments and indentation out of ``js/``, which is all ours; nothing is renamed, so errors stay readable."""

    def _save(self, name: str, content: Any) -> str:
        if name.startswith("js/") and name.endswith(".js"):
            content.seek(0)  # whoever made the hash has read it to its end
            content = ContentFile(jsmin(content.read().decode()).encode())
        saved: str = super()._save(name, content)
        return saved
