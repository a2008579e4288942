"""The server that takes outgoing mail: its address as one URL, and the conversation with it.

A mail has one recipient and one conversation of bounded length, whatever the server does. What went wrong is one of
two errors: ``MailRefused``, of this mail alone and for good or for now, and ``MailServerAway``, of every mail for now.
"""

from __future__ import annotations

import logging
import re
import smtplib
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from threading import Timer
from urllib.parse import unquote, urlsplit

logger = logging.getLogger(__name__)

PORTS = {"smtp": 25, "submission": 587, "smtps": 465}
FORMS = (
    "smtp://HOST, submission://USER:PASSWORD@HOST, smtps://USER:PASSWORD@HOST, console:// or file:///FOLDER"
)
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
IDLE_SECONDS = 10.0
"""Silence after which the server counts as away."""
MAX_SECONDS = 40.0
"""For connecting, and for one mail: a server that says a byte now and then holds a worker no longer."""
SERVER_STOPS = 421
MAX_REASON = 300


class MailError(Exception):
    """``reason``: what the server said, or what the network did, in English."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = " ".join(reason.split())[:MAX_REASON]


class MailRefused(MailError):
    """The server will not take this mail: for good where ``is_final``, else for now."""

    def __init__(self, reason: str, *, is_final: bool) -> None:
        super().__init__(reason)
        self.is_final = is_final


class MailServerAway(MailError):
    """The server cannot be reached, does not know us, or takes nothing from us now."""


@dataclass(frozen=True)
class MailServer:
    """``scheme`` is smtp (in clear), submission (STARTTLS), smtps (TLS), console or file."""

    scheme: str
    host: str = ""
    port: int = 0
    user: str = ""
    password: str = field(default="", repr=False)
    folder: Path | None = None

    def __str__(self) -> str:
        if self.scheme in PORTS:
            return f"{self.scheme}://{self.host}:{self.port}"
        return f"{self.scheme}://{self.folder or ''}"


def parse_mail_url(text: str) -> MailServer | None:
    """None for an empty text: no mail is sent. Raises ValueError with words that show no password."""
    if not text:
        return None
    parts = urlsplit(text)
    if parts.scheme == "console":
        return MailServer("console")
    if parts.scheme == "file":
        if parts.netloc or not parts.path.startswith("/") or parts.path == "/":
            raise ValueError("name the folder for the mails whole: file:///srv/assay/mail")
        return MailServer("file", folder=Path(unquote(parts.path)))
    if parts.scheme not in PORTS:
        raise ValueError(f"write {FORMS}")
    if not parts.hostname or parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise ValueError(f"write {FORMS}; a / @ : or # in a user or a password is percent-encoded (@ is %40)")
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if bool(user) != bool(password):
        raise ValueError("say both the user and the password, or neither")
    if user and parts.scheme == "smtp" and parts.hostname not in LOOPBACK:
        raise ValueError("smtp:// would send the password in clear: write submission:// or smtps://")
    try:
        port = parts.port or PORTS[parts.scheme]
    except ValueError as error:
        raise ValueError("the port is a number up to 65535") from error
    return MailServer(parts.scheme, parts.hostname, port, user, password)


class MailSession:
    """A connection that carries one mail after the other, opened when the first comes and anew after any error.

    ``name`` is how we introduce ourselves: the domain of the sender.
    """

    def __init__(self, server: MailServer, *, name: str) -> None:
        self._server, self._name = server, name
        self._smtp: smtplib.SMTP | None = None

    def __enter__(self) -> MailSession:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        smtp, self._smtp = self._smtp, None
        if smtp is not None:
            with suppress(smtplib.SMTPException, OSError, ValueError), _limit(smtp):
                smtp.quit()
            smtp.close()

    def open(self) -> None:
        """Connect and sign in, unless that is done. Raises MailServerAway."""
        if self._server.scheme in PORTS and self._smtp is None:
            self._smtp = _connect(self._server, self._name)

    def send(self, message: EmailMessage, *, sender: str, recipient: str) -> None:
        """Returns once the server has taken the mail over. Raises MailRefused or MailServerAway."""
        if self._server.scheme == "console":
            logger.info("mail to %s:\n%s", recipient, message.as_string())
            return
        if self._server.folder is not None:
            _write_file(self._server.folder, message)
            return
        self.open()
        assert self._smtp is not None
        try:
            with _limit(self._smtp):
                self._smtp.send_message(message, from_addr=sender, to_addrs=[recipient])
        except smtplib.SMTPRecipientsRefused as error:
            code, reply = next(iter(error.recipients.values()))
            raise self._build_refusal(code, reply) from error
        except (
            smtplib.SMTPSenderRefused
        ) as error:  # it takes nothing from this sender: a matter of the settings
            self.close()
            raise MailServerAway(_describe(error)) from error
        except smtplib.SMTPDataError as error:
            raise self._build_refusal(error.smtp_code, error.smtp_error) from error
        except (smtplib.SMTPException, OSError, ValueError) as error:
            self.close()
            raise MailServerAway(_describe(error)) from error

    def _build_refusal(self, code: int, reply: bytes | str) -> MailError:
        reason = f"{code} {_decode(reply)}"
        if code == SERVER_STOPS:
            self.close()
            return MailServerAway(reason)
        return MailRefused(reason, is_final=code >= 500)


def _connect(server: MailServer, name: str) -> smtplib.SMTP:
    context = ssl.create_default_context()
    smtp: smtplib.SMTP
    if server.scheme == "smtps":
        smtp = smtplib.SMTP_SSL(local_hostname=name, timeout=IDLE_SECONDS, context=context)
    else:
        smtp = smtplib.SMTP(local_hostname=name, timeout=IDLE_SECONDS)
    smtp._host = server.host  # type: ignore[attr-defined]  # whose certificate is checked; connect() forgets to say it
    try:
        with _limit(smtp):
            smtp.connect(server.host, server.port)
            if server.scheme == "submission":
                smtp.starttls(context=context)
            smtp.ehlo_or_helo_if_needed()
            if server.user:
                smtp.login(server.user, server.password)
    except (smtplib.SMTPException, OSError, ValueError) as error:
        smtp.close()
        raise MailServerAway(_describe(error)) from error
    return smtp


@contextmanager
def _limit(smtp: smtplib.SMTP) -> Iterator[None]:
    """Each read has its own time-out; this one is of all together."""
    timer = Timer(MAX_SECONDS, _break_off, [smtp])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _break_off(smtp: smtplib.SMTP) -> None:
    if smtp.sock is not None:
        with suppress(OSError):
            smtp.sock.shutdown(socket.SHUT_RDWR)


def _write_file(folder: Path, message: EmailMessage) -> None:
    """A file for each mail, whole or not there; the same mail again is the same file."""
    name = re.sub(r"[^0-9A-Za-z-]", "", str(message["Message-ID"]).partition("@")[0])
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = folder / f"{name}.part"
        part.write_bytes(message.as_bytes())
        part.chmod(0o600)
        part.replace(folder / f"{name}.eml")
    except OSError as error:
        raise MailServerAway(f"{folder}: {error.strerror}") from error


def _describe(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{error.smtp_code} {_decode(error.smtp_error)}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error).strip() or type(error).__name__


def _decode(reply: bytes | str) -> str:
    return reply.decode(errors="replace") if isinstance(reply, bytes) else reply
