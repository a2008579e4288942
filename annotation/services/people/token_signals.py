"""What ends tokens: Django's signals of a person who was saved and of a role that was taken away.

Every process connects them when it starts, so that what they call is imported when they call it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.db.models.signals import post_save, pre_delete, pre_save
from django.utils import timezone

from annotation.models import ApiToken, Person, SetupLink, StudyMembership

# The fields of a person with which tokens end.
POWERS = frozenset({"password", "is_active", "is_superuser", "is_staff"})


def connect_signals() -> None:
    """Listen to what ends tokens; called once, at the start."""
    pre_save.connect(_note_end_reason, sender=Person, dispatch_uid="tokens")
    post_save.connect(_end_tokens_on_save, sender=Person, dispatch_uid="tokens")
    pre_delete.connect(_end_tokens_on_lost_role, sender=StudyMembership, dispatch_uid="tokens")


def _note_end_reason(
    instance: Person, *, raw: bool, update_fields: Collection[str] | None, **_about: Any
) -> None:
    """Keeps at the instance what ends tokens once it is saved."""
    instance._ends_tokens = None  # type: ignore[attr-defined]
    if not raw and instance.pk and (update_fields is None or not POWERS.isdisjoint(update_fields)):
        instance._ends_tokens = _find_end_reason(instance)  # type: ignore[attr-defined]


def _find_end_reason(person: Person) -> ApiToken.Ended | None:
    """``_password`` is there where set_password was called, and not where Django merely hashes it anew. Whoever is
    active again begins without tokens: a statement in a shell may have deactivated them past every signal.
    """
    before = Person.objects.filter(pk=person.pk).only(*POWERS).first()
    if before is None:
        return None
    if not person.is_active or not before.is_active:
        return ApiToken.Ended.ACCOUNT
    is_taken = before.has_usable_password() and not person.has_usable_password()
    if is_taken or getattr(person, "_password", None) is not None:
        return ApiToken.Ended.PASSWORD
    if (before.is_superuser, before.is_staff) != (person.is_superuser, person.is_staff):
        return ApiToken.Ended.ROLE
    return None


def _end_tokens_on_save(instance: Person, **_about: Any) -> None:
    reason = getattr(instance, "_ends_tokens", None)
    if reason is None:
        return
    from annotation.domain.verbs import AnnotationVerb
    from annotation.services.audit import record
    from annotation.services.people.tokens import end_tokens

    end_tokens([instance.pk], reason)
    if reason == ApiToken.Ended.PASSWORD:
        record(
            actor=instance.password_by, verb=AnnotationVerb.SET_PASSWORD, target=f"person:{instance.username}"
        )
    if reason != ApiToken.Ended.ROLE:
        waiting = SetupLink.objects.filter(person=instance, accepted_at=None, revoked_at=None)
        waiting.update(revoked_at=timezone.now())


def _end_tokens_on_lost_role(instance: StudyMembership, **_about: Any) -> None:
    from annotation.services.people.tokens import end_tokens

    end_tokens([instance.person_id], ApiToken.Ended.ROLE)
