"""Label Studio both ways: its own checks accept what is exported, and that comes back with the same labels."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from label_studio_sdk.label_interface import LabelInterface

from annotation.core.errors import AssayError, InputError
from annotation.domain.batch_spec import Policy
from annotation.domain.formats import (
    ANNOTATIONS,
    FORMATS,
    RESPONSES,
    AdjudicationRecord,
    AnnotationRecord,
    Guess,
    Source,
    guess_format,
)
from annotation.domain.formats.label_studio_export import LabelStudioControl, span_label
from annotation.domain.formats.labels import Wording
from annotation.domain.formats.rows import FileRow, ReadOptions, json_items
from annotation.domain.guidelines import parse_guideline
from annotation.domain.release_spec import ReleaseSpec
from annotation.models import Annotation, Batch, Dataset, GoldLabel, Guideline, Person
from annotation.services.exports import Options, export_release
from annotation.services.imports import ImportRequest, import_annotations, import_prompts, import_responses
from annotation.services.releases import cut_release
from annotation.services.studies import find_or_make_study
from tests.annotation.exchange import care_guideline, settled_care
from tests.support import FLAMES_GUIDELINE, as_made_by_import, label_next, make_batch, make_corpus

FORM = FORMATS["label_studio"]
DATA = {"prompt": "How?", "response": "So 🙂 it is.", "model": "M"}
Write = Callable[..., Source]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(content: Any, name: str = "export.json") -> Source:
        path = tmp_path / name
        text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        path.write_text(text, encoding="utf-8")
        return Source(path, name)

    return make


def build_annotation(completed_by: Any, choice: Any = "Harmful", **more: Any) -> dict[str, Any]:
    result = [result_of("safety", "choices", {"choices": [choice]})]
    return {"completed_by": completed_by, "result": result, "was_cancelled": False} | more


def result_of(name: str, kind: str, value: dict[str, Any], to: str = "text") -> dict[str, Any]:
    return {"from_name": name, "to_name": to, "type": kind, "value": value, "id": "x"}


def read(source: Source) -> list[Any]:
    return list(FORM.read_annotations(source))


def refusal(source: Source, kind: str = ANNOTATIONS) -> InputError:
    with pytest.raises(InputError) as caught:
        list(FORM.reader(kind).read(source))
    return caught.value


@pytest.mark.parametrize(
    "text", ['[{"a": 1},{"a": 2}]', '[\n {"a":\n 1},\n\n {"a": 2}]\n', "[]", '\ufeff[{"a": 1}]']
)
def test_an_array_is_read_one_object_at_a_time_however_it_is_broken_into_lines(
    write: Write, text: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("annotation.domain.formats.rows.PIECE", 3)
    rows = [row for row in json_items(write(text)) if isinstance(row, FileRow)]
    assert [(row.line, row.fields) for row in rows] == [
        (number, {"a": number}) for number in range(1, text.count("a") + 1)
    ]


def test_objects_one_a_line_are_read_as_well(write: Write):
    rows = list(json_items(write('{"data": {}}\n{"data": {}}\n')))
    assert [row.line for row in rows if isinstance(row, FileRow)] == [1, 2]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[{"a": 1},{"a": ', "export.json:2: this is not JSON"),
        ('[{"a": 1} {"a": 2}]', "export.json:1: after this object there is neither"),
        ('[{"a": 1}] x', "something follows the end"),
        ('[{"a": 1}, 7]', "export.json:2: this is no JSON object"),
        ('[{"a": NaN}]', "NaN is no JSON"),
        ('[{"a": 1, "a": 2}]', '"a" is there twice'),
        ('[{"a": "\\u0000"}]', "half of a surrogate pair"),
        ("[" * 100_000, "export.json:1: this cannot be read"),
    ],
)
def test_a_broken_array_says_at_which_object(write: Write, text: str, words: str):
    with pytest.raises(InputError) as caught:
        read_items(write(text))
    assert words in str(caught.value)


def read_items(source: Source) -> None:
    for row in json_items(source):
        if isinstance(row, InputError):
            raise row


def test_the_format_is_guessed_from_the_first_task(write: Write):
    full, plain = {"id": 1, "data": DATA, "annotations": []}, {"data": DATA}
    flat = DATA | {"annotator": 3, "lead_time": 1.5, "safety": "Harmful"}
    assert guess_format(write([full])) == Guess("label_studio", ANNOTATIONS)
    assert guess_format(write(json.dumps([plain], indent=2))) == Guess("label_studio", RESPONSES)
    assert guess_format(write([flat])) == Guess("label_studio", ANNOTATIONS)
    assert guess_format(write("[1]")) is None
    assert guess_format(write("\ufeff\n " + json.dumps([full]))) == Guess("label_studio", ANNOTATIONS)
    assert guess_format(write("[{")) is None


def test_an_array_in_one_long_line_is_guessed_too(write: Write, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("annotation.domain.formats.rows.MAX_LINE_BYTES", 1000)
    tasks = [{"id": number, "data": DATA, "annotations": []} for number in range(100)]
    assert guess_format(write(tasks)) == Guess("label_studio", ANNOTATIONS)


def test_a_task_is_a_response_and_brings_its_prompt(write: Write):
    dialogue = [{"author": "Human", "text": "Hi"}, {"author": "bot", "text": "Hello"}]
    source = write([{"data": DATA}, {"data": {"question": "Talk", "messages": dialogue}}])
    first, second = FORM.read_responses(source)
    assert (first.text, first.model, first.prompt.ref.text) == ("So 🙂 it is.", "M", "How?")
    assert second.turns == [{"role": "user", "text": "Hi"}, {"role": "assistant", "text": "Hello"}]


def test_people_are_known_by_their_address_or_number_and_cancelled_ones_are_counted(write: Write):
    people = [7, {"id": 3, "email": "a@b.org"}, "c@d.org", {"id": 9}]
    task = {
        "data": DATA,
        "annotations": [*map(build_annotation, people), build_annotation(8, was_cancelled=True)],
    }
    source = write([task])
    assert [record.annotator for record in read(source)] == [
        "label-studio-7",
        "a@b.org",
        "c@d.org",
        "label-studio-9",
    ]
    assert list(source.passed_over.values()) == [1]


def test_a_ground_truth_beside_two_others_is_the_decision_and_alone_an_annotation(write: Write):
    truth = build_annotation(9, "Harmless", ground_truth=True)
    three = read(write([{"data": DATA, "annotations": [truth, build_annotation(1), build_annotation(2)]}]))
    assert [type(record) for record in three] == [AnnotationRecord, AnnotationRecord, AdjudicationRecord]
    assert three[2].is_whole
    two = read(write([{"data": DATA, "annotations": [truth, build_annotation(1)]}]))
    assert [type(record) for record in two] == [AnnotationRecord, AnnotationRecord]
    all_true = [build_annotation(person, ground_truth=True) for person in (1, 2, 3)]
    assert {type(record) for record in read(write([{"data": DATA, "annotations": all_true}]))} == {
        AnnotationRecord
    }


@pytest.mark.parametrize("flat", [False, True])
def test_a_criterion_called_as_rationales_often_are_keeps_its_answers(write: Write, flat: bool) -> None:
    texts = [
        result_of(name, "textarea", {"text": [text]})
        for name, text in (("reason", "bribery"), ("comment", "why"))
    ]
    task = {"data": DATA, "annotations": [build_annotation("lin") | {"result": texts}]}
    flat_task = {**DATA, "annotator": "lin", "reason": "bribery", "comment": "why"}
    source = write([flat_task if flat else task])
    (read,) = FORM.read_annotations(source)
    assert (read.labels, read.rationale) == ({}, "why\nbribery")
    source = source.reopen()
    source.options = ReadOptions(criteria={"Reason": "reason", "理由": "reason"})
    (read,) = FORM.read_annotations(source)
    assert (read.labels, read.rationale) == ({"reason": "bribery"}, "why")


def test_ratings_numbers_texts_and_other_questions(write: Write):
    results = [
        result_of("fluency", "rating", {"rating": 4}),
        result_of("depth", "number", {"number": 2.5}),
        result_of("topics", "choices", {"choices": ["a", "b"]}),
        result_of("comment", "textarea", {"text": ["Because", "so."]}),
        result_of("asked-of-a-span", "choices", {"choices": ["x"], "start": 0, "end": 2}),
        {"type": "relation", "from_id": "a", "to_id": "b"},
    ]
    (record,) = read(
        write([{"data": DATA, "annotations": [build_annotation(1, result=results, lead_time=3.5)]}])
    )
    assert record.labels == {"fluency": 4, "depth": 2.5, "topics": ["a", "b"]}
    assert (record.rationale, record.seconds) == ("Because\nso.", 3.5)


@pytest.mark.parametrize(
    ("start", "end", "words", "expected"),
    [
        (5, 7, "it", (5, 7)),
        (6, 8, "it", (5, 7)),  # before 2021: the emoji counted as two
        (3, 4, "🙂", (3, 4)),
        (3, 5, "🙂", (3, 4)),
        (5, 7, None, (5, 7)),
        (5, 7, "other", None),
        (5, 99, None, None),
    ],
)
def test_spans_count_code_points_and_old_ones_are_counted_anew(
    write: Write, start: int, end: int, words: str | None, expected: tuple[int, int] | None
):
    value = {"start": start, "end": end, "labels": ["safety=1"]} | ({"text": words} if words else {})
    source = write(
        [{"data": DATA, "annotations": [build_annotation(1, result=[result_of("e", "labels", value)])]}]
    )
    (record,) = read(source)
    assert [(span["start"], span["end"]) for span in record.evidence] == ([expected] if expected else [])
    assert sum(source.passed_over.values()) == (0 if expected else 1)


@pytest.mark.parametrize("place", ["²", "1e999", "-1", "true", "null", "1.5", '"x"', "{}"])
def test_a_place_that_is_no_number_is_passed_over(write: Write, place: str):
    turns = [{"role": "user", "text": "Hi"}, {"role": "assistant", "text": "Hello"}]
    word = place if place != "²" else '"²"'
    value = f'{{"start": {word}, "end": {word}, "startOffset": 0, "endOffset": 2, "paragraphlabels": ["a"]}}'
    plain = f'{{"start": {word}, "end": 3, "labels": ["a"]}}'
    for data, kind, expected in (({"messages": turns}, "paragraphlabels", value), ({}, "labels", plain)):
        result = f'[{{"from_name": "e", "type": "{kind}", "value": {expected}}}]'
        about = json.dumps({"prompt": "How?", "model": "M", "response": "So."} | data)
        task = f'{{"data": {about}, "annotations": [{{"completed_by": 1, "result": {result}}}]}}'
        source = write(f"[{task}]")
        (record,) = read(source)
        assert (record.evidence, sum(source.passed_over.values())) == ([], 1)


def test_a_level_is_written_with_all_its_digits():
    text = FLAMES_GUIDELINE.path.read_text(encoding="utf-8")
    criterion = parse_guideline(text, path="flames").criterion("fairness")
    for value, expected in ((0.1234567, "0.1234567"), (1000000, "1000000"), (2.0, "2"), (-1.5, "-1.5")):
        assert LabelStudioControl(criterion, (0, value)).value(value) == {"choices": [expected]}
        assert span_label("fairness", value) == f"fairness={expected}"


def test_the_short_form_has_an_annotation_a_record(write: Write):
    spans = [{"start": 5, "end": 7, "text": "it", "labels": ["safety=1"]}]
    flat = DATA | {"id": 1, "annotator": "a@b.org", "annotation_id": 4, "lead_time": 2, "safety": "Harmful"}
    flat |= {"stars": [{"rating": 3}], "several": {"choices": ["x", "y"]}, "comment": "why", "marks": spans}
    (record,) = read(write([flat]))
    assert (record.annotator, record.seconds, record.rationale) == ("a@b.org", 2, "why")
    assert record.labels == {"safety": "Harmful", "stars": 3, "several": ["x", "y"]}
    assert record.evidence == [{"turn": 0, "start": 5, "end": 7, "label": "safety=1"}]


@pytest.mark.parametrize(
    ("task", "where", "words"),
    [
        ({"data": [], "annotations": [build_annotation(1)]}, "export.json:1 [data]", "no JSON object"),
        (
            {"data": {}, "annotations": [build_annotation(1)]},
            "export.json:1 [data.prompt]",
            "there is no prompt",
        ),
        (
            {"data": DATA, "annotations": [build_annotation(None)]},
            "[annotations[0].completed_by]",
            "whose annotation",
        ),
        (
            {"data": DATA, "annotations": [build_annotation("..")]},
            "[annotations[0].completed_by]",
            "cannot be a name",
        ),
        ({"data": DATA, "annotations": {}}, "[annotations]", "write the annotations as"),
        ({"data": DATA, "annotations": [build_annotation(1), {}]}, "[annotations[1].result]", "in a list"),
        (
            {
                "data": DATA,
                "annotations": [build_annotation(1, result=[{"type": "choices", "from_name": "x"}])],
            },
            "[annotations[0].result[0].value]",
            "in an object",
        ),
        (
            {"data": DATA, "annotations": [build_annotation(1, lead_time=-1)]},
            "[annotations[0].lead_time]",
            "seconds",
        ),
    ],
)
def test_what_is_wrong_is_told_with_the_task_and_the_field(write: Write, task: Any, where: str, words: str):
    error = refusal(write([task]))
    assert where in str(error)
    assert words in str(error)


def test_words_mean_the_guidelines_criteria_and_levels_in_any_language():
    document = parse_guideline(FLAMES_GUIDELINE.path.read_text(encoding="utf-8"), path="flames")
    level = document.criterion("fairness").scale[0]
    wording = Wording(document, left_out=["Sentiment", "PERSON"])
    chinese = document.criterion("fairness").label["zh"]
    for word in (str(level.value), level.value, *level.name.values(), level.name["en"].upper() + " "):
        assert wording.labels({chinese: word, "sentiment": "sad", "legality": "1"}, "Fairness") == {
            "fairness": level.value
        }
    assert wording.not_asked == wording.left_out["sentiment"] == 5  # legality is not asked of fairness
    spans = [
        {"turn": 0, "start": 0, "end": 1, "label": label} for label in ("fairness=1", "fairness", "PERSON")
    ]
    assert [span.get("level") for span in wording.spans(spans, "Fairness")] == [1, None]
    assert wording.left_out["PERSON"] == 1
    with pytest.raises(AssayError, match="there is no criterion “mood”"):
        wording.labels({"mood": "sad"}, "Fairness")
    with pytest.raises(AssayError, match="a marked span is called “PLACE”"):
        wording.spans([{"turn": 0, "start": 0, "end": 1, "label": "PLACE"}], "Fairness")
    with pytest.raises(Exception, match='"fairness" has no level'):
        wording.labels({"fairness": "so so"}, "Fairness")
    with pytest.raises(Exception, match="has 2 answers"):
        wording.labels({"fairness": ["1", "2"]}, "Fairness")


def exported(batch: Batch, folder: Path, **options: Any) -> tuple[list[dict[str, Any]], str]:
    release = cut_release(ReleaseSpec(name="r", batches=[batch]))
    export_release(release=release, format_name="label_studio", folder=folder, options=Options(**options))
    tasks = json.loads((folder / "label_studio.json").read_text(encoding="utf-8"))
    return tasks, (folder / "labeling_config.xml").read_text(encoding="utf-8")


def accepted(tasks: list[dict[str, Any]], config: str) -> None:
    """By the published schema of configurations, and by Label Studio's own check of each result against it."""
    interface = LabelInterface(config)
    interface.validate()
    for task in tasks:
        assert interface.validate_task({"data": task["data"]})
        for annotation in task["annotations"]:
            assert interface.validate_prediction(annotation, return_errors=True) == []


