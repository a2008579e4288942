"""People: their accounts, roles, languages, own models, topics and budgets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence, Set
from datetime import datetime, timedelta

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict, Forbidden
from annotation.core.names import (
    check_name,
    check_person_name,
    check_printable_name,
    look_alike_key,
    look_alike_keys,
)
from annotation.domain.verbs import AnnotationVerb
from annotation.models import (
    ADJUDICATION_SLOT,
    ADJUDICATOR,
    ANNOTATOR,
    MANAGER,
    ROLES,
    Assignment,
    Batch,
    EvaluatedModel,
    Membership,
    Person,
    Study,
    StudyMembership,
)
from annotation.selectors.access import is_of_others
from annotation.selectors.assignments.availability import list_ruled_out_strata
from annotation.selectors.people import get_account
from annotation.services.assignments import end_claims
from annotation.services.assignments.plan import plan_orphaned_tasks, replan_member
from annotation.services.audit import record, record_in_study
from annotation.services.studies import find_or_make_study

MAX_PASSWORD_MINUTES = 240
MAX_TAG_LENGTH = 20  # as in a prompt's language
_TAG = re.compile(r"[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*")


@transaction.atomic
def add_person(
    *,
    name: str,
    roles: Iterable[str] = (),
    password: str | None = None,
    display_name: str = "",
    languages: Sequence[str] = (),
    own_models: Sequence[EvaluatedModel] = (),
    signs_in: bool = True,
    actor: Person | None = None,
) -> Person:
    """Make a person. Without a password they cannot sign in, only hold what was made elsewhere or use a token.

    Who never signs in (``signs_in``) has any printable name, as it was elsewhere.
    """
    roles = list(roles)
    refuse_unknown_roles(roles)
    signs_in = signs_in or bool(roles or password)
    name = check_name(Person.normalize_username(name)) if signs_in else check_printable_name(name)
    if Person.objects.filter(username=name).exists():
        raise AssayError(N_("There is already a person named {name}."), name=name)
    person = Person(username=name, display_name=display_name, languages=language_tags(languages))
    if password:
        _check_password(person, password)
    person.set_password(password or None)
    if signs_in:
        _check_person(person)
    else:
        person.name_key = _find_free_key(name)
    person.save()
    if roles:
        _add_roles(person, find_or_make_study(actor=actor), roles, actor)
    if own_models:
        person.own_models.add(*own_models)
    record(
        actor=actor,
        verb=AnnotationVerb.ADD_PERSON,
        target=f"person:{name}",
        roles=roles,
        languages=person.languages,
        own_models=sorted(model.name for model in own_models),
        password=person.has_usable_password(),
    )
    return person


def _check_person(person: Person) -> None:
    try:
        person.full_clean(exclude=["password"])
    except ValidationError as error:
        raise AssayError(
            N_("{name} cannot be a person's name: {why}"),
            name=repr(person.username),
            why=" ".join(error.messages),
        ) from error


def _find_free_key(name: str) -> str:
    """Ids of a crowd may look alike (A10 and A1O), and all of them stand; nobody who signs in is looked like."""
    look_alikes = list(
        Person.objects.filter(name_key__in=look_alike_keys(name)).prefetch_related("study_memberships")
    )
    for person in look_alikes:
        if person.has_usable_password() or person.study_memberships.all():
            raise AssayError(
                N_(
                    "{name} looks like {other}, who works here: write it the same way, or choose another name."
                ),
                name=repr(name),
                other=person.username,
            )
    return f"\x1f{name}" if look_alikes else look_alike_key(name)


def refuse_imported_name(person: Person) -> None:
    """Whose name came with labels made elsewhere does not sign in with it, where it is none to sign in with."""
    try:
        check_person_name(check_name(person.username))
        Person.username_validator(person.username)
    except (AssayError, ValidationError) as error:
        raise Conflict(
            N_(
                "{name} holds labels that were made elsewhere, and cannot sign in by this name: make a person of"
                " another name."
            ),
            name=person.username,
        ) from error


@transaction.atomic
def add_member(*, username: str, roles: Iterable[str], actor: Person | None = None) -> Person:
    """Give somebody who has an account on the site roles in the study, beside those that they have there."""
    person = get_account(username)
    study = find_or_make_study(actor=actor)
    held = person.study_memberships.filter(study=study).values_list("role", flat=True)
    set_roles(person=person, roles=sorted({*held, *roles}), actor=actor)
    return person


@transaction.atomic
def set_roles(*, person: Person, roles: Iterable[str], actor: Person | None = None) -> None:
    """The person's roles in the study that the work under way is about, from now on."""
    roles = list(roles)
    refuse_unknown_roles(roles)
    if person.erased_at is not None or (actor is not None and person.is_superuser):
        refuse_above(person, actor)
    if roles:
        refuse_imported_name(person)
    if person == actor and not actor.is_superuser and MANAGER not in roles:
        raise Conflict(N_("You cannot take the manager's role from yourself; ask another manager."))
    study = find_or_make_study(actor=actor)
    memberships = _lock_current_memberships(person, study)
    in_study = StudyMembership.objects.filter(person=person, study=study)
    before = set(in_study.values_list("role", flat=True))
    _add_roles(person, study, set(roles) - before, actor)
    for membership in in_study.exclude(role__in=roles):
        membership.delete()  # one by one: tokens end with it (services/people/tokens.py)
    lost = set() if person.is_superuser else before.difference(roles)
    released = _release_work(person, memberships, lost, study)
    if set(roles) - before:
        _restart_searches(memberships)
    record(
        actor=actor,
        verb=AnnotationVerb.SET_ROLES,
        target=f"person:{person.username}",
        study=study.name,
        roles=roles,
        released=released,
    )


