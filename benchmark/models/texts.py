"""What is stored of the texts of a dataset, so that near ones are found: bands of signatures, and embeddings."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from annotation.models import Dataset, Prompt
from benchmark.models.workbench import ProposalRevision


class TextBand(models.Model):
    """A band of the signature of a text (benchmark/domain/workbench/duplicates.py): of a prompt of the dataset, or of
    a submitted revision for it. Texts that share a band are compared.
    """

    dataset = models.ForeignKey(Dataset, models.CASCADE, related_name="+", db_index=False)
    band = models.BigIntegerField(_("band"))
    prompt = models.ForeignKey(Prompt, models.CASCADE, null=True, related_name="+")
    revision = models.ForeignKey(ProposalRevision, models.CASCADE, null=True, related_name="+")

    class Meta:
        verbose_name = _("band of a text")
        verbose_name_plural = _("bands of texts")
        constraints = [
            models.CheckConstraint(
                condition=Q(prompt__isnull=False, revision__isnull=True)
                | Q(prompt__isnull=True, revision__isnull=False),
                name="text_band_of_one_text",
            )
        ]
        indexes = [models.Index(fields=["dataset", "band"], name="text_band_by_dataset")]

    def __str__(self) -> str:
        return f"{self.dataset_id}/{self.band}"


class TextEmbedding(models.Model):
    """The embedding of a text by an encoder: of a prompt of the dataset, or of a submitted revision for it.

    ``encoder`` is the sha256 of the encoder's folder, ``vector`` the little-endian float32 numbers.
    """

    dataset = models.ForeignKey(Dataset, models.CASCADE, related_name="+", db_index=False)
    prompt = models.ForeignKey(Prompt, models.CASCADE, null=True, related_name="+", db_index=False)
    revision = models.ForeignKey(
        ProposalRevision, models.CASCADE, null=True, related_name="+", db_index=False
    )
    encoder = models.CharField(max_length=64)
    vector = models.BinaryField()

    class Meta:
        verbose_name = _("embedding of a text")
        verbose_name_plural = _("embeddings of texts")
        constraints = [
            models.CheckConstraint(
                condition=Q(prompt__isnull=False, revision__isnull=True)
                | Q(prompt__isnull=True, revision__isnull=False),
                name="text_embedding_of_one_text",
            ),
            models.UniqueConstraint(fields=["prompt", "encoder"], name="text_embedding_once_per_prompt"),
            models.UniqueConstraint(fields=["revision", "encoder"], name="text_embedding_once_per_revision"),
        ]
        indexes = [models.Index(fields=["dataset", "encoder"], name="text_embedding_by_dataset")]

    def __str__(self) -> str:
        return f"{self.dataset_id}/{self.pk}"


class TextIndex(models.Model):
    """Up to which prompt, by its id, the bands of the dataset's prompts are stored."""

    dataset = models.OneToOneField(Dataset, models.CASCADE, primary_key=True, related_name="+")
    last_prompt = models.BigIntegerField(default=0)

    class Meta:
        verbose_name = _("index of texts")
        verbose_name_plural = _("indexes of texts")

    def __str__(self) -> str:
        return f"{self.dataset_id}: {self.last_prompt}"
