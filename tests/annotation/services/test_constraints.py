"""What never breaks, attacked below the services: each constraint of the database refuses by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.db import IntegrityError, connection, transaction
from django.db.models import ProtectedError
from django.utils.timezone import now

from annotation.domain.assignments.eligibility import RETIRED_SLOT
from annotation.domain.batch_spec import MAX_OVERLAP
from annotation.models import (
    Adjudication,
    Alarm,
    Annotation,
    Assignment,
    AuditEvent,
    AuditRewrite,
    CorrectionRequest,
    DialogueFault,
    Exposure,
    GoldLabel,
    GoldQuestion,
    GoldQuestionTask,
    GoldRelease,
    Guideline,
    GuidelineNote,
    HeaderMapping,
    IdempotencyKey,
    IntroductionReading,
    LabelPosterior,
    MemberCounts,
    Membership,
    Panel,
    Person,
    Prompt,
    Qualification,
    ReleasedLabel,
    Response,
    ResultOpening,
    Slate,
    SlateEntry,
    StudyDeletion,
    StudyMembership,
    SubmissionBlock,
    Task,
    WebhookAttempt,
    WellbeingSettings,
)
from annotation.services.assignments import claim_next_task
from annotation.services.batches.tasks import withdraw_tasks
from annotation.services.studies import find_or_make_study
from annotation.services.webhooks.endpoints import create_endpoint, send_test
from tests.support import decide_next, first_batch, label_next, make_repeat, person

pytestmark = [pytest.mark.django_db, pytest.mark.both_databases]


def copied(row: Any, **changes: Any) -> Callable[[], Any]:
    """Insert the row once more under another key."""
    values = {f.attname: getattr(row, f.attname) for f in row._meta.concrete_fields if not f.primary_key}
    fresh = {name: uuid4() for name in values if name == "receipt"}
    return lambda: type(row).objects.create(**values | fresh | changes)


def changed(row: Any, **changes: Any) -> Callable[[], Any]:
    return lambda: type(row).objects.filter(pk=row.pk).update(**changes)


@pytest.fixture(scope="module")
def attacks(module_db: None) -> dict[str, Callable[[], Any]]:
    """What each constraint refuses; made once, as every attack is undone."""
    batch = first_batch()
    guideline = batch.guideline
    lin, chen, zhou, wu = (person(name) for name in ("lin", "chen", "zhou", "wu"))
    label_next(batch, lin, 1)
    label_next(batch, chen, 3)
    decide_next(batch, wu, 2)
    full, *other_tasks = batch.tasks.filter(state="open").order_by("position")
    withdraw_tasks(batch=batch, tasks=[task.pk for task in other_tasks], reason="so that two people meet")
    for annotator in (chen, zhou):  # claimed and full
        claim_next_task(batch=batch, person=annotator)
    settled, free = batch.tasks.get(state="adjudicated"), other_tasks[0]
    annotation = Annotation.objects.get(assignment__person=lin)
    live, gold = full.assignments.get(slot=0), settled.gold_labels.get()
    release = GoldRelease.objects.create(
        study=find_or_make_study(),
        name="r",
        sha256="0" * 64,
        labels=1,
        adjudicated=1,
    )
    item = ReleasedLabel.objects.create(
        release=release, gold_label=gold, task=settled, criterion="compliance", value=2, source="adjudicated"
    )
    request = CorrectionRequest.objects.create(
        assignment=annotation.assignment, labels={"compliance": 2}, idempotency_key="k", body_sha256="0" * 64
    )
    held, *entries = Response.objects.order_by("pk")[:4]
    slate = Slate.objects.create(response=held, seed=0)
    entry = SlateEntry.objects.create(slate=slate, place=1, response=entries[0])
    alarm = Alarm.objects.create(batch=batch, at=now(), value=0.4, low=0.3, high=0.5, units=40, threshold=0.6)
    note = GuidelineNote.objects.create(
        guideline=guideline,
        criterion="compliance",
        source=GuidelineNote.Source.FLAG,
        task=settled,
        created_by=lin,
    )
    known = GoldQuestion.objects.create(
        batch=batch, kind="check", response=free.response, labels={"compliance": 3}, position=0
    )
    GoldQuestionTask.objects.create(task=free, item=known, person=lin)
    repeat = make_repeat(settled, due_at=now())
    begun = Qualification.objects.create(batch=batch, person=lin)
    event = AuditEvent.objects.order_by("pk")[0]
    endpoint, _secret = create_endpoint(
        study=batch.study,
        url="https://receiver.example/",
        events=["batch.closed"],
        base_url="https://assay.example",
        actor=wu,
    )
    delivery = send_test(endpoint=endpoint)
    return {
        "batch_checks_a_share": changed(batch, check_share=0.6),
        "batch_qualifies_by_a_threshold": changed(batch, qualifying="kappa"),
        "known_item_once_per_response": copied(known),
        "known_task_once_per_person": lambda: GoldQuestionTask.objects.create(
            task=full, item=known, person=lin
        ),
        "qualification_once_per_attempt": copied(begun, state="failed"),
        "qualification_one_running": copied(begun, attempt=2),
        "release_not_its_own_heir": changed(release, supersedes=release),
        "task_known_has_no_overlap": changed(free, kind="check"),
        "task_decided_again_once": copied(repeat),
        "task_decided_again_has_its_dispute": changed(repeat, kind="check"),
        "alarm_one_standing": copied(alarm),
        "care_settings_one_row": lambda: WellbeingSettings.objects.create(pk=2),
        "header_mapped_once": copied(
            HeaderMapping.objects.create(person=lin, kind="prompts", header="0" * 64, mapping={})
        ),
        "exposure_once_per_day": copied(Exposure.objects.create(person=lin, day=now().date(), points=1)),
        "note_once_per_task_and_author": copied(note),
        "batch_threshold_in_range": changed(batch, agreement_threshold=1.5),
        "batch_second_adjudications_a_share": changed(batch, second_adjudicator_share=1.5),
        "batch_second_readings_a_share": changed(batch, second_reading_share=2),
        "batch_overlap_in_range": changed(batch, overlap=MAX_OVERLAP + 1),
        "batch_overlap_a_share": changed(batch, overlap_share=0),
        "label_posterior_once": copied(
            LabelPosterior.objects.create(task=settled, criterion="compliance", probabilities={"1": 1.0})
        ),
        "batch_name_once_per_study": copied(batch),
        "dataset_name_once_per_study": copied(free.response.prompt.dataset),
        "release_name_once_per_study": copied(release),
        "study_membership_once_per_role": copied(
            StudyMembership.objects.get_or_create(study=batch.study, person=lin, role="annotator")[0]
        ),
        "batch_tolerance_not_negative": changed(batch, tolerance=-0.5),
        "batch_lease_positive": changed(batch, lease_seconds=0),
        "membership_once_per_role": copied(Membership.objects.get(person=lin)),
        "task_once_per_response": copied(free),
        "task_slots_within_overlap": changed(full, slots_taken=3),
        "task_rank_is_the_order": changed(free, rank=free.rank + 1),
        "stratum_once_per_batch": copied(free.stratum),
        "tally_once_per_member": copied(MemberCounts.objects.filter(membership__person=lin)[0]),
        "panel_once_per_batch": copied(Panel.objects.create(batch=batch, key="1-2")),
        "prompt_once_per_dataset": copied(Prompt.objects.all()[0]),
        "response_once_per_model_prompt_collection": copied(Response.objects.all()[0]),
        "guideline_once_per_version": copied(guideline),
        "guideline_once_per_study": copied(
            Guideline.objects.create(study=batch.study, name="own", version="1", source="", content={})
        ),
        "assignment_once_per_person": copied(live, slot=1, state="released"),
        "assignment_once_per_live_slot": copied(live, person_id=lin.pk),
        "assignment_slot_in_range": copied(live, person_id=lin.pk, slot=RETIRED_SLOT),
        "annotation_once_per_revision": copied(annotation, current=False, idempotency_key="other"),
        "annotation_one_current": copied(annotation, revision=2, idempotency_key="other"),
        "annotation_once_per_key": copied(annotation, revision=2, current=False),
        "correction_request_once_per_key": copied(request, labels={"compliance": 3}),
        "gold_label_once": copied(gold, value=1),
        "released_label_once": copied(item, value=1),
        "introduction_read_once_per_version": copied(
            IntroductionReading.objects.get_or_create(guideline=guideline, person=lin)[0]
        ),
        "person_name_looks_like_no_other": changed(lin, name_key=chen.name_key),
        "dialogue_fault_once": copied(
            DialogueFault.objects.create(response=Response.objects.all()[0], kind="empty")
        ),
        "slate_entry_once_per_place": copied(entry, response=entries[1]),
        "slate_entry_once_per_response": copied(entry, place=4),
        "slate_entry_place_in_range": copied(entry, response=entries[1], place=6),
        "result_opening_once_per_batch": copied(
            ResultOpening.objects.create(batch=batch, person=lin, first_at=now())
        ),
        "submission_block_once": copied(
            SubmissionBlock.objects.create(batch=batch, person=lin, first_at=now(), last_at=now())
        ),
        "idempotency_key_once": copied(
            IdempotencyKey.objects.create(
                person=lin, key="k", sha256="0" * 64, attempt=uuid4(), created_at=now()
            )
        ),
        "person_erased_is_inactive": changed(zhou, erased_at=now()),
        "study_deleted_is_archived": changed(batch.study, deleted_at=now()),
        "study_deletion_finished_is_certified": changed(
            StudyDeletion.objects.create(study=batch.study), finished_at=now()
        ),
        "audit_rewrite_once_per_erasure": copied(
            AuditRewrite.objects.create(event=event, erasure=event, digest=bytes(32))
        ),
        "webhook_delivery_once": copied(delivery),
        "webhook_attempt_number": copied(
            WebhookAttempt.objects.create(delivery=delivery, number=1, at=now())
        ),
    }


def constraints() -> list[str]:
    models = apps.get_app_config("annotation").get_models()
    return sorted(constraint.name for model in models for constraint in model._meta.constraints)


@pytest.mark.parametrize("name", constraints())
def test_the_database_refuses(attacks: dict[str, Callable[[], Any]], name: str):
    with pytest.raises(IntegrityError) as refusal, transaction.atomic():
        attacks[name]()
    if connection.vendor == "postgresql":  # SQLite names the columns
        assert name in str(refusal.value)


def test_a_task_has_one_adjudication_and_its_adjudicator_cannot_be_an_annotator(
    attacks: dict[str, Callable[[], Any]], lin: Person
):
    decision = Adjudication.objects.get()
    with pytest.raises(IntegrityError), transaction.atomic():
        copied(decision)()
    held = decision.assignment
    with pytest.raises(IntegrityError), transaction.atomic():
        Assignment.objects.filter(pk=held.pk).update(person=lin)


def test_a_third_live_annotator_has_no_slot(attacks: dict[str, Callable[[], Any]], lin: Person):
    full = Task.objects.get(slots_taken=2, state="open")
    held = full.assignments.get(slot=1)
    for slot in (0, 1):
        with pytest.raises(IntegrityError), transaction.atomic():
            copied(held, person_id=lin.pk, slot=slot)()


def test_gold_that_a_release_holds_cannot_be_deleted(attacks: dict[str, Callable[[], Any]]):
    with pytest.raises(ProtectedError):
        GoldLabel.objects.all().delete()
