from __future__ import annotations

import ast
import importlib.util
import re
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

import pytest
from babel.messages.catalog import Message
from django.conf import settings
from django.test import Client
from django.urls import reverse
from django.utils import translation

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError
from annotation.domain.formats import FORMATS
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Batch, GoldRelease, Task
from annotation.services.batches.batches import set_state
from annotation.services.releases import cut_release
from tests.support import first_batch, label_next, person

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
# What holds no text for a person: comments, class names; and what is translated as a whole.
BLOCK = re.compile(
    r"\{%\s*(comment|blocktranslate|block (?:page_class|body))\b.*?"
    r"\{%\s*(?:endcomment|endblocktranslate|endblock)\s*%\}",
    re.DOTALL,
)
TAG = re.compile(r"\{%.*?%\}|\{#.*?#\}|\{\{.*?\}\}", re.DOTALL)
# Tags whose arguments are shown: an include's and a component's by name, a component's also by place.
SHOWING = re.compile(r"\{%\s*(?:include|stat|badge|empty_state|progress|chart|data_table)\s.*?%\}", re.DOTALL)
LITERAL = re.compile(r"""\b(?:title|text|label|action|note|unit|alt)=(["'])(.*?)\1""")
PLACED = re.compile(r"""\{%\s*(?:(?:stat|empty_state|progress)|(?:badge|chart)\s+\S+)\s+(["'])(.*?)\1""")
ELEMENT_ID = re.compile(r"[a-z]+(-[a-z]+)+")
WORD = re.compile(r"[A-Za-z]{2,}")
# Names and notations that are the same in every language.
ALLOWED = {
    "Assay",
    "SHA",
    "sha256",
    "JSONL",
    "CSV",
    "JSON",
    "YAML",
    "API",
    "id",
    "ZIP",
    "xlsx",
    "LaTeX",
    "Markdown",
    *FORMATS,
}
SEEN = {"alt", "title", "placeholder", "aria-label"}
VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
UNSEEN = {"script", "style", "code", "kbd"}
Stored = list[tuple[Message, list[str]]]


class Visible(HTMLParser):
    """Collects what a person reads: text, and the attributes that are read out or shown."""

    def __init__(self, *, foreign: bool = False) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._foreign, self._within = foreign, list[tuple[str, bool]]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        hidden = tag in UNSEEN or (not self._foreign and "lang" in attributes and tag != "html")
        self.texts += [value for name, value in attrs if name in SEEN and value]
        if tag not in VOID:
            self._within.append((tag, hidden))

    def handle_endtag(self, tag: str) -> None:
        if tag in (name for name, _hidden in self._within):
            while self._within.pop()[0] != tag:
                pass

    def handle_data(self, data: str) -> None:
        if data.strip() and not any(hidden for _tag, hidden in self._within):
            self.texts.append(" ".join(data.split()))


def bare_words(source: str) -> list[str]:
    """The words of a template that are shown as they stand, whatever the reader's language."""
    source = BLOCK.sub("", source)
    matches = [
        match[1] for tag in SHOWING.findall(source) for match in (*LITERAL.findall(tag), *PLACED.findall(tag))
    ]
    literals = [text for text in matches if not ELEMENT_ID.fullmatch(text)]
    parser = Visible(foreign=True)
    parser.feed(TAG.sub("", source))
    return [
        word
        for text in (*parser.texts, *literals)
        for word in re.findall(r"\w+", text)
        if WORD.search(word) and word not in ALLOWED
    ]


@pytest.fixture(scope="module")
def messages() -> ModuleType:
    spec = importlib.util.spec_from_file_location("messages", ROOT / "locale" / "messages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_string_is_gathered_translated_and_compiled(messages: ModuleType) -> None:
    assert messages.faults() == []


@pytest.fixture(scope="module")
def stored(messages: ModuleType) -> Stored:
    """The messages of the .po file, each with its Chinese."""
    return [(message, messages._strings(message)) for message in messages.stored()]


def test_a_chinese_sentence_ends_as_the_english_one_does(messages: ModuleType, stored: Stored) -> None:
    """A full stop more or less shows where a sentence was lost, or a label became one."""
    unlike = [
        (message.id, text)
        for message, texts in stored
        for text in texts
        if messages._source(message).endswith(".") != text.endswith("。")
    ]
    assert unlike == []


def test_chinese_punctuation_is_full_width(stored: Stored) -> None:
    half = re.compile(r"[一-鿿][,;:?!]|[,;?!][一-鿿]")
    assert [text for _message, texts in stored for text in texts if half.search(text)] == []


def test_a_space_stands_between_chinese_and_latin(stored: Stored) -> None:
    touching = re.compile(r"[一-鿿][A-Za-z0-9]|[A-Za-z0-9][一-鿿]")
    bare = [re.sub(r"%\(\w+\)[sd]|%%|\{\w*\}", "", text) for _message, texts in stored for text in texts]
    assert [text for text in bare if touching.search(text)] == []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: str(path.relative_to(ROOT / "templates")))
