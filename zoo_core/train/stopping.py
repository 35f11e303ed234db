"""Early stopping and the choice of the best epoch, both on the validation loss."""

from __future__ import annotations

from typing import Any


class Stopping:
    """Remembers the best validation loss and how long ago it was."""

    def __init__(self, patience: int) -> None:
        self.patience = patience  # 0: never stops
        self.best: float | None = None
        self.best_epoch: int | None = None
        self.stopped = False

    def saw(self, epoch: int, loss: float) -> bool:
        """Note an epoch's validation loss; whether it is the best so far."""
        better = self.best is None or loss < self.best
        if better:
            self.best, self.best_epoch = loss, epoch
        elif self.patience and epoch - (self.best_epoch or 0) >= self.patience:
            self.stopped = True
        return better

    def to_dict(self) -> dict[str, Any]:
        return {"best": self.best, "best_epoch": self.best_epoch, "stopped": self.stopped}

    def from_dict(self, values: dict[str, Any]) -> None:
        self.best, self.best_epoch = values["best"], values["best_epoch"]
        self.stopped = values["stopped"]
