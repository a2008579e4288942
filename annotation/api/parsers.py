from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from django.utils.translation import gettext as _
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import BaseParser

from annotation.formats.reading import ESCAPED_NUL

LARGEST_BODY = 1024 * 1024


class TooLarge(APIException):
    status_code = 413
    default_code = "too_large"


class JSONParser(BaseParser):
    """JSON in UTF-8 and nothing else: no NaN, no endless nesting, no body that fills the memory."""

    media_type = "application/json"
    largest = LARGEST_BODY

    def parse(
        self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None
    ) -> Any:
        body = stream.read(self.largest + 1)
        if len(body) > self.largest:
            raise TooLarge(_("The content is too large."))
        try:
            data = json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
            _refuse_half_characters(data)
        except (ValueError, RecursionError) as error:
            raise ParseError(_("The content is not JSON.")) from error
        return data


def _refuse_half_characters(data: Any) -> None:
    """Half a character (a lone surrogate) or a NUL can be written in JSON, and neither stored nor sent back."""
    text = json.dumps(data, ensure_ascii=False)
    text.encode("utf-8")
    if ESCAPED_NUL.search(text):
        raise ValueError("NUL")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
