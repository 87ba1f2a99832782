# SPDX-License-Identifier: Apache-2.0
"""The web page in headless Chromium: one browser and one server for the tests of a process, a fresh profile for each.

opened() provides a page and fails at its end if the console had an error, a script threw, a dialog opened or a request
was sent to another host.
"""

import contextlib
import functools
import json
import pathlib
import shutil
import time

import axe_core_python
import harness
from harness import KEY, MODELS, start
from playwright.sync_api import sync_playwright

CHROMIUM = shutil.which("chromium")
if not CHROMIUM:
    raise harness.Skip("no chromium here: tools/deps.sh browser installs it")
WAIT_MS = 120_000  # a loaded machine is slow
AXE = (pathlib.Path(axe_core_python.__file__).parent / "axe.min.js").read_text()
WIDE, PHONE = (1440, 900), (390, 844)
TEMPLATE = pathlib.Path(harness.__file__).parent / "hermes.jinja"

AT_ONCE = """() => { window.fetch = () => Promise.resolve(new Response(
  'data: {"choices":[{"delta":{"content":"all of it"}}]}\\n\\ndata: {"choices":[],"usage":{"completion_tokens":90}}\\n\\ndata: [DONE]\\n\\n',
  {headers: {"content-type": "text/event-stream"}})); }"""

# Answers that a test writes: window.streams contains one for each request.
WRITTEN = """() => { window.streams = []; window.fetch = (url, init) => Promise.resolve(new Response(new ReadableStream({start(out) {
  const stream = {left: false, end: () => { out.enqueue(new TextEncoder().encode("data: [DONE]\\n\\n")); out.close(); }, say: (content) =>
    out.enqueue(new TextEncoder().encode(`data: ${JSON.stringify({choices: [{delta: {content}}]})}\n\n`))};
  init.signal.addEventListener("abort", () => { stream.left = true; out.error(new DOMException("left", "AbortError")); });
  window.streams.push(stream);
}}), {headers: {"content-type": "text/event-stream"}})); }"""


@functools.cache
def server():
    """Starts the server. chat: a model that writes nonsense, with a template for tools; embed: two copies."""
    return start(f"chat={MODELS / 'weft-demo-chat'},chat-template={TEMPLATE}",
                 f"embed={MODELS / 'weft-demo-embed'},data-parallel-size=2", f"rerank={MODELS / 'weft-demo-rerank'}")


@functools.cache
def browser():
    return sync_playwright().start().chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


def until(page, expression):
    """Waits until the expression is true. Playwright's own wait uses eval in the page, which the page's CSP forbids."""
    end = time.monotonic() + WAIT_MS / 1000
    while not page.evaluate(expression):
        assert time.monotonic() < end, expression
        page.wait_for_timeout(30)


@contextlib.contextmanager
def opened(panel="chat", size=WIDE, theme="light", key=KEY, stored=None, allowed=()):
    """Provides a page. allowed: words of expected console errors."""
    context = browser().new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=theme,
                                    reduced_motion="reduce")
    context.set_default_timeout(WAIT_MS)
    if key:
        context.add_init_script("sessionStorage.setItem('weft-key', %s)" % json.dumps(key))
    for name, value in (stored or {}).items():
        context.add_init_script("localStorage.getItem(%s) || localStorage.setItem(%s, %s)"
                                % (json.dumps(name), json.dumps(name), json.dumps(json.dumps(value))))
    faults, foreign = [], []
    page = context.new_page()
    page.on("console", lambda m: faults.append(m.text) if m.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("dialog", lambda dialog: (faults.append(dialog.message), dialog.dismiss()))
    page.on("request", lambda r: foreign.append(r.url) if not r.url.startswith(server().base + "/") else None)
    try:
        page.goto(f"{server().base}/#{panel}")
        if key:
            until(page, "document.querySelector('#server-state').classList.contains('fine')")
        yield page
    finally:
        context.close()
    faults = [fault for fault in faults if not any(word in fault for word in allowed)]
    assert not faults, faults
    assert not foreign, foreign


def answered(page):
    """Waits until the last turn is a complete answer."""
    until(page, "document.querySelector('#ask-stop').hidden && "
                "[...document.querySelectorAll('.turn')].at(-1)?.matches('.assistant:has(.actions)')")


def setting(page, name, value):
    """Opens the settings if they are closed and fills one."""
    if not page.is_visible("#settings"):
        page.click("#settings-open")
    page.evaluate("for (const group of document.querySelectorAll('.group')) group.open = true")
    field = page.locator(f"#set-{name}")
    if isinstance(value, bool):
        field.set_checked(value)
    elif field.evaluate("node => node.tagName") == "SELECT":
        field.select_option(value)
    else:
        field.fill(value)


def ask(page, text="Hello", tokens="8"):
    if tokens:
        setting(page, "max_completion_tokens", tokens)
    page.fill("#ask-text", text)
    page.press("#ask-text", "Enter")
    answered(page)


def sent(page, path="/v1/chat/completions"):
    """Returns a context manager; .value.post_data_json of its value is the body of the next request."""
    return page.expect_request(lambda request: request.url.endswith(path))


def serious(page, rules=None):
    """Returns the findings of axe-core of moderate impact or worse. rules: the only rules to run."""
    page.evaluate(AXE)
    only = {"runOnly": {"type": "rule", "values": rules}} if rules else {}
    found = page.evaluate("(options) => axe.run(document, options)", {"resultTypes": ["violations"], **only})
    return [(each["id"], each["impact"], [node["target"] + [node["failureSummary"][:200]] for node in each["nodes"][:3]])
            for each in found["violations"] if each["impact"] != "minor"]
