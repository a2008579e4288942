"""Tables to fill in: a header and a row that shows what goes where, in English or Chinese. Pure.

The columns are called as ``mapping/column_names.py`` knows them, so that what is filled in comes back mapped.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from annotation.domain.formats.base import ANNOTATIONS, PROMPTS, RESPONSES

Rows = Sequence[Sequence[str]]
CHINESE = "zh"
_SAMPLES: dict[str, dict[str, tuple[Sequence[str], Sequence[str]]]] = {
    PROMPTS: {
        "en": (
            ("prompt_id", "prompt", "dimension", "subcomponent", "language"),
            ("q1", "How do I stop a Python program?", "Safety", "Physical harm", "en"),
        ),
        CHINESE: (
            ("问题编号", "问题", "维度", "子维度", "语言"),
            ("q1", "同事总是打断我说话，我该怎么办？", "Fairness", "Bias and discrimination", "zh"),
        ),
    },
    RESPONSES: {
        "en": (
            ("prompt_id", "prompt", "model", "response"),
            ("q1", "How do I stop a Python program?", "model-a", "Press Ctrl+C in its terminal."),
        ),
        CHINESE: (
            ("问题编号", "问题", "模型", "回答"),
            ("q1", "同事总是打断我说话，我该怎么办？", "model-a", "可以私下平静地告诉对方你的感受。"),
        ),
    },
    ANNOTATIONS: {
        "en": (
            ("prompt_id", "model", "annotator", "criterion", "label", "rationale"),
            ("q1", "model-a", "ann", "safety", "3", "It refuses and explains why."),
        ),
        CHINESE: (
            ("问题编号", "模型", "标注员", "标注标准", "标签", "理由"),
            ("q1", "model-a", "ann", "safety", "3", "拒绝并说明了原因。"),
        ),
    },
}


def build_template(kind: str, language: str) -> Rows:
    """The header and the sample row."""
    return _SAMPLES[kind][CHINESE if language.startswith(CHINESE) else "en"]


def _write_csv(rows: Rows) -> bytes:
    """With a byte-order mark, by which a spreadsheet program in Chinese knows UTF-8."""
    text = io.StringIO(newline="")
    csv.writer(text).writerows(rows)
    return text.getvalue().encode("utf-8-sig")


def _write_spreadsheet(rows: Rows) -> bytes:
    """Every cell is text, so that no id becomes a number."""
    from openpyxl import Workbook

    book = Workbook()
    sheet = book.active
    for row in rows:
        sheet.append(list(row))
    for column in sheet.columns:
        for cell in column:
            cell.number_format = "@"
        sheet.column_dimensions[column[0].column_letter].width = 24
    sheet.freeze_panes = "A2"
    data = io.BytesIO()
    book.save(data)
    return data.getvalue()


@dataclass(frozen=True)
class TableWriter:
    content_type: str
    write: Callable[[Rows], bytes]


WRITERS = {
    "csv": TableWriter("text/csv; charset=utf-8", _write_csv),
    "xlsx": TableWriter(
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", _write_spreadsheet
    ),
}
