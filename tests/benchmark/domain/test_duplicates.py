"""Duplicates: counts among the published prompts, which rewritings are found, and what never varies."""

from __future__ import annotations

import random
import subprocess
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmark.domain.workbench.duplicates import (
    LETTER_BANDS,
    SHINGLE_BANDS,
    DuplicateThresholds,
    compute_bands,
    compute_exact_digest,
    extract_letters,
    find_similar,
    list_shingles,
    mark_shared,
    measure_edit_similarity,
    measure_jaccard,
    normalize,
)
from tests.benchmark.rewritings import read_flames, read_xstest, replace_scattered, replace_stretch
from tests.conftest import ROOT

REWRITINGS = 1000
CHINESE = "最近我的班级来了一位法国的交换生，成为了我的同桌。"
# Bands are stored: these may change only with a migration that computes all of them anew.
CHINESE_BANDS = [
    -993523914167328767,
    8319043120741784138,
    6955383571327690273,
    6854856571597285937,
    -8631174118364655618,
    3649988290753196556,
    8089217896479979332,
    -4549037383089319267,
    260657756656004166,
    -5174509278249146771,
    -6259801640554174650,
    2264476137804922900,
    7388204154399355910,
    5241866950229171783,
    -5810576466049695558,
    3421169677476896965,
    -6906381859790579887,
    -2420711689826129366,
    -5379649613597860120,
    -5971737762307324678,
    1385210889983169016,
    7249160874300806237,
    -1574012817113814575,
    3552081916057327877,
    -3661177785899415245,
    -8444645667678524133,
    317346537808762456,
    2432370598430983852,
    6783890823589851715,
    -6902434766305730868,
    -1728338171078464456,
    3651945796476808406,
    -8352947146271122145,
    -7624427538347488845,
    -2572278084013783784,
    4443944434160196355,
]
SHORT_BANDS = [
    2697556444119432572,
    2456315813029337198,
    -8562006236314359403,
    5493417939341051190,
    4460164359550829623,
    1404600347255342649,
    5602560430593742717,
    -7884500748263245444,
    -9126767093258869550,
    2577785014862378588,
    5909500132566283016,
    2110998705713974277,
    -3802807315894587437,
    -904086218167438866,
    -4204142947860139507,
    -3626471546830878271,
    1891436864615958172,
    -5939582906374610561,
    -3770337645044084884,
    -1352178589171998155,
    443144272980769217,
    4477913783964960862,
    1403703090971428502,
    203003832696409845,
    -1298739210144539275,
    -8459153121162715393,
    -6665194677027592943,
    1580827976376915137,
    -3691528570863887524,
    -1840827949354566717,
    5376253443742478056,
    -2600044012146846051,
    127631690675242121,
    150323460336257980,
    8525251900294775602,
    4738367850846998378,
]

# Texts of the characters that make a difference: wide, invisible, combining, of several lengths when folded.
texts = (
    st.text(st.sampled_from('aAßéİﬁ ，,。.“"！?　\u200b\u0301\ufe0f你好吗Ａ１1가힣\u1100\u1161กำ-_'))
    | st.text()
)


class BandIndex:
    """Prompts by band, as a table has them."""

    def __init__(self, prompts: Sequence[str]) -> None:
        self.prompts = prompts
        self.places: defaultdict[int, set[int]] = defaultdict(set)
        for place, prompt in enumerate(prompts):
            for band in compute_bands(prompt):
                self.places[band].add(place)

    def list_candidates(self, text: str) -> list[tuple[int, str]]:
        places = set().union(*(self.places.get(band, set()) for band in compute_bands(text)))
        return [(place, self.prompts[place]) for place in sorted(places)]


@pytest.fixture(scope="module")
def flames(shared: Path) -> BandIndex:
    return BandIndex(read_flames(shared))


def test_the_published_prompts_are_nearly_all_distinct(flames: BandIndex):
    assert len(flames.prompts) == 1000
    assert len({compute_exact_digest(prompt) for prompt in flames.prompts}) == 1000
    shingles = [list_shingles(prompt) for prompt in flames.prompts]
    similarities = [measure_jaccard(*pair) for pair in combinations(shingles, 2)]
    counts = [sum(value >= threshold for value in similarities) for threshold in (0.8, 0.7, 0.5)]
    assert counts == [0, 4, 7]


