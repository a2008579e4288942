"""The judged responses of a gold release, as multiple-choice questions are made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from annotation.models import GoldRelease, Prompt, Response
from benchmark.domain.multiple_choice.questions import JudgedResponse
from scoring.selectors.training import build_training_set, get_release_guideline


@dataclass(frozen=True)
class JudgedResponses:
    """``scales`` has the levels of each criterion that the release has labels of. ``dialogues`` and ``blank`` were left
    out: no option can be made of them.
    """

    responses: Sequence[JudgedResponse]
    scales: Mapping[str, Sequence[float]]
    dialogues: int
    blank: int


def list_judged_responses(release: GoldRelease, language: str = "") -> JudgedResponses:
    """Of all prompts, or of those in one language."""
    training_set = build_training_set(release, get_release_guideline(release))
    released = Response.objects.filter(pk__in=release.items.order_by().values("task__response"))
    dialogues = set(released.exclude(turns=[]).values_list("pk", flat=True))
    prompts = Prompt.objects.filter(pk__in=released.order_by().values("prompt"))
    rows = prompts.values_list("dataset__name", "key", "language")
    prompts_by_name = {f"{dataset}/{key}": (key, own) for dataset, key, own in rows.iterator()}
    judged, blank, skipped = [], 0, 0
    labelled: set[str] = set()
    for pk, example in zip(training_set.responses, training_set.examples, strict=True):
        key, prompt_language = prompts_by_name[example.prompt_key]
        labelled |= example.labels.keys()
        if language and prompt_language != language:
            continue
        if pk in dialogues:
            skipped += 1
        elif not example.response.strip():
            blank += 1
        else:
            judged.append(
                JudgedResponse(
                    prompt=example.prompt_key,
                    key=key,
                    question=example.prompt,
                    category=example.kind or example.dimension or "",
                    language=prompt_language,
                    text=example.response,
                    model=example.model,
                    labels=example.labels,
                )
            )
    scales = {head.criterion: head.values for head in training_set.heads if head.criterion in labelled}
    return JudgedResponses(judged, scales, skipped, blank)
