"""markdown-it's inline parser, with the place of each token in the text that it read: ``token.meta["at"]``."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Literal

from markdown_it import MarkdownIt
from markdown_it.parser_inline import ParserInline
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token


class LocatingState(StateInline):
    """Tokens are pushed before the state moves behind them, so its place is theirs."""

    pending_at: int | None = None

    def append_pending(self, text: str) -> None:
        if self.pending_at is None:
            self.pending_at = self.pos
        super().append_pending(text)

    def pushPending(self) -> Token:  # noqa: N802  (the parser's name)
        token = super().pushPending()
        token.meta = {"at": self.pending_at}
        self.pending_at = None
        return token

    def push(self, ttype: str, tag: str, nesting: Literal[-1, 0, 1]) -> Token:
        token = super().push(ttype, tag, nesting)
        self.pending_at = None  # also of pending blanks that a line break took away
        at, before = self.pos, self.tokens[-2] if len(self.tokens) > 1 else None
        if before and before.type == "text" and before.meta.get("begins") == self.pos:
            at = before.meta["at"] + len(before.content)  # the next sign of one row, such as ***
        token.meta = {"at": at, "begins": self.pos}
        return token


class LocatingInline(ParserInline):
    def parse(
        self, src: str, md: MarkdownIt, env: MutableMapping[str, Any], tokens: list[Token]
    ) -> list[Token]:
        state = LocatingState(src, md, env, tokens)
        self.tokenize(state)
        for rule in self.ruler2.getRules(""):
            rule(state)
        return state.tokens
