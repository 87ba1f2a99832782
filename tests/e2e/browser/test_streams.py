# SPDX-License-Identifier: Apache-2.0
"""Incomplete or missing answers: the page reports them in one sentence, keeps the received part, and a retry succeeds."""

import json

from page import answered, ask, opened, sent, setting, until

HALF = 'data: {"choices":[{"delta":{"content":"half"}}]}\n\n'
CUT = "The answer is incomplete: the connection was closed."
UNREADABLE = "The server sent an answer that this page cannot read."
PROXY = "A proxy between this page and the server answered; it may require a login."
# content type, body, whether the connection breaks, shown text, shown message
ANSWERS = [
    ("text/event-stream", HALF, False, "half", CUT),
    ("text/event-stream", HALF, True, "half", CUT),
    ("text/event-stream", HALF + 'data: {"choices":[{"del', False, "half", CUT),
    ("text/event-stream", HALF + "data: {]\n\n", False, "half", UNREADABLE),
    ("text/event-stream", HALF + "data: null\n\n", False, "half", UNREADABLE),
    ("text/event-stream", HALF + "data: 5\n\ndata: [DONE]\n\n", False, "half", UNREADABLE),
    ("text/event-stream", HALF + 'data: {"choices":[{"delta":{"tool_calls":7}}]}\n\n', False, "half", UNREADABLE),
    ("text/event-stream", HALF + 'data: {"error":{"message":"The device has failed."}}\n\n', False, "half", "The device has failed."),
    ("text/event-stream", HALF + 'data: {"choices":[{"finish_reason":"stop"}]}\n\n', False, "half", None),
    ("text/event-stream", HALF + "data: [DONE]\n\n", False, "half", None),
    ("text/html", "<title>Log in</title>", False, "", PROXY),
    ("application/json", '{"object":"list"}', False, "", PROXY),
    ("application/json", '{"error":{"message":"Log in first."}}', False, "", "Log in first."),
]
ANSWER = """([type, text, breaks]) => { window.fetch = () => Promise.resolve(new Response(new ReadableStream({
  start: (out) => out.enqueue(new TextEncoder().encode(text)),
  pull: (out) => (breaks ? out.error(new TypeError("network error")) : out.close()),
}), {headers: {"content-type": type}})); }"""


def test_an_answer_that_is_not_whole_says_so():
    with opened() as page:
        for number, (kind, text, breaks, shown, said) in enumerate(ANSWERS):
            page.evaluate(ANSWER, [kind, text, breaks])
            if number:
                page.click("text=Try again")
            else:
                page.fill("#ask-text", "Hello")
                page.keyboard.press("Enter")
            answered(page)
            turn, case = page.locator(".turn.assistant"), (number, page.inner_text("#stream"))
            assert turn.count() == 1 and turn.locator(".fault").all_inner_texts() == ([said] if said else []), case
            assert turn.locator(".prose").last.inner_text().removesuffix(said or "").strip() == shown, case
            assert ("not finished" in turn.inner_text()) == bool(said), case
            assert ("is complete" in page.inner_text("#chat-said")) == (not said), case
        page.evaluate(ANSWER, ANSWERS[0][:3])
        page.click("text=Try again")
        answered(page)
        page.click("[data-wire=chat]")
        received = page.inner_text("#wire-dialog")
        assert "Event stream" in received and HALF.strip() in received and CUT in received


def test_a_question_that_failed_is_not_asked_again():
    with opened(allowed=("400",)) as page:
        setting(page, "temperature", "9")
        ask(page, "first")
        page.reload()
        assert "temperature" in page.inner_text(".turn.assistant .fault")
        setting(page, "temperature", "")
        with sent(page) as request:
            ask(page, "second")
        assert request.value.post_data_json["messages"] == [{"role": "user", "content": "second"}]
        assert page.locator(".turn").count() == 4 and page.locator(".turn .fault").count() == 1


def test_a_page_of_a_proxy_is_no_answer():
    with opened("embeddings") as page:
        for body, said in ("<title>Log in</title>", PROXY), (json.dumps({"data": None}), UNREADABLE):
            page.evaluate(ANSWER, ["text/html", body, False])
            page.click("#embeddings-go")
            until(page, f"document.querySelector('#embeddings-out .fault')?.textContent === {json.dumps(said)}")


# A stream that sends one text and stays open: sets window.left when its reader cancels.
OPEN = """(text) => { window.left = false; window.fetch = () => Promise.resolve(new Response(new ReadableStream({
  start: (out) => out.enqueue(new TextEncoder().encode(text)), cancel: () => { window.left = true; },
}), {headers: {"content-type": "text/event-stream"}})); }"""


def test_who_reads_no_further_leaves_the_stream():
    with opened() as page:
        for text, fault in (HALF + "data: null\n\n", UNREADABLE), (HALF + 'data: {"error":{"message":"No more."}}\n\n', "No more."), \
                (HALF + "data: [DONE]\n\n", None):
            page.evaluate(OPEN, text)
            page.fill("#ask-text", "Hello")
            page.keyboard.press("Enter")
            answered(page)
            assert page.locator(".turn.assistant").last.locator(".fault").all_inner_texts() == ([fault] if fault else [])
            until(page, "window.left")


def test_a_fault_of_the_page_ends_the_answer():
    with opened(allowed=("planted",)) as page:
        page.evaluate("() => { window.parseFloat = () => { throw new Error('planted'); }; }")
        page.fill("#ask-text", "Hello")
        page.keyboard.press("Enter")
        answered(page)
        assert "not finished" in page.inner_text(".turn.assistant .note")


def test_what_no_panel_foresaw_is_one_sentence():
    with opened("models") as page:
        page.route("**/v1/models", lambda route: route.fulfill(json={"data": [{"id": "x", "kind": "generator"}]}))
        page.reload()
        until(page, f"document.querySelector('#models-out .fault')?.textContent === {json.dumps(UNREADABLE)}")
        page.evaluate("() => { String.prototype.matchAll = () => { throw new Error('planted'); }; }")
        page.click("a[data-panel=live]")
        until(page, f"document.querySelector('#live-fault').textContent === {json.dumps(UNREADABLE)}")
