# SPDX-License-Identifier: Apache-2.0
"""The web page's files over plain HTTP: what is served, with which headers, and that --no-ui leaves it out."""

import http.client
import re
import shutil
import subprocess

import harness
from harness import KEY, MODELS, main, start

POLICY = ("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
          "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
FOLDER = harness.ROOT / "http/ui"
TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
FILES = sorted(path for path in FOLDER.iterdir() if path.suffix in TYPES)


@harness.once
def without():
    return start(f"embed={MODELS / 'weft-demo-embed'}", "--no-ui")


def paths():
    yield "/", FOLDER / "index.html", "text/html; charset=utf-8"
    for path in FILES:
        yield f"/ui/{path.name}", path, TYPES[path.suffix]


def test_every_file_is_served_without_a_key():
    for path, file, kind in paths():
        answer = main().request("GET", path)
        assert answer.status == 200 and answer.bytes == file.read_bytes(), path
        assert answer.headers["content-type"] == kind, answer.headers
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-cache"
    assert "unsafe" not in POLICY and main().request("GET", "/?a=b").status == 200


def test_what_the_browser_has_is_not_sent_again():
    tags = set()
    for path, file, _ in paths():
        tag = main().request("GET", path).headers["etag"]
        assert re.fullmatch('"[0-9a-f]{32}"', tag)
        tags.add(tag)
        for known in tag, f"W/{tag}", f'"x", {tag}', "*":
            answer = main().request("GET", path, headers={"if-none-match": known})
            assert answer.status == 304 and not answer.bytes, (path, known, answer.status)
            assert answer.headers["etag"] == tag and answer.headers["content-security-policy"] == POLICY
        for other in '"x"', tag[:-2] + '"', "", "x" * 5000:
            answer = main().request("GET", path, headers={"if-none-match": other})
            assert answer.status == 200 and len(answer.bytes) == file.stat().st_size, (path, other)
    assert len(tags) == len(FILES) + 1


def test_head_other_methods_and_unknown_files():
    for path, file, kind in paths():
        head = main().request("HEAD", path)
        assert head.status == 200 and not head.bytes and head.headers["content-type"] == kind
        assert head.headers["content-length"] == str(file.stat().st_size)
        assert head.headers["content-security-policy"] == POLICY
    for path in "/", "/ui/app.js", "/ui/none.js":
        refused = harness.expect(main().request("POST", path, "{}"), 405, "method_not_allowed")
        assert refused.headers["allow"] == "GET, HEAD"
    for path in ("/ui/none.js", "/ui/index.html", "/ui/app.js/x", "/ui/App.js", "/ui/page.c", "/ui", "/index.html",
                 "/ui/%2e%2e/app.js", "/ui/x%00"):
        harness.expect(main().request("GET", path), 404, "unknown_url")


def test_a_connection_goes_on_after_304():
    connection = http.client.HTTPConnection("127.0.0.1", main().port, timeout=60)
    for _ in range(3):
        connection.request("GET", "/", headers={"if-none-match": "*"})
        answer = connection.getresponse()
        assert answer.status == 304 and answer.read() == b""
        connection.request("GET", "/version")
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read().startswith(b'{"version"')
    connection.close()


def over_http2(path, *more):
    """(status, headers, body) by curl; the clients of the tests have no HTTP/2."""
    out = subprocess.run(["curl", "-sS", "-i", "--http2-prior-knowledge", "--max-time", "60", *more, main().base + path],
                         capture_output=True, check=True).stdout
    head, _, body = out.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    version, status = first.split()[:2]
    assert version == "HTTP/2", first
    return int(status), dict(line.split(": ", 1) for line in lines), body


def test_over_http2():
    if not shutil.which("curl"):
        raise harness.Skip("no curl")
    for path, file, kind in list(paths())[:4]:
        status, headers, body = over_http2(path)
        assert status == 200 and body == file.read_bytes()
        assert headers["content-type"] == kind and headers["content-security-policy"] == POLICY
        status, _, body = over_http2(path, "-H", f"if-none-match: {headers['etag']}")
        assert status == 304 and body == b""
        status, headers, body = over_http2(path, "--head")
        assert status == 200 and body == b"" and headers["content-length"] == str(file.stat().st_size)


def test_a_server_without_the_page():
    for path, *_ in [*paths(), ("/ui/", None, None)]:
        for method in "GET", "POST":
            answer = harness.expect(without().request(method, path), 404, "unknown_url")
            assert "content-security-policy" not in answer.headers, answer.headers
    models = without().request("GET", "/v1/models", headers={"authorization": f"Bearer {KEY}"})
    assert models.status == 200 and models.headers["cache-control"] == "no-store"


def test_the_page_names_no_other_host():
    for _, file, _ in paths():
        text = file.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"""(?:src|href|url|import|from|fetch)\s*[=(]?\s*["'(]+(?:https?:)?//""", text), file.name
        assert "innerHTML" not in text and "document.write" not in text and "eval(" not in text, file.name
    html = (FOLDER / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son\w+=", html)


def test_the_files_stay_small():
    for path in sorted(FOLDER.iterdir()):
        assert path.read_text().count("\n") <= 800, path.name
    assert sum(file.stat().st_size for _, file, _ in paths()) < 300_000
