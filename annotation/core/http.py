"""What views share of HTTP: files as attachments and streams, breadcrumbs, numbers and days of a request.

A file is streamed from any byte on, so that a download that broke off is resumed (RFC 9110, section 14). Anybody may
have written the numbers and days of a request by hand, so each has bounds: what is outside of them is refused, and no
sum over them leaves what Python and a database can keep."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from math import isfinite
from typing import Any
from urllib.parse import quote

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.urls import get_script_prefix, register_converter, reverse, set_script_prefix
from django.urls.converters import StringConverter
from django.utils.http import content_disposition_header

from annotation.core.names import quote_name, unquote_name
from annotation.core.study_scope import set_study_scope
from annotation.core.zip_stream import Segment, measure_length, read_blocks

MAX_DIGITS = 18
"""Digits: what any database keeps as a whole number."""
MIN_DAY, MAX_DAY = date(1970, 1, 1), date(2999, 12, 31)
"""Nothing here is older; and a day more, or another time zone, is still a date."""
# More digits than any file has bytes are no range.
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


class NameConverter(StringConverter):
    """``<name:username>`` in an address: whatever the name holds, it is one step of the way."""

    def to_python(self, value: str) -> str:
        return unquote_name(value)

    def to_url(self, value: str) -> str:
        return quote_name(value)


register_converter(NameConverter, "name")


def as_attachment(answer: HttpResponseBase, file_name: str) -> HttpResponseBase:
    """The answer, which a browser saves as a file of this name and nobody caches."""
    answer["Content-Disposition"] = str(content_disposition_header(True, file_name))
    answer["X-Content-Type-Options"] = "nosniff"
    answer["Cache-Control"] = "private, no-store"
    return answer


@dataclass(frozen=True)
class Crumb:
    """One step of the way to a page; the last one is where the reader is, and has no address."""

    label: str
    url: str = ""


def breadcrumbs(*steps: tuple[str, str, list[str]], title: str) -> list[Crumb]:
    """``steps`` are (label, URL name, its arguments)."""
    return [*(Crumb(label, reverse(name, args=args)) for label, name, args in steps), Crumb(title)]


def stream_file(
    request: HttpRequest, parts: Sequence[Segment], *, name: str, content_type: str, etag: str
) -> HttpResponseBase:
    """The parts one after the other as a file of this name; or the range of them that is asked for.

    A range counts only while the file is the one that it began with (If-Range). Several ranges get the whole.
    """
    size = measure_length(parts)
    tag = f'"{etag}"'
    byte_range = _parse_range(request, size, tag)
    if byte_range is not None and byte_range[0] >= byte_range[1]:
        return as_attachment(HttpResponse(status=416, headers={"Content-Range": f"bytes */{size}"}), name)
    start, stop = byte_range or (0, size)
    answer = StreamingHttpResponse(
        read_blocks(parts, start, stop), content_type=content_type, status=200 if byte_range is None else 206
    )
    answer["Content-Length"] = str(stop - start)
    answer["Accept-Ranges"] = "bytes"
    answer["ETag"] = tag
    if byte_range is not None:
        answer["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    return as_attachment(answer, name)


def is_from_beginning(answer: HttpResponseBase) -> bool:
    """Whether the file is sent from its beginning, and does not go on."""
    return answer.status_code == 200 or answer.headers.get("Content-Range", "").startswith("bytes 0-")


def _parse_range(request: HttpRequest, size: int, tag: str) -> tuple[int, int] | None:
    """The bytes from and before which to send; None for all of them; nothing between them is no such range."""
    match = _RANGE.fullmatch(request.headers.get("Range", ""))
    if match is None or not (match[1] or match[2]):
        return None
    if request.headers.get("If-Range", tag) != tag:
        return None
    if not match[1]:
        return max(0, size - int(match[2])), size
    last = int(match[2]) if match[2] else size - 1
    return int(match[1]), min(last + 1, size)


def parse_int(text: str) -> int | None:
    """The number from 0 on; None for what is none, and for one that no id or count here can be."""
    return int(text) if text.isdecimal() and len(text) <= MAX_DIGITS else None


def parse_signed(text: str) -> int | None:
    """As ``parse_int``, and below 0 as well."""
    number = parse_int(text.removeprefix("-"))
    return -number if number is not None and text.startswith("-") else number


def parse_level(text: str) -> float | None:
    """The value of a level; None for what is none, such as an infinite one."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def parse_ordinal(text: str) -> int | None:
    """The ordinal of a day; None for what is none."""
    day = parse_int(text)
    return day if day is not None and MIN_DAY.toordinal() <= day <= MAX_DAY.toordinal() else None


class DayField(forms.DateField):
    """A date within the bounds; what is outside is refused in words that name them."""

    def __init__(self, **options: Any) -> None:
        widget = forms.DateInput(attrs={"type": "date", "min": MIN_DAY, "max": MAX_DAY}, format="%Y-%m-%d")
        super().__init__(**{"required": False, "widget": widget, **options})
        self.validators += [MinValueValidator(MIN_DAY), MaxValueValidator(MAX_DAY)]


STUDY_PREFIX = "/s/"


def enter_study(studies: Iterable[int] | None, name: str | None) -> None:
    """Limit what follows to these studies; with the name of one, addresses are reversed within it."""
    set_study_scope(studies)
    if name is not None:
        set_script_prefix(build_study_url(name))


def build_study_url(name: str) -> str:
    """The first page of the study."""
    return f"{STUDY_PREFIX}{quote(name)}/"


def build_row_url(study: str, name: str, *arguments: Any) -> str:
    """The path of a page, within the study of this name; of a site with one study, which needs none, it is empty."""
    prefix = get_script_prefix()
    set_script_prefix(build_study_url(study) if study else prefix)
    try:
        return reverse(name, args=arguments)
    finally:
        set_script_prefix(prefix)


def build_site_url(request: HttpRequest, name: str, *arguments: Any) -> str:
    """The whole address of a page of the site, without the study of the request: for links that go to others."""
    prefix = get_script_prefix()
    set_script_prefix(request.META.get("SCRIPT_NAME") or "/")
    try:
        return request.build_absolute_uri(reverse(name, args=arguments))
    finally:
        set_script_prefix(prefix)
