"""What the commands of the prompt workbench share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from annotation.core.errors import N_, NotFound
from annotation.core.formatting import UNDEFINED, format_bracketed, format_bracketed_percent, format_compact
from annotation.core.terminal import format_table
from benchmark.models import Campaign

ALL = "all"


def get_named_campaign(name: str) -> Campaign:
    campaign = Campaign.objects.select_related("dataset", "guideline").filter(name=name).first()
    if campaign is None:
        raise NotFound(N_("There is no campaign named {name}."), name=name)
    return campaign


def format_report(data: Mapping[str, Any]) -> Iterator[str]:
    """The report of a campaign as tables of text."""
    yield f"{data['campaign']} ({data['state']})"
    yield from _section("quotas", _list_quotas(data["quotas"]), texts=3)
    yield from _section(
        "attack success, 95% intervals by prompts", _list_rates(data["attack_success"]), texts=4
    )
    yield from _section("authors", _list_authors(data["authors"]))
    yield from _section(
        f"reviewers' agreement with authors; {data['disputed']} went to a third person",
        _list_agreement(data["reviewers"]),
    )
    yield from _section("cost", _list_costs(data["cost"]))


def _section(title: str, rows: Sequence[Sequence[str]], *, texts: int = 1) -> Iterator[str]:
    """Nothing of a table with a header alone."""
    if len(rows) > 1:
        yield ""
        yield title
        yield from format_table(rows, texts=texts)


def _list_quotas(quotas: Sequence[Mapping[str, Any]]) -> list[Sequence[str]]:
    heads = ("dimension", "subcomponent", "method", "wanted", "taken", "accepted")
    return [
        heads,
        *(
            [str(quota[name] or UNDEFINED) for name in heads[:3]] + [str(quota[name]) for name in heads[3:]]
            for quota in quotas
        ),
    ]


def _list_rates(success: Mapping[str, Mapping[str, Any]]) -> list[Sequence[str]]:
    heads = ("by", "target", "method", "dimension", "success", "n")
    rows: list[Sequence[str]] = [heads]
    for source, part in success.items():
        if part["overall"]["n"]:
            rows.append((source, ALL, ALL, ALL, _format_rate(part["overall"]), str(part["overall"]["n"])))
        rows += [
            (
                source,
                row["target"],
                row["method"] or UNDEFINED,
                row["dimension"] or UNDEFINED,
                _format_rate(row),
                str(row["n"]),
            )
            for row in part["rows"]
        ]
    return rows


def _format_rate(rate: Mapping[str, Any]) -> str:
    return format_bracketed_percent(rate["value"], rate["low"], rate["high"])


def _list_authors(authors: Sequence[Mapping[str, Any]]) -> list[Sequence[str]]:
    heads = ("accepted", "returned", "rejected", "waiting", "drafts", "warned", "blocked", "requests")
    return [("author", *heads), *((row["name"], *(str(row[name]) for name in heads)) for row in authors)]


def _list_agreement(reviewers: Mapping[str, Mapping[str, Any]]) -> list[Sequence[str]]:
    heads = ("field", "n", "agreement", "Cohen's kappa")
    rows: list[Sequence[str]] = [heads]
    for name, part in reviewers.items():
        if part["n"]:
            kappa = part["cohen_kappa"]
            rows.append(
                (
                    name,
                    str(part["n"]),
                    _format_rate(part["percent_agreement"]),
                    format_bracketed(kappa["value"], kappa["low"], kappa["high"]),
                )
            )
    return rows


def _list_costs(costs: Sequence[Mapping[str, Any]]) -> list[Sequence[str]]:
    heads = ("target", "answers", "failures", "tokens in", "tokens out", "seconds")
    return [
        heads,
        *(
            (
                row["target"],
                str(row["answers"]),
                str(row["failures"]),
                format_compact(row["prompt_tokens"]),
                format_compact(row["completion_tokens"]),
                f"{row['seconds']:.1f}",
            )
            for row in costs
        ),
    ]
