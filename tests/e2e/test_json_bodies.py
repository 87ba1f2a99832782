# SPDX-License-Identifier: Apache-2.0
"""What is JSON and what is not, as bodies of requests, in both shapes of errors.

The texts are those of JSONTestSuite in WEFT_ASSETS, otherwise a short list of the same kinds. Each text is sent as the value of
an unknown field, which must be accepted if it is JSON, and as a body, which must be an object.
"""


import harness

SUITE = harness.ASSETS / "schema/JSONTestSuite/test_parsing"
GOOD = [
    b"0", b"-0.0e+1", b"[]", b"{}", b" [ 1 ,\t2\r\n] ", b'""', b"null", b"[[[[1]]]]", b'{"a":{"b":[{}]}}',
    b'"\\u00e9\\ud83d\\ude00\\"\\/"', b'"\x7f"', b'"\\u0000"', b'{"":0,"":1}', b"1.5e-3", '"\u00e9\u2028"'.encode(),
]
BAD = [
    b"", b" ", b"01", b"-", b"+1", b".5", b"1.", b"1e", b"0x1", b"Infinity", b"NaN", b"nul", b"True", b"[1,]", b"[,1]", b"[1",
    b"]", b'{"a":}', b'{"a" 1}', b"{a:1}", b'{"a":1,}', b"{1:1}", b"'a'", b'"a', b'"\\x41"', b'"\\u12"', b'"\n"', b'"\xff"',
    b'"\xed\xa0\x80"', b"1 2", b"{}x", b"/**/{}", b"[1]//", b"\xef\xbb\xbf", b"[" * 1000, b'{"a":' * 1000,
]


@harness.once
def texts(kind):
    """[(name, bytes)] of y, n or i."""
    if SUITE.is_dir():
        found = [(path.name, path.read_bytes()) for path in sorted(SUITE.glob(f"{kind}_*.json"))]
        assert len(found) > 20, len(found)
        return found
    listed = {"y": GOOD, "n": BAD, "i": []}[kind]
    return [(f"{kind}_{i}", text) for i, text in enumerate(listed)]


ROUTES = {
    "/tokenize": b'{"model": "tiny", "prompt": "a", "unknown": %s}',
    "/v1/messages/count_tokens": b'{"model": "tiny", "messages": [{"role": "user", "content": "a"}], "unknown": %s}',
}


def code_of(answer):
    """The code of a 400, which a body of Messages does not have; both name malformed JSON in the same words."""
    assert answer.status == 400, (answer.status, answer.text)
    assert answer.error["type"] == "invalid_request_error", answer.text
    malformed = "the request body is not valid JSON" in answer.error["message"]
    if "code" in answer.error:
        assert malformed == (answer.error["code"] == "invalid_json"), answer.text
    return "invalid_json" if malformed else "other"


def test_json_is_taken():
    for name, text in texts("y"):
        for path, body in ROUTES.items():
            answer = harness.main().post(path, body % text)
            assert answer.status == 200, (name, path, answer.text)
            alone = harness.main().post(path, text)
            assert code_of(alone) == "other", (name, path, alone.text)


def test_what_is_no_json_is_refused():
    for name, text in texts("n"):
        for path in [*ROUTES, "/v1/chat/completions", "/v1/messages"]:
            answer = harness.main().post(path, text)
            assert code_of(answer) == "invalid_json", (name, path, answer.text)


def test_what_may_be_json_is_answered():
    for name, text in texts("i"):
        for path, body in ROUTES.items():
            for sent in text, body % text:
                answer = harness.main().post(path, sent)
                assert answer.status in (200, 400), (name, path, answer.status, answer.text)
