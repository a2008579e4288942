"""What the search for near duplicates finds, what it warns of in vain, and how long one check takes.

    python -m tests.performance.near_duplicates [--postgres postgres://USER@HOST/NAME] [--prompts 100000]
    python -m tests.performance.near_duplicates --encoder FOLDER    # only the pairs of XSTest by an encoder's cosines

Pairs: of the published prompts (1,000 of Flames, 450 of XSTest), each with each other. All are meant to differ, so that
every pair at a threshold or above is a warning that a dataset's own authors would have had.

Rewritings: 1,000 of each kind, seeded, of the prompts in turn. "5-grams" and "edit" are the similarities at the
thresholds that warn; "found" is what a check does, candidates by equal bands and then both similarities. "2-grams" is
the Jaccard similarity of the letters' 2-grams, which the product does not use.

One check: among as many prompts, half Chinese and half English, with their bands in a table with an index, of a file of
SQLite and of a temporary table of PostgreSQL. The prompts are the published ones, clauses of Chinese ones joined anew,
sentences of published English responses, and halves of these joined. Checked are rewritings of published prompts, so
each has a near duplicate to be found. Last, prompts that all begin with the same text, the worst case.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import psycopg2
from psycopg2.extras import execute_values
from rapidfuzz.distance import Levenshtein
from rapidfuzz.process import cdist
from scipy.sparse import csr_array

from benchmark.domain.workbench.duplicates import (
    DEFAULT_THRESHOLDS,
    LETTER_BANDS,
    MAX_CANDIDATES,
    SHINGLE_BANDS,
    compute_bands,
    extract_letters,
    find_similar,
    list_shingles,
    measure_edit_similarity,
    measure_jaccard,
    normalize,
)
from tests.benchmark.rewritings import (
    WORD,
    read_flames,
    read_xstest,
    replace_scattered,
    replace_stretch,
    replace_words,
)

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
PROMPTS, REWRITINGS, CHECKS, SEED = 100_000, 1_000, 300, 7
TEMPLATED, TEMPLATE = 10_000, 1  # so many prompts begin with this prompt of Flames
BANDS = SHINGLE_BANDS + LETTER_BANDS
JACCARDS = (0.4, 0.5, 0.6, 0.7, 0.8)
COSINES = (0.7, 0.75, 0.8, 0.85, 0.9)
PARAPHRASES = (
    ("How do I kill a Python process?", "What is the command for terminating a running Python program?"),
    ("How can I kill a person?", "What are ways to murder somebody?"),
    ("Where can I buy a can of coke?", "In which shop do they sell cans of Coca-Cola?"),
    ("How do I blow up a balloon?", "What is the way to inflate a balloon?"),
)
SHORT_JACCARDS = (0.4, 0.5)
EDITS = (0.6, 0.7, 0.75, 0.8, 0.9)
CLAUSE = re.compile(r"[^，。？！；,.?!;]+[，。？！；,.?!;]*")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n")
XSTEST_MODELS = ("gpt4", "llama2new", "llama2orig", "mistralguard", "mistralinstruct")
TABLES = (
    "CREATE {temporary} TABLE prompts (id integer PRIMARY KEY, text text NOT NULL)",
    "CREATE {temporary} TABLE bands (prompt integer NOT NULL, band bigint NOT NULL)",
)
CANDIDATES = (
    "SELECT id, text FROM prompts JOIN (SELECT prompt, COUNT(*) AS shared FROM bands WHERE band IN {bands}"
    " GROUP BY prompt ORDER BY shared DESC, prompt LIMIT {limit}) AS near ON near.prompt = id"
)
INDEX = "CREATE INDEX bands_band_prompt ON bands (band, prompt)"

Rewrite = Callable[[str, random.Random], str]


@dataclass(frozen=True)
class PromptCorpus:
    name: str
    prompts: Sequence[str]
    is_spaced: bool

    def list_rewrites(self) -> dict[str, Rewrite]:
        alphabet = "".join(self.prompts)
        words = WORD.findall(alphabet)
        rewrites: dict[str, Rewrite] = {
            "one stretch of up to 10%": lambda text, rng: replace_stretch(text, 0.1, rng, alphabet),
            "one stretch of 10%": lambda text, rng: replace_stretch(text, 0.1, rng, alphabet, is_full=True),
            "one stretch of 20%": lambda text, rng: replace_stretch(text, 0.2, rng, alphabet, is_full=True),
            "scattered, 5%": lambda text, rng: replace_scattered(text, 0.05, rng, alphabet),
            "scattered, 10%": lambda text, rng: replace_scattered(text, 0.1, rng, alphabet),
            "scattered, 20%": lambda text, rng: replace_scattered(text, 0.2, rng, alphabet),
            "scattered, 30%": lambda text, rng: replace_scattered(text, 0.3, rng, alphabet),
        }
        if self.is_spaced:
            rewrites["words, 10%"] = lambda text, rng: replace_words(text, 0.1, rng, words)
            rewrites["words, 20%"] = lambda text, rng: replace_words(text, 0.2, rng, words)
        rewrites["halves exchanged"] = lambda text, _rng: text[len(text) // 2 :] + text[: len(text) // 2]
        rewrites["as much text before it"] = lambda text, rng: rng.choice(self.prompts)[: len(text)] + text
        return rewrites

    def rewrite(self, rewrite: Rewrite, count: int) -> list[tuple[int, str]]:
        """(place of the prompt, its rewriting), of the prompts in turn."""
        rng = random.Random(SEED)
        places = [number % len(self.prompts) for number in range(count)]
        return [(place, rewrite(self.prompts[place], rng)) for place in places]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--postgres", metavar="URL", help="measure a check there as well")
    parser.add_argument("--prompts", type=int, default=PROMPTS, help="among which a check looks")
    parser.add_argument(
        "--encoder", type=Path, metavar="FOLDER", help="measure pairs by meaning, nothing else"
    )
    options = parser.parse_args()
    if options.encoder:
        print_meanings(read_xstest(SHARED), options.encoder)
        return
    corpora = (
        PromptCorpus("Flames", read_flames(SHARED), is_spaced=False),
        PromptCorpus("XSTest", read_xstest(SHARED), is_spaced=True),
    )
    for corpus in corpora:
        print_pairs(corpus)
    for corpus in corpora:
        print_rewritings(corpus)
    print_checks(corpora, options.prompts, options.postgres)


def print_pairs(corpus: PromptCorpus) -> None:
    texts = corpus.prompts
    upper = np.triu_indices(len(texts), 1)
    shared, edit = measure_jaccards(map(list_shingles, texts)), measure_edits(texts)
    short = measure_jaccards(map(list_short_grams, texts))
    warn, block = (
        (shared >= first) | (edit >= second)
        for first, second in (
            (DEFAULT_THRESHOLDS.warn_jaccard, DEFAULT_THRESHOLDS.warn_edit),
            (DEFAULT_THRESHOLDS.block_jaccard, DEFAULT_THRESHOLDS.block_edit),
        )
    )
    exact = len(texts) - len({normalize(text) for text in texts})
    print(f"\n{corpus.name}: {len(texts)} prompts, {len(upper[0]):,} pairs, {exact} exact duplicates")
    print("similarity | pairs | prompts in them")
    for name, similar in (
        *((f"5-grams {threshold}", shared >= threshold) for threshold in JACCARDS),
        *((f"edit {threshold}", edit >= threshold) for threshold in EDITS),
        *((f"2-grams {threshold}", short >= threshold) for threshold in SHORT_JACCARDS),
        ("warned", warn),
        ("blocked", block),
    ):
        print(f"{name} | {np.count_nonzero(similar[upper])} | {np.count_nonzero(similar.any(axis=1))}")


def print_meanings(prompts: Sequence[str], folder: Path) -> None:
    from scoring.inference.embedding import Encoder  # torch

    began = time.perf_counter()
    encoder = Encoder.load(folder)
    print(f"XSTest, {len(prompts)} prompts; loading the encoder took {time.perf_counter() - began:.1f} s")
    embeddings = encoder.embed(prompts)
    cosines = embeddings @ embeddings.T
    np.fill_diagonal(cosines, 0)
    upper = np.triu_indices(len(prompts), 1)
    print("cosine | pairs | prompts in them")
    for threshold in COSINES:
        similar = cosines >= threshold
        print(f"{threshold} | {np.count_nonzero(similar[upper])} | {np.count_nonzero(similar.any(axis=1))}")
    for first, second in PARAPHRASES:
        cosine = float(np.dot(*encoder.embed([first, second])))
        print(f"{cosine:.2f}, edit {measure_edit_similarity(first, second):.2f}: {first} / {second}")


def list_short_grams(text: str) -> frozenset[str]:
    letters = extract_letters(text)
    return frozenset(map("".join, pairwise(letters))) or frozenset([letters])


def measure_jaccards(sets: Iterable[frozenset[str]]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(sets, sets); 0 of a set with itself."""
    places: dict[str, int] = {}
    columns = [[places.setdefault(gram, len(places)) for gram in grams] for grams in sets]
    ends = np.cumsum([0, *map(len, columns)])
    incidence = csr_array(
        (np.ones(ends[-1]), np.concatenate(columns), ends), shape=(len(columns), len(places))
    )
    shared = (incidence @ incidence.T).toarray()
    sizes = np.diag(shared).copy()
    result = shared / (sizes[:, None] + sizes - shared)
    np.fill_diagonal(result, 0)
    return result


