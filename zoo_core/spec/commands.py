"""The zoo's own commands, as data: `zoo --help` imports none, and plugins can be compared."""

from __future__ import annotations

# The module of zoo_core.cli and the help of each. The command is the function NAME_command there; a
# test keeps the table true.
COMMANDS = {
    "list": ("catalog", "Show the models, datasets, trainers or trained weights that there are."),
    "info": ("catalog", "Show what a model, dataset or trainer is and how it can be used."),
    "plugins": ("plugins", "Show the installed plugins and what became of each."),
    "data": ("data", "Fetch, check and look at datasets."),
    "train": ("train", "Train a model."),
    "tune": ("train", "Search the settings that train a model best."),
    "sweep": ("train", "Train a model with every combination of some settings."),
    "evaluate": ("use", "Measure a trained run: loss, accuracy, and what else its task has."),
    "predict": ("use", "Say what is on pictures."),
    "generate": ("use", "Draw pictures from a generative model."),
    "attention": ("use", "Draw where a transformer looks, layer by layer."),
    "report": ("runs", "Write the report of a run again."),
    "compare": ("runs", "Compare runs in one table and one picture."),
    "runs": ("runs", "Show the runs that there are, newest last."),
    "pull": ("weights", "Bring weights to this machine and check them."),
    "publish": ("publish", "Publish the weights of a run, with a card."),
    "verify": ("weights", "Read weights on this machine again, every byte, and check them."),
    "remove": ("weights", "Delete the copy of weights on this machine."),
    "features": ("features", "Show, compute and export the features of frozen backbones."),
    "export": ("use", "Write a trained model as ONNX or as a torch program."),
    "plugin": ("plugins", "Start a plugin, or check one."),
    "cache": ("system", "Show or clear what the zoo keeps on this machine."),
    "doctor": (
        "system",
        "Say what is installed, reachable and writable, and what to do about the rest.",
    ),
}
