"""Personal data is found by its form and by the digits that check it, and nothing else of a text changes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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
    mask_texts,
)
from tests.support import examples

FOUND = [
    (EMAIL, "en", "Write to Jane.Doe+lab@mail.example.org today.", "Jane.Doe+lab@mail.example.org"),
    (EMAIL, "zh", "我的邮箱是zhang.wei@163.com，请回复。", "zhang.wei@163.com"),
    (EMAIL, "zh", "邮箱：ｚｈａｎｇ＠１６３．ｃｏｍ。", "ｚｈａｎｇ＠１６３．ｃｏｍ"),
    (PHONE, "en", "Call +44 20 7946 0958 after six.", "+44 20 7946 0958"),
    (PHONE, "en", "Call (650) 253-0000.", "(650) 253-0000"),
    (PHONE, "zh", "手机13812345678联系", "13812345678"),
    (PHONE, "zh", "手机 138-1234-5678", "138-1234-5678"),
    (PHONE, "zh", "见 3.2. 138-1234-5678", "138-1234-5678"),
    (PHONE, "zh", "请拨打+86 138 1234 5678。", "+86 138 1234 5678"),
    (PHONE, "zh", "座机：010-62770334", "010-62770334"),
    (PHONE, "", "手机１３８１２３４５６７８", "１３８１２３４５６７８"),
    (IDENTITY, "zh", "身份证号11010519491231002X。", "11010519491231002X"),
    (IDENTITY, "en", "ID card 44052420000101001X.", None),
    (IDENTITY, "zh", "身份证 110105 19491231 002x", "110105 19491231 002x"),
    (CARD, "en", "Visa 4111 1111 1111 1111, please.", "4111 1111 1111 1111"),
    (CARD, "en", "Amex 378282246310005.", "378282246310005"),
    (CARD, "zh", "卡号6222021234567890128", None),
    (IBAN, "en", "Pay to DE89 3704 0044 0532 0130 00 now.", "DE89 3704 0044 0532 0130 00"),
    (IBAN, "en", "GB82WEST12345698765432", "GB82WEST12345698765432"),
    (IP, "en", "It came from 203.0.114.7.", "203.0.114.7"),
    (IP, "zh", "来自2606:4700:4700::1111的请求", "2606:4700:4700::1111"),
]
NOT_FOUND = [
    ("en", "Order 20231234567, invoice 4111111111111112, part 1234-5678-90."),
    ("en", "From 1990 to 2024-12-31 12:30:45.123456, 3.14159265358979, 1,234,567,890 people."),
    (
        "en",
        "Version 10.20.30.40, section 1.2.3.4, private 192.168.10.20, 10.0.0.1, 127.0.0.1, mask 255.255.255.0.",
    ),
    ("en", "std::vector<int> a; x = b[0x1234567890]; img@2x.png; @decorator; user at example dot org"),
    (
        "zh",
        "生于1880年的440524188001010014；编号11010519491231002Y，合同123456789012345678，金额12,345,678.90元，12345678901。",
    ),
    ("zh", "公元前221年至2024年，圆周率3.1415926535897932，身份证号是11010519491301002X。"),
    ("en", "DE88370400440532013000 and GB82 WEST 1234 5698 7654 33; tracking 1Z999AA10123456784."),
    (
        "en",
        "SHA 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822c, uuid 123e4567-e89b-12d3-a456-426614174000",
    ),
    ("en", "https://example.org/items/13812345678?id=4111111111111112"),
    ("en", "1111 1111 1111 1111, 0000000000000000, 12345678, 2023-2024, 100-200-300"),
]


def complete(kind: str) -> str:
    """A number with the digit that checks it."""
    check, start = (
        (check_luhn, "622202123456789012") if kind == CARD else (check_identity, "44052420000101001")
    )
    return next(f"{start}{last}" for last in "0123456789X" if check(f"{start}{last}"))


@pytest.mark.parametrize(("kind", "language", "text", "expected"), FOUND)
def test_what_is_found(kind: str, language: str, text: str, expected: str | None):
    data = find_personal_data(text, language)
    if expected is None:
        text = expected = complete(kind)
        data = find_personal_data(text, language)
    assert [(datum.kind, text[datum.start : datum.end]) for datum in data] == [(kind, expected)]


@pytest.mark.parametrize(("language", "text"), NOT_FOUND)
def test_what_is_not_found(language: str, text: str):
    assert [(datum.kind, text[datum.start : datum.end]) for datum in find_personal_data(text, language)] == []


def test_the_same_value_has_the_same_number_within_a_text():
    texts, data = mask_texts(["a@b.org, c@d.org, A@B.org; 13812345678 或 138-1234-5678", "c@d.org"], "zh")
    assert texts == ["[email 1], [email 2], [email 1]; [phone 1] 或 [phone 1]", "[email 2]"]
    assert [len(data) for data in data] == [5, 1]
    assert mask_texts(texts, "zh")[0] == texts


def test_checks_are_those_of_the_standards():
    """GB 11643-1999's own example, test numbers of the issuers, and the example of ISO 13616."""
    assert check_identity("11010519491231002X")
    assert check_identity("440524188001010014")
    assert not check_identity("110105194912310021")
    for number in (
        "4111111111111111",
        "5555555555554444",
        "378282246310005",
        "30569309025904",
        "6011111111111117",
    ):
        assert check_luhn(number)
    assert check_iban("GB82WEST12345698765432")
    assert not check_iban("GB82WEST12345698765433")


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.one_of(st.text(max_size=20), st.sampled_from([case[2] for case in FOUND])), max_size=6))
def test_masking_changes_nothing_else(parts: list[str]):
    text = "\n".join(parts)
    (masked,), (data,) = mask_texts([text], "zh")
    pieces = []
    last = 0
    for datum in data:
        assert last <= datum.start < datum.end
        pieces.append(re.escape(text[last : datum.start]) + rf"\[{datum.kind} \d+\]")
        last = datum.end
    assert re.fullmatch("".join(pieces) + re.escape(text[last:]), masked, re.DOTALL)
    if not data:
        assert masked == text
