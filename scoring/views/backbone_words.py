"""What a scorer is made of, in a sentence for its page: what its fit really used, once that is known."""

from __future__ import annotations

from collections.abc import Mapping

from django.utils.translation import gettext as _

from scoring.models import Scorer
from scoring.spec import EMBEDDED


def backbone_words(scorer: Scorer) -> str:
    """Before its training has ended, and of a card that names no members, an ensemble is told in general."""
    spec = scorer.spec
    if spec.kind == EMBEDDED:
        return _("Backbone ngram: no pretrained weights; it reads runs of words.")
    if spec.kind == "encoder":
        words = _("Backbone {backbone}: a pretrained transformer with a head for each criterion.")
        return words.format(backbone=scorer.backbone)
    used = scorer.card.get("details", {}).get("members")
    if not used:
        words = _("Backbone {backbone}: the average of those of its members that help.")
        return words.format(backbone=scorer.backbone)
    return f"{_average(scorer.backbone, used)} {_of_encoder(spec.encoder, used)}".strip()


def _average(backbone: str, used: Mapping[str, object]) -> str:
    known = {
        "ngram": _("ngram (runs of words)"),
        "patterns": _("patterns (boosted trees on phrases of refusal and the shape of a response)"),
        "encoder": _("the encoder (a pretrained transformer)"),
    }
    members = [known.get(name, name) for name in used]
    words = (
        _("Backbone {backbone}: the average of {members}.")
        if len(members) > 1
        else _("Backbone {backbone}: {members} alone, for nothing else helped.")
    )
    return words.format(backbone=backbone, members=_(", ").join(members))


def _of_encoder(encoder: str, used: Mapping[str, object]) -> str:
    if not encoder:
        return _("There was no encoder.")
    return "" if "encoder" in used else _("Its encoder did not help and was left out.")
