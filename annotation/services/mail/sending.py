"""Sending what waits in the outbox: the job's body, and what becomes of a mail after an attempt.

A mail is claimed before it is sent and marked after the server took it over. A worker that is killed before that loses
nothing: its claims are free once its job runs no more. One that is killed in the moment between the server's word and
the mark sends the mail again, under the same Message-ID, by which mail programs know it; nobody can close that gap.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from email.message import EmailMessage
from functools import partial

from django.conf import settings
from django.utils import timezone

from annotation.core.databases import is_connection_lost, wait_for_database
from annotation.core.errors import N_, AssayError
from annotation.core.mail_server import MailError, MailRefused, MailServer, MailServerAway, MailSession
from annotation.domain.mail.mail import check_address, compute_pause
from annotation.models import OutgoingMail
from annotation.services.jobs import JobContext
from annotation.services.mail.contents import build_test_content, find_content
from annotation.services.mail.messages import build_message, render_content
from annotation.services.mail.outbox import claim_mail, filter_claim, release_dead_claims

logger = logging.getLogger(__name__)
State = OutgoingMail.State
PASS_SECONDS = 20.0
"""So long a job sends at most: the queue's other work waits for it, and the next job goes on."""
TOO_LATE = "given up: it was not worth sending any more"


def send_due_mail(context: JobContext) -> dict[str, int]:
    """The body of the job: one mail after the other, until none is due or the time is over."""
    server = settings.MAIL_SERVER
    if server is None:
        return {}
    release_dead_claims()
    outcomes: Counter[str] = Counter()
    end = time.monotonic() + PASS_SECONDS
    with open_session(server) as session:
        while time.monotonic() < end:
            context.report(0, N_("sending mail"))
            mail = claim_mail(context.job)
            if mail is None:
                break
            try:
                state = _send(session, mail)
            except MailServerAway as error:
                _postpone_all(mail, error)
                outcomes[State.WAITING.value] += 1
                break
            outcomes[state.value] += 1
    return dict(outcomes)


def open_session(server: MailServer) -> MailSession:
    return MailSession(server, name=settings.MAIL_FROM[1].rpartition("@")[2])


def send_test_mail(address: str) -> str:
    """Send a mail to the address now and in this process, past the outbox; the address as it was sent to. AssayError
    says what the server refused.
    """
    server = settings.MAIL_SERVER
    if server is None:
        raise AssayError(N_("No mail is sent: EMAIL_URL is empty."))
    recipient = check_address(address)
    content = build_test_content(recipient)
    try:
        with open_session(server) as session:
            session.send(render_content(content), sender=settings.MAIL_FROM[1], recipient=recipient)
    except MailError as error:
        raise AssayError(
            N_("{server} did not take the mail: {why}"), server=str(server), why=error.reason
        ) from error
    return recipient


def _send(session: MailSession, mail: OutgoingMail) -> OutgoingMail.State:
    """The state that the mail is in then. Raises MailServerAway, with the mail claimed as it was."""
    if mail.expires_at <= timezone.now():
        return _end(mail, State.FAILED, mail.error or TOO_LATE)
    try:
        message = build_message(mail, find_content(mail))
    except Exception as error:  # a mail that cannot be written must not keep the others from being sent
        if is_connection_lost(error):
            raise
        logger.exception("mail %s (%s) cannot be written", mail.pk, mail.kind)
        return _end(mail, State.FAILED, f"{type(error).__name__}: {error}")
    if message is None:
        return _end(mail, State.DROPPED)
    try:
        _hand_over(session, message)
    except MailRefused as error:
        if error.is_final:
            return _end(mail, State.FAILED, error.reason)
        return _postpone(mail, error)
    return _end(mail, State.SENT)


def _hand_over(session: MailSession, message: EmailMessage) -> None:
    recipient = message["To"].addresses[0].addr_spec
    session.send(message, sender=settings.MAIL_FROM[1], recipient=recipient)


def _end(mail: OutgoingMail, state: OutgoingMail.State, error: str = "") -> OutgoingMail.State:
    """Mark it, and wait for a database that is away: what was sent must not be sent again."""
    if state == State.FAILED:
        logger.warning("mail %s (%s) was not sent: %s", mail.pk, mail.kind, error)
    changes = {"state": state, "ended_at": timezone.now(), "error": error[:300]}
    wait_for_database(partial(filter_claim(mail).update, **changes))
    return state


def _postpone(mail: OutgoingMail, error: MailError) -> OutgoingMail.State:
    due_at = timezone.now() + compute_pause(mail.attempts)
    if due_at >= mail.expires_at:
        return _end(mail, State.FAILED, error.reason)
    changes = {"state": State.WAITING, "due_at": due_at, "error": error.reason, "job": None}
    wait_for_database(partial(filter_claim(mail).update, **changes, job_attempt=None))
    return State.WAITING


def _postpone_all(mail: OutgoingMail, error: MailServerAway) -> None:
    """The server takes nothing from us now: whatever is due waits as long as the mail on which that was seen."""
    logger.warning("no mail can be sent now: %s", error.reason)
    _postpone(mail, error)
    until = timezone.now() + compute_pause(mail.attempts)
    due = OutgoingMail.objects.filter(state=State.WAITING, due_at__lt=until)
    wait_for_database(partial(due.update, due_at=until))
