from __future__ import annotations

import re

import pytest
from django.test import Client
from django.urls import reverse

from annotation.core.charts import DARK, INK
from annotation.models import Batch, Dataset, Person, Prompt
from annotation.selectors.agreement import LabelPatterns
from annotation.selectors.batches import open_readable_batches
from annotation.services.assignments import claim_next_task
from annotation.services.batches.batches import set_state
from annotation.services.people.people import set_roles
from tests.support import FLAMES_GUIDELINE, label, label_next, make_batch

pytestmark = pytest.mark.django_db


@pytest.fixture
def labelled(batch: Batch, lin: Person, chen: Person) -> Batch:
    for first, other in ((1, 2), (3, 3), (1, 1)):
        label_next(batch, lin, first)
        label_next(batch, chen, other)
    return batch


def page(client: Client, person: Person, **choice: str) -> str:
    client.force_login(person)
    answer = client.get(reverse("agreement"), choice)
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def test_managers_and_researchers_read_it_and_nobody_else(
    client: Client, labelled: Batch, ma: Person, he: Person, lin: Person, stranger: Person
):
    for person in (ma, he):
        assert "Percent agreement" in page(client, person)
    for person in (lin, stranger):
        client.force_login(person)
        assert client.get(reverse("agreement")).status_code == 403


def test_who_judges_the_same_responses_in_another_batch_reads_no_model_of_them(
    client: Client, labelled: Batch, he: Person, lin: Person
):
    set_state(batch=labelled, state=Batch.State.CLOSED)
    make_batch(labelled.guideline, Dataset.objects.get(), annotators=[he, lin], name="second")
    assert "Hidden-13B" not in page(client, he, by="model")
    assert client.get(reverse("agreement"), {"batch": "first", "by": "model"}).status_code == 403


def test_whether_a_batch_is_sealed_is_asked_of_no_single_task(he: Person):
    assert "annotation_task" not in str(open_readable_batches(he).query)


def test_it_shows_the_figures_and_which_levels_are_confused(client: Client, labelled: Batch, he: Person):
    content = page(client, he)
    assert re.search(
        r"Disputed</dt>\s*<dd class=\"stat__value\">\s*<a\s+href=\"[^\"]*disputed=1\">1<", content
    )
    assert "0.667" in content  # two of three agree
    assert "1 Full refusal – 2 Partial refusal" in content


def test_a_label_moves_it_at_once(client: Client, labelled: Batch, he: Person, lin: Person, chen: Person):
    before = page(client, he)
    label_next(labelled, lin, 3)
    label_next(labelled, chen, 3)
    after = page(client, he)
    assert "0.750" in after  # three of four
    assert "0.750" not in before


def test_a_grouping_draws_a_chart_that_can_be_fetched_and_has_its_table(
    client: Client, labelled: Batch, he: Person
):
    content = page(client, he, by="model", batch="first", statistic="percent_agreement")
    assert content.index("Hidden-13B") < content.index("</table>")
    light, dark = re.findall(r'<img class="figure__[a-z]+" src="(/charts/[0-9a-f]+(?:-dark)?\.svg)"', content)
    drawn = [client.get(address) for address in (light, dark)]
    for drawing in drawn:
        assert drawing["Content-Type"] == "image/svg+xml"
        assert b"Secretive-7B" in drawing.content
    assert INK.encode() in drawn[0].content
    assert INK.encode() not in drawn[1].content
    assert DARK[INK].encode() in drawn[1].content


def test_the_weakest_group_stands_first(client: Client, labelled: Batch, he: Person):
    # The dispute is the first item, which is Secretive-7B's; by name it would stand last.
    content = page(client, he, by="model", statistic="percent_agreement")
    rows = content[content.index('id="groups-title"') :]
    assert rows.index("Secretive-7B") < rows.index("Hidden-13B")


def test_before_any_task_is_complete_it_says_so(client: Client, batch: Batch, he: Person, lin: Person):
    label_next(batch, lin, 1)
    content = page(client, he, by="pair")
    assert "No response has two labels yet" in content
    assert "0.000" not in content


def test_who_works_in_a_batch_does_not_see_its_agreement_until_it_closes(
    client: Client, labelled: Batch, lin: Person, wu: Person
):
    for person in (lin, wu):
        set_roles(person=person, roles=["researcher", "manager"])
        content = page(client, person)
        assert "not here until it closes" in content
        assert "No response has two labels yet" in content
        assert 'value="first"' not in content
        refused = client.get(reverse("agreement"), {"batch": "first"})
        assert refused.status_code == 403
        assert b"0.667" not in refused.content
    set_state(batch=labelled, state=Batch.State.CLOSED)
    assert "0.667" in page(client, lin, batch="first")


@pytest.mark.parametrize(
    ("choice", "status"),
    [({"batch": "nope"}, 404), ({"by": "colour"}, 400), ({"statistic": "mood"}, 400), ({"across": "x"}, 400)],
)
def test_what_cannot_be_chosen_is_refused_in_words(
    client: Client, labelled: Batch, he: Person, choice: dict[str, str], status: int
):
    client.force_login(he)
    answer = client.get(reverse("agreement"), choice)
    assert answer.status_code == status
    assert next(iter(choice.values())) in answer.content.decode()


def test_the_parts_of_a_guideline_are_called_as_the_reader_calls_them(
    client: Client, dataset: Dataset, lin: Person, chen: Person, he: Person
):
    guideline = FLAMES_GUIDELINE.load()
    Prompt.objects.filter(dimension="safe").update(dimension="Data protection", subcomponent="Personal data")
    Prompt.objects.filter(dimension="unsafe").update(dimension="Fairness", subcomponent="Toxic language")
    batch = make_batch(guideline, dataset, annotators=[lin, chen])
    for _task in range(4):
        for person, value in ((lin, 1), (chen, 3)):
            item = claim_next_task(batch=batch, person=person)
            assert item is not None
            label(item, person, value, guideline.document.criteria_for(item.task.prompt.dimension)[0].name)
    client.force_login(he)

    def read(language: str, **choice: str) -> str:
        answer = client.get(reverse("agreement"), choice, headers={"Accept-Language": language})
        return answer.content.decode()

    chinese = read("zh-hans", by="dimension", across="subcomponent")
    for words in ("数据保护", "公平性", "个人数据"):
        assert words in chinese
    for name in ("Data protection", "data_protection", "Personal data"):
        assert name not in chinese
    assert "Personal data" in read("en", by="subcomponent")
    rows = LabelPatterns([batch]).report([("dimension",)])
    assert rows[-1].to_json()["group"] == {"dimension": "Fairness"}  # for programs the ids stay
    assert {"fairness", "data_protection"} < {row.to_json()["criterion"] for row in rows}


@pytest.mark.parametrize("view", ["", "groups", "levels"])
def test_a_criterion_that_nobody_labelled_leaves_an_empty_page(
    client: Client, labelled: Batch, he: Person, view: str
):
    client.force_login(he)
    answer = client.get(reverse("agreement"), {"criterion": "nan", "view": view})
    assert answer.status_code in (200, 404)
