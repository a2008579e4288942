"""Names as they are elsewhere: models and whoever labelled there are called anything that can be printed."""

from __future__ import annotations

import re
from collections import Counter, deque
from html import unescape
from pathlib import Path
from urllib.parse import unquote, unquote_plus, urljoin, urlsplit

import pytest
from django.test import Client
from django.urls import resolve, reverse

from annotation.core.errors import AssayError, Conflict
from annotation.core.names import (
    check_printable_name,
    join_names,
    quote_name,
    split_names,
    unquote_name,
)
from annotation.domain.formats import Source
from annotation.models import Annotation, Batch, Dataset, EvaluatedModel, Guideline, Person, Response
from annotation.selectors.datasets import get_models
from annotation.services.batches.batches import set_state
from annotation.services.imports import ImportRequest, import_annotations, import_responses
from annotation.services.people.people import add_person, set_roles
from annotation.services.people.setup_links import make_setup_link
from benchmark.models import Judge
from tests import test_everyone_everywhere
from tests.annotation.services.test_imports import command

NAMES = [
    "Qwen/Qwen2.5-7B-Instruct",
    "worker/3",
    "a model, and another",
    "通义千问 7B（对齐版）",
    "50% off?",
    "#1 of 'them'",
    'the "best" <b>model</b> & co',
    '"quoted"',
    "back\\slash",
    "../../etc/passwd",
    ".hidden",
    "~2F",
    "%2F",
    "=cmd|'/c calc'!A1",
    "😀 model",
    "//example.org/x",
]
NO_NAMES = ["", ".", "..", " a", "a ", "a\nb", "a\x00b", "a\u202eb", "a\u200bb", "x" * 101]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_one_step_of_an_address(name: str):
    assert check_printable_name(name) == name
    step = quote_name(name)
    assert not set(step) & set("/\\?#%")
    assert not step.startswith(".")
    assert unquote_name(step) == name
    address = reverse("person", args=[name])
    assert urlsplit(address).path == address
    assert urljoin("http://assay.example/people/", address) == f"http://assay.example{address}"
    assert resolve(Client().get(address).wsgi_request.path_info).kwargs == {"username": name}


@pytest.mark.parametrize("name", NO_NAMES)
def test_what_cannot_be_printed_is_no_name(name: str):
    with pytest.raises(AssayError, match="cannot be a name"):
        check_printable_name(name)


def test_usual_names_keep_their_addresses():
    assert reverse("person", args=["lin"]) == "/people/lin/"
    assert reverse("person", args=["xiao.chen@example.org"]) == "/people/xiao.chen@example.org/"


def test_a_list_of_names_is_read_as_it_is_written():
    assert split_names(join_names(NAMES)) == NAMES
    assert join_names(["lin", "chen"]) == "lin, chen"
    assert split_names('a,"b, c" , "say ""d""",,e f') == ["a", "b, c", 'say "d"', "e f"]
    assert split_names('"a, b') == ['"a', "b"]


@pytest.mark.usefixtures("db")
def test_models_are_chosen_by_any_name():
    for name in NAMES:
        EvaluatedModel.objects.create(name=name)
    assert [model.name for model in get_models(split_names(join_names(NAMES)))] == NAMES


def test_a_file_brings_models_and_people_of_any_name(tmp_path: Path, guideline: Guideline, dataset: Dataset):
    quoted = [name.replace("\\", "\\\\").replace('"', '\\"') for name in NAMES]
    responses = tmp_path / "responses.jsonl"
    responses.write_text(
        "".join(f'{{"prompt_id": "p0", "response": "Yes.", "model": "{name}"}}\n' for name in quoted)
    )
    assert import_responses(source=Source(responses), format="jsonl", dataset="small").imported == len(NAMES)
    labels = tmp_path / "labels.jsonl"
    labels.write_text(
        "".join(
            f'{{"prompt_id": "p0", "model": "{name}", "annotator": "{name}", "labels": {{"compliance": 3}}}}\n'
            for name in quoted
        )
    )
    request = ImportRequest(batch="elsewhere", guideline=str(guideline), dataset="small")
    report = import_annotations(source=Source(labels), format="jsonl", request=request)
    assert report.imported == len(NAMES)
    people = Annotation.objects.values_list("assignment__person__username", flat=True)
    assert set(people) == set(NAMES)
    repeated = import_annotations(source=Source(labels), format="jsonl", request=request)
    assert (repeated.imported, repeated.already_there) == (0, len(NAMES))
    models = Response.objects.filter(prompt__key="p0").values_list("model__name", flat=True)
    assert set(NAMES) <= set(models)


