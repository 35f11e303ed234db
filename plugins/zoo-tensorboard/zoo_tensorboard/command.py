"""`zoo tensorboard`: TensorBoard on the folder of runs, without a second command to remember."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import click

import zoo
from zoo import kit


@kit.command(json_help="")
@kit.runs_option
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port (default: 6006 or the next free; 0: any)."
)
@click.option(
    "--host", default="localhost", show_default=True, help="Address; 0.0.0.0 admits other machines."
)
def tensorboard_command(runs: Path | None, port: int | None, host: str) -> None:
    """Show the curves of all runs in TensorBoard.

    It serves a page on this machine until Ctrl-C ends it, and follows runs that still train.

    Examples:
      zoo tensorboard
      zoo tensorboard --runs ~/experiments --port 8080
    """
    folder = kit.runs_root(runs)
    if not any(folder.rglob("tensorboard/*tfevents*")):
        trained = bool(kit.Run.every(folder))
        raise zoo.ZooError(
            f"there are no TensorBoard logs in {folder}" + " yet" * (not trained),
            "runs that were trained without zoo-tensorboard have none; zoo train MODEL writes some"
            if trained
            else "zoo train MODEL writes some; --runs names another folder of runs",
        )
    url = _serve(folder, host, port)
    click.echo(f"{url} shows the runs in {folder}; Ctrl-C ends it")
    with suppress(KeyboardInterrupt):  # the usual end, not an error
        threading.Event().wait()


def _serve(folder: Path, host: str, port: int | None) -> str:
    """Start TensorBoard in a thread of this process; its address."""
    from tensorboard import program  # takes a second, and --help must not

    board = program.TensorBoard()
    # Its fast loader is a second process, still experimental; ours are small files.
    options = ["--logdir", str(folder), "--host", host, "--load_fast", "false"]
    board.configure(["zoo", *options, *(() if port is None else ("--port", str(port)))])
    try:
        return str(board.launch())
    except program.TensorBoardServerException as error:
        raise zoo.ZooError(error.msg, "choose another with --port, or --port 0 for any") from error
    except SystemExit as error:  # the server below it has printed why, and would end the process
        problem = f"TensorBoard cannot listen on {host}"
        raise zoo.ZooError(problem, "--host localhost always works") from error
