"""When a trial cannot win any more.

Functions of validation losses alone: nothing is drawn and nothing depends on the clock, so that a
search can be repeated, and resumed.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence

Losses = Sequence[float]  # after each epoch

AHEAD = 3  # epochs that a trial may still hope for, however late it is
ENOUGH = 3  # rivals that make a median


def cannot_catch_up(losses: Losses, rivals: Sequence[Losses]) -> bool:
    """For a constant learning rate, where a loss falls ever slower, and then rises.

    So the last epoch's fall is more than a trial can hope for in each of the next ones. It is ended
    if even that would not bring it to the best rival by the epoch in which that one was at its
    best, or three epochs from now. What is given up is a trial that would win much later.
    """
    if len(losses) < 2 or not rivals:
        return False
    lead = min(rivals, key=min)
    if min(losses) <= min(lead):
        return False
    hoped = max(lead.index(min(lead)) + 1 - len(losses), AHEAD)
    fall = max(losses[-2] - losses[-1], 0.0)
    return losses[-1] - fall * hoped > min(lead)


def below_the_median(losses: Losses, rivals: Sequence[Losses], epochs: int) -> bool:
    """For a rate that changes: the loss may stay and then fall, so only the same epoch compares.

    From a third of the epochs on, a trial has to be as good as the median of its rivals. Those that
    ended before count with their last loss.
    """
    done = len(losses)
    if done * 3 < epochs or len(rivals) < ENOUGH:
        return False
    then = [rival[min(done, len(rival)) - 1] for rival in rivals if rival]
    return losses[-1] > statistics.median(then)
