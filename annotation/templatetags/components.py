"""The components of every page. A builtin of the template engine: no page loads it.

A component's markup stands in ``templates/components/``; its words and figures are arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django import template
from django.forms import BaseForm, BoundField
from django.template import Context
from django.utils.functional import Promise
from django.utils.safestring import SafeString
from django.utils.text import capfirst
from django.utils.translation import pgettext_lazy

from annotation.domain.guidelines.prose import is_blank
from annotation.models import Assignment, Batch, GoldLabel, Job, Task
from annotation.views.texts import choose_format, render_text

register = template.Library()

# A value that two models share has one word.
STATE_LABELS: dict[str, str | Promise] = {
    "published": pgettext_lazy("state", "Published"),
    **{
        str(value): capfirst(label)
        for choices in (Batch.State, Task.State, Assignment.State, Job.State, GoldLabel.Source)
        for value, label in choices.choices
    },
}
ROLE_LABELS: dict[str, str | Promise] = {
    "admin": pgettext_lazy("role", "Admin"),
    "annotator": pgettext_lazy("role", "Annotator"),
    "adjudicator": pgettext_lazy("role", "Adjudicator"),
    "manager": pgettext_lazy("role", "Manager"),
    "researcher": pgettext_lazy("role", "Researcher"),
    "viewer": pgettext_lazy("role", "Viewer"),
}


@register.filter
def state_label(state: str) -> str | Promise:
    """The word for a state of a batch, task, assignment or job, or for the source of a gold label."""
    return STATE_LABELS.get(state, state)


@register.filter
def role_label(role: str) -> str | Promise:
    return ROLE_LABELS.get(role, role)


@register.inclusion_tag("components/badge.html")
def badge(kind: str, label: Any) -> dict[str, Any]:
    """A word in a colour; ``kind`` names the colour: a state, or success, warning, danger, gold, plain."""
    return {"state": kind, "label": label}


@register.inclusion_tag("components/badge.html")
def state(value: str) -> dict[str, Any]:
    """A state as a badge, with the word that its model gives."""
    return badge(value, state_label(value))


@register.inclusion_tag("components/stat.html")
def stat(label: Any, value: Any, unit: Any = "", note: Any = "", url: str = "") -> dict[str, Any]:
    """One figure of a ``<dl>``; None is shown as undefined."""
    return {"label": label, "value": value, "unit": unit, "note": note, "url": url}


@register.simple_block_tag(takes_context=True)
def data_table(
    context: Context,
    content: SafeString,
    *heading: Any,
    label: Any = "",
    classes: str = "",
    id: str = "",  # noqa: A002 (the attribute's name)
    tall: bool = False,
    fit: bool = False,
    choose: bool = False,
) -> SafeString:
    """A table that scrolls by itself; the block holds ``<thead>`` and ``<tbody>``.

    The table is named by the heading whose id the arguments form together (``"queue-" forloop.counter``), or by
    ``label``. ``classes`` are the table's own beside ``table``; ``tall`` bounds its height, ``fit``
    its width, and ``choose`` lets one box choose them all.
    """
    values = {
        "content": content,
        "heading": "".join(str(part) for part in heading),
        "label": label,
        "classes": classes,
        "id": id,
        "tall": tall,
        "fit": fit,
        "choose": choose,
    }
    return render_component("components/data_table.html", context, values)


def render_component(name: str, context: Context, values: dict[str, Any]) -> SafeString:
    assert context.template is not None
    return context.template.engine.get_template(name).render(context.new(values))


@register.inclusion_tag("components/empty.html")
def empty_state(title: Any, text: Any = "", url: str = "", action: Any = "") -> dict[str, Any]:
    """What stands where a list has nothing, with the way on: ``action`` is the words of the link to ``url``."""
    return {"title": title, "text": text, "url": url, "action": action}


@register.inclusion_tag("components/breadcrumbs.html", takes_context=True)
def breadcrumbs(context: Context, crumbs: Iterable[Any] | None = None) -> dict[str, Any]:
    """The way to this page; the view's ``crumbs`` unless others are given."""
    return {"crumbs": context["crumbs"] if crumbs is None else crumbs}


