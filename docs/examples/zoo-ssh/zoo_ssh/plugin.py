"""What zoo-ssh contributes. Light on purpose: everybody's `zoo list` imports this file."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_engines() -> list[zoo.EngineEntry]:
    return [
        zoo.EngineEntry(
            name="ssh",
            target="zoo_ssh.engine:SshEngine",
            summary="Machines that you reach by ssh: --address alice@one,alice@two",
        )
    ]
