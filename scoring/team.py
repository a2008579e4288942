"""The processes that train one model together: one, unless ``accelerate launch`` started more. Imports torch."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from scoring.portable.encoder import best_device

T = TypeVar("T")


@dataclass(frozen=True)
class Team:
    """``rank`` is this process among ``size``; the first one validates, keeps checkpoints and tells."""

    rank: int
    size: int
    device: torch.device
    accelerator: Any = None

    @classmethod
    def here(cls) -> Team:
        """As ``accelerate launch`` says in the environment."""
        if int(os.environ.get("WORLD_SIZE", "1")) < 2:
            return cls(0, 1, best_device())
        from accelerate import Accelerator, DistributedDataParallelKwargs

        # A head without labels in a batch takes no part in it.
        unused = DistributedDataParallelKwargs(find_unused_parameters=True)
        accelerator = Accelerator(kwargs_handlers=[unused], cpu=not torch.cuda.is_available())
        return cls(accelerator.process_index, accelerator.num_processes, accelerator.device, accelerator)

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def wrapped(self, model: Any) -> Any:
        """The model, such that its gradients are the mean over the team's."""
        return model if self.accelerator is None else self.accelerator.prepare_model(model)

    def share(self, rows: Sequence[T]) -> Sequence[T]:
        """This process's part of a batch; the first row where there are fewer rows than processes."""
        return rows[self.rank :: self.size] or rows[:1]

    def has_share(self, rows: Sequence[Any]) -> bool:
        return len(rows) > self.rank

    def agreed(self, value: T) -> T:
        """What the first process says, so that all decide alike."""
        if self.accelerator is None:
            return value
        from accelerate.utils import broadcast_object_list

        said: list[T] = broadcast_object_list([value])
        return said[0]

    def meet(self) -> None:
        if self.accelerator is not None:
            self.accelerator.wait_for_everyone()
