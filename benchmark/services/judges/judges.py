"""Making judges: templates in versions, judges of endpoints, and what they are set to judge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction

from annotation.core.errors import N_, AssayError, Conflict
from annotation.core.names import check_printable_name
from annotation.models import Collection, Dataset, EvaluatedModel, Guideline, Job, Person
from annotation.services import jobs
from annotation.services.audit import record
from annotation.services.jobs import is_abandoned
from annotation.services.studies import find_or_make_study
from benchmark.domain.judges.prompts import (
    check_template,
    get_default_language,
    get_default_system,
    get_default_text,
)
from benchmark.domain.llm_client import MAX_CONCURRENCY, find_key
from benchmark.domain.llm_client.settings import SYSTEM, check_settings
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.models import Judge, JudgeRun, JudgeTemplate
from benchmark.selectors.judges.judges import find_latest_template
from benchmark.selectors.leaderboards.runs import refuse_sealed_dataset
from benchmark.services.leaderboards.runs import list_answering_models

KIND = "judge_responses"
MAX_TIMEOUT_SECONDS = 3600
UNDER_WAY = (Job.State.QUEUED, Job.State.RUNNING)


@transaction.atomic
def save_template(
    *, guideline: Guideline, system: str, text: str, note: str = "", actor: Person | None = None
) -> JudgeTemplate:
    """The next version for guidelines of this name; the same text as the latest is that one."""
    system, text = system.replace("\r\n", "\n").strip(), text.replace("\r\n", "\n").strip()
    check_template(system, text)
    last = find_latest_template(guideline.name)
    if last is not None and (last.system, last.text) == (system, text):
        return last
    number = 1 if last is None else last.number + 1
    try:
        with transaction.atomic():
            made = JudgeTemplate.objects.create(
                study=find_or_make_study(actor=actor),
                guideline_name=guideline.name,
                number=number,
                system=system,
                text=text,
                note=note[:300],
                created_by=actor,
            )
    except IntegrityError as error:
        raise Conflict(
            N_("Somebody else has just saved version {number}; look at it and save again."), number=number
        ) from error
    record(
        actor=actor,
        verb=BenchmarkVerb.SAVE_JUDGE_TEMPLATE,
        target=f"guideline:{guideline.name}",
        number=number,
    )
    return made


def ensure_template(guideline: Guideline, *, actor: Person | None = None) -> JudgeTemplate:
    """The latest version; where there is none, the first is made from the guideline's own texts."""
    last = find_latest_template(guideline.name)
    if last is not None:
        return last
    language = get_default_language(guideline.document)
    return save_template(
        guideline=guideline, system=get_default_system(language), text=get_default_text(language), actor=actor
    )


@transaction.atomic
def create_judge(
    *,
    name: str,
    guideline: Guideline,
    endpoint: str,
    served_model: str,
    template: JudgeTemplate | None = None,
    settings: Mapping[str, Any] | None = None,
    actor: Person | None = None,
) -> Judge:
    """A judge that is asked. ``endpoint`` is an address that has been checked, or one of the settings' own."""
    _check_name_free(check_printable_name(name))
    if not served_model.strip():
        raise AssayError(N_("Say which model the endpoint is asked for."))
    if template is not None and template.guideline_name != guideline.name:
        raise AssayError(
            N_("The template {found} is of another guideline than {guideline}."),
            found=template,
            guideline=guideline,
        )
    judge = insert_judge(
        name=name,
        study=find_or_make_study(actor=actor),
        guideline=guideline,
        kind=Judge.Kind.ENDPOINT,
        template=template or ensure_template(guideline, actor=actor),
        endpoint=endpoint,
        served_model=served_model.strip(),
        settings=_check_generation(settings or {}, endpoint),
        created_by=actor,
    )
    record(
        actor=actor,
        verb=BenchmarkVerb.CREATE_JUDGE,
        target=f"judge:{name}",
        endpoint=endpoint,
        model=served_model,
    )
    return judge


_TAKEN = N_("There is a judge named {name} already; choose another name.")


def _check_name_free(name: str) -> None:
    if Judge.objects.filter(name=name).exists():
        raise Conflict(_TAKEN, name=name)


def insert_judge(**fields: Any) -> Judge:
    """A new judge; of two of one name at once the second finds the first."""
    try:
        with transaction.atomic():
            return Judge.objects.create(**fields)
    except IntegrityError as error:
        raise Conflict(_TAKEN, name=fields["name"]) from error