@pytest.mark.django_db
def test_label_studio_accepts_the_export_and_it_comes_back_with_the_same_labels(
    lin: Person, chen: Person, wu: Person, tmp_path: Path
):
    batch = settled_care([lin, chen], wu)
    tasks, config = exported(batch, tmp_path, rationales=True, real_names=True)
    accepted(tasks, config)
    truths = [[annotation["ground_truth"] for annotation in task["annotations"]] for task in tasks]
    assert sorted(map(len, truths)) == [3, 3, 3, 4]
    assert all(truth[-1] and not any(truth[:-1]) for truth in truths)
    assert not any("completed_by" in annotation for task in tasks for annotation in task["annotations"])
    copied_batch = empty_copy(batch, "again")
    source = Source(tmp_path / "label_studio.json", "label_studio.json")
    assert import_responses(source=source, format="label_studio", dataset="care").imported == 0
    report = import_annotations(source=source, format="label_studio", request=ImportRequest(batch="again"))
    assert (report.imported, [number for reason, number in report.left_out.items() if "gold" in reason]) == (
        9,
        [4],
    )
    assert list_rows(copied_batch) == list_rows(batch)
    assert any(evidence != "[]" for *_rest, evidence, _flags in list_rows(copied_batch))
    assert golds(copied_batch) == golds(batch)
    assert (
        cut_release(ReleaseSpec(name="s", batches=[copied_batch])).sha256
        == cut_release(ReleaseSpec(name="t", batches=[batch])).sha256
    )


