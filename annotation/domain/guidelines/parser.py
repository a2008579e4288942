"""From YAML text to a guideline, or to one error that names the line, the field and the mend."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from annotation.core.errors import N_, InputError
from annotation.domain.guidelines.document import GuidelineDocument
from annotation.domain.guidelines.values import FLAW, show

_BINARY = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_MAX_DEPTH = 20
_MESSAGES = {
    "missing": N_("This field is missing; add it."),
    "extra_forbidden": N_("There is no such field here; remove it or correct its name."),
    "string_type": N_("{found} is not text; put it in quotes."),
    "string_too_long": N_("This is longer than {max_length} characters; shorten it."),
    "string_pattern_mismatch": N_("{found} is not allowed here; it must match {pattern}"),
    "dict_type": N_("Give this text once for each declared language, such as zh: and en:, not {found}."),
    "model_type": N_("Write this as fields with values (name: value), not {found}."),
    "tuple_type": N_("Write this as a list, not {found}."),
    "too_short": N_("Too few entries (at least {min_length}); add what is missing."),
    "literal_error": N_("{found} is not one of {expected}."),
}
_UNTAGGED = {
    "applies_to": N_("{found} says nothing of what this applies to; write all, or dimensions: and a list."),
    "levels": N_("{found} is not a list of levels; write a list, or one list for each dimension."),
}
_OTHER = N_("{problem}; correct it.")

Location = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    """Refuses what could make a small file grow without end, an alias or deep nesting, before it is in the tree.

    Not the C loader where there is one: the two differ in what they accept, and a file must read alike everywhere.
    """

    def __init__(self, source: str, path: str) -> None:
        super().__init__(source)
        self._path, self._depth = path, 0

    def get_event(self) -> yaml.Event:
        event: yaml.Event = super().get_event()  # type: ignore[no-untyped-call]
        self._depth += isinstance(event, yaml.CollectionStartEvent)
        self._depth -= isinstance(event, yaml.CollectionEndEvent)
        if isinstance(event, yaml.AliasEvent):
            raise self._refusal(
                N_("Aliases (*name) are not used in guidelines; write the text out."), event.start_mark
            )
        if self._depth > _MAX_DEPTH:
            raise self._refusal(
                N_("This is nested too deeply for a guideline; correct it."), event.start_mark
            )
        return event

    def _refusal(self, template: str, mark: Any) -> InputError:
        return InputError(template, path=self._path, line=mark.line + 1)


@lru_cache(maxsize=16)
def parse_guideline(text: str | bytes, *, path: str) -> GuidelineDocument:
    """The guideline that the YAML text holds; ``path`` only names it in errors. Else InputError.

    The last ones are kept: the same text is checked, shown and then stored, and a command reads the same file again.
    """
    source = _decode(text, path)
    tree = _Tree(_compose(source, path), path)
    try:
        return GuidelineDocument.model_validate(tree.data)
    except ValidationError as error:
        raise min(map(tree.explain, _causes(error.errors())), key=_get_line) from None


def _causes(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """Without those that only follow: pydantic calls a list too short when one of its entries is invalid."""
    above = {error["loc"][:depth] for error in errors for depth in range(len(error["loc"]))}
    return [error for error in errors if error["loc"] not in above]


def _get_line(error: InputError) -> int:
    return error.line or 0


def _decode(text: str | bytes, path: str) -> str:
    try:
        source = text if isinstance(text, str) else text.decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(
            N_("This is not UTF-8 text; save the guideline as UTF-8."), path=path, line=line
        ) from None
    source = source.removeprefix("\ufeff")
    if match := _BINARY.search(source):
        line = source.count("\n", 0, match.start()) + 1
        raise InputError(
            N_("This is a binary file, or holds a control character; give YAML text."), path=path, line=line
        )
    return source


def _compose(source: str, path: str) -> yaml.MappingNode:
    try:
        root = _Loader(source, path).get_single_node()
    except yaml.YAMLError as error:
        raise _syntax_error(error, path) from None
    if root is None:
        raise InputError(N_("The file is empty; write a guideline into it."), path=path, line=1)
    if not isinstance(root, yaml.MappingNode):
        raise InputError(
            N_("A guideline is a mapping that begins with name: and version:; write it so."),
            path=path,
            line=root.start_mark.line + 1,
        )
    return root


def _syntax_error(error: yaml.YAMLError, path: str) -> InputError:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    return InputError(
        N_("This is not YAML ({problem}); correct the indentation, quotes or colons here."),
        path=path,
        line=mark.line + 1 if mark else 1,
        problem=getattr(error, "problem", None) or str(error),
    )


class _Tree:
    """Plain data read from the node tree, and the line on which each place of it begins."""

    def __init__(self, root: yaml.MappingNode, path: str) -> None:
        self.path = path
        self._lines: dict[Location, int] = {(): root.start_mark.line + 1}
        self._constructor = yaml.constructor.SafeConstructor()
        self.data = self._read(root, ())

    def _read(self, node: yaml.Node, at: Location) -> Any:
        if isinstance(node, yaml.MappingNode):
            return self._read_mapping(node, at)
        if isinstance(node, yaml.SequenceNode):
            return [self._read_entry(child, (*at, index)) for index, child in enumerate(node.value)]
        return self._read_scalar(node, at)

    def _read_entry(self, node: yaml.Node, at: Location) -> Any:
        self._lines[at] = node.start_mark.line + 1
        return self._read(node, at)

    def _read_mapping(self, node: yaml.MappingNode, at: Location) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if not isinstance(key, yaml.ScalarNode):
                raise self._error(N_("A field has a plain name; correct it."), at, line)
            # As written: YAML would read the language code no as false.
            name = self._check_scalar(key, at).value
            if name in mapping:
                raise self._error(N_("This field is given twice; remove one."), (*at, name), line)
            self._lines[(*at, name)] = line
            mapping[name] = self._read(value, (*at, name))
        return mapping

    def _read_scalar(self, node: yaml.Node, at: Location) -> Any:
        try:
            return self._constructor.construct_object(self._check_scalar(node, at))
        except yaml.YAMLError as error:
            raise _syntax_error(error, self.path) from None
        except (ValueError, OverflowError):
            template = N_("{found} cannot be read; put it in quotes if it is text.")
            raise self._error(template, at, node.start_mark.line + 1, found=show(node.value)) from None

    def _check_scalar(self, node: yaml.Node, at: Location) -> yaml.Node:
        """The scalar, unless an escape in it makes half of a character, which no file or database can hold."""
        if _SURROGATE.search(node.value):
            template = N_("This text holds half of a character; write it again.")
            raise self._error(template, at, node.start_mark.line + 1)
        return node

    def _error(self, template: str, at: Location, line: int, **params: Any) -> InputError:
        return InputError(template, path=self.path, line=line, field=_field(at), **params)

    def explain(self, error: ErrorDetails) -> InputError:
        context = error.get("ctx", {})
        at = tuple(step for step in error["loc"] if not str(step).startswith("<"))
        if error["type"] == FLAW:
            at = (*at, *context["at"])
            return self._error(context["template"], at, self._line_of(at), **context["params"])
        kind = error["type"]
        template = _UNTAGGED[str(at[-1])] if kind.startswith("union_tag") else _MESSAGES.get(kind, _OTHER)
        params = {**context, "found": show(error["input"]), "problem": error["msg"]}
        return self._error(template, at, self._line_of(at), **params)

    def _line_of(self, at: Location) -> int:
        """The line of this place, or, of a missing one, of the nearest that is there."""
        while at not in self._lines:
            at = at[:-1]
        return self._lines[at]


def _field(at: Location) -> str | None:
    """``("criteria", 0, "scale")`` as ``criteria[0].scale``."""
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in at)
    return "".join(steps).removeprefix(".") or None
