from __future__ import annotations

import re
from typing import Any

import pytest
from django.template import engines
from django.utils import translation

from annotation.models import Batch, GoldLabel, Task
from annotation.templatetags.components import STATE_LABELS


def render(source: str, **context: Any) -> str:
    page = engines["django"].from_string(source).render(context)  # type: ignore[attr-defined]
    return re.sub(r"\s*(<[^>]*>)\s*", r"\1", re.sub(r"\s+", " ", page)).strip()


def test_a_state_is_a_badge_with_its_models_word() -> None:
    assert render("{% state 'within_tolerance' %}") == (
        '<span class="badge badge--within_tolerance">Within tolerance</span>'
    )
    with translation.override("zh-hans"):
        assert render("{% state 'open' %}") == '<span class="badge badge--open">开放</span>'


@pytest.mark.parametrize("choices", [Batch.State, Task.State, GoldLabel.Source])
def test_every_state_has_a_word(choices: Any) -> None:
    assert set(choices.values) <= set(STATE_LABELS)


def test_a_state_without_a_word_stands_as_it_is() -> None:
    assert render("{{ state|state_label }}", state="<b>") == "&lt;b&gt;"


def test_a_stat_shows_what_is_undefined_as_undefined() -> None:
    assert '<span class="undefined">-</span>' in render("{% stat 'Items' n %}", n=None)
    assert '<dd class="stat__value">1,200</dd>' in render("{% stat 'Items' n %}", n=1200)
    assert '<a href="/tasks/">0</a>' in render("{% stat 'Items' 0 url='/tasks/' %}")


def test_a_table_is_a_region_that_its_heading_names() -> None:
    table = render(
        "{% data_table 'queue-' n classes='table--pinned' %}<tbody>{{ text }}</tbody>{% enddata_table %}",
        n=2,
        text="<td>",
    )
    assert table == (
        '<div class="table-region" role="region" aria-labelledby="queue-2" tabindex="0">'
        '<table class="table table--pinned"><tbody>&lt;td&gt;</tbody></table></div>'
    )


def test_a_table_without_a_heading_has_a_label() -> None:
    table = render("{% data_table label=label tall=True choose=True %}{% enddata_table %}", label="<Rate>")
    assert table == (
        '<div class="table-region table-region--tall" role="region" aria-label="&lt;Rate&gt;" tabindex="0">'
        '<table class="table" data-choose></table></div>'
    )


def test_what_is_empty_says_the_way_on_only_where_there_is_one() -> None:
    assert render("{% empty_state 'Nothing' %}") == '<div class="empty"><h2>Nothing</h2></div>'
    assert '<a class="button button--primary" href="/new/">Make one</a>' in render(
        "{% empty_state 'Nothing' url='/new/' action='Make one' %}"
    )


def test_the_view_gives_the_breadcrumbs_and_pages_unless_the_tag_does() -> None:
    crumbs = [{"label": "Batches", "url": "/batches/"}, {"label": "first", "url": ""}]
    assert render("{% breadcrumbs %}", crumbs=crumbs) == render("{% breadcrumbs trail %}", trail=crumbs)
    assert render("{% pagination %}") == ""


def test_the_address_of_a_page_keeps_the_query_and_goes_to_the_anchor() -> None:
    assert render("{% pagination_url 2 %}") == "?page=2"
    page = render("{% pagination_url 2 %}", query="model=a%26b&dimension=Safety", anchor="items-title")
    assert page == "?model=a%26b&amp;dimension=Safety&amp;page=2#items-title"


def test_a_role_has_a_word_in_both_languages() -> None:
    assert render("{% role_list roles %}", roles=["admin", "manager"]) == (
        '<ul class="listed"><li>Admin</li><li>Manager</li></ul>'
    )
    with translation.override("zh-hans"):
        assert render("{{ 'annotator'|role_label }}") == "标注员"
