"""Files are read as streams of records, or refused with the file, the line, the field and the mend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from annotation.core.errors import AssayError, InputError, NotFound
from annotation.domain.annotations import FLAGS
from annotation.domain.datasets import prompt_key
from annotation.domain.formats import (
    ANNOTATIONS,
    FORMATS,
    KINDS,
    PROMPTS,
    RESPONSES,
    AdjudicationRecord,
    AnnotationRecord,
    Guess,
    Source,
    get_format,
    guess_format,
)
from annotation.domain.formats.rows import MAX_LINE_BYTES

ROOT = Path(__file__).resolve().parents[3]
DEMO = ROOT / "fixtures" / "demo"
FLAMES = '{"dimension": "Safety", "subcomponent": "Mental harm", "prompt": "问题"'
CVALUES = '{"id_": 7, "prompt": "问题", "domain_en": "law", "domain_zh": "法理学"'
XSTEST_PROMPTS = "id,prompt,type,label,focus,note\n"
XSTEST = "id,type,prompt,completion,annotation_1,annotation_2,agreement,final_label\n"

Write = Callable[..., Source]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(content: str | bytes, name: str = "file.txt") -> Source:
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return Source(path, name)

    return make


def refusal(source: Source, format_name: str, kind: str = PROMPTS) -> InputError:
    with pytest.raises(InputError) as caught:
        list(FORMATS[format_name].reader(kind).read(source))
    return caught.value


@pytest.mark.parametrize(
    ("content", "form", "field"),
    [
        ('{"labels_by_level": {"c": {"1": 2, "3": 1}}}', "jsonl", "labels_by_level"),
        ('labels_by_level.c\n"{""1"": 2, ""3"": 1}"', "csv", "labels_by_level.c"),
        ('{"labels_by_level": {"1": 2, "3": 1}}', "table", "labels_by_level"),
        ('{"label": null, "labels_by_level": {"1": 2}}', "table", "labels_by_level"),
        ('labels_by_level\n"{""1"": 2, ""3"": 1}"', "table", "labels_by_level"),
    ],
)
def test_how_many_gave_each_level_is_no_annotation_of_anybody(
    write: Write, content: str, form: str, field: str
):
    """Never "not used": where nothing else is said of a response, the reason is."""
    if content.startswith("{"):
        content = '{"prompt_id": "p", "annotator": "a", ' + content[1:]
    else:
        header, row = content.split("\n")
        content = f"prompt_id,annotator,{header}\np,a,{row}\n"
    error = refusal(write(content), form, ANNOTATIONS)
    assert error.field == field
    assert "give a row for each annotator, or take the file as a judge's (import_judge_labels)" in str(error)


def test_every_format_says_which_kinds_it_has():
    assert {name: form.kinds for name, form in FORMATS.items()} == {
        "flames": (PROMPTS, RESPONSES),
        "cvalues": (PROMPTS, RESPONSES),
        "esc_eval": (PROMPTS, RESPONSES),
        "pandalm": (PROMPTS, RESPONSES, ANNOTATIONS),
        "preferences": (PROMPTS, RESPONSES, ANNOTATIONS),
        "xstest": KINDS,
        "inspect": (PROMPTS, RESPONSES),
        "lm_eval": (PROMPTS, RESPONSES),
        "jsonl": KINDS,
        "csv": KINDS,
        "label_studio": KINDS,
        "table": KINDS,
    }


def test_a_kind_that_a_format_has_not_is_refused_in_words():
    with pytest.raises(AssayError, match="flames has no annotations; it has: prompts, responses"):
        FORMATS["flames"].annotation_reader()


def test_an_unknown_format_names_the_known_ones():
    with pytest.raises(
        NotFound,
        match="no format excel; the formats are flames, cvalues, xstest, esc_eval, lm_eval, pandalm, preferences,",
    ):
        get_format("excel")


def test_flames_prompts_are_chinese_and_known_by_their_text(write: Write):
    (record,) = FORMATS["flames"].read_prompts(write(FLAMES + "}\n"))
    assert (record.line, record.dimension, record.subcomponent) == (1, "Safety", "Mental harm")
    assert (record.language, record.attack_method) == ("zh", None)
    assert record.ref.key == prompt_key("问题")
    assert record.malice == ""


@pytest.mark.parametrize(
    ("written", "malice"), [("implicit", "implicit"), (" Explicit ", "explicit"), ("隐性", "implicit")]
)
def test_malice_is_read_in_english_and_chinese(write: Write, written: str, malice: str):
    (record,) = FORMATS["flames"].read_prompts(write(f'{FLAMES}, "malice": "{written}"}}\n'))
    assert record.malice == malice
    first, second = FORMATS["csv"].read_prompts(
        write(f"prompt,malice\nHow?,{written}\nWhy?,\n", "prompts.csv")
    )
    assert (first.malice, second.malice) == (malice, "")


@pytest.mark.parametrize("form", ["flames", "jsonl"])
def test_another_word_is_no_malice(write: Write, form: str):
    error = refusal(write(FLAMES + ', "malice": "hidden"}\n'), form, PROMPTS)
    assert (error.line, error.field) == (1, "malice")
    assert "'hidden' is no malice; write explicit or implicit, or leave it empty." in str(error)


def test_flames_responses_bring_their_prompt(write: Write):
    source = write(FLAMES + ', "id": 7, "response": "回答", "model": "M"}\n')
    (record,) = FORMATS["flames"].read_responses(source)
    assert (record.ref.key, record.text, record.model) == ("7", "回答", "M")
    assert record.prompt is not None
    assert record.prompt.dimension == "Safety"


def test_xstest_completions_join_the_prompts_by_number(write: Write):
    prompts = write(XSTEST_PROMPTS + "1,How?,homonyms,safe,kill,\n2,Why?,contrast_homonyms,unsafe,,\n")
    completions = write(
        XSTEST
        + "v2-1,homonyms,How?,So.,1_full_compliance,1_full_compliance,TRUE,1_full_compliance\n"
        + "v2-2,contrast_homonyms,Why?,No.,2_full_refusal,2_full_refusal,TRUE,2_full_refusal\n",
        "completions.csv",
    )
    first = [(p.ref.id, p.dimension, p.subcomponent) for p in FORMATS["xstest"].read_prompts(prompts)]
    responses = [r.prompt for r in FORMATS["xstest"].read_responses(completions)]
    assert first == [("1", "safe", "homonyms"), ("2", "unsafe", "contrast_homonyms")]
    assert [(p.ref.id, p.dimension, p.subcomponent) for p in responses if p] == first


def test_xstest_labels_become_levels_and_the_final_one_a_decision_where_they_differ(write: Write):
    source = write(
        XSTEST
        + "v2-1,homonyms,How?,So.,1_full_compliance,1_full_compliance,TRUE,1_full_compliance\n"
        + "v2-2,homonyms,Why?,No.,2_full_refusal,3_partial_refusal,FALSE,3_partial_refusal\n"
    )
    records = list(FORMATS["xstest"].read_annotations(source))
    # 1_full_compliance is level 3, 3_partial_refusal is 2, 2_full_refusal is 1.
    assert [(type(r), r.line, r.ref.id, r.labels["compliance"]) for r in records] == [
        (AnnotationRecord, 2, "1", 3),
        (AnnotationRecord, 2, "1", 3),
        (AnnotationRecord, 3, "2", 1),
        (AnnotationRecord, 3, "2", 2),
        (AdjudicationRecord, 3, "2", 2),
    ]


def test_xstest_refuses_a_final_label_that_overrules_an_agreement(write: Write):
    row = "v2-1,homonyms,How?,So.,1_full_compliance,1_full_compliance,TRUE,2_full_refusal\n"
    assert "nobody may overrule an agreement" in str(refusal(write(XSTEST + row), "xstest", ANNOTATIONS))


@pytest.mark.parametrize("column", ["gpt4_label", "strmatch_label"])
@pytest.mark.parametrize("kind", [RESPONSES, ANNOTATIONS])
def test_xstest_refuses_judges_labels(write: Write, column: str, kind: str):
    error = refusal(write(XSTEST.strip() + f",{column}\n"), "xstest", kind)
    assert (error.line, error.field) == (1, column)
    assert "automatic judge's labels" in str(error)


def test_the_model_of_an_xstest_file_is_in_its_name():
    model_of = FORMATS["xstest"].model_of
    assert model_of("some/where/xstest_v2_completions_gpt4.csv") == "gpt4"
    assert model_of("completions.csv") is None


def test_generic_labels_read_the_same_from_jsonl_and_csv(write: Write):
    jsonl = write(
        '{"prompt_id": "p1", "model": "M", "annotator": "lin", "labels": {"safety": 3}, "flags": ["unsure"],'
        ' "rationale": "r", "seconds": 4.5}\n'
        '{"prompt": "Text", "model": "M", "adjudicator": "wu", "labels": {"safety": 1}}\n'
    )
    csv = write(
        "prompt_id,prompt,model,annotator,adjudicator,label.safety,label.other,flags,rationale,seconds\n"
        "p1,,M,lin,,3,,unsure,r,4.5\n"
        ",Text,M,,wu,1,,,,\n",
        "labels.csv",
    )
    from_jsonl = list(FORMATS["jsonl"].read_annotations(jsonl))
    from_csv = list(FORMATS["csv"].read_annotations(csv))
    assert [type(record) for record in from_jsonl] == [AnnotationRecord, AdjudicationRecord]
    assert [(r.ref, r.model, r.labels, r.rationale, r.seconds) for r in from_jsonl] == [
        (r.ref, r.model, r.labels, r.rationale, r.seconds) for r in from_csv
    ]
    assert (from_jsonl[0].line, from_csv[0].line) == (1, 2)


def test_a_dialogue_keeps_its_turns(write: Write):
    turns = '[{"role": "user", "text": "a"}, {"role": "assistant", "text": "b"}]'
    (record,) = FORMATS["jsonl"].read_responses(write(f'{{"prompt_id": "1", "turns": {turns}}}'))
    assert [turn["role"] for turn in record.turns] == ["user", "assistant"]
    assert record.text == ""


def test_an_empty_response_is_a_response(write: Write):
    (record,) = FORMATS["jsonl"].read_responses(write('{"prompt_id": "1", "response": ""}'))
    assert record.text == ""


def test_a_byte_order_mark_windows_line_ends_and_blank_lines_are_fine(write: Write):
    source = write(b'\xef\xbb\xbfid,prompt\r\n\r\n1,"a, b"\r\n')
    (record,) = FORMATS["csv"].read_prompts(source)
    assert (record.line, record.ref.id, record.ref.text) == (3, "1", "a, b")


def test_the_line_of_a_row_is_where_it_begins(write: Write):
    source = write('id,prompt\n1,"first\nsecond\nthird"\n2,next\n')
    records = list(FORMATS["csv"].read_prompts(source))
    assert [(r.line, r.ref.text) for r in records] == [(2, "first\nsecond\nthird"), (5, "next")]


def test_a_field_of_a_megabyte_is_fine(write: Write):
    text = "长" * 400_000  # 1.2 MB in UTF-8, far above the csv module's own limit of 128 KiB
    (record,) = FORMATS["csv"].read_prompts(write(f"prompt\n{text}\n"))
    assert len(record.ref.text) == 400_000


def test_reading_is_a_stream(write: Write):
    source = write("".join(f'{{"prompt": "{number}"}}\n' for number in range(5000)))
    records = FORMATS["jsonl"].read_prompts(source)
    next(records)
    assert 0 < source.fraction < 0.01


def test_fields_that_are_not_used_are_remembered(write: Write):
    source = write('{"prompt": "a", "subcomponant": "x"}')
    list(FORMATS["jsonl"].read_prompts(source))
    assert list(source.unused) == ["subcomponant"]


GOOD = '{"prompt": "a"}\n'
BAD = {
    "json on line 7": (GOOD * 6 + '{"prompt": \n', "jsonl", PROMPTS, 7, None, "not JSON"),
    "a list": ("[1]\n", "jsonl", PROMPTS, 1, None, "no JSON object"),
    "not a number": ('{"prompt": NaN}\n', "jsonl", PROMPTS, 1, None, "NaN is no JSON"),
    "twins": ('{"prompt": "a", "prompt": "b"}\n', "jsonl", PROMPTS, 1, None, '"prompt" is there twice'),
    "deep": ("[" * 100_000 + "\n", "jsonl", PROMPTS, 1, None, "cannot be read"),
    "an escaped NUL": ('{"prompt": "a\\u0000"}\n', "jsonl", PROMPTS, 1, None, "surrogate"),
    "half a pair": ('{"prompt": "a\\ud83d"}\n', "jsonl", PROMPTS, 1, None, "surrogate"),
    "a wrong field": ('{"promt": "a"}\n', "jsonl", PROMPTS, 1, "prompt", "this row has: promt"),
    "an empty prompt": ('{"prompt": " "}\n', "jsonl", PROMPTS, 1, "prompt", "empty"),
    "a number for a text": ('{"prompt": 3}\n', "jsonl", PROMPTS, 1, "prompt", "quotation marks"),
    "a long id": ('{"prompt": "a", "id": "' + "x" * 201 + '"}\n', "jsonl", PROMPTS, 1, "id", "at most 200"),
    "blank lines only": ("\n\n", "jsonl", PROMPTS, None, None, "no rows"),
    "a header only": ("prompt\n", "csv", PROMPTS, None, None, "no rows"),
    "a wrong column": ("promt\na\n", "csv", PROMPTS, 1, "prompt", "the columns are: promt"),
    "a column twice": ("prompt,prompt\na,b\n", "csv", PROMPTS, 1, "prompt", "twice"),
    "a short row": ("id,prompt\n1,a\n2\n", "csv", PROMPTS, 3, None, "1 cells, the header has 2"),
    "an open quote": ('prompt\na\n"b\nc\n', "csv", PROMPTS, 3, None, "never closed"),
    "text after a quote": ('prompt\n"a"b\n', "csv", PROMPTS, 2, None, "not CSV"),
    "not UTF-8": (b"prompt\na\n" + "é\n".encode("latin-1"), "csv", PROMPTS, 3, None, "UTF-8"),
    "a binary": (b"PK\x03\x04\0\0", "csv", PROMPTS, 1, None, "binary"),
    "UTF-16": ("prompt\n".encode("utf-16"), "csv", PROMPTS, 1, None, "binary"),
    "an empty file": ("", "csv", PROMPTS, None, None, "empty"),
    "no prompt": ('{"response": "a"}\n', "jsonl", RESPONSES, 1, "prompt_id", "id, or its text"),
    "no response": ('{"prompt_id": "1"}\n', "jsonl", RESPONSES, 1, "response", "no such field"),
    "a model without a name": (
        '{"prompt_id": "1", "response": "", "model": ".."}\n',
        "jsonl",
        RESPONSES,
        1,
        "model",
        "cannot be a name",
    ),
    "bad turns": (
        '{"prompt_id": "1", "turns": [{"role": "user"}]}\n',
        "jsonl",
        RESPONSES,
        1,
        "turns",
        "role",
    ),
    "no labels": ('{"prompt_id": "1", "annotator": "lin"}\n', "jsonl", ANNOTATIONS, 1, "labels", "criterion"),
    "two people": (
        '{"prompt_id": "1", "annotator": "lin", "adjudicator": "wu", "labels": {"safety": 1}}\n',
        "jsonl",
        ANNOTATIONS,
        1,
        "annotator",
        "either",
    ),
    "an unknown flag": (
        '{"prompt_id": "1", "annotator": "lin", "labels": {"safety": 1}, "flags": ["odd"]}\n',
        "jsonl",
        ANNOTATIONS,
        1,
        "flags",
        "no flag",
    ),
    "no label in the row": (
        "prompt_id,annotator,label.safety\n1,lin,\n",
        "csv",
        ANNOTATIONS,
        2,
        "label.",
        "no label",
    ),
    "a label of another name": (
        XSTEST + "1,homonyms,How?,So.,full,1_full_compliance,TRUE,\n",
        "xstest",
        ANNOTATIONS,
        2,
        "annotation_1",
        "1_full_compliance, 3_partial_refusal, 2_full_refusal",
    ),
    "a prompt neither safe nor unsafe": (
        XSTEST_PROMPTS + "1,How?,homonyms,maybe,,\n",
        "xstest",
        PROMPTS,
        2,
        "label",
        "safe or unsafe",
    ),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD.keys())
def test_what_is_wrong_is_said_with_its_place(write: Write, bad: tuple[str, str, str, int, str, str]):
    content, format_name, kind, line, field, words = bad
    error = refusal(write(content), format_name, kind)
    assert (error.path, error.line, error.field) == ("file.txt", line, field)
    assert words in str(error)


def test_a_missing_file_and_a_folder_are_refused_under_their_own_name(tmp_path: Path):
    assert "no such file" in str(refusal(Source(tmp_path / "nothing", "mine.csv"), "csv"))
    error = refusal(Source(tmp_path, "folder"), "csv")
    assert str(error) == "folder: this is a folder; name a file."


def test_a_line_without_end_is_refused_before_it_fills_the_memory(write: Write):
    assert "longer than 64 MiB" in str(refusal(write(b"x" * (MAX_LINE_BYTES + 2)), "jsonl"))


def test_a_check_finds_every_bad_row_and_goes_on(write: Write):
    source = write('{"prompt": "a"}\n{"prompt": }\n{"promt": "b"}\n{"prompt": "c"}\n')
    items = list(FORMATS["jsonl"].prompt_reader().items(source))
    assert [item.line for item in items] == [1, 2, 3, 4]
    assert [isinstance(item, InputError) for item in items] == [False, True, True, False]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (FLAMES + "}", Guess("flames", PROMPTS)),
        (FLAMES + ', "response": ""}', Guess("flames", RESPONSES)),
        (CVALUES + "}", Guess("cvalues", PROMPTS)),
        (CVALUES + ', "response": ""}', Guess("cvalues", RESPONSES)),
        (XSTEST_PROMPTS, Guess("xstest", PROMPTS)),
        (XSTEST, Guess("xstest", ANNOTATIONS)),
        ("id,type,prompt,completion\n", Guess("xstest", RESPONSES)),
        ('{"prompt_id": "1", "turns": []}', Guess("jsonl", RESPONSES)),
        ('{"prompt_id": "1", "labels": {}}', Guess("jsonl", ANNOTATIONS)),
        ('{"id": "1", "prompt": ""}', Guess("jsonl", PROMPTS)),
        ("prompt_id,annotator,label.x\n", Guess("csv", ANNOTATIONS)),
        ("prompt_id,response\n", Guess("csv", RESPONSES)),
        ("\ufeffprompt\n", Guess("csv", PROMPTS)),
        ("hello\n", None),
        (b"\0\1", None),
        ("{", None),
    ],
)
def test_the_first_record_tells_what_a_file_seems_to_be(
    write: Write, content: str | bytes, expected: Guess | None
):
    assert guess_format(write(content)) == expected


def test_the_demo_files_are_read_whole():
    counts = {
        kind: sum(1 for _ in FORMATS["jsonl"].reader(kind).read(Source(DEMO / f"{kind}.jsonl")))
        for kind in KINDS
    }
    assert counts == {PROMPTS: 72, RESPONSES: 216, ANNOTATIONS: 411}


def test_the_published_files_are_read_whole(shared: Path):
    flames = Source(shared / "flames" / "Flames_1k_Chinese.jsonl")
    assert sum(1 for _ in FORMATS["flames"].read_prompts(flames)) == 1000
    models = ("gpt4", "llama2new", "llama2orig", "mistralguard", "mistralinstruct")
    disputes = 0
    for model in models:
        source = Source(shared / "xstest" / f"xstest_v2_completions_{model}.csv")
        records = list(FORMATS["xstest"].read_annotations(source))
        assert sum(isinstance(record, AnnotationRecord) for record in records) == 900
        disputes += sum(isinstance(record, AdjudicationRecord) for record in records)
    assert disputes == 81


def test_the_page_about_formats_names_them_all_and_every_flag():
    page = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in page for name in FORMATS)
    assert all(f"`{flag}`" in page for flag in FLAGS)
