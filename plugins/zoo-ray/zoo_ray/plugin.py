"""What zoo-ray contributes. Light on purpose: everybody's `zoo list` imports this file."""

import zoo

ZOO_API = 1


@zoo.hookimpl
def zoo_engines() -> list[zoo.EngineEntry]:
    return [
        zoo.EngineEntry(
            name="ray",
            target="zoo_ray.engine:RayEngine",
            summary="A Ray cluster, or a Ray on this machine",
        )
    ]