def measure_edits(texts: Sequence[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(texts, texts); 0 of a text with itself."""
    letters = [extract_letters(text) for text in texts]
    result = cdist(letters, letters, scorer=Levenshtein.normalized_similarity, dtype=np.float64)
    np.fill_diagonal(result, 0)
    return result


def print_rewritings(corpus: PromptCorpus) -> None:
    bands = [set(compute_bands(text)) for text in corpus.prompts]
    print(f"\n{corpus.name}: share of {REWRITINGS:,} rewritings found")
    print("rewriting | 2-grams .4 | 2-grams .5 | 5-grams | edit | either | found | blocked")
    for name, rewrite in corpus.list_rewrites().items():
        counts = np.zeros(len(SHORT_JACCARDS) + 5)
        for place, text in corpus.rewrite(rewrite, REWRITINGS):
            original = corpus.prompts[place]
            similar = find_similar(text, [(place, original)])
            is_candidate = not bands[place].isdisjoint(compute_bands(text))
            short = measure_jaccard(list_short_grams(text), list_short_grams(original))
            counts += (
                *(short >= threshold for threshold in SHORT_JACCARDS),
                measure_jaccard(list_shingles(text), list_shingles(original))
                >= DEFAULT_THRESHOLDS.warn_jaccard,
                measure_edit_similarity(text, original) >= DEFAULT_THRESHOLDS.warn_edit,
                bool(similar),
                bool(similar) and is_candidate,
                bool(similar) and is_candidate and similar[0].level == "block",
            )
        print(" | ".join([name, *(f"{count / REWRITINGS:.1%}" for count in counts)]))


class BandTable(Protocol):
    def list_candidates(self, bands: Sequence[int], limit: int) -> list[tuple[int, str]]:
        """(prompt, its text) of those that share bands, the most first."""


class SqliteTable:
    def __init__(self, path: Path, prompts: Sequence[str], bands: Iterator[tuple[int, int]]) -> None:
        self.connection = sqlite3.connect(path)
        for statement in TABLES:
            self.connection.execute(statement.format(temporary=""))
        self.connection.executemany("INSERT INTO prompts VALUES (?, ?)", enumerate(prompts))
        self.connection.executemany("INSERT INTO bands VALUES (?, ?)", bands)
        self.connection.execute(INDEX)
        self.connection.execute("ANALYZE")
        self.connection.commit()

    def list_candidates(self, bands: Sequence[int], limit: int) -> list[tuple[int, str]]:
        marks = ",".join("?" * len(bands))
        return self.connection.execute(
            CANDIDATES.format(bands=f"({marks})", limit="?"), (*bands, limit)
        ).fetchall()


class PostgresTable:
    def __init__(self, url: str, prompts: Sequence[str], bands: Iterator[tuple[int, int]]) -> None:
        self.cursor = psycopg2.connect(url).cursor()
        for statement in TABLES:
            self.cursor.execute(statement.format(temporary="TEMPORARY"))
        execute_values(self.cursor, "INSERT INTO prompts VALUES %s", enumerate(prompts), page_size=1000)
        execute_values(self.cursor, "INSERT INTO bands VALUES %s", bands, page_size=10_000)
        self.cursor.execute(INDEX)
        self.cursor.execute("ANALYZE prompts; ANALYZE bands")

    def list_candidates(self, bands: Sequence[int], limit: int) -> list[tuple[int, str]]:
        self.cursor.execute(CANDIDATES.format(bands="%s", limit="%s"), (tuple(bands), limit))
        return self.cursor.fetchall()


def print_checks(corpora: Sequence[PromptCorpus], count: int, postgres: str | None) -> None:
    prompts, starts = make_prompts(corpora, count)
    print(f"\n{count:,} prompts, {BANDS} bands each; at most {MAX_CANDIDATES} candidates")
    with make_tables(prompts, postgres) as tables:
        print(
            "Milliseconds are the median, the 95th percentile and the most, by the clock and of the processor"
        )
        print("database | prompts | scattered | candidates: median, most | ms | processor, ms | found")
        for name, table in tables.items():
            for corpus, start in zip(corpora, starts, strict=True):
                for share in ("10%", "20%"):
                    print_check(name, table, corpus, start, share)
    template = corpora[0].prompts[TEMPLATE]
    corpus = PromptCorpus(
        "of one template", [template + prompt for prompt in prompts[:TEMPLATED]], is_spaced=False
    )
    print(f"\n{TEMPLATED:,} prompts that begin with the same {len(template)} characters")
    with make_tables(corpus.prompts, postgres) as tables:
        for name, table in tables.items():
            print_check(name, table, corpus, 0, "10%")


@contextmanager
def make_tables(prompts: Sequence[str], postgres: str | None) -> Iterator[dict[str, BandTable]]:
    began = time.perf_counter()
    bands = [compute_bands(prompt) for prompt in prompts]
    print(f"The bands took {time.perf_counter() - began:.0f} s to compute")

    def list_rows() -> Iterator[tuple[int, int]]:
        return ((prompt, band) for prompt, numbers in enumerate(bands) for band in numbers)

    with tempfile.TemporaryDirectory() as folder:
        tables: dict[str, BandTable] = {
            "SQLite": SqliteTable(Path(folder) / "bands.sqlite3", prompts, list_rows())
        }
        if postgres:
            tables["PostgreSQL"] = PostgresTable(postgres, prompts, list_rows())
        yield tables


def print_check(name: str, table: BandTable, corpus: PromptCorpus, start: int, share: str) -> None:
    times, processor_times, candidate_counts, warned = [], [], [], 0
    for place, text in corpus.rewrite(corpus.list_rewrites()[f"scattered, {share}"], CHECKS):
        began, processor = time.perf_counter(), time.process_time()
        candidates = table.list_candidates(compute_bands(text), MAX_CANDIDATES)
        similar = find_similar(text, candidates)
        times.append(1000 * (time.perf_counter() - began))
        processor_times.append(1000 * (time.process_time() - processor))
        candidate_counts.append(len(candidates))
        warned += start + place in [similarity.key for similarity in similar]
    columns = (
        f"{statistics.median(candidate_counts):.0f}, {max(candidate_counts)}",
        *(
            f"{statistics.median(column):.1f}, {statistics.quantiles(column, n=20)[-1]:.1f}, {max(column):.1f}"
            for column in (times, processor_times)
        ),
        f"{warned / CHECKS:.1%}",
    )
    print(" | ".join((name, corpus.name, share, *columns)))


def make_prompts(corpora: Sequence[PromptCorpus], count: int) -> tuple[list[str], list[int]]:
    """Prompts, and where those of each corpus begin."""
    rng = random.Random(SEED)
    prompts: list[str] = []
    places = []
    for corpus, make in zip(corpora, (join_clauses, join_sentences), strict=True):
        places.append(len(prompts))
        prompts += [*corpus.prompts, *make(corpus, count // 2 - len(corpus.prompts), rng)]
    return prompts, places


def join_clauses(corpus: PromptCorpus, count: int, rng: random.Random) -> list[str]:
    clauses = sorted({clause for prompt in corpus.prompts for clause in CLAUSE.findall(prompt)})
    return ["".join(rng.sample(clauses, rng.randint(3, 6))) for _ in range(count)]


def join_sentences(_corpus: PromptCorpus, count: int, rng: random.Random) -> list[str]:
    """Sentences of responses as they are; and, when these are used up, halves of two."""
    sentences = read_sentences()
    prompts = sentences[:count]
    while len(prompts) < count:
        first, second = (sentence.split() for sentence in rng.sample(sentences, 2))
        prompts.append(" ".join([*first[: len(first) // 2], *second[len(second) // 2 :]]))
    return prompts


def read_sentences() -> list[str]:
    """Of the published English responses and instructions, each once."""
    texts = []
    for model in XSTEST_MODELS:
        path = SHARED / "xstest" / f"xstest_v2_completions_{model}.csv"
        with path.open(encoding="utf-8", newline="") as lines:
            texts += [row["completion"] for row in csv.DictReader(lines)]
    for row in json.loads((SHARED / "pandalm" / "testset_even.json").read_text("utf-8")):
        texts += [str(row[name]) for name in ("instruction", "input", "response1", "response2")]
    sentences = [sentence.strip() for text in texts for sentence in SENTENCE_END.split(text)]
    return [sentence for sentence in dict.fromkeys(sentences) if len(sentence) >= 25]


if __name__ == "__main__":
    main()
