"""What zoo-author contributes: a command, whose code is imported when somebody uses it."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_commands() -> list[zoo.CommandEntry]:
    return [
        zoo.CommandEntry(
            name="plugin",
            target="zoo_author.command:plugin_command",
            help="Start a plugin, or check one.",
        )
    ]
