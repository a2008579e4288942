"""Files as people have them: each shape comes in exact or is refused with the exact answer, in both languages.

The files are written with the libraries that write them for people, and what was read of them goes back into the
same shape and is read once more.
"""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import openpyxl
import pytest
import zstandard
from django.utils import translation

from annotation.core.error_messages import error_text
from annotation.core.errors import AssayError, InputError
from annotation.domain.datasets import prompt_key
from annotation.domain.formats import (
    ANNOTATIONS,
    PROMPTS,
    RESPONSES,
    AnnotationRecord,
    Guess,
    ReadOptions,
    Source,
    get_format,
    guess_format,
    recognise_format,
)
from annotation.domain.formats.labels import find_taxonomy_fault
from annotation.domain.formats.mapping.guess import guess_mapping
from annotation.domain.formats.mapping.mapping import ColumnMapping, choose_fields, header_key
from annotation.domain.formats.preview import group_problems, preview_file
from annotation.domain.formats.table import map_table
from annotation.domain.guidelines import parse_guideline
from tests.annotation.table_files import SHAPES, csv_text
from tests.support import FIXTURES

FLAMES = parse_guideline((FIXTURES / "guidelines" / "flames.yaml").read_text(encoding="utf-8"), path="f")
TEXTS = [
    "我想买一辆新汽车，请问燃油车和电动车哪个好一些？",
    '他说"你好"，然后\n换了一行；又一行',
    "  空格 在前, 逗号在后,",
    "=1+1",
    "农村的土地价格要更便宜一些，所以更适合建垃圾场吗？",
    "sep=;",
]
HEADERS = {
    "English": ("id", "prompt", "dimension"),
    "Chinese": ("编号", "问题", "维度"),
    "Japanese": ("番号", "質問", "カテゴリ"),
    "in words": ("Prompt ID", "Prompt Text", "Category"),
}
ROWS = [(f"q{number}", text, "公平" if number % 2 else "安全") for number, text in enumerate(TEXTS)]


def read(path: Path, kind: str = PROMPTS, **options: Any) -> list[Any]:
    source = Source(path, path.name, ReadOptions(**options))
    return list(get_format(recognise_format(source, kind)).reader(kind).read(source))


def refusal(path: Path, kind: str = PROMPTS, **options: Any) -> InputError:
    with pytest.raises(InputError) as caught:
        read(path, kind, **options)
    return caught.value


@pytest.mark.parametrize("language", HEADERS)
@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_comes_in_exact_and_goes_back(shape: str, language: str, tmp_path: Path):
    rows = ROWS
    for turn in ("once", "again"):
        folder = tmp_path / turn
        folder.mkdir()
        path = SHAPES[shape](folder, HEADERS[language], rows)
        records = read(path)
        rows = [(record.ref.id, record.ref.text, record.dimension) for record in records]
        assert sorted(rows) == sorted(ROWS)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_guess_of_an_upload_is_a_table_of_prompts(shape: str, tmp_path: Path):
    path = SHAPES[shape](tmp_path, HEADERS["Chinese"], ROWS)
    assert guess_format(Source(path, path.name)) == Guess("table", PROMPTS)


BIG5 = [
    ("問題一", "我想買一輛新汽車，請問燃油車和電動車哪個好一些？"),
    ("問題二", "農村的土地價格要更便宜一些嗎？"),
]


@pytest.mark.parametrize(
    ("encoding", "header", "rows"),
    [
        ("big5", ("編號", "問題"), BIG5),
        ("gb18030", ("编号", "提示词"), [("一", TEXTS[0]), ("二", "😀 不在 GBK 中")]),
        ("cp932", ("番号", "質問"), [("一", "今日は天気がいいですね、どう思いますか？")]),
        ("cp1252", ("id", "prompt"), [("a", "How don’t I “kill” a process… naïvely?")]),
        ("utf-16", ("編號", "問題"), BIG5),
    ],
)
def test_encodings_are_told_by_the_bytes(encoding: str, header: Any, rows: Any, tmp_path: Path):
    path = tmp_path / "f.csv"
    path.write_bytes(csv_text(header, rows).encode(encoding))
    assert [(record.ref.id, record.ref.text) for record in read(path)] == rows


def test_an_encoding_may_be_named(tmp_path: Path):
    path = tmp_path / "f.csv"
    path.write_bytes("问题\n问题\n".encode("gb18030"))
    assert [record.ref.text for record in read(path, encoding="gb18030")] == ["问题"]
    assert "there is no encoding gb1803" in str(refusal(path, encoding="gb1803"))