@transaction.atomic
def set_mapped_roles(
    *, person: Person, study: Study, roles: Set[str], of_provider: Set[str], provider: str
) -> None:
    """The person's roles in the study as the groups of an identity provider have them: ``roles`` are all of them,
    ``of_provider`` those that go again when the groups do (services/people/providers.py).
    """
    memberships = _lock_current_memberships(person, study)
    in_study = StudyMembership.objects.filter(person=person, study=study)
    before = set(in_study.values_list("role", flat=True))
    _add_roles(person, study, roles - before, None)
    in_study.filter(role__in=of_provider).update(given_by=provider)
    for membership in in_study.exclude(role__in=roles):
        membership.delete()  # one by one: tokens end with it (services/people/tokens.py)
    lost = set() if person.is_superuser else before.difference(roles)
    released = _release_work(person, memberships, lost, study)
    if roles - before:
        _restart_searches(memberships)
    if roles != before:
        record_in_study(
            study.pk,
            actor=None,
            verb=AnnotationVerb.MAP_ROLES,
            target=f"person:{person.username}",
            provider=provider,
            study=study.name,
            roles=sorted(roles),
            released=released,
        )


def _add_roles(person: Person, study: Study, roles: Iterable[str], actor: Person | None) -> None:
    StudyMembership.objects.bulk_create(
        [
            StudyMembership(person=person, study=study, role=role, created_by=actor)
            for role in sorted(set(roles))
        ]
    )


@transaction.atomic
def set_password(*, person: Person, password: str) -> None:
    """The person's own doing; the new password ends their other sessions and their tokens, and is recorded, as every
    one is (services/people/tokens.py).
    """
    _check_password(person, password)
    person.set_password(password)
    person.password_by = person
    person.save(update_fields=["password"])


@transaction.atomic
def allow_password(*, person: Person, minutes: int) -> datetime:
    """An admin's password opens their account until then, although local passwords are switched off."""
    if not 1 <= minutes <= MAX_PASSWORD_MINUTES:
        raise AssayError(N_("Enter 1 to {most} minutes."), most=MAX_PASSWORD_MINUTES)
    if not person.is_superuser:
        raise Conflict(
            N_("{name} is no admin: only an admin’s password opens anything then."), name=str(person)
        )
    if not person.has_usable_password():
        raise Conflict(
            N_("{name} has no password: set one with python manage.py changepassword."), name=str(person)
        )
    person.password_until = timezone.now() + timedelta(minutes=minutes)
    person.save(update_fields=["password_until"])
    record(
        actor=None,
        verb=AnnotationVerb.ALLOW_PASSWORD,
        target=f"person:{person.username}",
        until=person.password_until.isoformat(),
    )
    return person.password_until


