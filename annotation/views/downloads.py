"""Sending files: streamed, and from any place on, so that a download that broke off goes on (RFC 9110, section 14)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.utils.http import content_disposition_header

from annotation.storedzip import Segment, blocks, length

# More digits than any file has bytes are no range.
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


def sent(
    request: HttpRequest, parts: Sequence[Segment], *, name: str, content_type: str, etag: str
) -> HttpResponseBase:
    """The parts one after the other as a file of this name; or the range of them that is asked for.

    A range counts only while the file is the one that it began with (If-Range). Several ranges get the whole.
    """
    size = length(parts)
    tag = f'"{etag}"'
    found = _range(request, size, tag)
    if found is not None and found[0] >= found[1]:
        return _named(HttpResponse(status=416, headers={"Content-Range": f"bytes */{size}"}), name)
    start, stop = found or (0, size)
    answer = StreamingHttpResponse(
        blocks(parts, start, stop), content_type=content_type, status=200 if found is None else 206
    )
    answer["Content-Length"] = str(stop - start)
    answer["Accept-Ranges"] = "bytes"
    answer["ETag"] = tag
    if found is not None:
        answer["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
    return _named(answer, name)


def begins(answer: HttpResponseBase) -> bool:
    """Whether the file is sent from its beginning, and does not go on."""
    return answer.status_code == 200 or answer.headers.get("Content-Range", "").startswith("bytes 0-")


def _range(request: HttpRequest, size: int, tag: str) -> tuple[int, int] | None:
    """The bytes from and before which to send; None for all of them; nothing between them is no such range."""
    found = _RANGE.fullmatch(request.headers.get("Range", ""))
    if found is None or not (found[1] or found[2]):
        return None
    if request.headers.get("If-Range", tag) != tag:
        return None
    if not found[1]:
        return max(0, size - int(found[2])), size
    last = int(found[2]) if found[2] else size - 1
    return int(found[1]), min(last + 1, size)


def _named(answer: HttpResponseBase, name: str) -> HttpResponseBase:
    answer["Content-Disposition"] = str(content_disposition_header(True, name))
    answer["X-Content-Type-Options"] = "nosniff"
    answer["Cache-Control"] = "private, no-store"
    return answer