def test_no_template_shows_a_text_that_cannot_be_translated(path: Path) -> None:
    assert bare_words(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "<p>Bare words</p>",
        '<p>{% translate "Good" %} bad</p>',
        '<img alt="A chart">',
        '<input placeholder="Search">',
        "<button aria-label='Close'></button>",
        '<p title="Help">{{ x }}</p>',
        '{% include "components/messages.html" with label="Open" value=1 %}',
        '{% stat "Open" 1 %}',
        '{% stat _("Open") 1 unit="days" %}',
        '{% badge "warning" "Late" %}',
    ],
)
def test_the_check_itself_finds_bare_words(source: str) -> None:
    assert bare_words(source)


@pytest.mark.parametrize(
    "source",
    [
        '<p>{% translate "Words" %}</p>',
        "<p>{% blocktranslate %}Some {{ n }} words{% endblocktranslate %}</p>",
        "<img alt=\"{% translate 'A chart' %}\">",
        "<kbd>Esc</kbd><code>add_person</code><script>const x = 1;</script>",
        '<p class="some words" hx-trigger="load">sha256, n = {{ n }}</p>',
        '{% include "components/messages.html" with label=_("Open") value=1 %}',
        '{% stat _("Open") 1 %}{% badge "warning" _("Late") %}{% data_table "open-title" %}{% enddata_table %}',
    ],
)
def test_the_check_itself_passes_what_is_in_order(source: str) -> None:
    assert bare_words(source) == []


@pytest.fixture(scope="module")
def cut(module_db: None) -> str:
    """The name of a release of the batch ``first``: three of its eight tasks are agreed, one is disputed."""
    for name in ("ma", "he", "stranger"):
        person(name)
    batch = first_batch()
    for level, other_level in ((1, 1), (3, 3), (2, 2), (1, 3)):
        label_next(batch, person("lin"), level)
        label_next(batch, person("chen"), other_level)
    return cut_release(ReleaseSpec(name="gold-1", batches=[batch])).name


@pytest.fixture
def release(db: None, cut: str) -> GoldRelease:
    return GoldRelease.objects.get(name=cut)


def addresses(role: str, batch: Batch, release: GoldRelease) -> list[str]:
    task = Task.objects.filter(batch=batch, state=Task.State.AGREED).first()
    assert task is not None
    annotating = ["work", ("work-batch", batch.name), "history", "account"]
    guideline = ("guideline", batch.guideline.name, batch.guideline.version)
    managing = [
        *(
            "batches",
            "batch-dataset",
            "study-plan",
            "imports",
            "import-new",
            "guidelines",
            "guideline-new",
            "people",
            "person-new",
            "agreement",
        ),
        *((f"batch{page}", batch.name) for page in ("", "-members", "-items", "-close")),
        ("batch-new", release.batches.get().tasks.first().response.prompt.dataset.name),  # type: ignore[union-attr]
        *(guideline, ("person", "lin"), ("task", str(task.pk))),
    ]
    researching = [
        *("agreement", "releases", "release-new", "scorers", "scorer-new", "runs", "new-run", "guidelines"),
        *(("release", release.name), ("release-labels", release.name)),
    ]
    pages = {
        "lin": annotating,
        "wu": ["disputes", ("dispute-batch", batch.name), "history"],
        "ma": managing,
        "he": researching,
        "stranger": ["home"],
    }
    return [
        reverse(page[0], args=page[1:]) if isinstance(page, tuple) else reverse(page) for page in pages[role]
    ]


def in_chinese(client: Client, address: str) -> list[str]:
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = "zh-hans"
    answer = client.get(address, follow=True)
    assert answer.status_code == 200, address
    return visible(answer.content.decode())


