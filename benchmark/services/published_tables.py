"""Entering and removing published tables. A removed one stays in the records."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.exceptions import ValidationError
from django.core.validators import URLValidator
from django.db import IntegrityError, transaction
from django.utils import timezone

from annotation.core.errors import N_, AssayError, Conflict
from annotation.core.study_scope import choose_study_id
from annotation.domain.formats.rows import Source
from annotation.models import Dataset, Guideline, Person
from annotation.services.audit import record
from benchmark.domain.published_tables import Published, read_table
from benchmark.domain.verbs import BenchmarkVerb
from benchmark.models import PublishedTable
from benchmark.selectors.leaderboards.runs import refuse_sealed_dataset
from benchmark.selectors.published_tables import list_prompt_languages
from scoring.selectors.scorers import get_latest_guideline

MAX_NAME_CHARACTERS, MAX_SOURCE_CHARACTERS, MAX_URL_CHARACTERS = 150, 2000, 500
_IS_URL = URLValidator(schemes=["http", "https"])


def read_published(source: Source, guideline: str) -> tuple[Guideline, list[Published]]:
    """The latest published version of the guideline, and what the file says by it. Nothing is stored."""
    guideline_version = get_latest_guideline(guideline)
    return guideline_version, read_table(source, guideline_version.document)


@transaction.atomic
def add_published(
    *,
    guideline: Guideline,
    dataset: Dataset,
    name: str,
    source: str,
    url: str = "",
    language: str = "",
    rows: Sequence[Published],
    actor: Person | None = None,
) -> PublishedTable:
    """``language`` is that of the prompts that its numbers are of; blank: of all."""
    if actor is not None:
        refuse_sealed_dataset(actor, dataset)
    _check_language(language, dataset)
    name, source, url = name.strip(), source.strip(), url.strip()
    _check_fields(name, source, url)
    try:
        with transaction.atomic():
            made = PublishedTable.objects.create(
                study_id=choose_study_id(dataset.study_id),
                guideline_name=guideline.name,
                dataset=dataset,
                language=language,
                name=name,
                source=source,
                url=url,
                rows=list(rows),
                created_by=actor,
            )
    except IntegrityError as error:
        raise Conflict(
            N_("There is a published table named {name} of {guideline} already: remove it first."),
            name=name,
            guideline=guideline.name,
        ) from error
    record(
        actor=actor,
        verb=BenchmarkVerb.ADD_PUBLISHED_TABLE,
        target=f"published:{made.pk}",
        guideline=guideline.name,
        dataset=dataset.name,
        name=name,
        rows=len(rows),
        **({"language": language} if language else {}),
    )
    return made


def _check_language(language: str, dataset: Dataset) -> None:
    """A table of a language that no prompt has would stand nowhere."""
    known = list_prompt_languages(Dataset.objects.filter(pk=dataset.pk))
    if language and language not in known:
        raise AssayError(
            N_("No prompt of {dataset} is in the language {language}; its languages are: {known}."),
            dataset=dataset.name,
            language=language,
            known=", ".join(known) or "-",
        )


def _check_fields(name: str, source: str, url: str) -> None:
    if not name or len(name) > MAX_NAME_CHARACTERS or not name.isprintable():
        raise AssayError(N_("A table needs a name of 1 to {most} characters."), most=MAX_NAME_CHARACTERS)
    if not source or len(source) > MAX_SOURCE_CHARACTERS or "\0" in source:
        raise AssayError(
            N_("Say where the numbers were published, in at most {most} characters."),
            most=MAX_SOURCE_CHARACTERS,
        )
    if url:
        try:
            _IS_URL(url)
            if "@" in url.split("/")[2]:
                raise AssayError(
                    N_("An address with a user or a password in it is not kept: leave them out.")
                )
        except ValidationError as error:
            raise AssayError(
                N_("{url} is no address of a web page; write it with https:// in front."), url=url[:100]
            ) from error
    if len(url) > MAX_URL_CHARACTERS:
        raise AssayError(N_("The address is longer than {most} characters."), most=MAX_URL_CHARACTERS)


@transaction.atomic
def place_published(*, table: PublishedTable, dataset: Dataset, actor: Person | None = None) -> None:
    """Beside the boards of this dataset from now on, and of no other."""
    if actor is not None:
        refuse_sealed_dataset(actor, dataset)
    _check_language(table.language, dataset)
    PublishedTable.objects.filter(pk=table.pk).update(dataset=dataset)
    record(
        actor=actor,
        verb=BenchmarkVerb.PLACE_PUBLISHED_TABLE,
        target=f"published:{table.pk}",
        name=table.name,
        dataset=dataset.name,
    )


@transaction.atomic
def remove_published(*, table: PublishedTable, actor: Person | None = None) -> None:
    """From every board; the row stays, with when it was. Removing twice changes nothing."""
    if PublishedTable.objects.filter(pk=table.pk, removed_at=None).update(removed_at=timezone.now()):
        record(
            actor=actor,
            verb=BenchmarkVerb.REMOVE_PUBLISHED_TABLE,
            target=f"published:{table.pk}",
            guideline=table.guideline_name,
            name=table.name,
        )
