"""What the address of an agreement page chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from django.http import HttpRequest
from django.urls import reverse

from annotation.core.errors import N_, AssayError
from annotation.domain.agreement import STATISTICS
from annotation.models import Person
from annotation.selectors.agreement import (
    FACETS,
    Grouping,
    LabelPatterns,
    Narrowing,
    PatternCounts,
    parse_narrowing,
)
from annotation.views.agreement.wording import GuidelineWords

VIEWS = ("groups", "levels", "prompts", "guideline", "time")


@dataclass(frozen=True)
class AgreementChoice:
    """``batches`` are those that were named (none: all), ``view`` is the tab (empty: the overview), ``by`` and
    ``across`` what its rows are grouped by, ``statistic`` what they are drawn and ordered by, ``narrowing`` the part of
    the labels that is looked at.
    """

    batches: tuple[str, ...]
    view: str
    by: str
    across: str
    statistic: str
    narrowing: Narrowing

    @property
    def grouping(self) -> Grouping:
        return tuple(dict.fromkeys(facet for facet in (self.by, self.across) if facet))

    def parameters(self) -> dict[str, str]:
        """Those of the address, without the batches and the page."""
        view = "" if self.view == "groups" and self.by else self.view
        parameters = {
            "view": view,
            "by": self.by,
            "across": self.across,
            "statistic": self.statistic,
        }
        return {name: value for name, value in parameters.items() if value} | self.narrowing.parameters()

    @property
    def query(self) -> str:
        """The address after its ``?``, without the page."""
        return encode_query(self.batches, self.parameters())

    def page_url(self, **changes: str) -> str:
        """Of this page with other choices; what is narrowed stays so."""
        choice = replace(self, **changes)  # type: ignore[arg-type]
        return f"{reverse('agreement')}?{choice.query}"

    def narrowed_url(self, narrowing: Narrowing, **changes: str) -> str:
        choice = replace(self, narrowing=narrowing, **changes)  # type: ignore[arg-type]
        return f"{reverse('agreement')}?{choice.query}"

    def tasks_url(self, narrowing: Narrowing | None = None) -> str:
        """The address of the tasks behind a figure: those of ``narrowing``, else all that this page counts."""
        task_narrowing = self.narrowing if narrowing is None else narrowing
        return f"{reverse('agreement-tasks')}?{encode_query(self.batches, task_narrowing.parameters())}"


def encode_query(batches: Sequence[str], parameters: Mapping[str, str]) -> str:
    return urlencode([*(("batch", name) for name in batches), *parameters.items()])


def parse_batches(request: HttpRequest) -> tuple[str, ...]:
    """The batches that an address names, each once; none: all that there are."""
    names = (name.strip() for name in request.GET.getlist("batch"))
    return tuple(dict.fromkeys(name for name in names if name))


def parse_choice(request: HttpRequest) -> AgreementChoice:
    parameters = {name: request.GET.get(name, "").strip() for name in ("view", "by", "across", "statistic")}
    known = {"view": VIEWS, "by": FACETS, "across": FACETS, "statistic": STATISTICS}
    for name, values in known.items():
        check_choice(parameters[name], values)
    if parameters["by"]:
        parameters["view"] = "groups"
    elif parameters["view"] == "groups":
        parameters["by"] = FACETS[0]
    return AgreementChoice(
        batches=parse_batches(request), **parameters, narrowing=parse_query_narrowing(request.GET)
    )


def parse_query_narrowing(parameters: Mapping[str, str]) -> Narrowing:
    return parse_narrowing({name: str(value) for name, value in parameters.items()})


def check_choice(value: str, known: tuple[str, ...]) -> None:
    if value and value not in known:
        raise AssayError(
            N_("{value} cannot be chosen here; choose one of: {known}."), value=value, known=", ".join(known)
        )


@dataclass(frozen=True)
class TabQuery:
    """What a tab is made from: who asks for what, of which labels. ``overall`` are the rows over all of them."""

    person: Person
    choice: AgreementChoice
    patterns: LabelPatterns
    overall: Sequence[PatternCounts]
    words: GuidelineWords
    page: str | None

    @property
    def headline(self) -> PatternCounts | None:
        """The one row that stands for everything; None where there are several guidelines."""
        guidelines = {row.guideline for row in self.overall}
        return self.overall[0] if len(guidelines) == 1 else None
