from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from annotation.errors import N_, Conflict, NotFound
from annotation.guidelines import parse_guideline
from annotation.models import Guideline, IntroductionReading, Membership, Person
from annotation.services.audit import record


@transaction.atomic
def load_guideline(*, text: str, path: str, publish: bool = False, actor: Person | None = None) -> Guideline:
    """Validate and store a guideline version; a draft may be replaced, a published version never changes.

    The same document again is no error and changes nothing (but publishes, if asked to).
    """
    document = parse_guideline(text, path=path)
    stored = (
        Guideline.objects.select_for_update().filter(name=document.name, version=document.version).first()
    )
    if stored is None:
        stored = Guideline(name=document.name, version=document.version)
    if stored.sha256 != document.sha256:
        if stored.is_published:
            raise Conflict(
                N_("{guideline} is published and never changes; give the changed document a new version."),
                guideline=str(stored),
            )
        stored.source, stored.content, stored.sha256 = text, document.to_json(), document.sha256
        stored.created_by = actor
        stored.save()
        record(actor=actor, verb="load_guideline", target=f"guideline:{stored}", sha256=stored.sha256)
    if publish:
        publish_guideline(guideline=stored, actor=actor)
    return stored


@transaction.atomic
def publish_guideline(*, guideline: Guideline, actor: Person | None = None) -> Guideline:
    """Freeze the version. Publishing twice changes nothing."""
    changed = Guideline.objects.filter(pk=guideline.pk, published_at=None).update(published_at=timezone.now())
    if changed:
        record(
            actor=actor, verb="publish_guideline", target=f"guideline:{guideline}", sha256=guideline.sha256
        )
    guideline.refresh_from_db()
    return guideline


def record_introduction(*, batch: str, person: Person, role: str) -> None:
    """The person has read the introduction of the batch's guideline version; twice is once."""
    mine = Membership.objects.filter(batch__name=batch, person=person, role=role, active=True)
    guideline = mine.values_list("batch__guideline", flat=True).first()
    if guideline is None:
        raise NotFound(N_("No batch is named {name}."), name=batch)
    IntroductionReading.objects.get_or_create(guideline_id=guideline, person=person)
