"""Sentences, enumerations and phrases of templates, as each language puts them together."""

from __future__ import annotations

from typing import Any

import pytest
from django.template import Context, TemplateSyntaxError, engines
from django.utils.translation import override

from annotation.core.text_templates import join_names, join_sentences

LINES = "\n  {{ first }}\n\n  {% if second %}\n    {{ second }}\n  {% endif %}\n"


def render(source: str, language: str, *, autoescape: bool = True, **values: Any) -> str:
    template = engines["django"].from_string("{% load wording %}" + source).template
    with override(language):
        return template.render(Context(values, autoescape=autoescape))


@pytest.mark.parametrize(
    ("tag", "language", "text"),
    [
        ("sentences", "en", "A. B."),
        ("sentences", "zh-hans", "A.B."),
        ("phrase", "en", "A. B."),
        ("phrase", "zh-hans", "A. B."),
        ("enumeration", "en", "A., B."),
        ("enumeration", "zh-hans", "A.、B."),
    ],
)
def test_lines_are_joined_as_the_language_does_it(tag: str, language: str, text: str):
    source = f"{{% {tag} %}}{LINES}{{% end{tag} %}}"
    assert render(source, language, first="A.", second="B.") == text
    assert render(source, language, first="A.", second="") == "A."


def test_a_name_keeps_the_text_for_later():
    source = f"{{% enumeration as names %}}{LINES}{{% endenumeration %}}[{{{{ names }}}}]"
    assert render(source, "en", first="<a>", second="b") == "[&lt;a&gt;, b]"
    assert render(source, "en", autoescape=False, first="<a>", second="b") == "[<a>, b]"


def test_enumerated_names_are_escaped_once():
    source = "{{ names|enumerated }}"
    assert render(source, "en", names=["<a>", "b"]) == "&lt;a&gt;, b"
    assert render(source, "en", autoescape=False, names=["<a>", "b"]) == "<a>, b"


def test_what_a_tag_does_not_take_is_refused():
    with pytest.raises(TemplateSyntaxError, match="'as' and a name"):
        render("{% phrase of names %}{% endphrase %}", "en")


def test_python_joins_as_templates_do():
    with override("zh-hans"):
        assert (join_sentences(["A.", "B."]), join_names(["a", "b"])) == ("A.B.", "a、b")