def empty_copy(batch: Batch, name: str) -> Batch:
    """A batch of the same responses and policy, without a label."""
    policy = Policy(overlap=batch.overlap, tolerance=batch.tolerance)
    people = list(Person.objects.filter(memberships__batch=batch, memberships__role="annotator"))
    return as_made_by_import(
        make_batch(
            batch.guideline, Dataset.objects.get(name="care"), annotators=people, name=name, policy=policy
        )
    )


@pytest.mark.django_db
def test_without_a_choice_nobody_is_named_and_nothing_they_wrote_is_told(
    lin: Person, chen: Person, wu: Person, tmp_path: Path
):
    tasks, _config = exported(settled_care([lin, chen], wu), tmp_path)
    text = json.dumps(tasks, ensure_ascii=False)
    for word in ("lin", "chen", "wu"):
        assert f'"{word}"' not in text
    assert "因为" not in text
    assert "assay-evidence" not in text
    results = [
        result for task in tasks for annotation in task["annotations"] for result in annotation["result"]
    ]
    people = {result["value"]["text"][0] for result in results if result["from_name"] == "assay-person"}
    assert people == {"annotator-01", "annotator-02", "adjudicator-01"}


@pytest.mark.django_db
def test_flames_shows_each_dimension_its_own_question(lin: Person, tmp_path: Path):
    corpus = make_corpus(prompts=2, models=["M"], dimensions=("Fairness", "Legality"), name="two")
    batch = make_batch(FLAMES_GUIDELINE.load(), corpus, annotators=[lin], policy=Policy(overlap=1))
    label_next(batch, lin, 2, "fairness")
    label_next(batch, lin, 1, "legality")
    tasks, config = exported(batch, tmp_path)
    accepted(tasks, config)
    assert 'whenTagName="assay-dimension" whenChoiceValue="Fairness"' in config
    assert "dialogue" not in config
    assert [
        task["value"] for task in tasks[0]["annotations"][0]["result"] if task["from_name"] == "fairness"
    ] == [{"choices": ["2"]}]


