"""What zoo-pick contributes: a command, whose code is imported when somebody uses it."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_commands() -> list[zoo.CommandEntry]:
    return [
        zoo.CommandEntry(
            name="pick",
            target="zoo_pick.command:pick_command",
            help="Choose a model for your own images among all that are installed.",
            functions=("zoo_pick.pick:pick",),
        )
    ]
