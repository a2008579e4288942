"""Checks of an installation: each a small function, all in one list, run by ``doctor`` and by ``/readyz``.

An app's checks stand in its ``health.py`` and enter the list by ``register_check`` when ``load_checks`` finds them, as
the handlers of jobs do. A check returns a HealthResult and never writes anything that stays; what it raises is a fault
like any other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from django.db import DatabaseError, InterfaceError
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext

from annotation.core.errors import N_, AssayError

logger = logging.getLogger(__name__)


class CheckState(Enum):
    OK = "ok"
    WARNING = "warning"
    FAULT = "fault"


class Readiness(Enum):
    """What the check says of whether this web process may get requests."""

    REQUIRED = "required"
    ADVISORY = "advisory"
    NONE = "none"


@dataclass(frozen=True)
class HealthResult:
    """``message`` says what was seen, ``remedy`` how to mend it: English templates (``N_``), filled from ``params``."""

    state: CheckState
    message: str
    remedy: str = ""
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def message_text(self) -> str:
        return gettext(self.message).format(**self.params)

    @property
    def remedy_text(self) -> str:
        return gettext(self.remedy).format(**self.params) if self.remedy else ""


def passed(message: str, **params: Any) -> HealthResult:
    return HealthResult(CheckState.OK, message, params=params)


def warning(message: str, remedy: str, **params: Any) -> HealthResult:
    return HealthResult(CheckState.WARNING, message, remedy, params)


def fault(message: str, remedy: str, **params: Any) -> HealthResult:
    return HealthResult(CheckState.FAULT, message, remedy, params)


@dataclass(frozen=True)
class Check:
    """``needs_database``: it is not run where the database, or its tables, are not there. ``reads_all``: it reads
    whole files or tables, which may take minutes.
    """

    name: str
    run: Callable[[], HealthResult]
    needs_database: bool
    reads_all: bool
    readiness: Readiness


DATABASE, MIGRATIONS = "database", "migrations"
BASES = (DATABASE, MIGRATIONS)
CHECKS: dict[str, Check] = {}
"""By name, in the order in which they are run and shown."""


def register_check(
    name: str,
    *,
    needs_database: bool = False,
    reads_all: bool = False,
    readiness: Readiness = Readiness.NONE,
) -> Callable[[Callable[[], HealthResult]], Callable[[], HealthResult]]:
    """Put the function into the list; it returns the first fault that it sees, or the first warning."""

    def register(run: Callable[[], HealthResult]) -> Callable[[], HealthResult]:
        CHECKS[name] = Check(name, run, needs_database, reads_all, readiness)
        return run

    return register


def load_checks() -> list[Check]:
    """Those of all apps."""
    autodiscover_modules("health")
    return list(CHECKS.values())


def run_checks(checks: Iterable[Check]) -> Iterator[tuple[Check, HealthResult]]:
    """Each with its result, one after the other; what needs the database only where that is as it must be."""
    broken_base = ""
    for check in checks:
        if check.needs_database and broken_base:
            yield (
                check,
                fault(N_("Not checked, for want of: {check}."), N_("Correct that first."), check=broken_base),
            )
            continue
        result = _run_check(check)
        if check.name in BASES and result.state == CheckState.FAULT:
            broken_base = check.name
        yield check, result


def _run_check(check: Check) -> HealthResult:
    try:
        return check.run()
    except AssayError as error:
        return fault(N_("{why}"), "", why=str(error))
    except (DatabaseError, InterfaceError) as error:
        return fault(
            N_("The database refused the question: {why}"),
            N_("See the database’s own log."),
            why=" ".join(str(error).split()),
        )
    except Exception as error:  # whatever it is, the other checks are worth having
        logger.debug("the check %s failed", check.name, exc_info=error)
        return fault(
            N_("This could not be checked: {why}"),
            N_("Run python manage.py doctor --traceback and report the fault."),
            why=f"{type(error).__name__}: {error}",
        )
