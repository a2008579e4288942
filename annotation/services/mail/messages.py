"""A mail's words and headers: a part of plain text, a simple one of HTML, in the language of its reader.

The sentences stand in ``templates/annotation/mail/``. Names come in cleaned (annotation/domain/mail/mail.py); whatever
they hold, a header stays one line, and the HTML part escapes everything.
"""

from __future__ import annotations

import re
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from uuid import uuid4

from django.conf import settings
from django.template.loader import render_to_string
from django.utils import timezone, translation

from annotation.core.text_templates import render_text
from annotation.models import OutgoingMail
from annotation.services.mail.contents import MailContent

FOLDER = "annotation/mail"
QUOTED = "quoted-printable"
"""Both parts in ASCII, since not every server takes more."""
MAX_SUBJECT = 200


def build_message(mail: OutgoingMail, content: MailContent | None) -> EmailMessage | None:
    """The message of a row: each attempt has the same Message-ID. None for content that is None."""
    return None if content is None else render_content(content, number=str(mail.uuid))


def render_content(content: MailContent, *, number: str = "") -> EmailMessage:
    """``number``: by which receivers know a mail that they have got already."""
    sender_name, sender = settings.MAIL_FROM
    domain = sender.rpartition("@")[2]
    message = EmailMessage(policy=SMTP)
    with translation.override(content.language):
        subject = _render("subject", content)[0][:MAX_SUBJECT]
        text, html = _render_text(content), _render_html(content)
    message["From"] = Address(display_name=sender_name, addr_spec=sender)
    message["To"] = Address(addr_spec=content.recipient)
    message["Subject"] = subject
    message["Date"] = format_datetime(timezone.now())
    message["Message-ID"] = f"<{number or uuid4()}@{domain}>"
    # Answering machines leave it alone.
    message["Auto-Submitted"] = "auto-generated"
    message["X-Auto-Response-Suppress"] = "All"
    if content.stop_url:
        message["List-Unsubscribe"] = f"<{content.stop_url}>"
        message["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"
    message.set_content(text, cte=QUOTED)
    message.add_alternative(html, subtype="html", cte=QUOTED)
    # Last: what is set before goes into the first part.
    message["Content-Language"] = "zh-CN" if content.language == "zh-hans" else content.language
    return message


def _render_text(content: MailContent) -> str:
    paragraphs = _render("text", content)
    if content.lines:
        paragraphs.append("\n\n".join(f"- {words}\n  {url}" for words, url in _list_lines(content)))
    if content.url:
        paragraphs.append(f"{_render('action', content)[0]}\n{content.url}")
    paragraphs += ["-- ", *_render("footer", content)]
    if content.stop_url:
        paragraphs += [content.stop_url]
    return "\n\n".join(paragraphs).replace("-- \n\n", "-- \n") + "\n"


def _render_html(content: MailContent) -> str:
    return render_to_string(
        f"{FOLDER}/mail.html",
        {
            "content": content,
            "paragraphs": _render("text", content),
            "lines": _list_lines(content),
            "action": " ".join(_render("action", content)),
            "footer": _render("footer", content),
        },
    )


def _list_lines(content: MailContent) -> list[tuple[str, str]]:
    """The words and the address of each line."""
    return [
        (" ".join(_render("line", content, line=line, work=line.work)), line.url) for line in content.lines
    ]


def _render(part: str, content: MailContent, **values: object) -> list[str]:
    """The paragraphs of a part, each on one line and without any markup."""
    context = {"content": content, "kind": content.kind, "site": settings.SITE_URL}
    text = render_text(f"{FOLDER}/{part}.txt", **{**content.values, **context, **values})
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    return [paragraph for paragraph in paragraphs if paragraph]
