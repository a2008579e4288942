"""Where an uploaded file seems to belong: to which dataset, under which guideline."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice

from annotation.core.errors import AssayError, InputError
from annotation.core.names import MAX_NAME_CHARACTERS, check_name
from annotation.domain.formats import (
    ANNOTATIONS,
    FORMATS,
    PROMPTS,
    RESPONSES,
    PromptRecord,
    Record,
    get_format,
)
from annotation.domain.formats import table as tables
from annotation.domain.formats.labels import list_unknown_words
from annotation.domain.formats.mapping.mapping import LABEL
from annotation.domain.guidelines import GuidelineDocument
from annotation.models import Dataset, Import, Prompt
from annotation.selectors.datasets import list_own_datasets
from annotation.selectors.guidelines import get_guideline, list_published
from annotation.selectors.imports.uploads import build_source, list_columns

MAX_SAMPLED = 3000
"""So many records say of which guideline the dimensions are."""
MAX_COMPARED_PROMPTS = 50
"""So many prompts say in which dataset they are already."""


def brings_prompts(upload: Import) -> bool:
    """Whether a file of responses has the text of its prompts, so that its dataset may be new."""
    if upload.kind != RESPONSES:
        return False
    if FORMATS[upload.format].is_log:
        return True
    first = next(_read_records(upload), None)
    return getattr(first, "prompt", None) is not None


def guess_target(upload: Import) -> dict[str, str]:
    """Where an import of the file would go, as far as the file says it; an empty text where it does not.

    A complete format names its own dataset and batch.
    """
    form = FORMATS[upload.format]
    return {
        "dataset": form.name if form.complete else _guess_dataset(upload),
        "batch": form.name if form.complete else "",
        "model": form.model_of(upload.file_name) or "",
    }


def _guess_dataset(upload: Import) -> str:
    """The dataset that has the file's first prompts; else, where it may be new, a free name after the file's; else the
    study's only one.
    """
    if known := _find_dataset_of_prompts(upload):
        return known
    if upload.kind == PROMPTS or brings_prompts(upload):
        return _suggest_dataset_name(upload.file_name)
    names = list(list_own_datasets().values_list("name", flat=True)[:2])
    return names[0] if len(names) == 1 else ""


def _find_dataset_of_prompts(upload: Import) -> str:
    """The dataset in which most of the first prompts are, at least half of them; the newest of several."""
    texts: dict[str, str] = {}
    for record in islice(_read_records(upload), MAX_COMPARED_PROMPTS):
        texts.setdefault(record.ref.key, record.ref.text)
    stored = Prompt.objects.filter(dataset__in=list_own_datasets(), key__in=texts).values_list(
        "dataset__name", "key", "text"
    )
    shares = Counter(name for name, key, text in stored.order_by("-dataset") if texts[key] in ("", text))
    best, number = next(iter(shares.most_common(1)), ("", 0))
    return best if 2 * number >= len(texts) else ""


def _suggest_dataset_name(file_name: str) -> str:
    """The file's name without its ending, with a number where a dataset of the study has it; empty where that cannot be
    a name.
    """
    stem = re.sub(r"[/\\?#%]+", " ", tables.strip_ending(file_name)).strip(". ")
    names = set(Dataset.objects.filter(name__startswith=stem).values_list("name", flat=True))
    candidates = (stem if n == 1 else f"{stem}-{n}" for n in count(1))
    name = next(name for name in candidates if name not in names)[:MAX_NAME_CHARACTERS]
    try:
        return check_name(name)
    except AssayError:
        return ""


def _read_records(upload: Import) -> Iterator[Record]:
    """What can be read of it; nothing where its columns are not known yet."""
    try:
        for item in get_format(upload.format).reader(upload.kind).items(build_source(upload)):
            if not isinstance(item, InputError):
                yield item
    except AssayError:
        return


def guess_guideline(upload: Import) -> str:
    """The latest version of the guideline that knows at least half of the prompts' dimensions, and the most of them; of
    labels the one that knows the most of what they, or the columns of their table, are called.
    """
    words = _count_words(upload) if upload.kind == ANNOTATIONS else _count_dimensions(upload)
    best, most = "", 0 if upload.kind == ANNOTATIONS else words.total() / 2
    names = list_published().values_list("name", flat=True).distinct().order_by("name")
    for name in names if words else ():
        guideline = get_guideline(name)
        known = sum(number for word, number in words.items() if _knows(guideline.document, word, upload.kind))
        if known >= most and known:
            best, most = str(guideline), known + 1
    return best


def _knows(document: GuidelineDocument, word: str, kind: str) -> bool:
    if kind == ANNOTATIONS:
        return not list_unknown_words(document, [word], [], [])
    return document.dimension(word) is not None


def _count_words(upload: Import) -> Counter[str]:
    """What labels may be called: the columns of a table, or the controls of the first records."""
    if upload.format == tables.NAME:
        try:
            return Counter(column.removeprefix(LABEL) for column in list_columns(upload))
        except AssayError:
            return Counter()
    items = get_format(upload.format).annotation_reader().items(build_source(upload))
    return Counter(
        word
        for item in islice(items, MAX_SAMPLED)
        if not isinstance(item, InputError)
        for word in item.labels
    )


def _count_dimensions(upload: Import) -> Counter[str]:
    dimensions: Counter[str] = Counter()
    items = get_format(upload.format).reader(upload.kind).items(build_source(upload))
    for item in islice(items, MAX_SAMPLED):
        prompt = item if isinstance(item, PromptRecord) else getattr(item, "prompt", None)
        if prompt is not None and prompt.dimension:
            dimensions[prompt.dimension] += 1
    return dimensions
