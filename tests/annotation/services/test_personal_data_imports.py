"""Personal data in files on their way in: counted or masked, alike in the preview and in the import."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.core.management import call_command
from django.test import Client

from annotation.models import CacheEntry, Import, Job, Person, Prompt, Response
from annotation.services import jobs

pytestmark = pytest.mark.django_db
PROMPTS = [
    {"prompt": "Mail jane@example.org and jane@example.org, or call 13812345678.", "prompt_id": "p1"},
    {"prompt": "Nothing in here, order 20231234567.", "prompt_id": "p2"},
]
MASKED = "Mail [email 1] and [email 1], or call [phone 1]."


def write(path: Path, rows: list[dict[str, Any]]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def run(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command(*arguments, "--json", stdout=out)
    answer: dict[str, Any] = json.loads(out.getvalue())
    return answer


def test_the_preview_says_what_the_import_does(tmp_path: Path) -> None:
    file = write(tmp_path / "prompts.jsonl", PROMPTS)
    arguments = ("import_prompts", file, "--dataset", "d", "--personal-data", "mask")
    (preview,) = run(*arguments, "--preview")["preview"]
    assert [(example["kind"], example["line"], example["text"]) for example in preview["personal_data"]] == [
        ("email", 1, "jane@example.org"),
        ("email", 1, "jane@example.org"),
        ("phone", 1, "13812345678"),
    ]
    assert not Prompt.objects.exists()
    report = run(*arguments)
    assert report["personal_data"] == preview["outcome"]["personal_data"] == {"email": 2, "phone": 1}
    assert report["notes"] == ["E-mail addresses masked: 2.", "Phone numbers masked: 1."]
    assert list(Prompt.objects.order_by("pk").values_list("text", flat=True)) == [
        MASKED,
        PROMPTS[1]["prompt"],
    ]
    stored = Import.objects.get()
    assert "jane" not in json.dumps([stored.report, stored.options, stored.reading])
    assert stored.options["personal_data"] == "mask"
    assert run(*arguments)["already_there"] == 2


def test_find_counts_and_changes_nothing(tmp_path: Path) -> None:
    file = write(tmp_path / "prompts.jsonl", PROMPTS)
    report = run("import_prompts", file, "--dataset", "d", "--personal-data", "find")
    assert report["personal_data"] == {"email": 2, "phone": 1}
    assert Prompt.objects.get(key="p1").text == PROMPTS[0]["prompt"]
    assert "personal_data" not in run("import_prompts", file, "--dataset", "d")


def test_responses_are_masked_and_find_their_masked_prompts(tmp_path: Path) -> None:
    prompts = [{"prompt": row["prompt"]} for row in PROMPTS]  # without ids, so that the text is the key
    run(
        "import_prompts",
        write(tmp_path / "p.jsonl", prompts),
        "--dataset",
        "d",
        "--personal-data",
        "mask",
    )
    answers = [
        {"prompt": row["prompt"], "response": f"I wrote to bob@example.org. {number}", "model": "M"}
        for number, row in enumerate(PROMPTS)
    ]
    file = write(tmp_path / "r.jsonl", answers)
    report = run("import_responses", file, "--dataset", "d", "--personal-data", "mask")
    assert report["personal_data"]["email"] == 4  # two in a prompt, one in each response
    assert Response.objects.count() == 2
    assert sorted(Response.objects.values_list("text", flat=True)) == [
        "I wrote to [email 1]. 0",
        "I wrote to [email 1]. 1",
    ]
    assert not Prompt.objects.filter(text__contains="@").exists()


def test_a_masked_upload_leaves_no_copy(
    client: Client, ma: Person, settings: Any, tmp_path: Path, django_capture_on_commit_callbacks: Any
) -> None:
    settings.ASSAY_DATA_DIR, settings.MEDIA_ROOT = tmp_path, tmp_path / "uploads"
    client.force_login(ma)
    content = "".join(json.dumps(row) + "\n" for row in PROMPTS).encode()
    client.post("/imports/new/", {"file": SimpleUploadedFile("p.jsonl", content), "kind": "prompts"})
    upload = Import.objects.get()
    page = client.get(f"/imports/{upload.pk}/").content.decode()
    assert "Personal data in the texts" in page
    stated = {"kind": "prompts", "format": upload.format, "dataset": "d", "personal_data": "mask"}
    client.post(f"/imports/{upload.pk}/check/", stated)
    page = client.get(f"/imports/{upload.pk}/").content.decode()
    assert "<mark>jane@example.org</mark>" in page
    assert "E-mail addresses masked: 2." in page
    assert CacheEntry.objects.filter(cache_key__contains="import-preview").exists()
    answer = client.post(f"/imports/{upload.pk}/confirm/", stated)
    assert answer.status_code == 302, answer.content.decode()
    with django_capture_on_commit_callbacks(execute=True):
        jobs.run_now(Job.objects.get())
    upload.refresh_from_db()
    assert upload.path == ""
    assert Prompt.objects.get(key="p1").text == MASKED
    assert "E-mail addresses masked: 2." in client.get(f"/imports/{upload.pk}/").content.decode()
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and b"jane@" in path.read_bytes()]
    assert not CacheEntry.objects.filter(cache_key__contains="import-preview").exists()