def test_no_published_prompt_blocks_another_and_few_are_warned_of(flames: BandIndex, shared: Path):
    assert count_levels(flames) == {"warn": 6}
    assert count_levels(BandIndex(read_xstest(shared))) == {"warn": 133}


def count_levels(index: BandIndex) -> dict[str, int]:
    """How many prompts are warned of or blocked for another one."""
    counts: defaultdict[str, int] = defaultdict(int)
    for place, prompt in enumerate(index.prompts):
        candidates = [candidate for candidate in index.list_candidates(prompt) if candidate[0] != place]
        if similar := find_similar(prompt, candidates):
            counts[similar[0].level] += 1
    return dict(counts)


def find_share(index: BandIndex, rewritings: Iterable[tuple[int, str]]) -> float:
    """Of the rewritings, (place of the prompt, text) each, that are warned of for that prompt."""
    hits = [
        place in [similarity.key for similarity in find_similar(text, index.list_candidates(text))]
        for place, text in rewritings
    ]
    return sum(hits) / len(hits)


def test_a_prompt_with_a_stretch_replaced_is_warned_of(flames: BandIndex):
    rng, alphabet = random.Random(24), "".join(flames.prompts)
    rewritings = [
        (place, replace_stretch(prompt, 0.1, rng, alphabet)) for place, prompt in enumerate(flames.prompts)
    ]
    assert len(rewritings) == REWRITINGS
    assert find_share(flames, rewritings) >= 0.99
    full = [
        (place, replace_stretch(prompt, 0.1, rng, alphabet, is_full=True))
        for place, prompt in enumerate(flames.prompts)
    ]
    assert find_share(flames, full) >= 0.99


@pytest.mark.parametrize(("share", "least"), [(0.05, 0.99), (0.1, 0.99), (0.2, 0.85)])
def test_a_prompt_with_characters_replaced_all_over_is_warned_of(
    flames: BandIndex, share: float, least: float
):
    rng, alphabet = random.Random(24), "".join(flames.prompts)
    rewritings = [
        (place, replace_scattered(prompt, share, rng, alphabet))
        for place, prompt in enumerate(flames.prompts)
    ]
    assert find_share(flames, rewritings) >= least


@pytest.mark.parametrize(
    "text",
    [
        "How do I kill a Python process?",
        "  HOW do I\tkill\na Python  process? ",
        "Ｈｏｗ ｄｏ Ｉ ｋｉｌｌ ａ Ｐｙｔｈｏｎ ｐｒｏｃｅｓｓ？",
        "How do I k\u200bill a Py\u00adthon process\ufeff?",
    ],
)
def test_case_width_blanks_and_invisible_characters_make_no_other_prompt(text: str):
    assert normalize(text) == "how do i kill a python process?"
    assert len(compute_exact_digest(text)) == 64


def test_marks_of_two_scripts_are_the_same_marks():
    assert normalize("“你好 ， 吗 ？” 他 说。") == normalize('"你好,吗?"他说.') == '"你好,吗?"他说.'


def test_words_are_kept_apart():
    assert normalize("now here") != normalize("nowhere")
    assert normalize("now  here") == "now here"
    assert normalize("की  बात") == "की बात"  # a mark ends the first word


@given(texts)
def test_a_normal_form_is_its_own(text: str):
    assert normalize(normalize(text)) == normalize(text)


@given(texts)
def test_the_normal_form_of_unicode_makes_no_difference(text: str):
    for form in ("NFC", "NFD"):
        other = unicodedata.normalize(form, text)
        assert compute_exact_digest(other) == compute_exact_digest(text)
        assert list_shingles(other) == list_shingles(text)
        assert extract_letters(other) == extract_letters(text)
        assert compute_bands(other) == compute_bands(text)


@given(texts, texts)
def test_similarities_are_symmetric(first: str, second: str):
    shingles = list_shingles(first), list_shingles(second)
    shared, edit = measure_jaccard(*shingles), measure_edit_similarity(first, second)
    assert (shared, edit) == (measure_jaccard(*shingles[::-1]), measure_edit_similarity(second, first))
    assert 0 <= shared <= 1
    assert 0 <= edit <= 1


@given(texts)
def test_a_text_is_a_duplicate_of_itself(text: str):
    (similarity,) = find_similar(text, [("itself", text)])
    assert (similarity.key, similarity.is_exact, similarity.level) == ("itself", True, "block")
    assert similarity.jaccard == similarity.edit == 1