def _check_generation(settings: Mapping[str, Any], endpoint: str) -> dict[str, Any]:
    """Generation settings, such as temperature; the system prompt is the template's."""
    if SYSTEM in settings:
        raise AssayError(
            N_("The system prompt of a judge stands in its template; leave it out of the settings.")
        )
    return check_settings(settings, key=find_key(endpoint))


@transaction.atomic
def start_judging(
    *,
    judge: Judge,
    dataset: Dataset,
    collection: Collection,
    models: Sequence[EvaluatedModel] = (),
    concurrency: int = 16,
    timeout: float = 120,
    actor: Person | None = None,
    send: bool = True,
) -> JudgeRun:
    """Ask the judge about these responses; what it has said already is not asked again."""
    if judge.kind != Judge.Kind.ENDPOINT:
        raise Conflict(
            N_("The labels of {name} were imported: there is no endpoint to ask."), name=judge.name
        )
    if not 1 <= concurrency <= MAX_CONCURRENCY or not 0 < timeout <= MAX_TIMEOUT_SECONDS:
        raise AssayError(
            N_("Ask 1 to {most} at once, and give each request at most {seconds} seconds."),
            most=MAX_CONCURRENCY,
            seconds=MAX_TIMEOUT_SECONDS,
        )
    if actor is not None:
        refuse_sealed_dataset(actor, dataset)
    model_ids = {model.pk for model in list_answering_models(dataset, collection, models)}
    _check_not_running(JudgeRun(judge=judge, dataset=dataset, collection=collection), model_ids)
    judging = JudgeRun.objects.create(
        judge=judge,
        dataset=dataset,
        collection=collection,
        concurrency=concurrency,
        timeout=timeout,
        created_by=actor,
    )
    judging.evaluated_models.set(model_ids)
    return resume_judging(judging, actor=actor, send=send)


@transaction.atomic
def resume_judging(judging: JudgeRun, *, actor: Person | None = None, send: bool = True) -> JudgeRun:
    """Another job for what is not judged yet."""
    locked = (
        JudgeRun.objects.select_for_update(of=("self",))
        .select_related("judge", "dataset", "job")
        .get(pk=judging.pk)
    )
    if locked.job is not None and not locked.job.is_over:
        raise Conflict(N_("It is being done already."))
    if actor is not None:
        refuse_sealed_dataset(actor, locked.dataset)
    _check_not_running(locked, set(locked.evaluated_models.values_list("pk", flat=True)))
    locked.job = _queue_job(locked, actor, send)
    locked.save(update_fields=["job"])
    record(
        actor=actor,
        verb=BenchmarkVerb.get(KIND),
        target=f"judge:{locked.judge.name}",
        dataset=locked.dataset.name,
        judging=locked.pk,
    )
    return locked


def _check_not_running(judging: JudgeRun, models: set[int]) -> None:
    """Two at once would ask, and pay for, the same questions twice: one judge goes through a model's responses once.

    A job whose process died is cancelled instead, so that the same command goes on at once after ``kill -9``.
    """
    Judge.objects.select_for_update().get(pk=judging.judge_id)
    concurrent = JudgeRun.objects.filter(
        judge=judging.judge_id, dataset=judging.dataset_id, collection=judging.collection_id
    )
    concurrent = concurrent.exclude(pk=judging.pk).filter(evaluated_models__in=models)
    for job in Job.objects.filter(
        judgings__in=concurrent, state__in=UNDER_WAY, cancel_requested=False
    ).distinct():
        if not is_abandoned(job):
            raise Conflict(
                N_(
                    "The judge {name} is being asked about these responses already: wait for it, or cancel that."
                ),
                name=judging.judge.name,
            )
        jobs.cancel(job=job)


def _queue_job(judging: JudgeRun, actor: Person | None, send: bool) -> Job:
    title = f"{judging.judge.name}: {judging.dataset.name}"[:200]
    return jobs.enqueue(kind=KIND, payload={"judging": judging.pk}, title=title, actor=actor, send=send)


def refuse_unlisted_endpoint(judge: Judge, endpoints: Mapping[str, str]) -> None:
    """A page asks no address but those of the settings."""
    if judge.endpoint not in endpoints.values():
        raise AssayError(
            N_("The endpoint of {name} is not among those of the settings: only the command can ask it."),
            name=judge.name,
        )
