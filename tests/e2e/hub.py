# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the Hugging Face hub: the parts of its HTTP API that programs download models with, and faults.

Large files are redirected to a second server, as the hub redirects them to its network of caches.
"""

import collections
import hashlib
import http.server
import json
import threading
import time
import urllib.parse

LARGE = 10_000  # bytes from which a file is large
PAGE = 3        # entries of a page of a listing


def git_sha1(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def etag_of(path, content):
    return hashlib.sha256(content).hexdigest() if is_large(path, content) else git_sha1(content)


def is_large(path, content):
    return len(content) >= LARGE or path.endswith((".safetensors", ".gguf"))


class Repo:
    def __init__(self, files, revision="main"):
        self.files = dict(files)
        self.commit = hashlib.sha1(repr(sorted(self.files.items())).encode()).hexdigest()
        self.revisions = {revision: self.commit, self.commit: self.commit}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, code, body=b"", **headers):
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        hub = self.server.hub
        path = urllib.parse.urlsplit(self.path)
        request = Request(self.command, path.path, self.headers.get("Authorization"), self.headers.get("Range"), self.server.role)
        with hub.lock:
            hub.requests.append(request)
            faults = next((list_ for part, list_ in hub.faults.items() if part in path.path and list_), None)
            fault = faults.pop(0) if faults else None
        if callable(fault):
            fault = fault()
        if isinstance(fault, tuple):
            self.answer(fault[0], b"fault", **fault[1])
            return
        self.fault = fault
        try:
            (self.serve_content if self.server.role == "cdn" else self.serve_hub)(hub, path)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def serve_hub(self, hub, path):
        parts = [urllib.parse.unquote(p) for p in path.path.strip("/").split("/")]
        api = parts[:2] == ["api", "models"]
        name = "/".join(parts[2:4] if api else parts[:2])
        repo = hub.repos.get(name)
        if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
            gated = {"X_Error_Code": "GatedRepo"} if hub.gated else {"X_Error_Code": "RepoNotFound"}
            self.answer(403 if hub.gated and self.headers.get("Authorization") else 401, **gated)
        elif not repo:
            self.answer(401 if not self.headers.get("Authorization") else 404, X_Error_Code="RepoNotFound")
        elif parts[5 if api else 3] not in repo.revisions:
            self.answer(404, X_Error_Code="RevisionNotFound")
        elif api and parts[4] == "revision":
            self.json({"id": name, "sha": repo.revisions[parts[5]], "siblings": [{"rfilename": f} for f in repo.files]})
        elif api:
            self.tree(hub, path, repo)
        else:
            self.resolve(hub, repo, "/".join(parts[4:]))

    def json(self, value, **headers):
        self.answer(200, json.dumps(value).encode(), Content_Type="application/json", **headers)

    def tree(self, hub, path, repo):
        entries = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": "1_Pooling"}]
        for name, content in sorted(repo.files.items()):
            entry = {"type": "file", "oid": git_sha1(content), "size": hub.sizes.get(name, len(content)), "path": name}
            if is_large(name, content):
                entry["lfs"] = {"oid": etag_of(name, content), "size": entry["size"], "pointerSize": 135}
            entries.append(entry)
        begin = int(urllib.parse.parse_qs(path.query).get("cursor", ["0"])[0])
        more = {}
        if begin + PAGE < len(entries) or hub.endless:
            more["Link"] = f'<{hub.base}{path.path}?recursive=true&cursor={begin + PAGE}>; rel="next"'
        self.json(entries[begin:begin + PAGE], **more)

    def resolve(self, hub, repo, name):
        if name not in repo.files:
            self.answer(404, X_Error_Code="EntryNotFound", X_Repo_Commit=repo.commit)
            return
        content = repo.files[name]
        common = {"X_Repo_Commit": repo.commit}
        if is_large(name, content):
            etag = etag_of(name, content)
            hub.contents[etag] = content
            self.answer(302, Location=f"{hub.cdn_base}/cdn/{etag}", X_Linked_Etag=f'"{etag}"', X_Linked_Size=str(len(content)),
                        ETag='"pointer"', **common)
        else:
            self.content(hub, content, ETag=f'"{git_sha1(content)}"', **common)

    def serve_content(self, hub, path):
        self.content(hub, hub.contents[path.path.rsplit("/", 1)[1]])

    def content(self, hub, content, **headers):
        wanted, begin, end, code = self.headers.get("Range"), 0, len(content), 200
        if wanted and not hub.no_ranges and content:
            first, last = wanted.removeprefix("bytes=").split("-")
            begin, end, code = int(first), min(int(last) + 1 if last else end, end), 206
            headers["Content_Range"] = f"bytes {begin}-{end - 1}/{len(content)}"
        body = content[begin:end]
        if self.fault == "wrong":
            body = bytes(len(body))
        if self.command == "HEAD":
            self.answer(200, Content_Length=str(len(content)), **headers)
            return
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.fault == "cut":
            body = body[:len(body) // 2]
            self.close_connection = True
        if hub.pause:
            self.write(hub, body[:len(body) // 2])
            self.wfile.flush()
            hub.paused.set()
            hub.resume.wait(60)
            body = body[len(body) // 2:]
        for at in range(0, len(body), 1 << 20):
            self.write(hub, body[at:at + (1 << 20)])
            time.sleep(hub.slow)

    def write(self, hub, piece):
        with hub.lock:
            hub.sent += len(piece)
        self.wfile.write(piece)


Request = collections.namedtuple("Request", "method path token range role")


class Quiet(http.server.ThreadingHTTPServer):
    def handle_error(self, *_):
        pass  # a client that was killed or has ended early


class Hub:
    """faults: part of a path -> what happens to the next requests: (code, headers), "cut", "wrong", None (nothing) or a function
    that returns one of these."""

    def __init__(self):
        self.repos, self.faults, self.contents, self.sizes, self.requests = {}, {}, {}, {}, []
        self.endless = False  # true: each page of a listing has a next one
        self.token, self.gated, self.no_ranges, self.pause, self.slow, self.sent = None, False, False, False, 0, 0
        self.paused, self.resume = threading.Event(), threading.Event()
        self.lock = threading.Lock()
        self.servers = []
        for role in "hub", "cdn":
            server = Quiet(("127.0.0.1", 0), Handler)
            server.daemon_threads, server.hub, server.role = True, self, role
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.servers.append(server)
        # two hosts: programs of the hub do not send a token to another host, and weft not to another port either
        self.base, self.cdn_base = (f"http://{host}:{s.server_address[1]}" for host, s in zip(("127.0.0.1", "localhost"), self.servers))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.resume.set()
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def add(self, name, files, **more):
        self.repos[name] = Repo(files, **more)
        return self.repos[name]

    def fetched(self):
        """Paths of the files whose content was requested."""
        return sorted(r.path.split("/resolve/")[1].split("/", 1)[1] for r in self.requests if "/resolve/" in r.path and r.method == "GET")