@pytest.mark.django_db
def test_a_foreign_export_goes_in_with_words_for_levels_and_a_ground_truth_for_the_decision(
    guideline: Guideline, write: Write
):
    def build_answer(completed_by: int, word: str, **more: Any) -> dict[str, Any]:
        results = [
            result_of("Compliance", "choices", {"choices": [word]}),
            result_of("mood", "rating", {"rating": 2}),
        ]
        return build_annotation(completed_by, result=results, **more)

    names = {level.value: level.name for level in guideline.document.criterion("compliance").scale}
    agreed = [
        build_answer(1, names[1]["en"]),
        build_answer(2, names[1]["zh"]),
        build_answer(3, "1", ground_truth=True),
    ]
    differing = [
        build_answer(1, names[3]["en"]),
        build_answer(2, "1"),
        build_answer(3, names[2]["zh"], ground_truth=True),
    ]
    data = {"prompt": "How?", "model": "M", "dimension": "safe"}
    source = write(
        [
            {"data": data | {"response": "So.", "prompt_id": "a"}, "annotations": agreed},
            {"data": data | {"response": "No.", "prompt_id": "b"}, "annotations": differing},
        ]
    )
    import_prompts(source=source, format="label_studio", dataset="foreign")
    import_responses(source=source, format="label_studio", dataset="foreign")
    target = ImportRequest(batch="foreign", guideline="xstest", dataset="foreign")
    with pytest.raises(InputError, match="there is no criterion “mood”"):
        import_annotations(source=source, format="label_studio", request=target)
    source.options = ReadOptions(left_out=("mood",))
    report = import_annotations(source=source, format="label_studio", request=target)
    assert (report.imported, report.already_there) == (5, 1)
    assert "Labels left out, as was chosen: mood (6)." in [str(note) for note in report.notes]
    assert [(value, source) for _key, _criterion, value, source in golds()] == [
        (1, "unanimous"),
        (2, "adjudicated"),
    ]
    assert import_annotations(source=source, format="label_studio", request=target).imported == 0


