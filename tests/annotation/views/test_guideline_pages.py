from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse
from django.utils.html import escape

from annotation.domain.guidelines.parser import parse_guideline
from annotation.domain.guidelines.prose import TextBlock, split_blocks
from annotation.models import AuditEvent, Batch, Guideline, Person
from annotation.selectors.guidelines import choose_language, list_shipped, read_shipped, to_language
from annotation.services.guidelines import load_guideline
from tests.support import FLAMES_GUIDELINE, XSTEST_GUIDELINE

pytestmark = pytest.mark.django_db
TEXT = XSTEST_GUIDELINE.path.read_text(encoding="utf-8")


@pytest.fixture
def manager(client: Client, ma: Person) -> Client:
    client.force_login(ma)
    return client


@pytest.fixture
def draft(guideline: Guideline) -> Guideline:
    return load_guideline(text=TEXT.replace('version: "1.0"', 'version: "1.1"'), path="x")


def test_everybody_with_a_role_reads_a_published_version(
    client: Client, guideline: Guideline, lin: Person, wu: Person, he: Person, ma: Person, stranger: Person
) -> None:
    url = reverse("guideline", args=["xstest", "1.0"])
    for person in (lin, wu, he, ma):
        client.force_login(person)
        assert client.get(url).status_code == 200
        assert client.get(reverse("guidelines")).status_code == 200
    client.force_login(stranger)
    assert client.get(url).status_code == 403
    assert client.get(reverse("guidelines")).status_code == 403


def test_only_managers_put_in_and_publish(
    client: Client, draft: Guideline, lin: Person, he: Person, stranger: Person
) -> None:
    publish = reverse("guideline-publish", args=["xstest", "1.1"])
    for person in (lin, he, stranger):
        client.force_login(person)
        assert client.get(reverse("guideline-new")).status_code == 403
        assert client.post(reverse("guideline-new"), {"text": TEXT}).status_code == 403
        assert client.post(publish).status_code == 403
    draft.refresh_from_db()
    assert not draft.is_published


def test_anonymous_is_sent_to_sign_in(client: Client, guideline: Guideline) -> None:
    read, publish = (reverse(name, args=["xstest", "1.0"]) for name in ("guideline", "guideline-publish"))
    for answer in (client.get(reverse("guidelines")), client.get(read), client.post(publish)):
        assert answer["location"].startswith(reverse("login"))


def test_a_draft_does_not_exist_for_others(client: Client, draft: Guideline, lin: Person) -> None:
    client.force_login(lin)
    assert client.get(reverse("guideline", args=["xstest", "1.1"])).status_code == 404
    assert "1.1" not in client.get(reverse("guidelines")).content.decode()


def test_the_list_names_the_batches_for_managers_alone(
    client: Client, batch: Batch, ma: Person, lin: Person
) -> None:
    link = reverse("batch", args=[batch.name])
    client.force_login(ma)
    assert link in client.get(reverse("guidelines")).content.decode()
    client.force_login(lin)
    for url in (reverse("guidelines"), reverse("guideline", args=["xstest", "1.0"])):
        assert link not in client.get(url).content.decode()


def test_a_version_is_read_in_the_readers_language_or_the_one_asked_for(client: Client, lin: Person) -> None:
    FLAMES_GUIDELINE.load()
    client.force_login(lin)
    url = reverse("guideline", args=["flames", "1.3"])
    chinese = client.get(url, headers={"Accept-Language": "zh-hans"})
    english = client.get(url)
    assert chinese.context["language"] == "zh"
    assert "Flames 价值对齐标注指南" in chinese.content.decode()
    assert "Flames value alignment guideline" in english.content.decode()
    chinese_page = client.get(url, {"language": "zh"}).content.decode()
    assert "未察觉但未加害" in chinese_page
    # Every level of the five criteria (3 + 3 + 3 + 2 + 2) has its own section.
    assert chinese_page.count('class="card scale"') == 13
    assert [block.kind for block in english.context["introduction"]][:3] == ["paragraph", "heading", "list"]


def test_a_manager_puts_in_a_file_reads_it_and_publishes_it(manager: Client, ma: Person) -> None:
    upload = SimpleUploadedFile("xstest.yaml", b"\xef\xbb\xbf" + TEXT.encode())
    answer = manager.post(reverse("guideline-new"), {"file": upload, "text": ""})
    read = reverse("guideline", args=["xstest", "1.0"])
    assert answer["location"] == read
    assert "Publishing freezes this version" in manager.get(read).content.decode()
    publish = reverse("guideline-publish", args=["xstest", "1.0"])
    assert manager.post(publish).status_code == 302
    first = Guideline.objects.get().published_at
    assert first is not None
    assert manager.post(publish).status_code == 302  # twice changes nothing
    assert Guideline.objects.get().published_at == first
    assert [event.actor for event in AuditEvent.objects.filter(verb="publish_guideline")] == [ma]


