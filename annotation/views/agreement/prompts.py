"""The prompts that people dispute most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from django.core.paginator import Paginator
from django.utils.http import urlencode

from annotation.selectors.agreement.causes import DisputedPrompt, Prompts, Split
from annotation.views.agreement.asked import Asked
from annotation.views.agreement.words import percent

PAGE = 25
SPLITS = 3


def context(asked: Asked) -> dict[str, Any]:
    found = Prompts(asked.patterns.labels)
    page = Paginator(cast("Sequence[DisputedPrompt]", found), PAGE).get_page(asked.page)
    return {
        "prompts": [_line(one, asked) for one in page.object_list],
        "page": page,
        "pages": page.paginator.get_elided_page_range(page.number),
        "query": urlencode(asked.choice.parameters()),
    }


def _line(one: DisputedPrompt, asked: Asked) -> dict[str, Any]:
    choice = asked.choice
    inside = replace(choice.narrowing, prompt=one.prompt.pk)
    return {
        "prompt": one.prompt,
        "n": one.tasks.n,
        "disputed": one.tasks.part,
        "share": percent(one.tasks),
        "alpha": one.alpha,
        "splits": [_split(split, asked, one) for split in one.splits[:SPLITS]],
        "tasks": choice.tasks(inside),
        "disputes": choice.tasks(replace(inside, disputed=True)),
    }


def _split(split: Split, asked: Asked, one: DisputedPrompt) -> dict[str, Any]:
    words = asked.words
    guideline = {"guideline": split.guideline} if words.several else {}
    inside = asked.choice.narrowing.with_group({"criterion": split.criterion, **guideline})
    ends = [words.level(split.guideline, split.criterion, value) for value in (split.low, split.high)]
    return {
        "words": " – ".join(ends),
        "n": split.n,
        "url": asked.choice.tasks(replace(inside, prompt=one.prompt.pk).between(split.low, split.high)),
    }
