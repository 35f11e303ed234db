"""What zoo-tune contributes: two commands, whose code is imported when somebody uses them."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_commands() -> list[zoo.CommandEntry]:
    return [
        zoo.CommandEntry(
            name="tune",
            target="zoo_tune.command:tune_command",
            help="Search for the settings that train a model best.",
            functions=(
                "zoo_tune.functions:tune",
                "zoo_tune.tuning:tune_and_train",  # zoo train --tune
                "zoo_tune.tuning:search",  # zoo train --seeds
                "zoo_tune.search:open_search",  # zoo report, zoo.resume
            ),
        ),
        zoo.CommandEntry(
            name="sweep",
            target="zoo_tune.command:sweep_command",
            help="Train a model with every combination of some settings.",
            functions=("zoo_tune.functions:sweep",),
        ),
    ]
