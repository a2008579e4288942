"""Making studies."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count

from django.db import IntegrityError, transaction

from annotation.core.errors import N_, Conflict
from annotation.core.names import check_name
from annotation.domain.verbs import AnnotationVerb
from annotation.models import MANAGER, Person, Study, StudyMembership
from annotation.selectors.studies import DEFAULT, find_study
from annotation.services.audit import record


@transaction.atomic
def create_study(
    *, name: str, title: str = "", managers: Iterable[Person] = (), actor: Person | None = None
) -> Study:
    """A study with its first managers."""
    people = list(dict.fromkeys(managers))
    try:
        with transaction.atomic():
            study = Study.objects.create(name=check_name(name), title=title.strip(), created_by=actor)
    except IntegrityError as error:
        raise Conflict(N_("There is already a study named {name}."), name=name) from error
    memberships = [
        StudyMembership(study=study, person=person, role=MANAGER, created_by=actor) for person in people
    ]
    StudyMembership.objects.bulk_create(memberships)
    names = [person.username for person in people]
    record(actor=actor, verb=AnnotationVerb.MAKE_STUDY, target=f"study:{name}", managers=names)
    return study


@transaction.atomic
def set_title(*, study: Study, title: str, actor: Person) -> None:
    """Other words for the study on its pages; its name, which stands in addresses and commands, stays."""
    before, study.title = study.title, title.strip()
    if study.title != before:
        study.save(update_fields=["title"])
        record(
            actor=actor, verb=AnnotationVerb.SET_STUDY_TITLE, target=f"study:{study.name}", title=study.title
        )


@transaction.atomic
def find_or_make_study(*, actor: Person | None = None) -> Study:
    """The study that the work under way is about. A site without any gets one named ``default``."""
    return find_study() or find_or_make_default(actor=actor)


@transaction.atomic
def find_or_make_default(*, actor: Person | None = None) -> Study:
    """The study named ``default``, or with a number after it where one of this name was deleted."""
    deleted = set(Study._base_manager.exclude(deleted_at=None).values_list("name", flat=True))
    names = (DEFAULT if number == 1 else f"{DEFAULT}-{number}" for number in count(1))
    name = next(name for name in names if name not in deleted)
    study, created = Study.objects.get_or_create(name=name, defaults={"created_by": actor})
    if created:
        record(actor=actor, verb=AnnotationVerb.MAKE_STUDY, target=f"study:{name}")
    return study