@transaction.atomic
def set_display_name(*, person: Person, display_name: str, actor: Person) -> None:
    refuse_above(person, actor)
    if display_name == person.display_name:
        return
    person.display_name = display_name
    person.save(update_fields=["display_name"])
    record(
        actor=actor,
        verb=AnnotationVerb.SET_DISPLAY_NAME,
        target=f"person:{person.username}",
        display_name=display_name,
    )


@transaction.atomic
def set_languages(*, person: Person, languages: Iterable[str], actor: Person | None = None) -> None:
    """What the person reads; none means every language. Items in progress may be finished; what was planned for them
    and is in another language is planned for others.
    """
    refuse_above(person, actor)
    tags = language_tags(languages)
    memberships = _lock_current_memberships(person)
    person.refresh_from_db(fields=["languages"])
    if tags == person.languages:
        return
    person.languages = tags
    person.save(update_fields=["languages"])
    _restart_searches(memberships)
    record(actor=actor, verb=AnnotationVerb.SET_LANGUAGES, target=f"person:{person.username}", languages=tags)


@transaction.atomic
def set_own_models(
    *,
    person: Person,
    models: Iterable[EvaluatedModel],
    visible: Iterable[EvaluatedModel] | None = None,
    actor: Person | None = None,
) -> None:
    """The models that the person helped to build: their responses go to others, as with ``set_languages``.

    With ``visible`` only those are changed, and the others stay: whoever changes this may not see every name.
    """
    refuse_above(person, actor)
    memberships = _lock_current_memberships(person)
    before, new_models = set(person.own_models.all()), set(models)
    if visible is not None:
        visible_models = set(visible)
        new_models = (before - visible_models) | (new_models & visible_models)
    if new_models == before:
        return
    person.own_models.set(new_models)
    _restart_searches(memberships)
    names = sorted(model.name for model in new_models)
    record(actor=actor, verb=AnnotationVerb.SET_OWN_MODELS, target=f"person:{person.username}", models=names)


@transaction.atomic
def set_opted_out(*, person: Person, dimensions: Iterable[str]) -> int:
    """The topics that the person does not read, in any batch. They say so themselves, nobody asks why, and they may
    take it back any time.

    Their items in progress of these go back at once, unlike with ``set_languages``: the number of these items.
    """
    names = sorted(set(dimensions))
    memberships = _lock_current_memberships(person)
    person.refresh_from_db(fields=["opted_out"])
    if names == person.opted_out:
        return 0
    person.opted_out = names
    person.save(update_fields=["opted_out"])
    # Before the plans: a place that somebody has taken is not planned for anybody else.
    released = end_claims(Assignment.objects.filter(person=person, task__stratum__dimension__in=names))
    _restart_searches(memberships)
    record(
        actor=person, verb=AnnotationVerb.SET_OPTED_OUT, target=f"person:{person.username}", dimensions=names
    )
    return released


@transaction.atomic
def set_daily_exposure(*, person: Person, daily_exposure: int | None, actor: Person) -> None:
    """A budget of this person's own; None: everybody's."""
    refuse_above(person, actor)
    if daily_exposure == person.daily_exposure:
        return
    person.daily_exposure = daily_exposure
    person.save(update_fields=["daily_exposure"])
    target = f"person:{person.username}"
    record(actor=actor, verb=AnnotationVerb.SET_DAILY_EXPOSURE, target=target, daily_exposure=daily_exposure)


def language_tags(languages: Iterable[str]) -> list[str]:
    """Tags such as zh, zh-Hans and en: trimmed, each once, in this order."""
    tags: dict[str, str] = {}
    for language in languages:
        tag = language.strip().replace("_", "-")
        if not tag:
            continue
        if len(tag) > MAX_TAG_LENGTH or not _TAG.fullmatch(tag):
            raise AssayError(
                N_("{tag} is no language tag; write such as zh, zh-Hans or en."), tag=repr(language.strip())
            )
        tags.setdefault(tag.lower(), tag)
    return list(tags.values())


def _lock_current_memberships(person: Person, study: Study | None = None) -> list[int]:
    """The person's memberships in batches that are not closed, of the study or of all. Everybody's there are locked,
    in the order in which all lock them, because what was planned goes to others.
    """
    memberships = Membership.objects.exclude(batch__state=Batch.State.CLOSED).filter(person=person)
    if study is not None:
        memberships = memberships.filter(batch__study=study)
    ids = sorted(set(memberships.values_list("batch", flat=True)))
    locked = Membership.objects.select_for_update(no_key=True).filter(batch__in=ids).order_by("pk")
    return [pk for pk, owner in locked.values_list("pk", "person") if owner == person.pk]


