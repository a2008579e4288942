"""Two versions of a guideline side by side, and in a sentence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import get_language
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET

from annotation.core.errors import N_, NotFound
from annotation.core.http import breadcrumbs
from annotation.domain.guidelines.comparison import (
    Change,
    ComparedClause,
    ComparedField,
    GuidelineComparison,
    Key,
    compare,
)
from annotation.domain.permissions import READ_GUIDELINES, WRITE_GUIDELINES
from annotation.models import Guideline, GuidelineNote, Person
from annotation.selectors.guidelines import (
    ClauseKey,
    choose_language,
    get_guideline_version,
    group_by_clause,
    list_guideline_versions,
    list_open_notes,
    record_note_openings,
)
from annotation.views.access import act_required, may, person_of
from annotation.views.guidelines.wording import FIELDS, KINDS, guideline_text, language_name

# Notes stand once, beside the clause itself and not beside its examples.
KINDS_WITH_NOTES = ("criterion", "level")
CHANGES: tuple[Change, ...] = ("changed", "added", "removed")


@dataclass(frozen=True)
class ClauseRow:
    """A clause that changed, with the open notes on its old version; or (``folded``) a run of unchanged ones."""

    clause: ComparedClause | None
    kind: str
    fields: Sequence[tuple[str, ComparedField]]
    notes: Sequence[GuidelineNote]
    folded: Sequence[tuple[str, ComparedClause]] = ()


@dataclass(frozen=True)
class ClauseSection:
    title: str
    anchor: str
    changes: int
    rows: Sequence[ClauseRow]

    @property
    def folded(self) -> Sequence[tuple[str, ComparedClause]]:
        """Everything in it, where nothing is to be seen."""
        return self.rows[0].folded if len(self.rows) == 1 else ()


@require_GET
@act_required(READ_GUIDELINES)
def guideline_compare(request: HttpRequest, name: str) -> HttpResponse:
    """``?old=`` and ``?new=`` are versions; without them the latest against the one published before it."""
    person = person_of(request)
    manages = may(person, WRITE_GUIDELINES)
    versions = list_guideline_versions(name, drafts=manages)
    if not versions:
        raise NotFound(N_("There is no guideline {name}."), name=name)
    old, new = find_versions(request, name, versions, drafts=manages)
    before, after = old.document, new.document
    language = choose_language(after, request.GET.get("language") or get_language() or "en")
    compared = {code: compare(before, after, code, guideline_text) for code in after.languages}
    waiting = list(list_open_notes(person).filter(guideline=old)) if manages else []
    record_note_openings(person, waiting)
    notes = group_by_clause(old, waiting)
    comparison = compared[language]
    context = {
        "name": name,
        "old": old,
        "new": new,
        "versions": versions,
        "language": language,
        "languages": [
            (code, language_name(code), comparison_of_language.changes)
            for code, comparison_of_language in compared.items()
        ],
        "comparison": comparison,
        "counts": count_changes(comparison),
        "whole_notes": notes.get(("", None), ()),
        "sections": list_sections(comparison, notes),
        "crumbs": breadcrumbs(
            (_("Guidelines"), "guidelines", []),
            (str(new), "guideline", [name, new.version]),
            title=_("Compare versions"),
        ),
    }
    return render(request, "annotation/guidelines/compare.html", context)


def compare_with_published(person: Person, draft: Guideline) -> dict[str, Any]:
    """What a draft changes against the latest published version, and the notes on that one which still wait."""
    published = [
        version for version in list_guideline_versions(draft.name, drafts=False) if version.pk != draft.pk
    ]
    if not published:
        return {}
    latest = published[0]
    compared = [compare(latest.document, draft.document, code) for code in draft.document.languages]
    widest = max(compared, key=lambda comparison: comparison.changes)
    waiting = list_open_notes(person).filter(guideline=latest).count()
    return {
        "latest": latest,
        "changes": widest.changes,
        "counts": count_changes(widest),
        "open_notes": waiting,
    }


def find_versions(
    request: HttpRequest, name: str, versions: Sequence[Guideline], *, drafts: bool
) -> tuple[Guideline, Guideline]:
    """The two versions asked for. The old one is by default the latest published one before the new."""
    version_name = request.GET.get("new")
    new = get_guideline_version(name, version_name, drafts=drafts) if version_name else versions[0]
    version_name = request.GET.get("old")
    if version_name:
        return get_guideline_version(name, version_name, drafts=drafts), new
    place = next(at for at, version in enumerate(versions) if version.pk == new.pk)
    return next((version for version in versions[place + 1 :] if version.is_published), versions[-1]), new


def count_changes(comparison: GuidelineComparison) -> list[tuple[str, int]]:
    """(state of the badge, how many clauses), without what did not happen."""
    counts = [(change, comparison.count(change)) for change in CHANGES]
    return [(change, count) for change, count in counts if count]


def list_sections(
    comparison: GuidelineComparison, notes: dict[ClauseKey, list[GuidelineNote]]
) -> list[ClauseSection]:
    titles: dict[Key, str] = {
        ("document",): _("The whole"),
        ("introduction",): _("Working method"),
        ("dimensions",): _("Dimensions"),
        ("metrics",): _("Headline metrics"),
    }
    sections = []
    for key, clauses in comparison.sections():
        title = titles.get(key) or next(clause.label for clause in clauses if clause.kind == "criterion")
        changes = sum(clause.change != "same" for clause in clauses)
        sections.append(ClauseSection(title, "-".join(key), changes, list(list_rows(clauses, notes))))
    return sections


def list_rows(
    clauses: Sequence[ComparedClause], notes: dict[ClauseKey, list[GuidelineNote]]
) -> Iterator[ClauseRow]:
    """Unchanged clauses in a row are folded into one; one that has open notes stays, so that they are seen."""

    def list_clause_notes(clause: ComparedClause) -> list[GuidelineNote]:
        return notes.get((clause.criterion, clause.level), []) if clause.kind in KINDS_WITH_NOTES else []

    for folded, run in groupby(
        clauses, key=lambda clause: clause.change == "same" and not list_clause_notes(clause)
    ):
        if folded:
            yield ClauseRow(None, "", (), (), [(kind_name(clause), clause) for clause in run])
            continue
        for clause in run:
            fields_shown = [field for field in clause.fields if field.changed] or clause.fields
            # The one field of a paragraph is the paragraph.
            fields = [
                ("" if field.name == "text" else str(FIELDS[field.name]), field) for field in fields_shown
            ]
            yield ClauseRow(clause, kind_name(clause), fields, list_clause_notes(clause))


def kind_name(clause: ComparedClause) -> str:
    return str(KINDS[clause.kind])
