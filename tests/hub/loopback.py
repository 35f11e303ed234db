"""A hub on loopback that the real huggingface_hub client talks to, with faults on demand.

It keeps repositories in memory: commits, files, large files by digest. `Hub.faults` says what goes
wrong: a list of Fault, each for the requests that it matches, as often as it says. `Hub.log` holds
every request with its headers, so that a test can say what was asked, and by whom.

    with Hub() as hub:
        os.environ["HF_ENDPOINT"] = hub.url      # before huggingface_hub is imported
        hub.faults.append(Fault("GET", "/resolve/", status=500))
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

PAGE = 2
LFS_SUFFIX = (".safetensors", ".parquet", ".tar")


@dataclass
class Fault:
    """Something that goes wrong with requests of a method whose path contains some text."""

    method: str  # "GET", or "" for any
    path: str
    status: int = 0  # answer with this and nothing else
    code: str = ""  # the X-Error-Code that goes with it
    drop_after: int = -1  # close the connection after so many bytes of the body
    change: Callable[[bytes], bytes] | None = None  # send another body
    length: bool = True  # and say its own length; False: the length of the right one
    wait: Callable[[], object] | None = None  # called before the answer
    redirect: str = ""  # to this origin
    headers: Mapping[str, str | None] = field(default_factory=dict)  # instead of its own; None: out
    pieces: Callable[[bytes], Iterable[bytes]] | None = None  # send the body so, for ever perhaps
    reset: bool = False  # and then break the connection as a crash does
    raw: bytes = b""  # instead of any answer
    times: int = 1_000_000


@dataclass
class Repository:
    private: bool = False
    gated: bool = False
    commits: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)

    def at(self, revision: str) -> tuple[str, dict[str, bytes]] | None:
        if revision == "main":
            return self.commits[-1]
        return next((commit for commit in self.commits if commit[0] == revision), None)


class Hub(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, token: str = "hf_good", port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.token = token
        self.repositories: dict[str, Repository] = {}
        self.large: dict[str, bytes] = {}
        self.faults: list[Fault] = []
        self.log: list[tuple[str, str, dict[str, str]]] = []
        self.lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Hub:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # The client keeps connections open, and a thread here waits at the other end of each.
        from huggingface_hub import close_session

        close_session()
        self.disappear()

    def disappear(self) -> None:
        """Nobody listens any more."""
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that goes away in the middle is part of the tests

    def add(self, name: str, files: dict[str, bytes], **how: bool) -> str:
        """A commit, made without the client."""
        repository = self.repositories.setdefault(name, Repository(**how))
        return self.commit(repository, files)

    def commit(self, repository: Repository, files: dict[str, bytes]) -> str:
        before = repository.commits[-1][1] if repository.commits else {}
        after = {**before, **files}
        text = repr(sorted((n, hashlib.sha1(d).hexdigest()) for n, d in after.items()))
        oid = hashlib.sha1(f"{len(repository.commits)} {text}".encode()).hexdigest()
        repository.commits.append((oid, after))
        return oid


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.answer_request()

    do_HEAD = do_POST = do_PUT = do_GET

    # ------------------------------------------------------------ plumbing

    def answer_request(self) -> None:
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.route = unquote(urlsplit(self.path).path)
        with self.server.lock:
            self.server.log.append((self.command, self.route, dict(self.headers)))
            self.fault = self.take_fault()
        if self.fault and self.fault.wait:
            self.fault.wait()
        if self.fault and self.fault.redirect:
            return self.send(307, b"", {"Location": self.fault.redirect + self.path})
        if self.fault and self.fault.status:
            return self.fail(self.fault.status, self.fault.code)
        with self.server.lock:
            answer = self.dispatch()
        if answer is not None:
            self.send(*answer)

    def take_fault(self) -> Fault | None:
        for fault in self.server.faults:
            if fault.method in ("", self.command) and fault.path in self.route and fault.times > 0:
                fault.times -= 1
                return fault
        return None

    def send(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        if self.fault and self.fault.raw:
            self.close_connection = True
            self.wfile.write(self.fault.raw)
            return
        self.send_response(status)
        length, fault = len(body), self.fault
        if fault and fault.change and self.command != "HEAD":
            body = fault.change(body)
            length = len(body) if fault.length else length
        own = {"Content-Length": str(length)} | (headers or {})
        told: dict[str, str | None] = {**own, **(fault.headers if fault else {})}
        for name, value in told.items():
            if value is not None:
                self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if fault and fault.pieces:
            self.close_connection = True
            for piece in fault.pieces(body):  # until the client goes
                self.wfile.write(piece)
            if fault.reset:
                now = struct.pack("ii", 1, 0)
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, now)
                self.connection.close()
            return
        if fault and fault.drop_after >= 0:
            self.wfile.write(body[: fault.drop_after])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True
            return
        self.wfile.write(body)
        if len(body) < length:
            self.close_connection = True

    def json(self, document: Any, status: int = 200) -> tuple[int, bytes, dict[str, str]]:
        return status, json.dumps(document).encode(), {"Content-Type": "application/json"}

    def fail(self, status: int, code: str = "") -> None:
        headers = {"X-Error-Code": code} if code else {}
        self.send(status, b'{"error": "no"}', headers | {"Content-Type": "application/json"})

    # ------------------------------------------------------------ the hub

    def dispatch(self) -> tuple[int, bytes, dict[str, str]] | None:
        given = self.headers.get("Authorization", "")
        known = given == f"Bearer {self.server.token}"
        if given and not known:
            return self.failed(401, "")
        for pattern, method in ROUTES:
            if found := re.fullmatch(pattern, self.route):
                return method(self, known, **found.groupdict())
        return self.failed(404, "")

    def failed(self, status: int, code: str) -> None:
        self.fail(status, code)

    def repository(self, name: str, known: bool) -> Repository | None:
        repository = self.server.repositories.get(name)
        if repository is None or (repository.private and not known):
            self.failed(404 if known else 401, "RepoNotFound")
            return None
        if repository.gated:
            self.failed(403, "GatedRepo")
            return None
        return repository

    def whoami(self, known: bool) -> Any:
        me = {"name": "tester", "type": "user", "orgs": []}
        return self.json(me) if known else self.failed(401, "")

    def create(self, known: bool) -> Any:
        if not known:
            return self.failed(401, "")
        asked = json.loads(self.body)
        name = f"{asked.get('organization') or 'tester'}/{asked['name']}"
        url = f"{self.server.url}/{name}"
        if name in self.server.repositories:
            return self.json({"url": url, "error": "exists"}, 409)
        private = asked.get("visibility") == "private" or bool(asked.get("private"))
        self.server.repositories[name] = Repository(private=private)
        self.server.commit(self.server.repositories[name], {".gitattributes": b""})
        return self.json({"url": url})

    def validate(self, known: bool) -> Any:
        return self.json({"errors": [], "warnings": []})

    def preupload(self, known: bool, name: str, revision: str) -> Any:
        if not known:
            return self.failed(401, "")
        files = [
            {
                "path": one["path"],
                "uploadMode": "lfs" if one["path"].endswith(LFS_SUFFIX) else "regular",
                "shouldIgnore": False,
            }
            for one in json.loads(self.body)["files"]
        ]
        return self.json({"files": files})

    def batch(self, known: bool, name: str) -> Any:
        objects = []
        for one in json.loads(self.body)["objects"]:
            action = {}
            if one["oid"] not in self.server.large:
                upload = {"href": f"{self.server.url}/upload/{one['oid']}"}
                verify = {"href": f"{self.server.url}/uploaded"}
                action = {"actions": {"upload": upload, "verify": verify}}
            objects.append({"oid": one["oid"], "size": one["size"], **action})
        return self.json({"objects": objects, "transfer": "basic"})

    def upload(self, known: bool, oid: str) -> Any:
        if hashlib.sha256(self.body).hexdigest() != oid:
            return self.failed(400, "")
        self.server.large[oid] = self.body
        return 200, b"", {}

    def uploaded(self, known: bool) -> Any:
        asked = json.loads(self.body)
        right = len(self.server.large.get(asked["oid"], b"")) == asked["size"]
        return (200, b"{}", {}) if right else self.failed(404, "")

    def commit(self, known: bool, name: str, revision: str) -> Any:
        repository = self.repository(name, known) if known else self.failed(401, "")
        if repository is None:
            return None
        files, parent = {}, None
        for line in self.body.splitlines():
            one = json.loads(line)
            value = one["value"]
            if one["key"] == "header":
                parent = value.get("parentCommit")
            elif one["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif one["key"] == "lfsFile":
                files[value["path"]] = self.server.large[value["oid"]]
        if parent and parent != repository.commits[-1][0]:
            return self.failed(412, "")
        oid = self.server.commit(repository, files)
        return self.json({"commitOid": oid, "commitUrl": f"{self.server.url}/{name}/commit/{oid}"})

    def models(self, known: bool) -> Any:
        """The list of an author's models with a tag, two to a page, as the Hub pages it."""
        asked = dict(parse_qsl(urlsplit(self.path).query))
        listed = [
            {
                "id": name,
                "modelId": name,
                "private": one.private,
                "tags": tags_of(one.commits[-1][1]),
            }
            for name, one in sorted(self.server.repositories.items())
            if name.partition("/")[0] == asked.get("author") and (known or not one.private)
        ]
        listed = [one for one in listed if asked.get("filter", "") in ("", *one["tags"])]
        start = int(asked.get("cursor", 0))
        status, body, headers = self.json(listed[start : start + PAGE])
        if start + PAGE < len(listed):
            query = urlencode({**asked, "cursor": start + PAGE})
            headers["Link"] = f'<{self.server.url}/api/models?{query}>; rel="next"'
        return status, body, headers

    def info(self, known: bool, name: str, revision: str | None = None) -> Any:
        repository = self.repository(name, known)
        if repository is None:
            return None
        commit = repository.at(revision or "main")
        if commit is None:
            return self.failed(404, "RevisionNotFound")
        siblings = []
        for path, data in commit[1].items():
            sibling: dict[str, Any] = {"rfilename": path, "size": len(data)}
            if path.endswith(LFS_SUFFIX):
                digest = hashlib.sha256(data).hexdigest()
                sibling["lfs"] = {"sha256": digest, "size": len(data), "pointerSize": 130}
                sibling["blobId"] = hashlib.sha1(digest.encode()).hexdigest()
            else:
                sibling["blobId"] = hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
            siblings.append(sibling)
        return self.json(
            {"id": name, "modelId": name, "sha": commit[0], "private": repository.private,
             "siblings": siblings, "tags": [], "downloads": 0, "likes": 0}
        )  # fmt: skip

    def resolve(self, known: bool, name: str, revision: str, file: str) -> Any:
        repository = self.repository(name, known)
        if repository is None:
            return None
        commit = repository.at(revision)
        if commit is None:
            return self.failed(404, "RevisionNotFound")
        if file not in commit[1]:
            return self.failed(404, "EntryNotFound")
        data = commit[1][file]
        headers = {"X-Repo-Commit": commit[0], "Accept-Ranges": "bytes"}
        if file.endswith(LFS_SUFFIX):
            digest = hashlib.sha256(data).hexdigest()
            headers |= {"X-Linked-Etag": f'"{digest}"', "X-Linked-Size": str(len(data))}
        headers["ETag"] = f'"{hashlib.sha1(data).hexdigest()}"'
        start = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if start and self.command == "GET":
            first = int(start[1])
            headers["Content-Range"] = f"bytes {first}-{len(data) - 1}/{len(data)}"
            return 206, data[first:], headers
        return 200, data, headers


