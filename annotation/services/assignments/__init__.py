"""Assigning work: claims and leases.

Lock order, everywhere: memberships, the batch, tasks, panels. Two calls of one person queue at their
membership; two people meet at a task only for the moment in which its slot is taken (SKIP LOCKED).
Leases are ended in a transaction of their own, before: whoever waits for a task holds no other.
On SQLite a transaction holds the write lock from its first statement, which gives the same order.

A claim costs the same in a batch of any size (docs/decisions/a-cursor-for-each-member.md): each member looks
for the next task from their cursor on, and before it only among the few tasks that came back.
"""

from annotation.core.errors import TooLate
from annotation.services.assignments.claims import claim_next_dispute, claim_next_task
from annotation.services.assignments.leases import (
    check_membership,
    end_claim,
    end_claims,
    expire_leases,
    extend_lease,
    lock_assignment,
    lock_own_memberships,
    release_assignment,
    retake_slot,
)

__all__ = [
    "TooLate",
    "check_membership",
    "claim_next_dispute",
    "claim_next_task",
    "end_claim",
    "end_claims",
    "expire_leases",
    "extend_lease",
    "lock_assignment",
    "lock_own_memberships",
    "release_assignment",
    "retake_slot",
]
