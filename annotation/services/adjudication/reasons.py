"""The managers' list of reasons why annotators differ. A reason is retired, never deleted: decisions name it."""

from __future__ import annotations

from collections.abc import Mapping

from django.db import transaction
from django.utils.text import slugify

from annotation.core.errors import N_, Conflict, NotFound, Unprocessable
from annotation.domain.verbs import AnnotationVerb
from annotation.models import DisputeReason, Person
from annotation.services.audit import record

MAX_KEY_LENGTH = 50


@transaction.atomic
def add_reason(*, words: Mapping[str, str], makes_note: bool, actor: Person) -> DisputeReason:
    """At the end of the list; its key is made of the English words, and stays."""
    reasons = _lock_reasons()
    _refuse_same_words(words, reasons)
    made = DisputeReason.objects.create(
        key=_build_key(words["en"], {reason.key for reason in reasons}),
        words=dict(words),
        makes_note=makes_note,
        position=max((reason.position for reason in reasons), default=-1) + 1,
    )
    _record(actor, AnnotationVerb.ADD_DISPUTE_REASON, made)
    return made


@transaction.atomic
def change_reason(*, key: str, words: Mapping[str, str], makes_note: bool, actor: Person) -> DisputeReason:
    """Its words, also for the decisions that named it before; its key stays."""
    reasons = _lock_reasons()
    reason = _get_reason(key, reasons)
    _refuse_same_words(words, [other for other in reasons if other.pk != reason.pk])
    if (reason.words, reason.makes_note) != (dict(words), makes_note):
        reason.words, reason.makes_note = dict(words), makes_note
        reason.save(update_fields=["words", "makes_note"])
        _record(actor, AnnotationVerb.CHANGE_DISPUTE_REASON, reason)
    return reason


@transaction.atomic
def move_reason(*, key: str, up: bool, actor: Person) -> None:
    """One place up or down among all of them; at the end nothing happens."""
    reasons = _lock_reasons()
    place = reasons.index(_get_reason(key, reasons))
    other = place - 1 if up else place + 1
    if not 0 <= other < len(reasons):
        return
    reasons[place], reasons[other] = reasons[other], reasons[place]
    for position, reason in enumerate(reasons):
        reason.position = position
    DisputeReason.objects.bulk_update(reasons, ["position"])
    _record(actor, AnnotationVerb.MOVE_DISPUTE_REASON, reasons[other])


@transaction.atomic
def set_reason_active(*, key: str, active: bool, actor: Person) -> None:
    """Take it off the adjudicators' list, or put it back. One always stays: a decision needs one."""
    reasons = _lock_reasons()
    reason = _get_reason(key, reasons)
    if reason.active == active:
        return
    if not active and not any(other.active for other in reasons if other.pk != reason.pk):
        raise Conflict(N_("Every decision names a reason: add another one before you retire the last."))
    reason.active = active
    reason.save(update_fields=["active"])
    _record(
        actor,
        AnnotationVerb.RESTORE_DISPUTE_REASON if active else AnnotationVerb.RETIRE_DISPUTE_REASON,
        reason,
    )


def _lock_reasons() -> list[DisputeReason]:
    """All of them in their order, locked: two managers change the list one after the other."""
    list(DisputeReason.objects.select_for_update().order_by("pk").values_list("pk"))
    return list(DisputeReason.objects.all())


def _get_reason(key: str, reasons: list[DisputeReason]) -> DisputeReason:
    match = next((reason for reason in reasons if reason.key == key), None)
    if match is None:
        raise NotFound(N_("There is no reason {key}."), key=key)
    return match


def _refuse_same_words(words: Mapping[str, str], reasons: list[DisputeReason]) -> None:
    for language, text in words.items():
        if any(reason.words.get(language) == text for reason in reasons):
            raise Unprocessable(N_("There is already a reason {words}."), words=text)


def _build_key(english: str, used_keys: set[str]) -> str:
    """``Reading slip`` becomes ``reading_slip``, numbered where that is taken."""
    plain = slugify(english).replace("-", "_")[: MAX_KEY_LENGTH - 5] or "reason"
    numbered = (f"{plain}_{number}" for number in range(2, 10_000))
    return plain if plain not in used_keys else next(key for key in numbered if key not in used_keys)


def _record(actor: Person, verb: AnnotationVerb, reason: DisputeReason) -> None:
    record(
        actor=actor,
        verb=verb,
        target=f"dispute_reason:{reason.key}",
        words=reason.words,
        makes_note=reason.makes_note,
        active=reason.active,
        position=reason.position,
    )
