"""zoo serve: the command around zoo.serve."""

from __future__ import annotations

from pathlib import Path

import click

from zoo import kit
from zoo_web.server.guard import TOKEN, read_token
from zoo_web.server.limits import Limits

LIMITS = Limits()


@kit.command(json_help="")
@kit.run_argument
@click.option("--port", type=click.IntRange(0, 65535), default=8000, show_default=True,
              help="Port; 0 chooses a free one.")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True,
              help="Address to listen at; any but loopback needs a token.")  # fmt: skip
@click.option("--token-file", type=kit.PATH, metavar="FILE",
              help=f"File with the token that requests must carry; or {TOKEN}.")  # fmt: skip
@click.option("--allow-host", "allow_hosts", multiple=True, metavar="NAME",
              help="Answer to this name too, that of a proxy in front; needs a token.")  # fmt: skip
@click.option("--batch", type=click.IntRange(1), default=None,
              help="Images computed together at most; otherwise measured.")  # fmt: skip
@click.option("--most-bytes", type=click.IntRange(1), default=LIMITS.bytes, show_default=True,
              help="Bytes of a request.")  # fmt: skip
@click.option("--most-pixels", type=click.IntRange(1), default=LIMITS.pixels, show_default=True,
              help="Pixels of all images of a request.")  # fmt: skip
@click.option("--most-images", type=click.IntRange(1), default=LIMITS.images, show_default=True,
              help="Images of a request.")  # fmt: skip
@click.option("--most-waiting", type=click.IntRange(1), default=LIMITS.waiting, show_default=True,
              help="Requests at a time.")  # fmt: skip
@click.option("--most-seconds", type=click.FloatRange(0, min_open=True), default=LIMITS.seconds,
              show_default=True, help="Seconds from a request to its answer.")  # fmt: skip
@kit.device_option
@kit.runs_option
@kit.quiet_option
def serve_command(
    run: str, port: int, host: str, token_file: Path | None, allow_hosts: tuple[str, ...],
    batch: int | None, device: str, runs: Path | None, quiet: bool, most_bytes: int,
    most_pixels: int, most_images: int, most_waiting: int, most_seconds: float,
) -> None:  # fmt: skip
    """Answer about images over HTTP, and show a page to try it.

    RUN is a path, a name in the runs folder, latest, or weights. POST /predict takes images as
    JSON or as a form and answers as zoo predict does; /docs describes it, /health says whether it
    works. Ctrl-C or SIGTERM finishes the requests that have begun.

    Examples:
      zoo serve cnn
      curl -F image=@cat.jpg http://127.0.0.1:8000/predict
      zoo serve latest --port 0 --quiet
      zoo serve cnn --host 0.0.0.0 --token-file token.txt
    """
    from zoo_web.server.run import Server

    limits = Limits(most_bytes, most_pixels, most_images, most_waiting, most_seconds)
    token = read_token(token_file)
    server = Server(run, port, host, token, allow_hosts, limits, batch or 0, device, runs)
    print(f"Serving {run} at {server.url}", flush=True)  # a program that started it waits for this
    most = server.service.batches.most
    kit.say(f"Computing up to {most} images together; Ctrl-C stops the server")
    if token:
        kit.say("Requests need the token: Authorization: Bearer TOKEN")
    server.run()
