from __future__ import annotations

import re

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from annotation.domain.batch_spec import Policy
from annotation.models import Guideline, Person, Response
from scoring.models import RegressionCase
from scoring.services import add_must_fail
from tests.scoring.support import make_responses
from tests.support import make_batch

SET = "/scorers/-/regression-cases/xstest/"
FIND = SET + "?dataset=learned&prompt=p1&model=Hidden-13B"


@pytest.fixture
def response(guideline: Guideline) -> Response:
    """Of an unsafe prompt, which the guideline's headline rate wants refused."""
    make_responses(prompts=2, models=["Hidden-13B", "Secretive-7B"])
    return Response.objects.get(prompt__key="p1", model__name="Hidden-13B")


@pytest.fixture
def researcher(client: Client, he: Person) -> Client:
    client.force_login(he)
    return client


def page_of(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, address
    return answer.content.decode()


def test_an_empty_set_says_what_it_is_for(response: Response, researcher: Client) -> None:
    page = page_of(researcher, SET)
    assert "It is empty" in page
    assert "the one reply that must never pass" in page


def test_a_response_is_found_and_added_with_the_refused_values_chosen(
    response: Response, researcher: Client
) -> None:
    page = page_of(researcher, FIND)
    assert response.text.split("(")[0].strip()[:12] in page
    checked_values = re.findall(r'name="refused" value="(\d)"[^>]*checked', page)
    assert checked_values
    form = {
        "response": str(response.pk),
        "criterion": "compliance",
        "refused": ["2", "3"],
        "reason": "Steps.",
    }
    answer = researcher.post(SET + "add/", form)
    assert answer["Location"] == SET
    item = RegressionCase.objects.get()
    assert (item.response, item.refused, item.reason) == (response, [2, 3], "Steps.")
    page = page_of(researcher, SET)
    assert "Steps." in page
    assert "3 Full compliance" in page
    researcher.post(SET + "add/", form)
    assert RegressionCase.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"refused": ["1", "2", "3"]}, 422, "Every value of compliance would be refused"),
        ({"refused": []}, 422, "This field is required"),
        ({"refused": ["7"]}, 422, "7 is not one of the available choices"),
        ({"response": "0"}, 404, "There is no such response"),
        ({"response": "9" * 30}, 404, "There is no such response"),
        ({"criterion": "kindness"}, 404, "not asked of this prompt"),
    ],
)
def test_what_is_wrong_is_said_where_it_was_typed(
    response: Response, researcher: Client, changes: dict[str, object], status: int, words: str
) -> None:
    form = {"response": str(response.pk), "criterion": "compliance", "refused": ["3"]} | changes
    answer = researcher.post(SET + "add/", form)
    assert answer.status_code == status
    assert words in answer.content.decode()
    assert not RegressionCase.objects.exists()


def test_an_item_is_taken_out(response: Response, researcher: Client, he: Person) -> None:
    (item,) = add_must_fail(guideline_name="xstest", response=response, refused=[3], actor=he)
    assert f"{SET}{item.pk}/remove/" in page_of(researcher, SET)
    assert researcher.post(f"/scorers/-/regression-cases/flames/{item.pk}/remove/").status_code == 404
    assert researcher.post(f"{SET}{item.pk}/remove/")["Location"] == SET
    item.refresh_from_db()
    assert item.removed_at is not None
    assert "It is empty" in page_of(researcher, SET)


def test_a_file_of_items_comes_in_whole_or_not_at_all(response: Response, researcher: Client) -> None:
    rows = "dataset,prompt_id,model,refused,reason\nlearned,p1,Hidden-13B,2;3,Steps.\n"
    wrong = SimpleUploadedFile("items.csv", (rows + "learned,p9,Hidden-13B,3,\n").encode())
    answer = researcher.post(SET + "import/", {"file": wrong})
    assert answer.status_code == 422
    assert "items.csv" in answer.content.decode()
    assert "there is no such response" in answer.content.decode()
    assert not RegressionCase.objects.exists()
    assert researcher.post(SET + "import/", {"file": SimpleUploadedFile("items.csv", rows.encode())})
    assert RegressionCase.objects.get().refused == [2, 3]


def test_a_manager_reads_and_changes_nothing(response: Response, client: Client, ma: Person) -> None:
    (item,) = add_must_fail(guideline_name="xstest", response=response, refused=[3])
    client.force_login(ma)
    page = page_of(client, SET)
    assert "Hidden-13B" in page
    assert "/remove/" not in page
    for path in ("add/", "import/", f"{item.pk}/remove/"):
        assert client.post(SET + path).status_code == 403


def test_who_judges_a_dataset_blind_sees_nothing_of_it(
    response: Response, guideline: Guideline, researcher: Client, he: Person
) -> None:
    (item,) = add_must_fail(guideline_name="xstest", response=response, refused=[3])
    make_batch(guideline, response.prompt.dataset, annotators=[he], name="blind", policy=Policy(overlap=1))
    assert "Hidden-13B" not in page_of(researcher, SET)
    assert "Hidden-13B" not in page_of(researcher, FIND).replace("model=Hidden-13B", "")
    form = {"response": str(response.pk), "criterion": "compliance", "refused": ["3"]}
    assert researcher.post(SET + "add/", form).status_code == 404
    assert researcher.post(f"{SET}{item.pk}/remove/").status_code == 404


def test_an_unknown_guideline_is_not_found(guideline: Guideline, researcher: Client) -> None:
    assert researcher.get("/scorers/-/regression-cases/none/").status_code == 404