def tags_of(files: dict[str, bytes]) -> list[str]:
    """The tags in the card, which the Hub reads from its first lines."""
    found = re.search(r"^tags: (\[.*\])$", files.get("README.md", b"").decode(), re.MULTILINE)
    return json.loads(found[1]) if found else []


NAME = r"(?P<name>[\w.-]+/[\w.-]+)"
DATASET = r"(?P<name>datasets/[\w.-]+/[\w.-]+)"  # kept under this name
ROUTES: list[tuple[str, Callable[..., Any]]] = [
    (r"/api/whoami-v2", Handler.whoami),
    (r"/api/repos/create", Handler.create),
    (r"/api/validate-yaml", Handler.validate),
    (rf"/api/models/{NAME}/preupload/(?P<revision>\w+)", Handler.preupload),
    (rf"/api/models/{NAME}/commit/(?P<revision>\w+)", Handler.commit),
    (r"/api/models", Handler.models),
    (rf"/api/models/{NAME}(/revision/(?P<revision>[\w.-]+))?", Handler.info),
    (rf"/api/{DATASET}(/revision/(?P<revision>[\w./-]+))?", Handler.info),
    (rf"/{NAME}\.git/info/lfs/objects/batch", Handler.batch),
    (r"/upload/(?P<oid>\w+)", Handler.upload),
    (r"/uploaded", Handler.uploaded),
    (rf"/{DATASET}/resolve/(?P<revision>[\w.-]+)/(?P<file>.+)", Handler.resolve),
    (rf"/{NAME}/resolve/(?P<revision>[\w.-]+)/(?P<file>.+)", Handler.resolve),
]
