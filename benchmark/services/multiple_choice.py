"""What the rules read in answers, kept: a report is opened often, and reading takes longer than all else of it.

Questions with options come in, reports are made, and what no rule reads goes to people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from django.db import IntegrityError, transaction

from annotation.core.errors import N_, AssayError, Conflict
from annotation.core.files import read_text
from annotation.core.names import MAX_NAME_CHARACTERS, check_name
from annotation.core.study_scope import choose_study_id
from annotation.domain.batch_spec import BatchSpec
from annotation.domain.formats import PROMPTS, Format, Source
from annotation.domain.formats.base import Reader
from annotation.models import (
    Batch,
    Collection,
    Dataset,
    EvaluatedModel,
    Guideline,
    Job,
    Person,
    Prompt,
)
from annotation.selectors.guidelines import get_guideline
from annotation.selectors.imports import find_prompts_by_key
from annotation.services import jobs
from annotation.services.audit import record
from annotation.services.batches.batches import create_batch
from annotation.services.guidelines import load_guideline
from annotation.services.imports.datasets import PromptShelf
from annotation.services.imports.run import PLAIN, ImportReport, Intake, Problems, Run
from benchmark.domain.multiple_choice import VERSION
from benchmark.domain.multiple_choice.formats import WORDING, VariantRecord, build_reader
from benchmark.domain.multiple_choice.scores import STRICT
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.models import ChoiceReport, Judge, ParsedAnswer, QuestionVariant
from benchmark.selectors.leaderboards.guidelines import SHIPPED
from benchmark.selectors.multiple_choice.answers import (
    CHOICE_GUIDELINE,
    OPEN_GUIDELINE,
    AnswerTable,
    build_answer_table,
)
from benchmark.selectors.multiple_choice.reports import (
    ChoiceReportResult,
    build_result,
    list_reports,
    refuse_sealed_report,
)
from benchmark.services.leaderboards.runs import list_answering_models
from scoring.models import Scorer
from scoring.services.predictions.predictions import check_ready

KIND = "read_answers"
READING = N_("parsing the answers")
CHUNK = 2000


def compute_result(report: ChoiceReport, rule: str = STRICT) -> ChoiceReportResult:
    """As the labels are now; ``rule`` is one of ``COUNTING_RULES``. AssayError where another rule has no meaning."""
    check_rule(report, rule)
    return build_result(load_answer_table(report, rule=rule))


def check_rule(report: ChoiceReport, rule: str) -> None:
    if rule != STRICT and report.kind != ChoiceReport.Kind.FINE:
        raise AssayError(
            N_(
                "The rule {rule} is for FINE reports; CValues' acc and acc* are published as they are counted."
            ),
            rule=rule,
        )


def load_answer_table(
    report: ChoiceReport, models: Iterable[EvaluatedModel] | None = None, rule: str = STRICT
) -> AnswerTable:
    """The sheet of all models of the report, or of these; whoever asks next finds what was read for it."""
    sheet = build_answer_table(report, models, rule)
    if sheet.new_readings:
        ParsedAnswer.objects.bulk_create(
            (
                ParsedAnswer(response_id=pk, rules=VERSION, choice=parsed.choice, rule=parsed.rule)
                for pk, parsed in sheet.new_readings.items()
            ),
            batch_size=CHUNK,
            ignore_conflicts=True,  # somebody else has just read it, too
        )
    return sheet


def queue_parsing(report: ChoiceReport, *, actor: Person | None = None) -> Job:
    """Have a worker read the answers before somebody opens the report."""
    return jobs.enqueue(kind=KIND, payload={"report": report.pk}, title=report.name, actor=actor)


def execute_parsing(context: jobs.JobContext) -> dict[str, Any]:
    """Model by model; what was read before is found."""
    report = list_reports().get(pk=context.payload["report"])
    models, n = list(report.evaluated_models.order_by("name")), 0
    for done, model in enumerate(models):
        context.report(done / len(models), READING)
        n += len(load_answer_table(report, [model]).new_readings)
    return {"report": report.name, "read": n}


UNREAD, OPEN = "choice", "open"
BATCHES = {UNREAD: CHOICE_GUIDELINE, OPEN: OPEN_GUIDELINE}
"""What a batch is made of, and the guideline that its people follow."""


@transaction.atomic
def import_questions(
    *,
    source: Source,
    format: str,  # noqa: A002
    dataset: str,
    language: str = "",
    run: Run = PLAIN,
) -> ImportReport:
    """Each question as its prompts. The same file twice changes nothing; an id with another content is refused."""
    forms = build_reader(format, language)
    intake = Intake(
        source=source,
        form=_prompt_format(format, forms),
        run=run,
        report=ImportReport(kind=PROMPTS, format=format, file=source.name),
        problems=Problems(run.most_problems),
        sha256=source.sha256,
    )
    shelf = PromptShelf(intake, intake.get_or_make_dataset(dataset))
    for chunk in intake.chunks(forms):
        for made in shelf.add_records([form.prompt for form in chunk]):
            intake.report.count(is_new=made)
        _store_forms(intake, shelf.dataset, chunk)
    return intake.finish(target=f"dataset:{dataset}", dataset=dataset, language=language, wording=WORDING)


def _prompt_format(name: str, forms: Reader[VariantRecord]) -> Format:
    """The file as one of prompts, for what looks into it again."""
    prompts = Reader(
        rows=forms.rows, parse=lambda row: (form.prompt for form in forms.parse(row)), known=forms.known
    )
    return Format(name=name, is_json=True, guess=lambda _fields: None, prompts=prompts)


def _store_forms(intake: Intake, dataset: Dataset, chunk: Sequence[VariantRecord]) -> None:
    prompts = find_prompts_by_key(dataset, (form_record.prompt.ref.key for form_record in chunk))
    stored = {form.prompt_id: form for form in QuestionVariant.objects.filter(prompt__in=prompts.values())}
    new = []
    for record_ in chunk:
        prompt = prompts.get(record_.prompt.ref.key)
        if prompt is None:  # refused already
            continue
        made, known = _build_form(record_, prompt), stored.get(prompt.pk)
        if known is None:
            stored[prompt.pk] = made
            new.append(made)
        elif not known.difficulty and made.difficulty and _form_content(known) == _form_content(made):
            known.difficulty = made.difficulty  # of a file that was imported before difficulties were kept
            known.save(update_fields=["difficulty"])
        elif _form_content(known) != _form_content(made):
            intake.problems.add(
                intake.build_error(
                    record_.line,
                    "id",
                    N_(
                        "the question {id} is in the dataset {dataset} with another category or other options; give"
                        " each question its own id."
                    ),
                    id=record_.question,
                    dataset=dataset.name,
                )
            )
    QuestionVariant.objects.bulk_create(new)


def _build_form(form_record: VariantRecord, prompt: Prompt) -> QuestionVariant:
    return QuestionVariant(
        prompt=prompt,
        question=form_record.question,
        category=form_record.category,
        form=form_record.form,
        order=form_record.order,
        options=[asdict(option) for option in form_record.options],
        difficulty=form_record.difficulty,
    )


def _form_content(form: QuestionVariant) -> tuple[object, ...]:
    return form.question, form.category, form.form, form.order, form.options


@transaction.atomic
def create_report(
    *,
    name: str,
    kind: str,
    dataset: Dataset,
    collection: Collection,
    models: Sequence[EvaluatedModel] = (),
    scorer: Scorer | None = None,
    judge: Judge | None = None,
    actor: Person | None = None,
) -> ChoiceReport:
    """Without ``models`` every model that has responses there; without scorer and judge people say what is safe."""
    if ChoiceReport.objects.filter(name=check_name(name)).exists():
        raise _name_conflict(name)
    _check_kind(kind, dataset)
    _check_source(kind, scorer, judge)
    report = ChoiceReport(
        study_id=choose_study_id(dataset.study_id),
        name=name,
        kind=kind,
        dataset=dataset,
        collection=collection,
        scorer=scorer,
        judge=judge,
        created_by=actor,
    )
    if actor is not None:
        refuse_sealed_report(actor, report)
    evaluated = list_answering_models(dataset, collection, models)
    try:
        with transaction.atomic():
            report.save()
    except IntegrityError as error:  # somebody took the name at the same moment
        raise _name_conflict(name) from error
    report.evaluated_models.set(evaluated)
    record(
        actor=actor,
        verb=BenchmarkVerb.CREATE_CHOICE_REPORT,
        target=f"choice_report:{name}",
        kind=kind,
        dataset=dataset.name,
    )
    return report


def _name_conflict(name: str) -> Conflict:
    return Conflict(
        N_("There is a multiple-choice report named {name} already; choose another name."), name=name
    )


def _check_kind(kind: str, dataset: Dataset) -> None:
    if kind not in ChoiceReport.Kind.values:
        raise AssayError(
            N_("There is no kind {kind}; choose one of: {known}."),
            kind=kind,
            known=", ".join(ChoiceReport.Kind.values),
        )
    forms = set(QuestionVariant.objects.filter(prompt__dataset=dataset).values_list("form", flat=True))
    needed = {QuestionVariant.Form.CHOICE.value}
    if kind == ChoiceReport.Kind.FINE:
        needed.add(QuestionVariant.Form.OPEN.value)
    if not needed <= forms:
        raise AssayError(
            N_(
                "The dataset {dataset} has no questions in the forms that {kind} needs ({forms}); import them with"
                " import_questions."
            ),
            dataset=dataset.name,
            kind=kind,
            forms=", ".join(sorted(needed)),
        )


def _check_source(kind: str, scorer: Scorer | None, judge: Judge | None) -> None:
    if scorer is not None and judge is not None:
        raise AssayError(N_("Name a scorer or a judge, not both."))
    source = scorer or judge
    if source is None:
        return
    if kind != ChoiceReport.Kind.FINE:
        raise AssayError(
            N_("A {kind} report has no open-ended answers, so no scorer or judge is needed."), kind=kind
        )
    if source.guideline.name != OPEN_GUIDELINE:
        raise AssayError(
            N_("{name} follows the guideline {guideline}; open-ended answers are judged by {wanted}."),
            name=source.name,
            guideline=source.guideline.name,
            wanted=OPEN_GUIDELINE,
        )
    if scorer is not None:
        check_ready(scorer)


@transaction.atomic
def make_batch(
    *,
    report: ChoiceReport,
    kind: str,
    name: str = "",
    annotators: Sequence[Person] = (),
    adjudicators: Sequence[Person] = (),
    actor: Person | None = None,
) -> Batch:
    """A batch of what people must say and no open batch asks yet: ``choice``, answers that no rule reads; ``open``,
    open-ended answers. Open at once where people are named, else a draft for a manager to put people in.
    """
    if kind not in BATCHES:
        raise AssayError(
            N_("There is no kind {kind}; choose one of: {known}."), kind=kind, known=", ".join(BATCHES)
        )
    if actor is not None:
        refuse_sealed_report(actor, report)
    # Of two who click at once the second finds the first one's tasks.
    ChoiceReport.objects.select_for_update(no_key=True).get(pk=report.pk)
    todo = compute_result(report).todo
    responses = todo.unread_free if kind == UNREAD else todo.unsettled_free
    if not responses:
        raise Conflict(N_("Nothing is left for a batch: what people must say is in one already, or is said."))
    return create_batch(
        BatchSpec(
            name=name or _find_free_name(f"{report.name}-{kind}"),
            guideline=_ensure_guideline(BATCHES[kind], actor).pk,
            dataset=report.dataset_id,
            among=tuple(responses),
            annotators=tuple(person.pk for person in annotators),
            adjudicators=tuple(person.pk for person in adjudicators),
            open_now=bool(annotators),
        ),
        actor=actor,
    )


def _find_free_name(base: str) -> str:
    """``wanted``, or with a number after it."""
    stem = base[: MAX_NAME_CHARACTERS - 5]
    used_names = set(Batch.objects.filter(name__startswith=stem).values_list("name", flat=True))
    return next(name for name in _number_names(stem) if name not in used_names)


def _number_names(stem: str) -> Iterable[str]:
    yield stem
    number = 2
    while True:
        yield f"{stem}-{number}"
        number += 1


def _ensure_guideline(name: str, actor: Person | None) -> Guideline:
    """The published one, else the one that comes with Assay."""
    if not Guideline.objects.filter(name=name).exclude(published_at=None).exists():
        path = SHIPPED / f"{name}.yaml"
        load_guideline(text=read_text(path), path=str(path), publish=True, actor=actor)
    return get_guideline(name)