def _restart_searches(memberships: Sequence[int]) -> None:
    """After what rules out work has changed: the search for the next item begins anew, and plans follow."""
    Membership.objects.filter(pk__in=memberships).update(cursor=Membership.START)
    annotators = Membership.objects.filter(pk__in=memberships, role=Membership.Role.ANNOTATOR)
    for membership in annotators.select_related("person", "batch").order_by("pk"):
        ruled_out = list_ruled_out_strata(membership)
        if ruled_out:
            replan_member(membership.batch, without=membership, strata=ruled_out)
        plan_orphaned_tasks(membership.batch)


@transaction.atomic
def deactivate_person(*, person: Person, actor: Person | None) -> int:
    """Shut a person out, sessions and tokens included, and give their live claims back. The number released.

    What was planned for them is planned for others. Everything that they submitted stays. Doing it twice changes
    nothing.
    """
    refuse_above(person, actor)
    if person == actor:
        raise Conflict(N_("You cannot deactivate yourself; ask another manager."))
    memberships = _lock_current_memberships(person)
    if not Person.objects.select_for_update(no_key=True).get(pk=person.pk).is_active:
        person.is_active = False
        return 0
    person.is_active = False
    person.save(update_fields=["is_active"])
    released = _release_work(person, memberships, {ANNOTATOR, ADJUDICATOR})
    record(actor=actor, verb=AnnotationVerb.DEACTIVATE, target=f"person:{person.username}", released=released)
    return released


def _release_work(
    person: Person, memberships: Sequence[int], roles: Set[str], study: Study | None = None
) -> int:
    """The person's items in progress in these ``roles`` go back, and what was planned for them goes to others: in the
    study, or in all of them.
    """
    claims = Assignment.objects.filter(person=person)
    if study is not None:
        claims = claims.filter(batch__study=study)
    if ANNOTATOR not in roles:
        claims = claims.filter(slot=ADJUDICATION_SLOT)
    if ADJUDICATOR not in roles:
        claims = claims.exclude(slot=ADJUDICATION_SLOT)
    released = end_claims(claims)
    if ANNOTATOR in roles:
        annotators = Membership.objects.filter(pk__in=memberships, role=Membership.Role.ANNOTATOR)
        for membership in annotators.select_related("batch").order_by("pk"):
            replan_member(membership.batch, without=membership)
    return released


@transaction.atomic
def activate_person(*, person: Person, actor: Person) -> None:
    """Let a person in again; where a batch has places that nobody is left for, they are planned for them."""
    refuse_above(person, actor)
    memberships = _lock_current_memberships(person)
    changed = not Person.objects.select_for_update(no_key=True).get(pk=person.pk).is_active
    person.is_active = True
    if changed:
        person.save(update_fields=["is_active"])
        _restart_searches(memberships)
        record(actor=actor, verb=AnnotationVerb.ACTIVATE, target=f"person:{person.username}")


def _check_password(person: Person, password: str) -> None:
    """By the rules for passwords, whichever page or command it comes from."""
    try:
        validate_password(password, person)
    except ValidationError as error:
        raise AssayError(N_("This password cannot be taken: {why}"), why=" ".join(error.messages)) from error


def refuse_above(person: Person, actor: Person | None) -> None:
    """A manager has no power over the account of an admin, or of who has a role in a study that they do not manage:
    else a set-up link would make them one, or open that study.
    """
    if person.erased_at is not None:
        raise Conflict(N_("{name} was erased: this account can no longer be changed."), name=person.username)
    if actor is not None and actor != person and person.is_superuser and not actor.is_superuser:
        raise Forbidden(N_("{name} is an admin: only an admin may change that."), name=str(person))
    if actor is not None and actor != person and not actor.is_superuser and is_of_others(person, actor):
        raise Forbidden(
            N_("{name} works in other studies, too: only an admin may change their account."),
            name=str(person),
        )


def refuse_unknown_roles(roles: list[str]) -> None:
    unknown = [role for role in roles if role not in ROLES]
    if unknown:
        raise AssayError(
            N_("There is no role {unknown}; the roles are {known}."),
            unknown=", ".join(unknown),
            known=", ".join(ROLES),
        )
