"""The tasks that a member may be given now: the question of every claim, asked in plain SQL (see statements.py)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from annotation.models import Batch, Membership
from annotation.selectors.eligibility import strata_ruled_out
from annotation.statements import first, for_update, indexed_by, rows

COLUMNS = "t.id, t.stratum_id, t.prompt_id, t.panel_id, t.overlap, t.slots_taken, t.rank"
# The conditions of the partial indexes task_with_free_slot and task_requeued, word for word.
FREE = "t.batch_id = %s AND t.state = 'open' AND t.slots_taken < t.overlap"
REQUEUED = "t.requeued"
# A known item is a task for one person alone, who gets it back from what they had.
WORK = "t.kind = 'work'"
# A known item that is still in; what was taken out is given to nobody any more, not even again.
KNOWN = """
EXISTS (SELECT 1 FROM annotation_knowntask k JOIN annotation_knownitem i ON i.id = k.item_id
    WHERE k.task_id = t.id AND i.active)
"""
# A subquery for each row that is looked at. As a join, PostgreSQL might read all that the person has ever done.
NEVER_HAD = (
    "(SELECT a.id FROM annotation_assignment a WHERE a.task_id = t.id AND a.person_id = %s LIMIT 1) IS NULL"
)


class FreeTask(NamedTuple):
    id: int
    stratum: int
    prompt: int
    panel: int | None
    overlap: int
    slots_taken: int
    rank: int


@dataclass(frozen=True)
class FreeTasks:
    """The free tasks that a member never had and that are for them, in the order of handing out.

    ``ruled_out`` are the strata that are not for them, ``panels`` the panels that they are in.
    """

    batch: int
    person: int
    pool: bool
    ruled_out: Sequence[int]
    panels: Sequence[int]

    @classmethod
    def of(
        cls,
        membership: Membership,
        *,
        limited: bool = True,
        planned: bool = True,
        resting: Sequence[int] = (),
    ) -> FreeTasks:
        """``limited`` and ``planned`` False: known that nothing is ruled out, that there is no panel. ``resting`` are
        strata that are for them, but not today.
        """
        return cls(
            batch=membership.batch_id,
            person=membership.person_id,
            pool=membership.batch.pairing == Batch.Pairing.POOL,
            ruled_out=[*(strata_ruled_out(membership) if limited else ()), *resting],
            panels=list(membership.panels.values_list("pk", flat=True)) if planned else (),
        )

    def take(
        self, *, start: int, requeued: bool = False, not_prompt: int | None = None, wait: bool = False
    ) -> FreeTask | None:
        """The first from rank ``start`` on, locked; with ``requeued`` the first before it of what came back.

        What others are taking this moment is passed over, unless ``wait``.
        """
        where, params = self._where(start, requeued=requeued, not_prompt=not_prompt)
        lock = for_update("t", skip_locked=not wait)
        row = first(
            f"SELECT {COLUMNS} FROM {_tasks(requeued=requeued)} WHERE {where} ORDER BY t.rank LIMIT 1{lock}",
            params,
        )
        return None if row is None else FreeTask(*row)

    def take_of(self, tasks: Sequence[int], *, wait: bool = False) -> FreeTask | None:
        """The first of these tasks, which the member had before, that is free and still for them; locked."""
        if not tasks:
            return None
        mine, params = self._for_member(also_known=True)
        places = ", ".join(["%s"] * len(tasks))
        sql = f"SELECT {COLUMNS} FROM annotation_task t WHERE {FREE}{mine} AND t.id IN ({places}) ORDER BY t.rank"
        row = first(f"{sql} LIMIT 1{for_update('t', skip_locked=not wait)}", [self.batch, *params, *tasks])
        return None if row is None else FreeTask(*row)

    def first_rank(self, *, start: int, requeued: bool = False) -> int | None:
        """The rank of the first, whether somebody is taking it or not."""
        where, params = self._where(start, requeued=requeued)
        tasks = _tasks(requeued=requeued)
        row = first(f"SELECT t.rank FROM {tasks} WHERE {where} ORDER BY t.rank LIMIT 1", params)
        return None if row is None else int(row[0])

    def first_kind(self, *, start: int, requeued: bool = False) -> tuple[str, str] | None:
        """The dimension and the language of the first."""
        where, params = self._where(start, requeued=requeued)
        of_stratum = "(SELECT s.{} FROM annotation_stratum s WHERE s.id = t.stratum_id)"
        kind = f"{of_stratum.format('dimension')}, {of_stratum.format('language')}"
        row = first(
            f"SELECT {kind} FROM {_tasks(requeued=requeued)} WHERE {where} ORDER BY t.rank LIMIT 1", params
        )
        return None if row is None else (row[0], row[1])

    def count(self, *, start: int, most: int) -> int:
        """How many there are from rank ``start`` on, counted up to ``most``."""
        where, params = self._where(start)
        sql = f"SELECT t.id FROM {_tasks()} WHERE {where} ORDER BY t.rank LIMIT %s"
        return len(rows(sql, [*params, most]))

    def _where(
        self, start: int, *, requeued: bool = False, not_prompt: int | None = None
    ) -> tuple[str, list[Any]]:
        mine, params = self._for_member()
        where = f"{FREE} AND {WORK}{mine} AND {NEVER_HAD}"
        params = [self.batch, *params, self.person]
        where += f" AND {REQUEUED} AND t.rank < %s" if requeued else " AND t.rank >= %s"
        params.append(start)
        if not_prompt is not None:
            where += " AND t.prompt_id <> %s"
            params.append(not_prompt)
        return where, params

    def _for_member(self, *, also_known: bool = False) -> tuple[str, list[Any]]:
        """With ``also_known`` known items, too, which no plan knows: they are whose they were given to."""
        where, params = "", [*self.ruled_out, *self.panels]
        if self.ruled_out:
            where += f" AND t.stratum_id NOT IN ({', '.join(['%s'] * len(self.ruled_out))})"
        planned = f"t.panel_id IN ({', '.join(['%s'] * len(self.panels))})" if self.panels else "1 = 0"
        unplanned = "t.panel_id IS NULL OR " if self.pool else ""
        mine = f"({unplanned}{planned})"
        return where + (f" AND ({WORK} AND {mine} OR {KNOWN})" if also_known else f" AND {mine}"), params


def anything_requeued() -> str:
    """SQL that tells, with a batch as its parameter, whether any of its tasks came back and is free."""
    return f"EXISTS (SELECT 1 FROM {_tasks(requeued=True)} WHERE {FREE} AND {REQUEUED} AND {WORK})"


def _tasks(*, requeued: bool = False) -> str:
    return f"annotation_task t{indexed_by('task_requeued' if requeued else 'task_with_free_slot')}"