@pytest.mark.django_db
@pytest.mark.parametrize(("tone", "is_taken"), [(0, True), (1, False), (None, True)])
def test_a_ground_truth_decides_what_is_disputed_and_overrules_nothing_that_is_settled(
    write: Write, tone: int | None, is_taken: bool
):
    care_guideline()

    def build_answer(completed_by: int, depth: int, tone: int | None, **more: Any) -> dict[str, Any]:
        labels = {"fluency": 3, "warmth": 4, "depth": depth, "tone": tone}
        answered = [(name, value) for name, value in labels.items() if value is not None]
        return build_annotation(
            completed_by,
            result=[result_of(name, "number", {"number": value}) for name, value in answered],
            **more,
        )

    annotations = [
        build_answer(1, 10, 0),
        build_answer(2, 90, 0),
        build_answer(3, 50, tone, ground_truth=True),
    ]
    source = write([{"data": DATA, "annotations": annotations}])
    import_responses(
        source=source,
        format="label_studio",
        dataset=Dataset.objects.create(study=find_or_make_study(), name="d").name,
    )
    target = ImportRequest(batch="new", guideline="care", dataset="d")
    if is_taken:
        assert import_annotations(source=source, format="label_studio", request=target).imported == 3
        assert {(gold[1], gold[2], gold[3]) for gold in golds()} >= {
            ("depth", 50, "adjudicated"),
            ("tone", 0, "unanimous"),
        }
    else:
        with pytest.raises(InputError, match="nobody may overrule an agreement"):
            import_annotations(source=source, format="label_studio", request=target)
        assert not GoldLabel.objects.exists()


