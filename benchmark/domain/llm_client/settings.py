"""Generation settings: what is sent with every prompt, checked before anything is stored or sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from annotation.core.errors import N_, AssayError
from benchmark.domain.llm_client.protocol import RESERVED, ChatQuestion, replace_unstorable

SYSTEM = "system"
SEEDS = ("seed", "random_seed")
"""Under these names an endpoint takes the seed."""
"""The one setting that is no parameter of a request: the message that stands before the prompt."""
MAX_SETTINGS_CHARACTERS = 50_000
MAX_SYSTEM_CHARACTERS = 40_000
MAX_STOPS = 16
MAX_SAMPLES = 100
MAX_INTEGER = 2**53
"""A whole number beyond is not kept by every reader of JSON."""
SECRETS = frozenset(
    {
        "api_key",
        "apikey",
        "key",
        "authorization",
        "auth",
        "password",
        "secret",
        "access_token",
        "token",
        "headers",
    }
)


def check_settings(settings: Mapping[str, Any], *, key: str | None = None) -> dict[str, Any]:
    """The settings without what is not set (None), in the order of their names; AssayError where one cannot be sent.

    ``key`` is the endpoint's key, which must not stand in what is kept.
    """
    checked = {name: settings[name] for name in sorted(settings) if settings[name] is not None}
    for name, value in checked.items():
        _check_name(name)
        _check_value(name, value)
        wrong = _find_fault(name, value)
        if wrong:
            raise AssayError(wrong, name=name, most=MAX_STOPS, longest=MAX_SYSTEM_CHARACTERS)
    written = json.dumps(checked, ensure_ascii=False)
    if len(written) > MAX_SETTINGS_CHARACTERS:
        raise AssayError(
            N_("The settings are longer than {longest} characters."), longest=MAX_SETTINGS_CHARACTERS
        )
    if key and len(key) >= 8 and key in written:
        raise AssayError(
            N_("The settings hold the endpoint's key; it comes from the environment alone and is not kept.")
        )
    return checked


def build_sample_settings(settings: Mapping[str, Any], sample: int) -> dict[str, Any]:
    """The settings of a sample, from 1 on: the seed counts up, since the same one may give the same response."""
    return {
        name: value + sample - 1 if name in SEEDS and _is_integer(value, -MAX_INTEGER) else value
        for name, value in settings.items()
    }


def check_samples(samples: int, collection: str, settings: Mapping[str, Any]) -> None:
    """AssayError where so many responses to each prompt cannot be kept, or would all be the same."""
    if not 1 <= samples <= MAX_SAMPLES:
        raise AssayError(
            N_("Gather 1 to {most} samples of each prompt, not {number}."), most=MAX_SAMPLES, number=samples
        )
    if samples == 1:
        return
    if not collection:
        raise AssayError(
            N_("Name the collection: several samples are kept as NAME-1 to NAME-{number}."), number=samples
        )
    if settings.get("temperature") == 0:
        raise AssayError(
            N_(
                "At temperature 0 all samples of a prompt are the same response; set a higher temperature, or"
                " gather one sample."
            )
        )


def select_parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What stands in a request beside its messages."""
    return {name: value for name, value in settings.items() if name != SYSTEM}


def build_question(key: int, prompt: str, settings: Mapping[str, Any]) -> ChatQuestion:
    """The prompt as the user's message, after the system's where there is one."""
    user_message = {"role": "user", "content": prompt}
    system = settings.get(SYSTEM)
    return ChatQuestion(
        key, ({"role": "system", "content": system}, user_message) if system else (user_message,)
    )


def list_differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """``temperature: 0 ≠ 1`` for each setting that differs; long values are cut."""
    return [
        f"{name}: {_format_value(old.get(name))} ≠ {_format_value(new.get(name))}"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def _format_value(value: Any) -> str:
    text = "-" if value is None else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:59] + "…"


def _check_name(name: str) -> None:
    if not name or len(name) > 100 or not name.isascii() or not name.isprintable():
        raise AssayError(N_("{name} cannot be the name of a setting."), name=ascii(name[:100]))
    if name in RESERVED:
        raise AssayError(N_("{name} is no setting: Assay writes it itself."), name=name)
    if name.lower().replace("-", "_") in SECRETS:
        raise AssayError(
            N_("{name} is no setting: a key comes from the environment alone and is not kept."), name=name
        )


def _check_value(name: str, value: Any) -> None:
    """JSON that every database keeps: finite numbers, no NUL, no half of a surrogate pair."""
    try:
        written = json.dumps(value, allow_nan=False, ensure_ascii=False)
    except (ValueError, TypeError, RecursionError) as error:
        raise AssayError(N_("The setting {name} is no JSON, or holds NaN or infinity."), name=name) from error
    if replace_unstorable(written)[1] or "\\u0000" in written:
        raise AssayError(N_("The setting {name} holds a NUL or half of a character; remove it."), name=name)


def _find_fault(name: str, value: Any) -> str:
    """What to say of a setting that is known here and is something else; "" where nothing is wrong."""
    number, integer = N_("{name} must be a number from 0 on."), N_("{name} must be a whole number from 1 on.")
    rules = {
        "temperature": (_is_number(value, 0, 100), number),
        "top_p": (_is_number(value, 0, 1), N_("{name} must be a number from 0 to 1.")),
        "max_tokens": (_is_integer(value, 1), integer),
        "max_completion_tokens": (_is_integer(value, 1), integer),
        "seed": (_is_integer(value, -MAX_INTEGER), N_("{name} must be a whole number.")),
        "stop": (_is_stop(value), N_("{name} must be a text, or up to {most} texts, none of them empty.")),
        SYSTEM: (
            isinstance(value, str) and 0 < len(value) <= MAX_SYSTEM_CHARACTERS,
            N_("{name} must be a text of 1 to {longest} characters."),
        ),
    }
    fine, template = rules.get(name, (True, ""))
    return "" if fine else template


def _is_number(value: Any, low: float, high: float) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and low <= value <= high  # neither NaN nor infinity is


def _is_integer(value: Any, low: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= MAX_INTEGER


def _is_stop(value: Any) -> bool:
    texts = [value] if isinstance(value, str) else value
    return (
        isinstance(texts, list)
        and 0 < len(texts) <= MAX_STOPS
        and all(isinstance(text, str) and text for text in texts)
    )
