"""The sentences that say what an act has done, by their code (templates/annotation/notices.txt)."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest

from annotation.core.text_templates import render_text


def render_notice(notice: str, **values: Any) -> str:
    return render_text("annotation/notices.txt", notice=notice, **values)


def add_notice(request: HttpRequest, notice: str, **values: Any) -> None:
    """Show the sentence at the top of the next page."""
    messages.success(request, render_notice(notice, **values))
