"""Real servers of mail on loopback: one that takes everything, and ones that refuse, stall or drip.

``MailHost`` speaks SMTP (aiosmtpd) and keeps what it took; ``StallingHost`` is a socket that says as little as it is
told to.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword

from annotation.core.mail_server import parse_mail_url
from annotation.models import Job, MailProfile, OutgoingMail, Person
from annotation.services import jobs
from annotation.services.mail.outbox import JOB_KIND, release_dead_claims, wake_sender

SENDER = "assay@example.org"
SITE = "http://testserver"


class MailHost:
    """``refusals``: what is answered to a recipient, by address; ``data_answer``: to a whole mail, in place of 250."""

    def __init__(self, **options: Any) -> None:
        self.messages: list[EmailMessage] = []
        self.recipients: list[str] = []
        self.refusals: dict[str, str] = {}
        self.data_answer = ""
        self.during_data: Any = None
        self._controller = Controller(self, hostname="127.0.0.1", port=0, **options)

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"

    @property
    def port(self) -> int:
        assert self._controller.server is not None
        number: int = self._controller.server.sockets[0].getsockname()[1]
        return number

    def start(self) -> None:
        self._controller._trigger_server = self._greet  # type: ignore[method-assign]  # its own asks at port 0
        self._controller.start()

    def _greet(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
            connection.recv(100)

    def stop(self) -> None:
        self._controller.stop()

    async def handle_RCPT(
        self, server: SMTP, session: Any, envelope: Envelope, address: str, rcpt_options: list[str]
    ) -> str:
        if address in self.refusals:
            return self.refusals[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Any, envelope: Envelope) -> str:
        if self.during_data is not None:
            self.during_data()
        if self.data_answer:
            return self.data_answer
        content = envelope.content
        assert isinstance(content, bytes)
        message = message_from_bytes(content, policy=default)
        assert isinstance(message, EmailMessage)
        self.messages.append(message)
        self.recipients += envelope.rcpt_tos
        return "250 OK"


@contextmanager
def run_host(**options: Any) -> Iterator[MailHost]:
    host = MailHost(**options)
    host.start()
    try:
        yield host
    finally:
        host.stop()


def accept_password(user: str, password: str) -> Any:
    """An authenticator of a MailHost that knows one user."""

    def authenticate(server: SMTP, session: Any, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        is_right = isinstance(data, LoginPassword) and data == LoginPassword(user.encode(), password.encode())
        return AuthResult(success=is_right, handled=is_right)

    return authenticate


@contextmanager
def run_stalling_host(*, drip: bytes = b"", pause: float = 0.2) -> Iterator[int]:
    """The port of a server that takes connections and says nothing, or ``drip`` again and again."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()
    threads: list[threading.Thread] = []

    def serve() -> None:
        while not stop.is_set():
            try:
                connection, _address = listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=answer, args=[connection], daemon=True)
            threads.append(thread)
            thread.start()

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while not stop.wait(pause):
                if drip:
                    connection.sendall(drip)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        stop.set()
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for started in [thread, *threads]:
            started.join(5)


def use_server(settings: Any, url: str) -> None:
    """As ``EMAIL_URL``, ``ASSAY_MAIL_FROM`` and ``ASSAY_SITE_URL`` would have it."""
    settings.MAIL_SERVER = parse_mail_url(url)
    settings.MAIL_FROM = ("Assay", SENDER)
    settings.SITE_URL = SITE


def give_address(person: Person, address: str = "", language: str = "en", **changes: Any) -> MailProfile:
    """A confirmed address, as after the link was opened."""
    address = address or f"{person.username}@example.org"
    profile, _new = MailProfile.objects.update_or_create(
        person=person,
        defaults={"address": address, "address_key": address.casefold(), "language": language, **changes},
    )
    return profile


def send_all() -> list[Job]:
    """What beat and a worker do: make the job and do it."""
    release_dead_claims()
    wake_sender()
    waiting = Job.objects.filter(kind=JOB_KIND, state=Job.State.QUEUED).order_by("pk")
    return [jobs.run(job.pk) for job in waiting]


def list_states() -> list[str]:
    return list(OutgoingMail.objects.order_by("pk").values_list("state", flat=True))


def get_text(message: EmailMessage) -> str:
    part = message.get_body(("plain",))
    assert part is not None
    text: str = part.get_content()
    return text


def get_html(message: EmailMessage) -> str:
    part = message.get_body(("html",))
    assert part is not None
    text: str = part.get_content()
    return text