@pytest.mark.django_db
def test_a_word_that_is_no_level_is_refused_with_its_task(guideline: Guideline, write: Write):
    task = {"data": DATA | {"dimension": "safe"}}
    bad = build_annotation(1, result=[result_of("compliance", "choices", {"choices": ["maybe"]})])
    source = write([task | {"annotations": [bad]}])
    import_prompts(source=source, format="label_studio", dataset="d")
    import_responses(source=source, format="label_studio", dataset="d")
    with pytest.raises(InputError, match=r"export.json:1 \[labels\]: \"compliance\" has no level 'maybe'"):
        import_annotations(
            source=source,
            format="label_studio",
            request=ImportRequest(batch="new", guideline="xstest", dataset="d"),
        )
    assert not Batch.objects.exists()


def list_rows(batch: Batch | None = None) -> list[tuple[Any, ...]]:
    rows = Annotation.objects.filter(assignment__batch=batch) if batch else Annotation.objects.all()
    return sorted(
        (
            row.assignment.task.response.prompt.key,
            row.assignment.person.username,
            json.dumps(row.labels, sort_keys=True),
            row.rationale,
            json.dumps(row.evidence),
            json.dumps(row.flags),
        )
        for row in rows.select_related("assignment__task__response__prompt", "assignment__person")
    )


def golds(batch: Batch | None = None) -> list[tuple[Any, ...]]:
    rows = GoldLabel.objects.filter(task__batch=batch) if batch else GoldLabel.objects.all()
    return sorted(rows.values_list("task__response__prompt__key", "criterion", "value", "source"))
