"""What is marked as personal data in published texts, which were made to have none, how much is found of values that
were generated in their usual forms, and what the search costs.

  python -m tests.performance.personal_data [--show] [--rows 100000]

``--show`` prints each mark with the text around it, for somebody to read.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import phonenumbers

from annotation.domain.texts.personal_data import (
    CARD,
    EMAIL,
    IBAN,
    IDENTITY,
    IP,
    PHONE,
    check_iban,
    check_identity,
    check_luhn,
    find_personal_data,
    show_context,
)

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"
VALUES = 500
SEED = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--data", type=Path, default=SHARED, help="the folder with the published data")
    parser.add_argument("--rows", type=int, default=100_000)
    options = parser.parse_args()
    print("Marks in published texts")
    for name, texts in read_published(options.data):
        count_marks(name, list(texts), show=options.show)
    print("\nFound of generated values, in a sentence")
    for (name, language), share in measure_recall().items():
        print(f"{name:36} {language:3} {share:7.1%}")
    measure_cost(options.rows)


def count_marks(name: str, texts: list[tuple[str, str]], *, show: bool) -> None:
    counts: Counter[str] = Counter()
    for line, (text, language) in enumerate(texts, 1):
        data = find_personal_data(text, language)
        counts.update(datum.kind for datum in data)
        for example in show_context(text, line, data) if show else ():
            around = f"{example.before}[[{example.text}]]{example.after}"
            print(f"    {example.kind}: {' '.join(around.split())}")
    characters = sum(len(text) for text, _language in texts)
    print(f"{name:28} {len(texts):7,} texts {characters:11,} characters  {dict(counts) or 'none'}")


def read_published(folder: Path) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    yield (
        "XSTest, prompts and responses",
        _read_csv(
            [path for path in sorted((folder / "xstest").glob("*.csv")) if "eval" not in path.name], "en"
        ),
    )
    yield "Lend an Ear, dialogues", _read_csv([folder / "lend_an_ear" / "conversations.csv"], "en")
    yield "PandaLM", _read_json([folder / "pandalm" / "testset_even.json"], "en")
    yield "Flames", _read_json(sorted((folder / "flames").glob("*.jsonl")), "zh")
    yield "CValues", _read_json(sorted((folder / "cvalues").glob("*.jsonl")), "zh")
    yield "FINE", _read_json(sorted((folder / "fine").glob("*.jsonl")), "zh")


def _read_csv(paths: list[Path], language: str) -> Iterator[tuple[str, str]]:
    for path in paths:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for row in csv.DictReader(file):
                yield from ((value, language) for value in row.values() if isinstance(value, str) and value)


def _read_json(paths: list[Path], language: str) -> Iterator[tuple[str, str]]:
    for path in paths:
        text = path.read_text(encoding="utf-8")
        rows = (
            json.loads(text)
            if text.startswith("[")
            else [json.loads(line) for line in text.splitlines() if line]
        )
        for row in rows:
            yield from ((value, language) for value in _list_texts(row))


def _list_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _list_texts(part)


def measure_recall() -> dict[tuple[str, str], float]:
    """Found whole and as what it is; the sentence has other numbers beside it."""
    draw = random.Random(SEED)
    shares = {}
    for name, kind, language, build in FORMS:
        frame = (
            "编号20240131，请联系{}，共3项。"
            if language == "zh"
            else "On 2024-01-31, item 3 of 17: {} is it."
        )
        hits = 0
        for _number in range(VALUES):
            value = build(draw)
            text = frame.format(value)
            hits += [(d.kind, text[d.start : d.end]) for d in find_personal_data(text, language)] == [
                (kind, value)
            ]
        shares[name, language] = hits / VALUES
    return shares


def build_email(draw: random.Random) -> str:
    names = ["li.wei", "jane_doe", "x", "first.last+tag", "a-b", "o_neil99"]
    hosts = ["163.com", "mail.example.org", "uni-bonn.de", "qq.com", "a.co.uk"]
    return f"{draw.choice(names)}{draw.randrange(100)}@{draw.choice(hosts)}"


def build_identity(draw: random.Random) -> str:
    region = draw.choice(["110105", "310104", "440305", "510107"])
    day = f"{draw.randrange(1940, 2015)}{draw.randrange(1, 13):02}{draw.randrange(1, 29):02}"
    start = f"{region}{day}{draw.randrange(1000):03}"
    return next(f"{start}{last}" for last in "0123456789X" if check_identity(f"{start}{last}"))


def build_card(draw: random.Random) -> str:
    prefix, length = draw.choice(
        [("4", 16), ("5412", 16), ("37", 15), ("6222", 19), ("6011", 16), ("3530", 16)]
    )
    start = prefix + "".join(str(draw.randrange(10)) for _place in range(length - len(prefix) - 1))
    return next(f"{start}{last}" for last in range(10) if check_luhn(f"{start}{last}"))


def build_grouped_card(draw: random.Random) -> str:
    number, gap = build_card(draw), draw.choice(" -")
    return gap.join(number[start : start + 4] for start in range(0, len(number), 4))


def build_iban(draw: random.Random) -> str:
    country, length = draw.choice([("DE", 22), ("FR", 27), ("GB", 22), ("NL", 18), ("CH", 21)])
    bank = "".join(draw.choice("ABCDEFGH") for _place in range(4)) if country in {"GB", "NL"} else ""
    account = bank + "".join(str(draw.randrange(10)) for _place in range(length - 4 - len(bank)))
    return next(
        f"{country}{check:02}{account}"
        for check in range(2, 99)
        if check_iban(f"{country}{check:02}{account}")
    )


def build_grouped_iban(draw: random.Random) -> str:
    number = build_iban(draw)
    return " ".join(number[start : start + 4] for start in range(0, len(number), 4))


def build_mobile(draw: random.Random) -> str:
    prefix = draw.choice(["138", "139", "150", "186", "177", "199"])
    return f"{prefix}{draw.randrange(10**8):08}"


def build_grouped_mobile(draw: random.Random) -> str:
    number, gap = build_mobile(draw), draw.choice(" -")
    return gap.join([number[:3], number[3:7], number[7:]])


def build_phone(region: str, style: int) -> Callable[[random.Random], str]:
    """A number of the region by its example, with other last digits, as the tables of its country write it."""

    def build(draw: random.Random) -> str:
        example = phonenumbers.example_number_for_type(region, phonenumbers.PhoneNumberType.FIXED_LINE)
        while True:
            number = phonenumbers.PhoneNumber(
                example.country_code, example.national_number // 10000 * 10000 + draw.randrange(10000)
            )
            if phonenumbers.is_valid_number(number):
                return phonenumbers.format_number(number, style)

    return build


INTERNATIONAL, NATIONAL = (
    phonenumbers.PhoneNumberFormat.INTERNATIONAL,
    phonenumbers.PhoneNumberFormat.NATIONAL,
)
E164 = phonenumbers.PhoneNumberFormat.E164
FORMS: tuple[tuple[str, str, str, Callable[[random.Random], str]], ...] = (
    ("e-mail address", EMAIL, "en", build_email),
    ("e-mail address", EMAIL, "zh", build_email),
    ("mobile of China, 11 digits", PHONE, "zh", build_mobile),
    ("mobile of China, in groups", PHONE, "zh", build_grouped_mobile),
    ("landline of China, in groups", PHONE, "zh", build_phone("CN", NATIONAL)),
    ("phone, +86 and groups", PHONE, "zh", build_phone("CN", INTERNATIONAL)),
    ("phone of the USA, in groups", PHONE, "en", build_phone("US", NATIONAL)),
    ("phone of Britain, in groups", PHONE, "en", build_phone("GB", NATIONAL)),
    ("phone of Germany, +49 and groups", PHONE, "en", build_phone("DE", INTERNATIONAL)),
    ("phone of Japan, +81 without groups", PHONE, "en", build_phone("JP", E164)),
    ("resident identity number", IDENTITY, "zh", build_identity),
    ("bank card, digits alone", CARD, "en", build_card),
    ("bank card, in groups", CARD, "zh", build_grouped_card),
    ("IBAN, without gaps", IBAN, "en", build_iban),
    ("IBAN, in groups", IBAN, "en", build_grouped_iban),
    (
        "IPv4 address",
        IP,
        "en",
        lambda draw: f"{draw.randrange(20, 99)}.{draw.randrange(256)}.7.{draw.randrange(256)}",
    ),
)


def measure_cost(rows: int) -> None:
    """Of texts like those of a data set of responses: three sentences, every twentieth with a value."""
    draw = random.Random(SEED)
    sentence = "I am sorry, but I cannot help with that; in 2024 about 1,250 people asked, see chapter 3.2. "
    texts = [
        sentence * 3 + (build_grouped_mobile(draw) if number % 20 == 0 else "") for number in range(rows)
    ]
    begun = time.process_time()
    number_found = sum(len(find_personal_data(text, "zh")) for text in texts)
    seconds = time.process_time() - begun
    print(
        f"\n{rows:,} texts of {len(texts[1])} characters: {seconds:.1f} s of processor time, {number_found:,} found"
    )


if __name__ == "__main__":
    main()
