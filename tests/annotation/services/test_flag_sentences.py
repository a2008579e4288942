"""A finding is said in a sentence of its own for each kind, in both languages."""

from __future__ import annotations

import pytest
from django.template.loader import render_to_string
from django.utils.translation import override

from annotation.views.quality.wording import DRIFT, QualityFlag

FIGURES = {
    "alike": 9,
    "n": 10,
    "expected": 5,
    "value": "0.30",
    "usual": "0.80",
    "low": "0.10",
    "high": "0.50",
    "day": "2026-05-01",
    "share": "10%",
    "seconds": "3 s",
}
LAST = "on items of the same kind. Ask what changed then, and read items from before and after."
BY_KIND = "by more than chance explains: 0.30"
SENTENCES = {
    "copied": "lin and &lt;ben&gt; gave the same label 9 of 10 times where 5 times were expected. That is more alike "
    "than chance explains; why, only the items can show. Open what both labelled.",
    "random": "The labels of lin hardly follow the others': 0.30, where 0 is guessing and 1 is as far as labels can; "
    "the others have 0.80 in the middle. Read some items together: is the guideline clear to them?",
    "lenient": "The labels of lin are more lenient than the others' by more than chance explains: 0.30 of a level "
    "(0.10 to 0.50). Go through the borders "
    "between the levels together.",
    "strict": "The labels of lin are stricter than the others' by more than chance explains: 0.30 of a level "
    "(0.10 to 0.50). Go through the borders between "
    "the levels together.",
    "high": "The labels of lin are higher than the others' by more than chance explains: 0.30 of a level "
    "(0.10 to 0.50). Go through the borders "
    "between the levels together.",
    "low": "The labels of lin are lower than the others' by more than chance explains: 0.30 of a level "
    "(0.10 to 0.50). Go through the borders "
    "between the levels together.",
    "instant": "lin gave 10% of the labels in less than a fifth of the usual time. Read some of the fastest ones.",
    "unread": "lin gave 10% of the labels in less time than anybody needs to read how the response begins and to press"
    " a key. Read some of them.",
    "fast": "lin takes 3 s for an item in the middle, 10% of the usual time. Read some of the fastest ones.",
    "levels up": f"From 2026-05-01 on the labels of lin are higher than before {BY_KIND} of a level, {LAST}",
    "levels down": f"From 2026-05-01 on the labels of lin are lower than before {BY_KIND} of a level, {LAST}",
    "following up": f"From 2026-05-01 on the labels of lin follow the others' more than before, {BY_KIND}, {LAST}",
    "following down": f"From 2026-05-01 on the labels of lin follow the others' less than before, {BY_KIND}, {LAST}",
}


def say(kind: str, language: str) -> str:
    flag = QualityFlag(DRIFT, 1, "lin", kind, FIGURES, 2, "<ben>")
    with override(language):
        return " ".join(render_to_string("annotation/quality/_flag_sentence.html", {"flag": flag}).split())


@pytest.mark.parametrize("kind", SENTENCES)
def test_each_kind_has_its_sentence(kind: str) -> None:
    assert say(kind, "en") == SENTENCES[kind]


def test_no_two_kinds_say_the_same_in_chinese() -> None:
    sentences = {say(kind, "zh-hans") for kind in SENTENCES}
    assert len(sentences) == len(SENTENCES)
    assert not any("the others" in sentence or "labels" in sentence for sentence in sentences)
