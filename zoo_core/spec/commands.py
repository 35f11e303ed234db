"""The zoo's own commands, as data: `zoo --help` imports none, and plugins can be compared."""

from __future__ import annotations

# The module of zoo_core.cli and the help of each. The command is the function NAME_command there; a
# test keeps the table true.
COMMANDS = {
    "list": ("catalog", "List models, datasets, trainers, engines or trained weights."),
    "info": ("catalog", "Show a model, dataset, trainer, run or trained weights in detail."),
    "plugins": ("plugins", "List the installed plugins and their state, or leave one out."),
    "data": ("data", "Fetch, check and look at datasets."),
    "train": ("train", "Train a model."),
    "evaluate": ("use", "Measure a trained run: loss, accuracy and the other metrics of its task."),
    "predict": ("use", "Say what is in images: classes, or numbers."),
    "report": ("runs", "Write the report of a run or a search again."),
    "compare": ("runs", "Compare runs in one table and one plot."),
    "reproduce": ("reproduce", "Train published weights or a run once more, and compare."),
    "runs": ("runs", "List the runs and searches, newest last."),
    "pull": ("weights", "Bring weights to this machine and check them."),
    "publish": ("publish", "Publish the weights of a run, with a card."),
    "verify": ("weights", "Read weights on this machine again, every byte, and check them."),
    "remove": ("weights", "Delete the copy of weights on this machine."),
    "cache": ("system", "Show or clear what the zoo keeps on this machine."),
    "doctor": (
        "system",
        "Check what is installed, reachable and writable, and say how to fix the rest.",
    ),
}
