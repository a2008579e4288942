from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from django.conf import settings
from django.db import models
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy


class Authored(models.Model):
    """What somebody made at some time; ``created_by`` is null for what a command made."""

    created_at = models.DateTimeField(_("created"), auto_now_add=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        models.PROTECT,
        null=True,
        blank=True,
        related_name="+",
        verbose_name=_("by"),
    )

    class Meta:
        abstract = True


class WithFiles(models.Model):
    """Its rows name files below ASSAY_DATA_DIR, or in the bucket of ASSAY_STORAGE by the same paths: written before
    the row says that they are there, changed never after, and gone only once the row is. A backup rests on that order:
    it reads the rows first and copies the files then.

    ``unfinished_files`` are patterns of what lies there and no row vouches for yet, such as a training's checkpoints.
    """

    unfinished_files: ClassVar[tuple[str, ...]] = ()

    class Meta:
        abstract = True

    @abstractmethod
    def list_files(self) -> Iterable[Path]:
        """What must be there by this row; a folder stands for all that it holds."""

    def list_names(self, path: str) -> list[str]:
        """Where a bucket may have one of these, whose path is relative to the data folder: the first that is there."""
        return [path]


class Channel(models.TextChoices):
    """The way by which a label came; empty where it came before this was recorded."""

    PAGE = "page", pgettext_lazy("channel", "page")
    TOKEN = "token", pgettext_lazy("channel", "token")
    IMPORT = "import", pgettext_lazy("channel", "import")


def channel_field() -> models.CharField[str, str]:
    """With the default in the database as well: code of before, which does not know the column, goes on writing."""
    return models.CharField(
        _("came by"), max_length=6, choices=Channel, blank=True, default="", db_default=""
    )
