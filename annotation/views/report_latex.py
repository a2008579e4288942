"""The report as LaTeX: the protocol and what else is said as a paragraph each, and the tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import override

from annotation.core.documents import Section, Table
from annotation.latex import escaped, table
from annotation.views.report_words import heading, references, render_notes, render_report


def latex(report: Mapping[str, Any], language: str) -> str:
    """A part of a document that uses the package booktabs; for Chinese text the document needs xeCJK or ctex."""
    with override(language):
        parts = [
            "% \\usepackage{booktabs}" + ("  % \\usepackage{ctex}" if language.startswith("zh") else ""),
            rf"\section*{{{escaped(_('Annotation report: {name}').format(name=heading(report)))}}}",
            *(_section(one) for one in render_report(report)),
            rf"\paragraph{{{escaped(_('Notes'))}}} {escaped(' '.join(render_notes()))}",
            rf"\paragraph{{{escaped(_('References'))}}} {escaped('; '.join(references()))}.",
        ]
        return "\n\n".join(parts) + "\n"


def _section(one: Section) -> str:
    said = " ".join(f"\\emph{{{escaped(fact.term)}}}: {_ended(escaped(fact.text))}" for fact in one.facts)
    paragraph = [rf"\paragraph{{{escaped(one.title)}}} {said}".rstrip()] if said else []
    return "\n\n".join([*paragraph, *([_table(one.table)] if one.table else [])])


def _ended(text: str) -> str:
    return text if text.endswith((".", "。")) else f"{text}."


def _table(one: Table) -> str:
    numbers = len(one.head) - one.words
    return table(
        columns="l" * one.words + "r" * numbers,
        head=one.head,
        rows=one.rows,
        caption=one.caption,
        label=f"tab:{one.name}",
    ).rstrip("\n")
