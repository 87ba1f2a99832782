# SPDX-License-Identifier: Apache-2.0
"""Conversations stored by the browser: none is lost because of another tab or a reload in the middle of an answer, and a full storage
is reported."""

import json

from page import AT_ONCE, KEY, WRITTEN, answered, ask, opened, server, until

KEPT = "Object.entries(localStorage).filter(([name]) => name.startsWith('weft-conversation-')).map(([, text]) => text).join('')"
OLDER = [{"id": str(at), "title": f"older {at}", "model": "chat", "settings": {}, "updated": at,
          "messages": [{"role": "user", "content": "long " * 2000}]} for at in (1, 2)]


def listed(page, *titles):
    until(page, "JSON.stringify([...document.querySelectorAll('.conversation')].map((each) => each.textContent)) === "
                f"{json.dumps(json.dumps(titles, separators=(',', ':')))}")


def turns(page, count):
    until(page, f"document.querySelectorAll('.turn').length === {count}")


def begun(page, text):
    """Sends the text; its answer starts and does not end by itself."""
    page.evaluate(WRITTEN)
    page.fill("#ask-text", text)
    page.press("#ask-text", "Enter")
    until(page, "window.streams.length === 1")
    page.evaluate(f"window.streams[0].say('answer to {text}')")
    until(page, f"[...document.querySelectorAll('.turn > .prose')].at(-1).textContent === 'answer to {text}'")


def test_tabs_keep_what_others_keep():
    with opened() as page:
        other = page.context.new_page()
        other.goto(f"{server().base}/#chat")
        until(other, "document.querySelector('#server-state').classList.contains('fine')")
        for each in page, other:
            each.evaluate(AT_ONCE)
        ask(page, "one", tokens=None)
        listed(other, "one", "New conversation")
        ask(other, "two", tokens=None)
        listed(page, "two", "one")
        ask(page, "one more", tokens=None)
        assert page.locator(".turn").count() == 4
        other.click(".conversation >> text=one")
        turns(other, 4)
        ask(page, "a third", tokens=None)  # the shown conversation grows
        turns(other, 6)
        page.get_by_role("button", name="Delete two").click()
        page.get_by_role("button", name="Really delete two").click()
        listed(other, "one")
        begun(page, "here")
        begun(other, "there")  # an answer runs in both tabs, independently
        for each in page, other:
            each.evaluate("window.streams[0].end()")
            answered(each)
        for each in page, other:
            each.reload()
        until(page, "document.querySelectorAll('.conversation').length > 1")
        said = []
        for title in page.locator(".conversation").all_inner_texts():
            assert title.startswith("one"), title
            page.get_by_role("button", name=title, exact=True).click()
            said.append(page.locator(".turn > .prose").last.inner_text())
        assert {"answer to here", "answer to there"} <= set(said), said


def test_a_reload_in_the_middle_of_an_answer_loses_nothing():
    with opened() as page:
        begun(page, "first")
        assert "first" in page.evaluate(KEPT)
        for _ in range(600):  # it is stored while it grows, because a closed tab gets no time to store it
            if "answer to first" in page.evaluate(KEPT):
                break
            page.evaluate("window.streams[0].say('.')")
            page.wait_for_timeout(100)
        assert "answer to first" in page.evaluate(KEPT)
        page.evaluate("window.streams[0].say(' and the last words')")
        until(page, "document.querySelector('.turn.assistant > .prose').textContent.endsWith('last words')")
        page.reload()
        turns(page, 2)
        assert page.inner_text(".turn.user > .prose") == "first"
        assert page.inner_text(".turn.assistant > .prose").endswith("and the last words")
        assert "not finished" in page.inner_text(".turn.assistant .note")
        page.evaluate(AT_ONCE)
        page.click("text=Try again")
        answered(page)
        assert page.inner_text(".turn.assistant > .prose") == "all of it" and "not finished" not in page.inner_text("#turns")


FILLED = """() => { for (let size = 1 << 22, text = ""; size >= 1; size >>= 1) {
  try { localStorage.setItem("full", text + "x".repeat(size)); text += "x".repeat(size); } catch { /* smaller */ }
} }"""


def test_a_full_browser_says_so_and_keeps_what_it_has():
    with opened(stored={"weft-conversations": OLDER}) as page:
        listed(page, "older 2", "older 1")
        assert page.evaluate("localStorage.getItem('weft-conversations')") is None and page.evaluate(KEPT).count('"id"') == 2
        page.click("#chat-new")
        page.evaluate(FILLED)
        page.evaluate(AT_ONCE)
        ask(page, "newest", tokens=None)
        assert "storage is full" in page.inner_text("#ask-unkept")
        kept = page.evaluate(KEPT)
        assert "older 1" in kept and "older 2" in kept and "newest" not in kept
        listed(page, "newest", "older 2", "older 1")
        page.get_by_role("button", name="Delete older 1").click()
        page.get_by_role("button", name="Really delete older 1").click()
        assert page.inner_text("#ask-unkept") == "" and "newest" in page.evaluate(KEPT)
        page.evaluate("localStorage.removeItem('full')")
        page.reload()
        turns(page, 2)


def test_what_found_no_room_and_was_deleted_stays_deleted():
    with opened() as page:
        page.evaluate(FILLED)
        page.evaluate(AT_ONCE)
        ask(page, "to be deleted", tokens=None)
        assert "storage is full" in page.inner_text("#ask-unkept")
        page.get_by_role("button", name="Delete to be deleted").click()
        page.get_by_role("button", name="Really delete to be deleted").click()
        assert page.inner_text("#ask-unkept") == ""
        page.evaluate("localStorage.removeItem('full')")
        ask(page, "stays", tokens=None)
        assert "stays" in page.evaluate(KEPT) and "to be deleted" not in page.evaluate(KEPT)
        page.reload()
        listed(page, "stays")


def test_what_another_tab_removed_is_not_written_again():
    with opened() as page:
        page.evaluate(AT_ONCE)
        ask(page, "removed elsewhere", tokens=None)
        page.evaluate(FILLED)
        ask(page, "a second question " + "x" * 1000, tokens=None)
        assert "storage is full" in page.inner_text("#ask-unkept")
        page.evaluate("""() => { for (const name of Object.keys(localStorage).filter((each) => each.startsWith("weft-conversation-"))) {
          localStorage.removeItem(name);
          dispatchEvent(new StorageEvent("storage", {key: name}));
        } localStorage.removeItem("full"); }""")
        ask(page, "another", tokens=None)
        assert "another" in page.evaluate(KEPT) and "removed elsewhere" not in page.evaluate(KEPT)


def test_a_browser_that_keeps_nothing():
    with opened(key=None) as page:
        page.context.add_init_script("""for (const name of ["localStorage", "sessionStorage"]) {
          Object.defineProperty(window, name, {get() { throw new DOMException("not allowed", "SecurityError"); }});
        }""")
        page.reload()
        page.fill("#key-text", KEY)
        page.keyboard.press("Enter")
        until(page, "document.querySelector('#server-state').classList.contains('fine')")
        page.evaluate(AT_ONCE)
        ask(page, "Hello", tokens=None)
        assert page.locator(".turn").count() == 2 and "stores nothing" in page.inner_text("#ask-unkept")
