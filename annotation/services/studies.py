"""Making studies."""

from __future__ import annotations

from django.db import IntegrityError, transaction

from annotation.core.errors import N_, Conflict
from annotation.core.names import check_name
from annotation.models import Person, Study
from annotation.selectors.studies import DEFAULT, find_study
from annotation.services.audit import record


@transaction.atomic
def create_study(*, name: str, title: str = "", actor: Person | None = None) -> Study:
    try:
        with transaction.atomic():
            study = Study.objects.create(name=check_name(name), title=title.strip(), created_by=actor)
    except IntegrityError as error:
        raise Conflict(N_("There is already a study named {name}."), name=name) from error
    record(actor=actor, verb="make_study", target=f"study:{name}")
    return study


@transaction.atomic
def find_or_make_study(*, actor: Person | None = None) -> Study:
    """The study that the work under way is about. A site without any gets one named ``default``."""
    return find_study() or find_or_make_default(actor=actor)


@transaction.atomic
def find_or_make_default(*, actor: Person | None = None) -> Study:
    """The study named ``default``."""
    study, created = Study.objects.get_or_create(name=DEFAULT, defaults={"created_by": actor})
    if created:
        record(actor=actor, verb="make_study", target=f"study:{DEFAULT}")
    return study
