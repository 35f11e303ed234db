"""What zoo-attention contributes: a command, whose code is imported when somebody uses it."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_commands() -> list[zoo.CommandEntry]:
    return [
        zoo.CommandEntry(
            name="attention",
            target="zoo_attention.command:attention_command",
            help="Draw where a transformer looks, layer by layer.",
        )
    ]