@register.inclusion_tag("components/pagination.html", takes_context=True)
def pagination(
    context: Context, page: Any = None, pages: Any = None, query: str | None = None, anchor: str = ""
) -> dict[str, Any]:
    """The pages of a list; ``page``, ``pages`` and ``query`` are the view's unless others are given."""
    return {
        "page": context.get("page") if page is None else page,
        "pages": context.get("pages") if pages is None else pages,
        "query": context.get("query", "") if query is None else query,
        "anchor": anchor or context.get("anchor", ""),
    }


@register.simple_tag(takes_context=True)
def pagination_url(context: Context, number: int) -> str:
    """The address of one page of the list that ``pagination`` shows."""
    query, anchor = context.get("query"), context.get("anchor")
    return f"?{f'{query}&' if query else ''}page={number}{f'#{anchor}' if anchor else ''}"


@register.inclusion_tag("components/progress.html")
def progress(
    label: Any,
    value: Any,
    max: Any = 100,  # noqa: A002 (the attribute's name)
    text: Any = "",
    inline: bool = False,
) -> dict[str, Any]:
    """How far something is; None where that is not known."""
    return {"label": label, "value": value, "max": max, "text": text, "inline": inline}


@register.inclusion_tag("components/chart.html")
def chart(url: str, alt: Any) -> dict[str, Any]:
    """A chart in both themes; ``alt`` says what it shows."""
    return {"url": url, "alt": alt}


@register.inclusion_tag("components/whisker.html")
def whisker(low: Any, value: Any, high: Any) -> dict[str, Any]:
    """A value with its interval as a small drawing, each in percent of the axis."""
    return {"low": low, "value": value, "high": high}


@register.inclusion_tag("components/lineage.html")
def lineage(steps: Iterable[Any]) -> dict[str, Any]:
    """The chain behind a number."""
    return {"steps": steps}


@register.inclusion_tag("components/hash.html", name="hash")
def show_hash(value: str, short: bool = False, url: str = "") -> dict[str, Any]:
    """A sha256, whole or its first 12 digits."""
    return {"value": value, "short": short, "url": url}


@register.inclusion_tag("components/diff.html")
def diff(
    old: Any, new: Any, delta: Any = "", direction: str = "", lower_is_better: bool = False
) -> dict[str, Any]:
    """A value before and now; ``direction`` (up, down) marks the difference, and colours it as better or worse."""
    return {
        "old": old,
        "new": new,
        "delta": delta,
        "direction": direction,
        "lower_is_better": lower_is_better,
    }


@register.inclusion_tag("components/icon.html")
def icon(name: str, classes: str = "") -> dict[str, Any]:
    return {"name": name, "class": classes}


@register.inclusion_tag("components/logo.html")
def logo(classes: str = "") -> dict[str, Any]:
    return {"class": classes}


@register.inclusion_tag("components/turn.html")
def turn(role: str, text: str, language: str = "", batch: Batch | None = None) -> dict[str, Any]:
    """One turn to read; ``role`` is prompt, user or assistant. It is shown as the batch says, else as it looks."""
    return {
        "role": role,
        "text": render_text(text, "auto" if batch is None else choose_format(batch, role)),
        "language": language,
        "blank": is_blank(text),
    }


@register.inclusion_tag("components/blocks.html")
def text_blocks(blocks: Iterable[Any]) -> dict[str, Any]:
    """Plain text in the shape of ``plaintext.blocks``."""
    return {"blocks": blocks}


@register.inclusion_tag("components/roles.html")
def role_list(roles: Iterable[str]) -> dict[str, Any]:
    return {"roles": roles}


@register.inclusion_tag("components/field.html")
def field(field: BoundField) -> dict[str, Any]:
    """A form's field with its label, help and errors."""
    return {"field": field}


@register.inclusion_tag("components/form.html", takes_context=True)
def form_fields(context: Context, form: BaseForm | None = None) -> dict[str, Any]:
    """Every field of a form, after the errors of the whole; the view's ``form`` unless another is given."""
    return {"form": context["form"] if form is None else form}
