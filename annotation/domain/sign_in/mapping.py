"""Which roles the groups of a person at a provider give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from annotation.domain.sign_in.providers import Provider

MAX_GROUPS = 2000
"""More than any directory sends; a claim that is longer is cut rather than worked on for ever."""


@dataclass(frozen=True)
class MappedRoles:
    """``by_study``: the roles by the name of the study, also of those in which the groups give none."""

    by_study: Mapping[str, frozenset[str]]
    is_admin: bool


def map_groups(provider: Provider, groups: Iterable[str]) -> MappedRoles:
    """Groups are compared as they are written: a directory may have ``Staff`` beside ``staff``."""
    held = set(groups)
    rules = [rule for rule in provider.roles if rule.group in held]
    by_study = {
        study: frozenset(role for rule in rules if rule.study == study for role in rule.roles)
        for study in provider.studies
    }
    return MappedRoles(by_study, any(rule.admin for rule in rules))


def read_groups(claim: Any) -> list[str]:
    """The names in a claim: a list, or one name; anything else has none, so that nothing odd gives a role."""
    if isinstance(claim, str):
        return [claim] if claim else []
    if not isinstance(claim, list | tuple):
        return []
    return [group for group in claim[:MAX_GROUPS] if isinstance(group, str)]


def combine_roles(
    *, held: Mapping[str, str], mapped: frozenset[str], provider: str, owns: bool
) -> tuple[frozenset[str], frozenset[str]]:
    """The roles of a person in a study from now on, and those of them that are the provider's to take away.

    ``held`` are the roles of now with who gave them (empty: somebody by hand). What was given by hand, or by another
    provider, stays, unless this one ``owns`` the roles of the study.
    """
    manual = frozenset(role for role, giver in held.items() if giver != provider)
    if owns:
        return mapped, mapped
    return manual | mapped, mapped - manual