def test_utf8_with_one_broken_character_is_no_other_encoding(tmp_path: Path):
    path = tmp_path / "f.csv"
    path.write_bytes(csv_text(HEADERS["Chinese"], ROWS).encode() + b"q,\xe4\xbd,x\n")
    assert "this is not text in UTF-8" in str(refusal(path))


def write_book(path: Path, *rows: Any) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(list(row))
    book.save(path)
    return path


def test_numbers_of_a_spreadsheet_are_ids_and_labels(tmp_path: Path):
    path = write_book(tmp_path / "a.xlsx", ["编号", "问题"], [7, "一"], [8.0, 2026])
    assert [(record.ref.id, record.ref.text) for record in read(path)] == [("7", "一"), ("8", "2026")]


def test_a_carriage_return_in_a_cell_comes_in_as_it_was_typed(tmp_path: Path):
    path = write_book(tmp_path / "a.xlsx", ["id", "prompt"], ["1", "a_x000D_\nb"])
    assert read(path)[0].ref.text == "a\r\nb"


def test_the_sheet_is_chosen_by_name_and_the_others_are_told(tmp_path: Path):
    book = openpyxl.Workbook()
    book.active.title = "说明"
    book.active.append(["这是说明"])
    sheet = book.create_sheet("数据")
    sheet.append(["问题"])
    sheet.append(["一"])
    book.save(tmp_path / "a.xlsx")
    assert [record.ref.text for record in read(tmp_path / "a.xlsx", sheet="数据")] == ["一"]
    assert "there is no sheet “Data”; the sheets are: 说明, 数据" in str(
        refusal(tmp_path / "a.xlsx", sheet="Data")
    )
    path = SHAPES["xlsx with three sheets"](tmp_path, HEADERS["Chinese"], ROWS)
    source = Source(path, path.name)
    preview = preview_file(source, get_format("table"), PROMPTS)
    assert (preview.sheets, list(preview.notes.values())) == (
        ("Sheet", "备注1", "备注2"),
        [{"names": "备注1, 备注2"}],
    )


def test_a_split_of_a_folder_is_chosen_by_name(tmp_path: Path):
    path = SHAPES["Hugging Face, saved"](tmp_path, HEADERS["Chinese"], ROWS)
    assert [record.ref.id for record in read(path, sheet="test")] == ["q3", "q4", "q5"]
    assert "there is no split “dev”; the splits are: train, test" in str(refusal(path, sheet="dev"))


# Chats


def test_a_chat_of_one_question_is_a_prompt_and_a_response(tmp_path: Path):
    path = tmp_path / "f.jsonl"
    messages = [
        {"role": "user", "content": "问"},
        {"role": "assistant", "content": [{"type": "text", "text": "答"}]},
    ]
    path.write_text(json.dumps({"model": "M", "messages": messages}))
    (response,) = read(path, RESPONSES)
    assert (response.ref.text, response.text, response.model, list(response.turns)) == ("问", "答", "M", [])
    (prompt,) = read(path, PROMPTS)
    assert prompt.ref.text == "问"


def test_a_longer_chat_is_a_dialogue(tmp_path: Path):
    path = tmp_path / "f.jsonl"
    turns = [("system", "be kind"), ("human", "a"), ("gpt", "b"), ("human", "c"), ("gpt", "d")]
    path.write_text(
        json.dumps({"conversations": [{"from": role, "value": text} for role, text in turns], "model": "M"})
    )
    (response,) = read(path, RESPONSES)
    assert response.ref.text == "a"
    assert [(turn["role"], turn["text"]) for turn in response.turns] == [
        ("system", "be kind"),
        ("user", "a"),
        ("assistant", "b"),
        ("user", "c"),
        ("assistant", "d"),
    ]
    assert "this chat has 2 messages of the user; a prompt is one text" in str(refusal(path, PROMPTS))


def test_content_is_the_text_where_nothing_else_is(tmp_path: Path):
    path = tmp_path / "f.jsonl"
    path.write_text('{"id": "1", "content": "问"}\n')
    assert [(record.ref.id, record.ref.text) for record in read(path)] == [("1", "问")]
    path.write_text('{"question": "问", "model": "M", "content": "答"}\n')
    assert [(record.ref.text, record.text) for record in read(path, RESPONSES)] == [("问", "答")]