@pytest.mark.usefixtures("db")
def test_who_labelled_elsewhere_does_not_sign_in_by_that_name(ma: Person, lin: Person):
    person = add_person(name="worker/3", signs_in=False)
    with pytest.raises(Conflict, match="another name"):
        make_setup_link(person=person, actor=ma)
    with pytest.raises(Conflict, match="another name"):
        set_roles(person=person, roles=["annotator"], actor=ma)
    with pytest.raises(AssayError, match="cannot be a name"):
        add_person(name="worker/4", roles=["annotator"])
    assert command("add_person", "worker/4")[0] == 0
    assert command("add_person", "worker/5", "--groups", "annotator")[0] == 1
    assert command("add_person", "worker/5", "--token")[0] == 1


@pytest.mark.usefixtures("db")
def test_ids_of_a_crowd_may_look_alike_but_not_like_who_works_here(lin: Person):
    for name in ("A10", "A1O", "AlO"):
        add_person(name=name, signs_in=False)
    with pytest.raises(AssayError, match="looks like lin"):
        add_person(name="Iin", signs_in=False)
    with pytest.raises(AssayError, match="looks like"):
        add_person(name="a10", roles=["annotator"])


MODEL, WORKER, JUDGE = '7B/"o" <i>&</i>, 50%?#', "工人/3, 50%?#\\ x", "judge/1, 50%?#"
BEGINNINGS = (
    "batches",
    "people",
    "agreement",
    "releases",
    "scorers",
    "runs",
    "judges",
    "report",
    "collecting",
)
LINK = re.compile(r'(?:href|src|data-[a-z-]*url)="([^"]*)"')
MAX_PAGES_OF_A_KIND = 3


@pytest.mark.parametrize(
    ("role", "reached"),
    [
        ("manager", {"agreement-tasks", "batch-quality-person", "batch-tasks", "person"}),
        ("researcher", {"agreement-tasks", "judge", "run-cell"}),
    ],
)
def test_every_link_of_every_page_works_with_such_names(
    db: None, monkeypatch: pytest.MonkeyPatch, role: str, reached: set[str]
):
    """From the pages of the navigation on, whatever they link to, a few pages of each kind."""
    monkeypatch.setattr(test_everyone_everywhere, "MODELS", [MODEL, "Hidden-13B"])
    world = test_everyone_everywhere.make_world()
    Person.objects.filter(username="chen").update(username=WORKER, display_name="")
    Judge.objects.update(name=JUDGE)
    set_state(batch=Batch.objects.get(pk=world.batch.pk), state=Batch.State.CLOSED)
    client = Client()
    client.force_login(world.people[role])
    waiting = deque(
        [
            *(reverse(name) for name in BEGINNINGS),
            *(f"{reverse('agreement')}?batch=first&view=groups&by={by}" for by in ("model", "pair")),
        ]
    )
    seen: set[str] = set()
    count: Counter[object] = Counter()
    named = set()
    while waiting:
        url = waiting.popleft()
        place = urlsplit(url)
        name = resolve(unquote(place.path)).url_name
        is_named = any(
            text in unquote_plus(url) for text in (MODEL, WORKER, *map(quote_name, (WORKER, JUDGE)))
        )
        count[name, is_named] += 1
        if count[name, is_named] > MAX_PAGES_OF_A_KIND or name == "logout":
            continue
        answer = client.get(url)
        assert answer.status_code in {200, 302, 403, 405}, (answer.status_code, url)
        if is_named and answer.status_code == 200:
            named.add(name)
        if answer.status_code == 302:
            waiting.append(answer.headers["Location"])
        if answer.status_code != 200 or not answer.headers["Content-Type"].startswith("text/html"):
            continue
        page = answer.content.decode()
        assert MODEL not in page, url  # it is escaped
        for link in LINK.findall(page):
            target = urljoin(f"http://testserver{url}", unescape(link)).partition("#")[0]
            if target not in seen and re.match("http://testserver/(?!static/|admin/|charts/)", target):
                seen.add(target)
                waiting.append(target.removeprefix("http://testserver"))
    assert reached <= named