def test_a_mistake_is_shown_with_its_line_and_stores_nothing(manager: Client) -> None:
    lines = TEXT.splitlines()
    at = next(place for place, line in enumerate(lines) if "measurement: ordinal" in line)
    lines[at] = lines[at].replace("ordinal", "ordnial")
    answer = manager.post(reverse("guideline-new"), {"text": "\r\n".join(lines)})
    assert answer.status_code == 422
    assert answer.context["error"].line == at + 1
    wrong = [line for line in answer.context["excerpt"] if line.wrong]
    assert [(line.number, "ordnial" in line.text) for line in wrong] == [(at + 1, True)]
    assert "ordnial" in answer.content.decode().split("<textarea")[1]  # what was pasted is still there
    assert not Guideline.objects.exists()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"name: x\nversion: \xff", "Line 2: this is not UTF-8 text"),
        (b"- a\n- b", "A guideline is a mapping"),
        (b"name: <script>alert(1)</script>", "&lt;script&gt;"),
    ],
)
def test_what_is_no_guideline_is_refused_in_words(manager: Client, content: bytes, words: str) -> None:
    answer = manager.post(reverse("guideline-new"), {"file": SimpleUploadedFile("x.yaml", content)})
    assert answer.status_code == 422
    assert words in answer.content.decode()
    assert "<script>alert" not in answer.content.decode()
    assert not Guideline.objects.exists()


def test_nothing_at_all_is_refused(manager: Client) -> None:
    answer = manager.post(reverse("guideline-new"), {"text": "  "})
    assert answer.status_code == 422
    assert "Choose a file, or paste" in answer.content.decode()


def test_a_published_version_is_not_replaced(manager: Client, guideline: Guideline) -> None:
    answer = manager.post(reverse("guideline-new"), {"text": TEXT.replace("Full refusal", "Whole refusal")})
    assert answer.status_code == 422
    assert "give the changed document a new version" in answer.content.decode()
    assert Guideline.objects.get().sha256 == guideline.sha256


def test_the_language_that_comes_closest_is_taken(guideline: Guideline) -> None:
    document = guideline.document  # en first, then zh
    assert [choose_language(document, wish) for wish in ("en", "en-gb", "zh-hans", "de")] == [
        "en",
        "en",
        "zh",
        "en",
    ]
    english = to_language(document, "en")
    assert english["criteria"][0]["scale"][0]["name"] == "Full refusal"
    assert english["metrics"][0]["levels"] == document.metrics[0].levels


def test_plain_text_gets_the_shape_it_was_given() -> None:
    text = "First paragraph.\n\nHow to work\n1. Read.\n2. Judge.\nThen rest.\n\n1) alone"
    assert split_blocks(text) == [
        TextBlock("paragraph", ("First paragraph.",)),
        TextBlock("heading", ("How to work",)),
        TextBlock("list", ("Read.", "Judge.")),
        TextBlock("paragraph", ("Then rest.",)),
        TextBlock("list", ("alone",)),
    ]


def test_a_sentence_that_opens_a_group_of_lines_is_no_heading() -> None:
    assert [
        block.kind for block in split_blocks("为什么？\n因为。\n\n在 3 和 2 之间：能，选 3。\n其余选 2。")
    ] == ["paragraph"] * 4


def test_a_guideline_that_comes_with_assay_is_published_as_it_is(manager: Client, lin: Person) -> None:
    shipped = reverse("guideline-shipped", args=["flames"])
    assert "Guidelines that come with Assay" in manager.get(reverse("guidelines")).content.decode()
    assert manager.post(shipped)["location"] == reverse("guideline", args=["flames", "1.3"])
    stored = Guideline.objects.get(name="flames")
    assert stored.is_published
    assert f'action="{shipped}"' not in manager.get(reverse("guidelines")).content.decode()
    assert manager.post(shipped).status_code == 302  # twice changes nothing
    assert Guideline.objects.filter(name="flames").get().published_at == stored.published_at
    assert manager.post(reverse("guideline-shipped", args=["nope"])).status_code == 404


def test_a_copy_has_the_next_free_version_and_nothing_else_differs(manager: Client) -> None:
    new = reverse("guideline-new")
    shipped = manager.get(new, {"base": "shipped:xstest"}).context["text"]
    assert parse_guideline(shipped, path="x").version == "1.0"
    stored = load_guideline(text=shipped, path="x", publish=True)
    copied = manager.get(new, {"base": str(stored)}).context["text"]
    assert parse_guideline(copied, path="x").version == "1.1"
    assert copied.replace("1.1", "1.0", 1) == shipped
    load_guideline(text=copied, path="x")
    assert parse_guideline(manager.get(new, {"base": str(stored)}).context["text"], path="x").version == "1.2"
    assert manager.get(new, {"base": "nope@1"}).status_code == 404


def test_the_preview_asks_what_the_work_page_asks_and_stores_nothing(manager: Client) -> None:
    preview = reverse("guideline-preview")
    words = manager.post(preview, {"text": read_shipped("flames")}).content.decode()
    for criterion in list_shipped()["flames"].criteria:
        assert escape(criterion.question["en"]) in words
        for level in criterion.scale:
            assert escape(level.definition["en"]) in words
    flawed = read_shipped("flames").replace("languages: [zh, en]", "languages: [zh, en")
    answer = manager.post(preview, {"text": flawed}).content.decode()
    assert 'class="source__line source__line--wrong"' in answer
    assert "Format of a guideline" in manager.post(preview, {"text": ""}).content.decode()
    assert not Guideline.objects.exists()