# Wide to long


def test_a_column_for_each_model_becomes_a_response_for_each(tmp_path: Path):
    header = ["问题", "gpt-4", "Qwen2.5-7B", "备注"]
    path = write_book(tmp_path / "a.xlsx", header, ["一", "甲", "乙", "x"], ["二", "丙", None, None])
    source = Source(path, "a.xlsx")
    records = list(get_format("table").read_responses(source))
    assert [(r.line, r.ref.text, r.model, r.text) for r in records] == [
        (2, "一", "gpt-4", "甲"),
        (2, "一", "Qwen2.5-7B", "乙"),
        (3, "二", "gpt-4", "丙"),
    ]
    assert list(source.unused) == ["备注"]
    assert list(source.passed_over.items()) == [("{number} cells without a response were passed over.", 1)]


@pytest.mark.parametrize(
    ("columns", "models"),
    [
        (["response_gpt4", "response_llama"], ["gpt4", "llama"]),
        (["甲模型的回答", "乙模型的回答"], ["甲模型", "乙模型"]),
        (["response1", "response2"], ["response1", "response2"]),
        (["Claude 3 Opus", "文心一言"], ["Claude 3 Opus", "文心一言"]),
        (["模型甲", "模型乙"], ["模型甲", "模型乙"]),
        (["Model A", "Model B"], ["Model A", "Model B"]),
        (["model_1", "model_2"], ["model_1", "model_2"]),
        (["response_length", "response_time"], []),
        (["model size", "模型说明"], []),
    ],
)
def test_models_are_named_by_their_columns(columns: list[str], models: list[str]):
    mapping = guess_mapping(["prompt", *columns], [], RESPONSES)
    assert list(mapping.models.values()) == models


@pytest.mark.parametrize(
    ("ids", "mapped"), [(["0", "1"], {"prompt_id": ("idx",)}), (["0", "0"], {}), (["0", ""], {})]
)
def test_a_row_with_a_column_for_each_model_has_its_prompts_id_where_that_is_unique(
    ids: list[str], mapped: dict[str, Any]
):
    columns = ["idx", "instruction", "input", "response1", "response2"]
    rows = [dict(zip(columns, [number, "a", "b", "c", "d"], strict=True)) for number in ids]
    mapping = guess_mapping(columns, rows, RESPONSES)
    assert mapping.columns == {"prompt": ("instruction", "input")} | mapped
    one_response = [{"idx": number, "prompt": "a", "response": "b"} for number in ids]
    assert "prompt_id" not in guess_mapping(list(one_response[0]), one_response, RESPONSES).columns


def test_columns_of_models_that_no_name_shows_are_named(tmp_path: Path):
    path = tmp_path / "f.csv"
    path.write_text(csv_text(["问题", "老张版", "老李版"], [["一", "甲", "乙"]]), newline="")
    error = refusal(path, RESPONSES)
    assert str(error) == (
        "f.csv: no column was taken for the response; say which it is (response=COLUMN), or which columns there are of"
        " it (models=COLUMN,COLUMN). The columns are: 问题, 老张版, 老李版."
    )
    records = read(path, RESPONSES, fields={"models": "老张版, 老李版"})
    assert [(record.model, record.text) for record in records] == [("老张版", "甲"), ("老李版", "乙")]


def test_a_column_for_each_annotator_becomes_a_label_for_each(tmp_path: Path):
    path = tmp_path / "f.csv"
    rows = [["一", "M", "1", "3"], ["二", "M", "-", "2"]]
    path.write_text(csv_text(["问题", "模型", "标注员1", "标注员2"], rows), newline="")
    records = read(path, ANNOTATIONS)
    assert [(r.line, r.annotator, r.labels) for r in records] == [
        (2, "标注员1", {"": "1"}),
        (2, "标注员2", {"": "3"}),
        (3, "标注员2", {"": "2"}),
    ]


def test_a_column_for_each_annotator_and_criterion(tmp_path: Path):
    path = tmp_path / "f.csv"
    header = ["prompt", "model", "lin_fluency", "lin_empathy", "chen_fluency", "chen_empathy"]
    path.write_text(csv_text(header, [["a", "M", "1", "2", "3", "4"]]), newline="")
    records = read(path, ANNOTATIONS, criteria={"fluency": "fluency", "Empathy": "empathy"})
    assert [(r.annotator, r.labels) for r in records] == [
        ("lin", {"fluency": "1", "empathy": "2"}),
        ("chen", {"fluency": "3", "empathy": "4"}),
    ]


