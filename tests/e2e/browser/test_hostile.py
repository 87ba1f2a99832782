# SPDX-License-Identifier: Apache-2.0
"""Hostile text on the web page: in a model's answer, a tool's name, a title, stored conversations. It is shown as text. Also
the HTML that markdown becomes."""

from page import opened

EVIL = ["<img src=x onerror=alert(1)>", "<script>alert(2)</script>", "[a](javascript:alert(3))", "![x](http://127.0.0.1:9/x.png)",
        "[b](data:text/html,<script>alert(4)</script>)", "<https://127.0.0.1:9/a>", "</textarea><svg onload=alert(5)>",
        "[c](vbscript:x) [d](JaVaScRiPt:alert`6`) [e]( javascript:alert(7))", "```html\"onload=alert(8)\n<b>x</b>\n```",
        "| a | b |\n|---|---|\n| <img src=x onerror=alert(9)> | [x](javascript:alert(10)) |"]
NODES = "#stream :is(script, img, svg, iframe, object, embed, style, link, form:not(.results), input)"


def conversation(**more):
    return {"id": "a", "title": EVIL[0], "model": "chat", "settings": {}, "updated": 1, **more}


def test_stored_text_stays_text():
    call = {"id": "1", "name": EVIL[0], "arguments": EVIL[1]}
    messages = [{"role": "user", "content": text} for text in EVIL]
    messages += [{"role": "assistant", "content": text, "reasoning": text, "note": text, "calls": [call]} for text in EVIL]
    messages += [{"role": "tool", "name": EVIL[0], "content": EVIL[1], "tool_call_id": "1"}]
    with opened(stored={"weft-conversations": [conversation(messages=messages)]}) as page:
        page.wait_for_selector(".turn")
        assert page.locator(".turn").count() == len(messages)
        assert page.locator(NODES).count() == 0, page.locator(NODES).first.evaluate("node => node.outerHTML")
        assert page.inner_text(".conversation") == EVIL[0]
        assert page.locator("#side img").count() == 1  # the page's own
        links = page.evaluate("[...document.querySelectorAll('#stream a')].map((a) => [a.protocol, a.rel, a.target])")
        assert links and all(link[0] in ("http:", "https:") and "noopener" in link[1] and link[2] == "_blank" for link in links)
        assert page.locator(".call-name code").first.inner_text() == EVIL[0]
        page.get_by_role("button", name=f"Rename {EVIL[0]}").click()
        page.keyboard.press("Escape")


def test_what_is_kept_may_be_anything():
    for stored in ({}, [], "x", [None, 1, {"id": 3}], [conversation(messages="x")], [conversation(messages=[None, {"role": "system"},
                   {"role": "user"}, {"role": "assistant", "calls": [None]}], title={"a": 1}, settings=["x"])],
                   [conversation(messages=[{"role": "user"}], settings={"system": True, "stop": {}, "temperature": [1], "tools": 7, "tools_on": "x"})]):
        with opened(stored={"weft-conversations": stored, "weft-preferences": stored}) as page:
            page.fill("#ask-text", "still here")
            assert page.locator("#chat-model option").count() == 1


def test_the_policy_holds():
    with opened(allowed=("Content Security Policy", "TrustedHTML", "Trusted")) as page:
        assert page.evaluate("""() => { try { document.body.innerHTML = "<b>x</b>"; return "set"; } catch { return "refused"; } }""") == "refused"
        assert page.evaluate("""() => new Promise((done) => {
          document.addEventListener("securitypolicyviolation", (event) => done(event.effectiveDirective));
          const style = document.createElement("style"); style.textContent = "body { color: red }"; document.head.append(style);
        })""").startswith("style-src")


MARKDOWN = [
    ("# a *b*\n\ntext", "<h3>a <em>b</em></h3><p>text</p>"),
    ("a **b _c_** `d<e>` ~~f~~", "<p>a <strong>b <em>c</em></strong> <code>d&lt;e&gt;</code> <del>f</del></p>"),
    ("- a\n- b\n  - c\n- d", "<ul><li>a</li><li><p>b</p><ul><li>c</li></ul></li><li>d</li></ul>"),
    ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
    ("> a\n> > b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>"),
    ("a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"),
    ("[a](https://b.example/c) <b>", '<p><a href="https://b.example/c" target="_blank" rel="noopener noreferrer nofollow">a</a> &lt;b&gt;</p>'),
    ("snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"),
    ("\\*a\\*", "<p>*a*</p>"),
    ("**open", "<p>**open</p>"),
    ("- [ ] a\n- [x] b", "<ul><li>☐ a</li><li>☑ b</li></ul>"),
    ("a &lt;b&gt; &amp;lt; &bogus; `&lt;`", "<p>a &lt;b&gt; &amp;lt; &amp;bogus; <code>&amp;lt;</code></p>"),
    ("## a ##\n\n# C#\n\n#\n\n#a", "<h4>a</h4><h3>C#</h3><h3></h3><p>#a</p>"),
    ("|---|", "<p>|---|</p>"),
    ("", ""),
]


def test_markdown():
    with opened() as page:
        html = """async (text) => {
          const {markdown} = await import("/ui/markdown.js");
          const box = document.createElement("div");
          box.append(...markdown(text));
          return box.innerHTML;
        }"""
        for text, wanted in MARKDOWN:
            assert page.evaluate(html, text) == wanted, (text, page.evaluate(html, text))
        table = page.evaluate(html, "| a | b |\n|:-:|--:|\n| 1 | 2 |")
        assert '<th class="center" scope="col">a</th><th class="end" scope="col">b</th>' in table, table
        assert "<td class=\"center\">1</td>" in table
        table = page.evaluate(html, "a | b | c\n-|-|-\n1 |\n2 | 3 | 4 | 5")
        assert '<td class="start">1</td><td colspan="2"></td>' in table and "5" not in table, table
        code = page.evaluate(html, "```python\ndef f():\n    return 'x'  # y\n```")
        assert '<span class="tok-k">def</span>' in code and "<span class=\"tok-c\"># y</span>" in code, code
        for text in ("*" * 9000, "[" * 9000, "`" * 9001, "> " * 5000, "- " * 3000, "1. " * 3000, "|" * 9000 + "\n" + "|-" * 4000, "_a" * 9000,
                     "![" * 4000 + "](" * 4000, "~~a" * 5000, "#" * 5000, "\n" * 20000):
            page.evaluate(html, text)


SPACES = " " * 40_000
LONG = ["# " + SPACES + "x\u2028y", SPACES + "x", SPACES + "-" + SPACES + "|", "a|b\n" + SPACES + "-" + SPACES + "x|", "- " + SPACES + "x\u2028y",
        "```" + SPACES + "a" * 40_000 + "`", "~" * 40_000 + "`", "# " + "#" * 40_000 + "x", "a" + SPACES + "\nb", "`" + SPACES + "x" + SPACES + "`",
        "|" * 4000 + "\n" + "|-" * 4000 + "|\n" + "|\n" * 4000]


def test_long_lines_do_not_freeze_the_page():
    with opened() as page:
        for at, text in enumerate(LONG):  # a frozen page evaluates nothing, so the selector times out
            page.evaluate("""([text, at]) => { setTimeout(async () => {
              const {markdown} = await import("/ui/markdown.js");
              markdown(text);
              document.body.dataset.drawn = at;
            }); }""", [text, at])
            page.wait_for_selector(f"body[data-drawn='{at}']")
