"""A data folder on a disk that is really full: what only reads goes on, and a failed upload leaves nothing."""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import LazySettings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from annotation.core.charts import DARK, INK, chart_svg, chart_url
from annotation.models import Batch, Import, Person
from config.static import STYLESHEET
from tests.conftest import missing
from tests.support import label_next

pytestmark = pytest.mark.django_db
SPEC = {
    "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
    "data": {"values": [{"x": 1, "y": 2}, {"x": 2, "y": 1}]},
    "mark": "line",
    "encoding": {"x": {"field": "x", "type": "quantitative"}, "y": {"field": "y", "type": "quantitative"}},
}


@pytest.fixture
def disk(tmp_path: Path, settings: LazySettings) -> Iterator[Path]:
    """A small disk of its own for data and uploads."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", str(disk)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        missing("mount", "this user may not mount a small disk to fill")
    settings.ASSAY_DATA_DIR, settings.MEDIA_ROOT = disk, disk / "uploads"
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path) -> None:
    with (disk / "filler").open("ab", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            return


def files_of(disk: Path) -> set[str]:
    """But for the style sheet, which the first page of a process puts together."""
    return {path.name for path in disk.rglob("*") if path.is_file()} - {"filler", Path(STYLESHEET).name}


def svg_of(address: str) -> str:
    return base64.b64decode(address.partition("base64,")[2]).decode()


def test_a_page_with_charts_carries_them_itself(
    disk: Path, batch: Batch, client: Client, lin: Person, chen: Person, he: Person
):
    for first, other in ((1, 2), (3, 3), (1, 1)):
        label_next(batch, lin, first)
        label_next(batch, chen, other)
    fill(disk)
    client.force_login(he)
    answer = client.get(reverse("agreement"), {"by": "model", "statistic": "percent_agreement"})
    assert answer.status_code == 200
    images = re.findall(r'<img class="figure__(light|dark)" src="(data:[^"]+)"', answer.content.decode())
    assert {theme for theme, _address in images} == {"light", "dark"}
    for theme, address in images:
        svg = svg_of(address)
        assert svg.startswith("<svg")
        assert (INK in svg, DARK[INK] in svg) == (theme == "light", theme == "dark")
    assert "img-src 'self' data:" in answer["Content-Security-Policy"]
    assert not files_of(disk)


def test_a_chart_that_is_known_is_drawn_and_not_kept(disk: Path):
    key = Path(chart_url(SPEC)).stem
    fill(disk)
    assert chart_svg(key).startswith("<svg")
    assert chart_svg(f"{key}-dark").startswith("<svg")
    assert files_of(disk) == {f"{key}.json"}


def test_once_there_is_room_charts_are_kept_again(disk: Path):
    fill(disk)
    assert chart_url(SPEC).startswith("data:")
    (disk / "filler").unlink()
    assert chart_url(SPEC).startswith("/")


def test_an_upload_that_does_not_fit_leaves_nothing_and_says_why(disk: Path, client: Client, ma: Person):
    client.force_login(ma)
    file = SimpleUploadedFile("big.jsonl", b'{"prompt": "p"}\n' * 20_000)
    answer = client.post(reverse("import-new"), {"file": file})
    assert answer.status_code == 507
    assert "No space left on device" in answer.content.decode()
    assert not files_of(disk)
    assert not Import.objects.exists()


def test_an_upload_that_cannot_be_noted_leaves_nothing(
    disk: Path, client: Client, ma: Person, monkeypatch: pytest.MonkeyPatch
):
    def fail(**_event: object) -> None:
        raise RuntimeError("the database is gone")

    monkeypatch.setattr("annotation.services.imports.uploads.record", fail)
    client.force_login(ma)
    with pytest.raises(RuntimeError):
        client.post(reverse("import-new"), {"file": SimpleUploadedFile("a.jsonl", b'{"prompt": "p"}\n')})
    assert not files_of(disk)
