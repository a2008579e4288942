"""Personal data in a text, found by its form and by the digits that check it. Pure: no model, no dictionary of names.

E-mail addresses, phone numbers, resident identity numbers of China, numbers of bank cards and accounts (IBAN), and
public IP addresses. What has no form, such as a name or a postal address, is not found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address

from annotation.core.errors import N_

EMAIL, PHONE, IDENTITY, CARD, IBAN, IP = "email", "phone", "id", "card", "iban", "ip"
KIND_NAMES = {
    EMAIL: N_("e-mail address"),
    PHONE: N_("phone number"),
    IDENTITY: N_("resident identity number"),
    CARD: N_("bank card number"),
    IBAN: N_("bank account number (IBAN)"),
    IP: N_("IP address"),
}
FIND, MASK = "find", "mask"
WAYS = (FIND, MASK)
CONTEXT = 30
REGIONS = {
    "zh": ("CN",),
    "en": ("US", "GB"),
    "de": ("DE",),
    "fr": ("FR",),
    "es": ("ES",),
    "it": ("IT",),
    "ja": ("JP",),
    "ko": ("KR",),
    "ru": ("RU",),
    "pt": ("BR", "PT"),
}
"""By the first part of a language: in which countries a phone number without + may be."""
_FULL_WIDTH = {0xFF01 + place: 0x21 + place for place in range(94)} | {0x3000: 0x20}
"""A character for a character, so that places stay."""


@dataclass(frozen=True, slots=True)
class PersonalDatum:
    """``value`` tells two of one kind apart, and leaves this module in no other form than a number."""

    kind: str
    start: int
    end: int
    value: str


@dataclass(frozen=True, slots=True)
class DatumInContext:
    """For a preview: what stands around it, shortened."""

    kind: str
    line: int
    before: str
    text: str
    after: str


# Nothing of any kind is in a text without one of these.
_ANY = re.compile(r"@|[0-9](?:[^0-9]{0,3}[0-9]){6}|[0-9]{1,3}(?:\.[0-9]{1,3}){3}|(?:[0-9A-Fa-f]{0,4}:){3}")
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+\-])[A-Za-z0-9_%+\-](?:[A-Za-z0-9._%+\-]{0,62}[A-Za-z0-9_%+\-])?"
    r"@((?:[A-Za-z0-9](?:[A-Za-z0-9\-]{0,61}[A-Za-z0-9])?\.){1,8})([A-Za-z]{2,24})(?![A-Za-z0-9\-])"
)
_FILE_ENDINGS = frozenset({"png", "jpg", "jpeg", "gif", "svg", "webp", "css", "js", "py", "json", "html"})
_IDENTITY = re.compile(
    r"(?<![0-9A-Za-z.])([1-9][0-9]{5})[ -]?((?:19|20)[0-9]{2})(0[1-9]|1[0-2])(0[1-9]|[12][0-9]|3[01])[ -]?"
    r"([0-9]{3}[0-9Xx])(?![0-9A-Za-z])"
)
_PROVINCES = frozenset(
    f"{region}{place}"
    for region, places in {
        "1": "12345",
        "2": "123",
        "3": "1234567",
        "4": "123456",
        "5": "01234",
        "6": "12345",
    }.items()
    for place in places
) | {"71", "81", "82", "83"}
_CARD = re.compile(r"(?<![0-9A-Za-z.,+\-/_])[2-6][0-9]{3}(?:[ -]?[0-9]){9,15}(?![0-9A-Za-z]|[.,\-/][0-9])")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){11,30}(?![A-Za-z0-9])")
_IBAN_LENGTHS = {
    "AD": 24,
    "AE": 23,
    "AL": 28,
    "AT": 20,
    "AZ": 28,
    "BA": 20,
    "BE": 16,
    "BG": 22,
    "BH": 22,
    "BR": 29,
    "CH": 21,
    "CR": 22,
    "CY": 28,
    "CZ": 24,
    "DE": 22,
    "DK": 18,
    "DO": 28,
    "EE": 20,
    "EG": 29,
    "ES": 24,
    "FI": 18,
    "FO": 18,
    "FR": 27,
    "GB": 22,
    "GE": 22,
    "GI": 23,
    "GL": 18,
    "GR": 27,
    "GT": 28,
    "HR": 21,
    "HU": 28,
    "IE": 22,
    "IL": 23,
    "IS": 26,
    "IT": 27,
    "JO": 30,
    "KW": 30,
    "KZ": 20,
    "LB": 28,
    "LI": 21,
    "LT": 20,
    "LU": 20,
    "LV": 21,
    "MC": 27,
    "MD": 24,
    "ME": 22,
    "MK": 19,
    "MR": 27,
    "MT": 31,
    "MU": 30,
    "NL": 18,
    "NO": 15,
    "PK": 24,
    "PL": 28,
    "PS": 29,
    "PT": 25,
    "QA": 29,
    "RO": 24,
    "RS": 22,
    "SA": 24,
    "SE": 24,
    "SI": 19,
    "SK": 24,
    "SM": 27,
    "TN": 24,
    "TR": 26,
    "UA": 29,
    "VA": 22,
    "VG": 24,
    "XK": 20,
}
_IPV4 = re.compile(r"(?<![0-9A-Za-z.\-])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9A-Za-z\-]|\.[0-9])")
_IPV6 = re.compile(r"(?<![0-9A-Za-z:.])(?:[0-9A-Fa-f]{0,4}:){3,7}[0-9A-Fa-f]{0,4}(?![0-9A-Za-z:.])")
MIN_OCTET = 10
"""1.2.3.4 is the number of a section or a version before it is an address."""
_VERSION = re.compile(r"(?:\bv(?:ersion|er)?\.?|版本(?:号)?)[ :：]*$", re.IGNORECASE)
_PHONE = re.compile(
    r"(?<![0-9A-Za-z.,_/=#])(?:\+|\(|[0-9])(?:[0-9]|[ ()\-./](?=[ (]?[0-9(])){6,24}(?![0-9A-Za-z]|[.,][0-9])"
)
_MOBILE_OF_CHINA = re.compile(r"1[3-9][0-9]{9}$")
_NEXT_GROUP = re.compile(r"(?<=[ ()\-./])[0-9(+]")
_SEPARATED = re.compile(r"[0-9)][ \-./]+\(?[0-9]")
MIN_PHONE_DIGITS, MAX_PHONE_DIGITS = 7, 15


def find_personal_data(text: str, language: str = "") -> list[PersonalDatum]:
    """In the order of the text, none within another."""
    plain = text.translate(_FULL_WIDTH) if not text.isascii() else text
    if _ANY.search(plain) is None:
        return []
    data: list[PersonalDatum] = []
    for find in _FINDERS:
        for datum in find(plain, language):
            if all(datum.end <= other.start or datum.start >= other.end for other in data):
                data.append(datum)
    return sorted(data, key=lambda datum: datum.start)


def mask_texts(texts: Sequence[str], language: str = "") -> tuple[list[str], list[list[PersonalDatum]]]:
    """The texts with ``[email 1]`` and so on in the place of each, and what was found in each of them. Of one kind the
    same value has the same number; a text, or the turns of one dialogue, counts from 1. So the same text is masked
    alike in whichever file it comes.
    """
    numbers: dict[tuple[str, str], int] = {}
    counts: dict[str, int] = {}
    masked, all_found = list[str](), list[list[PersonalDatum]]()
    for text in texts:
        data = find_personal_data(text, language)
        all_found.append(data)
        parts, last = list[str](), 0
        for datum in data:
            key = (datum.kind, datum.value)
            if key not in numbers:
                counts[datum.kind] = counts.get(datum.kind, 0) + 1
                numbers[key] = counts[datum.kind]
            parts += [text[last : datum.start], f"[{datum.kind} {numbers[key]}]"]
            last = datum.end
        masked.append("".join([*parts, text[last:]]))
    return masked, all_found


def show_context(text: str, line: int, data: Iterable[PersonalDatum]) -> Iterator[DatumInContext]:
    for datum in data:
        yield DatumInContext(
            datum.kind,
            line,
            text[max(0, datum.start - CONTEXT) : datum.start],
            text[datum.start : datum.end],
            text[datum.end : datum.end + CONTEXT],
        )


def _find_emails(text: str, _language: str) -> Iterator[PersonalDatum]:
    for match in _EMAIL.finditer(text) if "@" in text else ():
        if match[2].lower() not in _FILE_ENDINGS and ".." not in match[0]:
            yield PersonalDatum(EMAIL, match.start(), match.end(), match[0].lower())


def _find_identities(text: str, _language: str) -> Iterator[PersonalDatum]:
    for match in _IDENTITY.finditer(text):
        digits = "".join(match.groups()).upper()
        if (
            digits[:2] in _PROVINCES
            and _is_past_day(*map(int, match.group(2, 3, 4)))
            and check_identity(digits)
        ):
            yield PersonalDatum(IDENTITY, match.start(), match.end(), digits)


def _is_past_day(year: int, month: int, day: int) -> bool:
    try:
        return datetime(year, month, day, tzinfo=UTC) <= datetime.now(UTC)
    except ValueError:
        return False


def check_identity(number: str) -> bool:
    """The last of 18 characters by GB 11643-1999, which is ISO 7064 MOD 11-2."""
    total = sum(int(digit) * pow(2, 17 - place, 11) for place, digit in enumerate(number[:17]))
    return "10X98765432"[total % 11] == number[17]


def _find_cards(text: str, _language: str) -> Iterator[PersonalDatum]:
    for match in _CARD.finditer(text):
        digits = re.sub("[ -]", "", match[0])
        if _is_issued(digits) and check_luhn(digits):
            yield PersonalDatum(CARD, match.start(), match.end(), digits)


def _is_issued(digits: str) -> bool:
    """Whether an issuer gives out numbers with this beginning and of this length."""
    length, two, three, four = len(digits), int(digits[:2]), int(digits[:3]), int(digits[:4])
    if digits[0] == "4":
        return length in {13, 16, 19}
    if 51 <= two <= 55 or 2221 <= four <= 2720:
        return length == 16
    if two in {34, 37}:
        return length == 15
    if two == 62:
        return 16 <= length <= 19
    if two == 65 or four == 6011 or 644 <= three <= 649 or 3528 <= four <= 3589:
        return length == 16
    return (300 <= three <= 305 or two in {36, 38, 39}) and length == 14


def check_luhn(digits: str) -> bool:
    total = 0
    for place, digit in enumerate(reversed(digits)):
        number = int(digit) * (1 + place % 2)
        total += number - 9 if number > 9 else number
    return total % 10 == 0


def _find_ibans(text: str, _language: str) -> Iterator[PersonalDatum]:
    for match in _IBAN.finditer(text):
        length = _IBAN_LENGTHS.get(match[0][:2])
        if length is None:
            continue
        end, count = match.start(), 0  # words in capitals may follow
        for character in match[0]:
            end, count = end + 1, count + (character != " ")
            if count == length:
                break
        number = text[match.start() : end].replace(" ", "")
        is_whole = end == len(text) or not text[end].isascii() or not text[end].isalnum()
        if count == length and is_whole and check_iban(number):
            yield PersonalDatum(IBAN, match.start(), end, number)


def check_iban(number: str) -> bool:
    """By ISO 7064 MOD 97-10."""
    rotated = number[4:] + number[:4]
    return int("".join(str(int(character, 36)) for character in rotated)) % 97 == 1


def _find_addresses(text: str, _language: str) -> Iterator[PersonalDatum]:
    for match in _IPV4.finditer(text):
        octets = match[0].split(".")
        is_version = _VERSION.search(text[max(0, match.start() - 12) : match.start()]) is not None
        if not is_version and max(map(int, octets)) >= MIN_OCTET and _is_public(match[0]):
            yield PersonalDatum(IP, match.start(), match.end(), match[0])
    for match in _IPV6.finditer(text) if text.count(":") >= 3 else ():
        if sum(map(bool, match[0].split(":"))) >= 3 and _is_public(match[0]):
            yield PersonalDatum(IP, match.start(), match.end(), match[0].lower())


def _is_public(address: str) -> bool:
    try:
        return ip_address(address).is_global
    except ValueError:
        return False


def _find_phones(text: str, language: str) -> Iterator[PersonalDatum]:
    """A number that the plan of its country has: with + and its country, or as it is written in the countries of the
    language, where it is in groups; mobile numbers of China also without. Where a run of groups is none, such as the
    number of a chapter before a phone number, it is looked for from its next group on.
    """
    regions = REGIONS.get(language.lower().replace("_", "-").partition("-")[0]) or _guess_regions(text)
    place = 0
    while match := _PHONE.search(text, place):
        written = match[0].rstrip(" ()-./")
        datum = _read_phone(written, match.start(), regions)
        if datum is not None:
            yield datum
        next_group = None if datum is not None else _NEXT_GROUP.search(written)
        place = match.end() if next_group is None else match.start() + next_group.start()


def _read_phone(written: str, start: int, regions: Sequence[str]) -> PersonalDatum | None:
    import phonenumbers  # its tables take a moment

    digits = re.sub("[^0-9]", "", written)
    if not MIN_PHONE_DIGITS <= len(digits) <= MAX_PHONE_DIGITS:
        return None
    is_mobile = _MOBILE_OF_CHINA.match(digits) is not None
    candidates: Sequence[str | None] = ()
    dialled = written
    if written.startswith("+"):
        candidates = (None,)
    elif digits.startswith("00") and len(digits) > MIN_PHONE_DIGITS + 2:
        candidates, dialled = (None,), f"+{digits[2:]}"
    elif is_mobile:
        candidates = ("CN",)
    elif _SEPARATED.search(written) is not None and "." not in written and "/" not in written:
        candidates = regions
    for region in candidates:
        try:
            number = phonenumbers.parse(dialled, region)
        except phonenumbers.NumberParseException:
            continue
        if not phonenumbers.is_valid_number(number):
            continue
        usual = phonenumbers.format_number(number, phonenumbers.PhoneNumberFormat.NATIONAL)
        if region is None or is_mobile or _is_grouped_as(written, usual):
            value = f"{number.country_code}{number.national_number}"
            return PersonalDatum(PHONE, start, start + len(written), value)
    return None


def _is_grouped_as(written: str, usual: str) -> bool:
    """Whether it has the digits of the usual form, and no gap where that has none: a date or a part number has."""
    (digits, gaps), (usual_digits, usual_gaps) = _split_groups(written), _split_groups(usual)
    return digits == usual_digits and gaps <= usual_gaps


def _split_groups(number: str) -> tuple[str, set[int]]:
    groups = re.findall("[0-9]+", number)
    return "".join(groups), {sum(map(len, groups[:place])) for place in range(1, len(groups))}


def _guess_regions(text: str) -> tuple[str, ...]:
    """Of a record that does not say its language: China where it has Chinese characters."""
    return ("CN",) if re.search("[\u4e00-\u9fff]", text) else ("US",)


_FINDERS: tuple[Callable[[str, str], Iterator[PersonalDatum]], ...] = (
    _find_emails,
    _find_ibans,
    _find_identities,
    _find_cards,
    _find_addresses,
    _find_phones,
)
"""The surest first: what one has found is no part of what another finds."""
