"""What zoo-generate contributes: a command, whose code is imported when somebody uses it."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_commands() -> list[zoo.CommandEntry]:
    return [
        zoo.CommandEntry(
            name="generate",
            target="zoo_generate.command:generate_command",
            help="Generate samples with a generative model.",
        )
    ]
