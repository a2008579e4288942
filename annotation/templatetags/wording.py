"""Sentences and enumerations in a template, put together as the reader's language does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from django import template
from django.template.base import NodeList, Parser, Token
from django.template.context import Context
from django.utils.html import conditional_escape
from django.utils.safestring import SafeString, mark_safe

from annotation.core.text_templates import join_names, join_sentences

register = template.Library()


@register.filter(is_safe=False, needs_autoescape=True)
def enumerated(names: Iterable[str], autoescape: bool = True) -> SafeString | str:
    """The names with the comma of the language between them."""
    if not autoescape:
        return join_names(names)
    return mark_safe(join_names(conditional_escape(name) for name in names))  # noqa: S308 (each is escaped)


class LinesNode(template.Node):
    """The lines inside, joined; blank ones are left out. With a name the text is kept under it instead of shown."""

    def __init__(self, nodelist: NodeList, join: Callable[[Iterable[str]], str], name: str) -> None:
        self.nodelist, self.join, self.name = nodelist, join, name

    def render(self, context: Context) -> SafeString | str:
        lines = [line.strip() for line in self.nodelist.render(context).splitlines()]
        text = mark_safe(self.join(line for line in lines if line))  # noqa: S308 (the lines are rendered)
        if not self.name:
            return text
        context[self.name] = text
        return ""


@register.tag
def sentences(parser: Parser, token: Token) -> LinesNode:
    """``{% sentences %}..{% endsentences %}``: each line is a sentence."""
    return _parse_lines(parser, token, join_sentences)


@register.tag
def enumeration(parser: Parser, token: Token) -> LinesNode:
    """``{% enumeration as names %}..{% endenumeration %}``: each line is a part of it."""
    return _parse_lines(parser, token, join_names)


@register.tag
def phrase(parser: Parser, token: Token) -> LinesNode:
    """``{% phrase %}..{% endphrase %}``: each line goes on after the one before, with a blank in every language."""
    return _parse_lines(parser, token, " ".join)


def _parse_lines(parser: Parser, token: Token, join: Callable[[Iterable[str]], str]) -> LinesNode:
    tag, *arguments = token.split_contents()
    if arguments and (len(arguments) != 2 or arguments[0] != "as"):
        raise template.TemplateSyntaxError(f"{tag} takes nothing, or 'as' and a name")
    nodelist = parser.parse((f"end{tag}",))
    parser.delete_first_token()
    return LinesNode(nodelist, join, arguments[1] if arguments else "")