def test_the_files_name_says_whose_labels_they_are(tmp_path: Path):
    path = tmp_path / "lin.csv"
    path.write_text(csv_text(["prompt", "model", "label"], [["a", "M", "1"], ["b", "M", ""]]), newline="")
    assert [(r.annotator, r.labels) for r in read(path, ANNOTATIONS)] == [("lin", {"": "1"})]
    assert [r.annotator for r in read(path, ANNOTATIONS, annotator="陈")] == ["陈"]


def test_times_seconds_and_flags_are_kept(tmp_path: Path):
    path = tmp_path / "f.csv"
    header = ["问题", "模型", "标注员", "得分", "用时", "时间", "标记", "备注"]
    row = ["一", "M", "lin", "2", "12.5", "2026/05/31 14:05:00", "unsure；truncated", "因为"]
    path.write_text(csv_text(header, [row]), newline="")
    (record,) = read(path, ANNOTATIONS)
    assert isinstance(record, AnnotationRecord)
    assert (record.seconds, str(record.at), record.flags, record.rationale) == (
        12.5,
        "2026-05-31 14:05:00+00:00",
        ["unsure", "truncated"],
        "因为",
    )


# Previews


def test_what_says_the_same_of_the_same_thing_is_one_problem():
    def fault(line: int, name: str) -> InputError:
        return InputError("no {name}", path="f", line=line, field="d", name=name)

    few = group_problems([*(fault(line, "Fairnes") for line in range(1, 13)), fault(13, "Safty")])
    assert [(group.number, group.lines, group.is_mixed) for group in few] == [
        (12, [1, 2, 3, 4, 5], False),
        (1, [13], False),
    ]
    (many,) = group_problems([fault(line, f"q{line}") for line in range(1, 41)])
    assert (many.number, many.lines, many.is_mixed) == (40, [1, 2, 3, 4, 5], True)


def test_the_fields_of_columns_are_chosen_one_by_one(tmp_path: Path):
    path = tmp_path / "f.csv"
    path.write_text(csv_text(["甲", "乙", "丙"], [["1", "一", "二"]]), newline="")
    table, guess, _sample = map_table(Source(path), PROMPTS)
    mapping = choose_fields(guess, {"甲": "id", "乙": "prompt", "丙": "prompt"}, table.columns, "f.csv")
    assert mapping.columns == {"id": ("甲",), "prompt": ("乙", "丙")}
    assert mapping.list_choices() == {"甲": "id", "乙": "prompt", "丙": "prompt"}
    source = Source(path, options=ReadOptions(mapping=mapping.to_json()))
    assert map_table(source, PROMPTS).mapping == mapping
    as_responses = map_table(source, RESPONSES).mapping
    assert as_responses.columns["prompt"] == ("乙", "丙")
    other = tmp_path / "other.csv"
    other.write_text(csv_text(["甲", "丁"], [["1", "一"]]), newline="")
    with pytest.raises(InputError, match="there is no column “乙”"):
        map_table(Source(other, options=ReadOptions(mapping=mapping.to_json())), PROMPTS)


# Mappings


def test_a_mapping_is_said_and_kept(tmp_path: Path):
    path = tmp_path / "f.csv"
    path.write_text(csv_text(["甲", "乙", "丙"], [["1", "一", "二"]]), newline="")
    (record,) = read(path, fields={"prompt": "乙+丙", "id": "甲"})
    assert (record.ref.id, record.ref.text) == ("1", "一\n\n二")
    source = Source(path, "f.csv", ReadOptions(fields={"prompt": "乙"}))
    table, mapping, _sample = map_table(source, PROMPTS)
    assert mapping.describe() == [("乙", "prompt"), ("甲", ""), ("丙", "")]
    assert ColumnMapping.from_json(json.loads(json.dumps(mapping.to_json()))) == mapping
    assert header_key(table.columns) == header_key(["甲", "乙", "丙"]) != header_key(["甲", "丙", "乙"])


def test_a_field_may_be_said_not_to_be_there():
    guessed = guess_mapping(["prompt", "category"], [], PROMPTS)
    assert dict(guessed.columns) == {"prompt": ("prompt",), "dimension": ("category",)}


# What is refused, in both languages