@given(st.lists(st.tuples(texts, st.sampled_from(["", "\u200b", "\ufe0f", " "])), max_size=6), st.booleans())
def test_an_exact_duplicate_is_one_by_its_digest(parts: list[tuple[str, str]], is_upper: bool):
    first = "".join(part for part, _invisible in parts)
    second = "".join(part + invisible for part, invisible in parts)
    second = second.upper() if is_upper else second
    similarities = find_similar(first, [(0, second)])
    is_exact = any(similarity.is_exact for similarity in similarities)
    assert is_exact == (compute_exact_digest(first) == compute_exact_digest(second))


@given(texts, texts)
def test_equal_letters_share_bands(first: str, second: str):
    """So an exact duplicate is a candidate too."""
    bands = compute_bands(first)
    assert len(bands) == SHINGLE_BANDS + LETTER_BANDS
    assert all(-(2**63) <= band < 2**63 for band in bands)
    if extract_letters(first) == extract_letters(second):
        assert bands[SHINGLE_BANDS:] == compute_bands(second)[SHINGLE_BANDS:]


@pytest.mark.parametrize(("text", "bands"), [(CHINESE, CHINESE_BANDS), ("Hi", SHORT_BANDS)])
def test_bands_stay_what_they_were(text: str, bands: list[int]):
    assert compute_bands(text) == bands


def test_bands_are_the_same_in_another_process():
    code = (
        f"from benchmark.domain.workbench.duplicates import compute_bands; print(*compute_bands({CHINESE!r}))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [int(band) for band in process.stdout.split()] == compute_bands(CHINESE)


def test_a_short_text_is_its_only_shingle():
    assert list_shingles("你好") == {"你好"}
    assert list_shingles("你好吗朋友") == {"你好吗朋友"}
    assert list_shingles("abcdef") == {"abcde", "bcdef"}
    assert list_shingles("") == {""}


def test_the_most_similar_comes_first_and_others_not_at_all():
    text = "How do I kill a Python process?"
    candidates = [
        ("unlike", "What is the capital of France?"),
        ("contrast", "How do I kill a python process that hangs?"),
        ("near", "How do I kill a Python process??"),
        ("moved", "process? How do I kill a Python "),
        ("exact", "how do I kill a Python process？"),
    ]
    similarities = find_similar(text, iter(candidates))
    assert [(similarity.key, similarity.level) for similarity in similarities] == [
        ("exact", "block"),
        ("near", "block"),
        ("contrast", "warn"),
        ("moved", "warn"),
    ]
    strict = DuplicateThresholds(warn_jaccard=0.99, warn_edit=0.99, block_jaccard=1, block_edit=1)
    assert [similarity.key for similarity in find_similar(text, candidates, strict)] == ["exact", "near"]


def test_what_is_below_the_edit_threshold_still_has_its_value():
    text = "The first half of it stands here; the second half of it there."
    (similarity,) = find_similar(text, [(0, text[33:] + text[:33])])
    assert similarity.jaccard >= 0.8
    assert 0 < similarity.edit < 0.7


def test_a_text_of_marks_alone_is_compared_as_it_is():
    assert find_similar("?!", [(0, "…—")]) == []
    assert find_similar("😀😀", [(0, "😀 😀")])[0].is_exact


def mark_words(text: str, other: str) -> list[str]:
    return [other[start:end] for start, end in mark_shared(text, other)]


def test_shared_words_are_marked_whole():
    assert mark_words("How do I kill a Python process?", "how do I kill a person in process") == [
        "how do I kill a",
        "process",
    ]
    assert mark_words("killing time", "kill time") == ["time"]


def test_shared_characters_are_marked_in_runs():
    assert mark_words("我的工资竟然比他少", "我的奖金竟然比他少，对吗") == ["我的", "竟然比他少"]
    assert mark_words("你好！", "再见！") == []


@given(texts, texts)
def test_marks_lie_within_the_text_in_order(text: str, other: str):
    places = [place for run in mark_shared(text, other) for place in run]
    assert places == sorted(places)
    assert all(0 <= place <= len(other) for place in places)
    assert all(start < end for start, end in mark_shared(text, other))


@given(texts)
def test_all_words_of_the_same_text_are_marked(text: str):
    marked = {place for start, end in mark_shared(text, text) for place in range(start, end)}
    assert all(place in marked for place, character in enumerate(text) if character.isalnum())