def visible(page: str) -> list[str]:
    parser = Visible()
    parser.feed(page)
    return parser.texts


@pytest.fixture(scope="module")
def english(stored: Stored) -> set[str]:
    """What a page in English shows of ours, and one in Chinese does not, in any context."""
    messages = [
        (text, texts)
        for message, texts in stored
        for text in ((message.id,) if isinstance(message.id, str) else message.id)
        if text and WORD.search(text)
    ]
    return {text for text, _ in messages} - {text for text, texts in messages if text in texts}


@pytest.mark.parametrize("name", ["lin", "wu", "ma", "he", "stranger"])
def test_a_page_in_chinese_shows_no_english_of_ours(
    client: Client, english: set[str], batch: Batch, release: GoldRelease, name: str
) -> None:
    # Words of ours that are names in the data, too: a batch, a dataset, the dimensions of XSTest.
    known = english - {"first", "small", "safe", "unsafe"}
    client.force_login(person(name))
    for address in addresses(name, batch, release):
        texts = in_chinese(client, address)
        assert any(re.search("[一-鿿]", text) for text in texts), address
        assert [text for text in texts if text in known] == [], address


@pytest.mark.django_db
def test_the_sign_in_page_is_chinese_and_so_is_its_refusal(client: Client, english: set[str]) -> None:
    texts = in_chinese(client, reverse("login"))
    assert "密码" in texts
    assert [text for text in texts if text in english | {"Username", "Password"}] == []
    client.cookies[settings.LANGUAGE_COOKIE_NAME] = "zh-hans"
    refused = client.post(reverse("login"), {"username": "nobody", "password": "wrong"}).content.decode()
    assert "登录名或密码不正确" in refused
    assert "password is wrong" not in refused


@pytest.mark.django_db
def test_without_a_wish_the_page_is_english(client: Client) -> None:
    page = client.get(reverse("login"), headers={"accept-language": "en"}).content.decode()
    assert "Sign in" in visible(page)
    assert not re.search(r"登录 Assay", page)


@pytest.mark.django_db
def test_an_error_says_a_state_in_the_readers_language(batch: Batch) -> None:
    set_state(batch=batch, state=Batch.State.CLOSED)
    with pytest.raises(AssayError) as refused:
        set_state(batch=batch, state=Batch.State.OPEN)
    with translation.override("zh-hans"):
        assert error_text(refused.value) == "批次 first 的状态为“已关闭”，不能改为“开放”。"
    with translation.override("en"):
        assert error_text(refused.value) == "The batch first is closed; it cannot become open."


def bare_stages(source: str) -> list[str]:
    """Stages of jobs that are reported as a bare literal: they are shown on pages, and must be marked with N_."""
    if "report(" not in source:
        return []
    calls = [
        node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call) and len(node.args) > 1
    ]
    return [
        call.args[1].value
        for call in calls
        if getattr(call.func, "attr", getattr(call.func, "id", "")) == "report"
        and isinstance(call.args[1], ast.Constant)
        and isinstance(call.args[1].value, str)
        and call.args[1].value
    ]


def test_every_stage_that_a_job_reports_is_marked_for_translation() -> None:
    files = [path for app in ("annotation", "scoring", "benchmark") for path in (ROOT / app).rglob("*.py")]
    assert [
        (path.name, bare) for path in files if (bare := bare_stages(path.read_text(encoding="utf-8")))
    ] == []


def test_the_check_itself_finds_a_bare_stage() -> None:
    assert bare_stages('context.report(0.5, "cooking")') == ["cooking"]
    assert bare_stages('context.report(0.5, N_("cooking"))') == []


def list_refused_words() -> list[str]:
    """Those of the glossary's last table, in both languages."""
    table = (ROOT / "docs" / "glossary.md").read_text().split("## Words that Assay does not use")[1]
    cells = re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE)
    return [word for cell in cells if cell not in {"not", "---"} for word in cell.split("、")]


@pytest.mark.parametrize("word", list_refused_words())
def test_no_string_has_a_word_that_the_glossary_refuses(stored: Stored, word: str) -> None:
    pattern = re.compile(rf"\b{word}\b" if word.isascii() else word, re.IGNORECASE)
    texts = [
        text
        for message, translations in stored
        for text in ([message.id] if isinstance(message.id, str) else list(message.id)) + translations
    ]
    assert [text for text in texts if pattern.search(text)] == []