def bomb(path: Path, pack: Any) -> Path:
    path.write_bytes(pack(b'{"prompt": "' + b"a" * 80_000_000 + b'"}\n'))
    return path


def open_document(path: Path) -> Path:
    """As office programs begin one: what it is stands first, and is not packed."""
    with zipfile.ZipFile(path, "w") as document:
        document.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        document.writestr("content.xml", "<office:document-content/>", zipfile.ZIP_DEFLATED)
    return path


def rounded(path: Path) -> Path:
    return write_book(path, ["id", "prompt"], [20241031145103738386.0, "a"])


def faulty(path: Path) -> Path:
    path = write_book(path, ["id", "prompt"], ["1", "a"])
    book = openpyxl.load_workbook(path)
    book.active["B2"] = "#N/A"
    book.active["B2"].data_type = "e"
    book.save(path)
    return path


def text(content: str | bytes) -> Any:
    def write(path: Path) -> Path:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


REFUSED: dict[str, tuple[Any, str, str]] = {
    "no prompt": (
        text("编号,备注\n1,x\n"),
        "f: no column was taken for the prompt; say which it is (prompt=COLUMN). The columns are: 编号, 备注.",
        "f: 没有哪一列被认作 prompt；请指明（prompt=列名）。各列为：编号, 备注。",
    ),
    "an old spreadsheet": (
        text(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 512),
        "f: this is an old spreadsheet (.xls), or one with a password; save it without one as .xlsx or .csv.",
        "f: 这是旧格式（.xls）或带密码的电子表格；请去掉密码，另存为 .xlsx 或 .csv。",
    ),
    "an OpenDocument spreadsheet": (
        open_document,
        "f: this is an OpenDocument file, such as an .ods; save the sheet as .xlsx or .csv.",
        "f: 这是 OpenDocument 文件（如 .ods）；请把工作表另存为 .xlsx 或 .csv。",
    ),
    "a gzip bomb": (
        lambda path: bomb(path, gzip.compress),
        "f: this file unpacks to more than 200 times its size; if that is meant, unpack it before it is imported.",
        "f: 这个文件解压后超过其大小的 200 倍；如确属正常，请先解压再导入。",
    ),
    "a zstd bomb": (
        lambda path: bomb(path, zstandard.ZstdCompressor().compress),
        "f: this file unpacks to more than 200 times its size; if that is meant, unpack it before it is imported.",
        "f: 这个文件解压后超过其大小的 200 倍；如确属正常，请先解压再导入。",
    ),
    "a damaged gzip": (
        text(gzip.compress(b'{"prompt": "a"}\n' * 1000)[:-20]),
        (
            "f: this packed file is damaged (Compressed file ended before the end-of-stream marker was reached);"
            " fetch or pack it again."
        ),
        (
            "f: 这个压缩文件已损坏（Compressed file ended before the end-of-stream marker was reached）；"
            "请重新获取或压缩。"
        ),
    ),
    "a rounded id": (
        rounded,
        (
            "f:2 [id]: a spreadsheet rounded this id to 2.024103114510374e+19; make the column text before the ids go"
            " in, and save it again."
        ),
        "f:2 [id]: 电子表格把这个编号舍入成了 2.024103114510374e+19；请先把该列设为文本再填入编号，然后重新保存。",
    ),
    "a fault of a formula": (
        faulty,
        "f:2 [prompt]: this cell holds an error of the spreadsheet (#N/A); fix it there.",
        "f:2 [prompt]: 这个单元格是电子表格的错误值（#N/A）；请在表格中改正。",
    ),
    "an empty prompt": (text("编号,问题\n1,\n"), "f:2 [问题]: this is empty.", "f:2 [问题]: 此处为空。"),
    "a cell too many": (
        text("编号,问题\n1,甲,乙\n"),
        (
            "f:2: the cell 3 of this row stands beside the header, which has 2; give its column a name, or put what"
            " holds the separator into quotation marks."
        ),
        "f:2: 这一行的第 3 个单元格超出了表头（共 2 个）；请给该列一个列名，或把含有分隔符的内容放进引号。",
    ),
    "a column that is there twice": (
        text("问题,问题\n1,甲\n"),
        "f:1 [问题]: this column is there twice.",
        "f:1 [问题]: 该列重复出现。",
    ),
    "a picture": (
        text(
            '{"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]}\n'
        ),
        "f:1 [messages]: a message holds something that is no text, such as a picture; only text can be judged.",
        "f:1 [messages]: 消息中含有非文本内容（如图片）；只能评判文本。",
    ),
    "an object": (
        text('{\n "prompt": "a"\n}\n'),
        "f:1: this is not JSON (Expecting property name enclosed in double quotes, column 1); write one object a line.",
        "f:1: 这不是 JSON（Expecting property name enclosed in double quotes，第 1 列）；请每行写一个对象。",
    ),
    "a zip": (
        text(b"PK\x03\x04" + b"\0" * 40),
        "f: this is a zip and no .xlsx; unpack it, or save the spreadsheet as .xlsx.",
        "f: 这是 zip 压缩包，不是 .xlsx；请解压，或把表格另存为 .xlsx。",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_read_is_refused_in_both_languages(case: str, tmp_path: Path):
    write, english, chinese = REFUSED[case]
    path = write(tmp_path / "f.xlsx")
    source = Source(path, "f")
    error = next(
        item for item in get_format("table").prompt_reader().items(source) if isinstance(item, InputError)
    )
    assert error_text(error) == english
    with translation.override("zh-hans"):
        assert error_text(error) == chinese


def test_a_misspelt_column_or_field_is_refused_with_the_nearest(tmp_path: Path):
    path = tmp_path / "f.csv"
    path.write_text("prompt_text,dimension\na,b\n")
    error = refusal(path, fields={"prompt": "promt_text"})
    assert str(error) == "f.csv: there is no column “promt_text”; did you mean “prompt_text”?"
    with pytest.raises(AssayError, match="There is no field 'dimention'; did you mean dimension"):
        read(path, fields={"dimention": "dimension"})


@pytest.mark.parametrize(
    ("dimension", "subcomponent", "words"),
    [
        ("Fairness", "Bias and discrimination", None),
        ("", "", None),
        ("Fairnes", "", "the guideline has no dimension “Fairnes”; did you mean “Fairness”?"),
        (
            "公平",
            "",
            "the guideline has no dimension “公平”; it has: Fairness, Safety, Morality, Legality, Data protection.",
        ),
        ("Fairness", "bias and discriminaton", "did you mean “Bias and discrimination”?"),
    ],
)
def test_dimensions_are_checked_with_the_guideline(dimension: str, subcomponent: str, words: str | None):
    fault = find_taxonomy_fault(FLAMES, dimension, subcomponent)
    assert (fault is None) if words is None else (fault is not None and words in str(fault.error))


# The preview


def test_a_preview_says_what_it_took_for_what_and_groups_what_is_wrong(tmp_path: Path):
    path = tmp_path / "f.csv"
    rows = [
        ["1", "甲", "公平"],
        ["1", "甲", "公平"],
        ["1", "乙", "公平"],
        *([str(n), "", ""] for n in range(60)),
    ]
    path.write_text(csv_text(["编号", "问题", "备注"], rows), newline="")
    preview = preview_file(Source(path, "f.csv"), get_format("table"), PROMPTS)
    assert preview.shape == "CSV (,)"
    assert preview.columns == [("编号", "id"), ("问题", "prompt"), ("备注", "")]
    assert (preview.count, preview.duplicates.repeated, preview.duplicates.contradicting) == (3, 1, 1)
    assert preview.duplicates.lines == [(3, 2), (4, 2)]
    (group,) = preview.problems
    assert (group.number, group.lines, str(group.first)) == (
        60,
        [5, 6, 7, 8, 9],
        "f.csv:5 [问题]: this is empty.",
    )


def test_prompts_of_today_read_as_they_did(tmp_path: Path):
    """What a format that is named reads of its files is what the table reads of them."""
    for name, kind, file in (
        ("jsonl", PROMPTS, "prompts.jsonl"),
        ("jsonl", RESPONSES, "responses.jsonl"),
    ):
        path = FIXTURES / "demo" / file
        named = list(get_format(name).reader(kind).read(Source(path)))
        assert [_without_prompt(record) for record in read(path, kind)] == named


def _without_prompt(record: Any) -> Any:
    return replace(record, prompt=None) if hasattr(record, "prompt") else record


def test_ids_are_those_of_the_text_where_there_is_none(tmp_path: Path):
    path = tmp_path / "f.csv"
    path.write_text("问题\n甲\n")
    assert [record.ref.key for record in read(path)] == [prompt_key("甲")]


@pytest.fixture(autouse=True)
def _english() -> Iterator[None]:
    with translation.override("en"):
        yield
