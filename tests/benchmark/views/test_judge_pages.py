"""The pages of judges: who may open them, what they show, and that a page asks no address but the settings' own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from annotation.models import Batch, Collection, Dataset, GoldRelease, Guideline, Person, Response
from annotation.services.studies import find_or_make_study
from benchmark.models import Judge, JudgeLabel, JudgeRun, JudgeTemplate
from benchmark.selectors.judges.comparison import clear_cache
from benchmark.services.judges.judges import create_judge, start_judging
from tests.benchmark.support import predict, ready_scorer, release_of_disputes

URL = "http://127.0.0.1:9/v1"
HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(autouse=True)
def _endpoints(settings: Any) -> Iterator[None]:
    settings.ASSAY_ENDPOINTS = {"local": URL}
    clear_cache()
    yield
    clear_cache()


@pytest.fixture(scope="module")
def disputed(module_db: None) -> str:
    return release_of_disputes().name


@pytest.fixture
def gold(db: None, disputed: str) -> GoldRelease:
    return GoldRelease.objects.get(name=disputed)


@pytest.fixture
def judge(guideline: Guideline, dataset: Dataset) -> Judge:
    return create_judge(name="asked", guideline=guideline, endpoint=URL, served_model="m")


@pytest.fixture
def imported(guideline: Guideline, dataset: Dataset) -> Judge:
    imported_judge = Judge.objects.create(
        study=find_or_make_study(),
        name="elsewhere",
        guideline=guideline,
        kind="imported",
        source=f"{'ab' * 32}  a.csv",
    )
    for place, response in enumerate(Response.objects.order_by("pk")):
        value = [3, 1, None][place % 3]
        JudgeLabel.objects.create(
            judge=imported_judge,
            response=response,
            criterion="compliance",
            value=value,
            said=HOSTILE if value is None else "",
        )
    return imported_judge


def signed_in(person: Person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def page(client: Client, name: str, *args: Any, query: str = "", status: int = 200) -> str:
    answer = client.get(reverse(name, args=args) + query)
    assert answer.status_code == status
    return re.sub(r">\s+<", "><", answer.content.decode())


def test_the_list_shows_judges_by_guideline(
    he: Person, judge: Judge, imported: Judge, gold: GoldRelease
) -> None:
    content = page(signed_in(he), "judges")
    for text in ("asked", "elsewhere", "xstest", reverse("judge-comparison", args=[gold.name]), "New judge"):
        assert text in content
    assert 'aria-current="page">Judges' in content


def test_an_empty_list_says_what_to_do(he: Person, ma: Person) -> None:
    assert reverse("judge-new") in page(signed_in(he), "judges")
    assert reverse("judge-new") not in page(signed_in(ma), "judges")


def test_a_judge_shows_what_it_said_and_where_from(he: Person, imported: Judge) -> None:
    content = page(signed_in(he), "judge", imported.name)
    assert "a.csv" in content
    assert "3 Full compliance" in content
    assert HOSTILE not in content
    assert "&lt;script&gt;" in content
    assert reverse("judge-ask", args=[imported.name]) not in content


def test_who_judges_the_dataset_blind_sees_no_more_than_the_name(
    batch: Batch, judge: Judge, imported: Judge, he: Person
) -> None:
    batch.memberships.create(person=he, role="annotator")
    client = signed_in(he)
    content = page(client, "judges")
    assert "elsewhere" in content
    assert reverse("judge", args=["elsewhere"]) not in content
    assert reverse("judge", args=["asked"]) in content  # it has said nothing of that dataset
    page(client, "judge", "elsewhere", status=403)
    assert "Secretive" not in page(client, "judge", "asked")
    assert "Question number" not in page(client, "judge-template", "xstest")
    answer = client.post(reverse("judge-ask", args=["asked"]), _asking(batch))
    assert answer.status_code == 400
    assert not JudgeRun.objects.exists()
    Batch.objects.update(state="closed")
    page(client, "judge", "elsewhere")


def _asking(batch: Batch) -> dict[str, Any]:
    dataset = Dataset.objects.get(name="small")
    return {"dataset": dataset.pk, "collection": Collection.objects.get(name="").pk, "concurrency": 4}


def test_the_comparison_is_sealed_with_its_release(
    gold: GoldRelease, batch: Batch, he: Person, ma: Person
) -> None:
    page(signed_in(ma), "judge-comparison", gold.name)
    batch.memberships.create(person=he, role="annotator")
    page(signed_in(he), "judge-comparison", gold.name, status=403)
    assert gold.name not in page(signed_in(he), "judges")


def test_the_comparison_shows_scorers_judges_and_people(
    gold: GoldRelease, guideline: Guideline, imported: Judge, he: Person
) -> None:
    scorer = ready_scorer(gold, guideline)
    for place, response in enumerate(Response.objects.order_by("pk")):
        predict(scorer, response, 3, fold=place % 2)
    content = page(signed_in(he), "judge-comparison", gold.name)
    for text in (
        scorer.name,
        "elsewhere",
        "All annotators",
        "lin",
        "chen",
        "0.500",
        "seen in training",
        "Safe prompts",
    ):
        assert text in content
    assert "too little to tell" in content
    narrowed = page(
        signed_in(he), "judge-comparison", gold.name, query="?candidate=judge:elsewhere&common=1&epsilon=0.1"
    )
    assert f'<th scope="row">{scorer.name}' not in narrowed
    assert "selected>0.1" in narrowed
    page(signed_in(he), "judge-comparison", gold.name, query="?candidate=judge:nobody&epsilon=9e999&common=x")


def test_a_judge_of_another_version_is_shown_as_such(
    gold: GoldRelease, guideline: Guideline, imported: Judge, he: Person
) -> None:
    assert "another version" not in page(signed_in(he), "judge-comparison", gold.name)
    older = Guideline.objects.create(
        name=guideline.name,
        version="0.9",
        content=guideline.content | {"version": "0.9"},
        source=guideline.source,
        sha256="0" * 64,
    )
    Judge.objects.filter(pk=imported.pk).update(guideline=older)
    clear_cache()
    assert "by xstest@0.9, another version" in page(signed_in(he), "judge-comparison", gold.name)


def test_a_researcher_makes_a_judge_of_a_listed_endpoint_alone(
    he: Person, guideline: Guideline, dataset: Dataset
) -> None:
    client = signed_in(he)
    fields = {
        "name": "new",
        "guideline": guideline.pk,
        "endpoint": "local",
        "served_model": "m",
        "temperature": "0",
    }
    for wrong in (
        {"endpoint": URL},
        {"endpoint": "http://10.0.0.1/v1"},
        {"more": "[]"},
        {"more": '{"api_key": "x"}'},
    ):
        assert client.post(reverse("judge-new"), fields | wrong).status_code == 400
    assert not Judge.objects.exists()
    answer = client.post(reverse("judge-new"), fields | {"more": '{"top_p": 1}'})
    assert answer.status_code == 302
    made = Judge.objects.get()
    assert (made.endpoint, made.settings, made.created_by) == (URL, {"temperature": 0.0, "top_p": 1}, he)
    assert client.post(reverse("judge-new"), fields).status_code == 400


def test_without_endpoints_the_page_says_so(he: Person, settings: Any) -> None:
    settings.ASSAY_ENDPOINTS = {}
    content = page(signed_in(he), "judge-new")
    assert "ASSAY_ENDPOINTS" in content
    assert "import_judge_labels" in content


def test_asking_makes_a_job_and_only_at_a_listed_endpoint(
    he: Person, judge: Judge, dataset: Dataset, settings: Any
) -> None:
    client = signed_in(he)
    fields = {"dataset": dataset.pk, "collection": Collection.objects.get(name="").pk, "concurrency": 4}
    settings.ASSAY_ENDPOINTS = {"other": "http://127.0.0.1:10/v1"}
    assert client.post(reverse("judge-ask", args=["asked"]), fields).status_code == 400
    assert "only the command" in page(client, "judge", "asked")
    assert not JudgeRun.objects.exists()
    settings.ASSAY_ENDPOINTS = {"local": URL}
    assert client.post(reverse("judge-ask", args=["asked"]), fields).status_code == 302
    judging = JudgeRun.objects.get()
    assert judging.job is not None
    assert (judging.job.kind, judging.concurrency, judging.created_by) == ("judge_responses", 4, he)
    assert "small" in page(client, "judge", "asked")
    assert client.post(reverse("judge-ask-on", args=[judging.pk])).status_code == 409
    for wrong in ({"dataset": "9" * 5000}, {"concurrency": "100000"}, {"collection": "x"}):
        assert client.post(reverse("judge-ask", args=["asked"]), fields | wrong).status_code == 400


def test_failures_name_prompt_and_model(he: Person, judge: Judge, dataset: Dataset) -> None:
    judging = start_judging(
        judge=judge, dataset=dataset, collection=Collection.objects.get(name=""), send=False
    )
    response = Response.objects.get(prompt__key="p3", model__name="Secretive-7B")
    failure = {
        "response": response.pk,
        "criterion": "compliance",
        "status": None,
        "error": HOSTILE,
        "attempts": 6,
    }
    JudgeRun.objects.filter(pk=judging.pk).update(failures=[failure])
    content = page(signed_in(he), "judge", "asked")
    assert "p3</th><td>Secretive-7B" in content
    assert HOSTILE not in content


def test_a_template_is_previewed_and_saved_as_the_next_version(
    he: Person, guideline: Guideline, dataset: Dataset, batch: Batch
) -> None:
    client = signed_in(he)
    assert "Made from the guideline" in page(client, "judge-template", "xstest")
    save = reverse("judge-template-save", args=["xstest"])
    fields = {"system": "", "text": "{prompt} {response}\r\n{levels} one", "note": "first"}
    preview = client.post(save, fields | {"preview": "1"})
    assert preview.status_code == 200
    assert "Question number 0?" in preview.content.decode()
    assert not JudgeTemplate.objects.exists()
    assert client.post(save, fields).status_code == 302
    assert client.post(save, fields | {"text": "{response} {levels} two"}).status_code == 302
    assert [judge_template.number for judge_template in JudgeTemplate.objects.all()] == [2, 1]
    assert JudgeTemplate.objects.get(number=1).text == "{prompt} {response}\n{levels} one"
    shown_text = page(client, "judge-template", "xstest", query="?version=2")
    assert "Changes from version 1 to version 2" in shown_text
    assert "<del" in shown_text
    page(client, "judge-template", "xstest", query="?version=7", status=404)
    page(client, "judge-template", "xstest", query=f"?version={'9' * 5000}")
    wrong = client.post(save, fields | {"text": "{response}"})
    assert wrong.status_code == 400
    assert "{levels}" in wrong.content.decode()
    assert client.post(save, fields | {"text": "{response}{levels}\0"}).status_code == 400


@pytest.mark.parametrize("language", ["en", "zh-hans"])
def test_pages_open_in_both_languages(
    language: str, he: Person, gold: GoldRelease, judge: Judge, imported: Judge
) -> None:
    client = Client(headers={"accept-language": language})
    client.force_login(he)
    for name, args in (
        ("judges", []),
        ("judge-new", []),
        ("judge", ["asked"]),
        ("judge", ["elsewhere"]),
        ("judge-template", ["xstest"]),
        ("judge-comparison", [gold.name]),
    ):
        page(client, name, *args)


def test_hostile_addresses_are_refused(he: Person, judge: Judge) -> None:
    client = signed_in(he)
    page(client, "judge", "n" * 5000, status=404)
    page(client, "judge-template", "nobody", status=404)
    page(client, "judge-comparison", "nobody", status=404)
    for digits in ("9" * 18, "9" * 4000, "9" * 5000):
        assert client.post(f"/runs/-/judges/judgings/{digits}/again/").status_code == 404
    for path in (
        "/runs/-/judges/judge/%00/",
        "/runs/-/judges/templates/%00/",
        "/runs/-/judges/comparison/%00/",
    ):
        assert client.get(path).status_code in {400, 404}
