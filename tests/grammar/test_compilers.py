#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the grammar compilers with Python's re and json, and with plain sets of texts.

  test_compilers.py PROBE [SEED] [PATTERNS]

Random texts drawn from the grammar must match. For these texts and random mutations of them, the
verdict must be that of the other library. Exits 1 and prints the pattern at the first difference.
"""
import itertools
import json
import random
import re
import signal
import subprocess
import sys

PROBE = sys.argv[1]
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
PATTERNS = int(sys.argv[3]) if len(sys.argv) > 3 else 400
LETTERS = 'ab0 -_é😀"\\'


class Probe:
    def __init__(self):
        self.process = subprocess.Popen([PROBE], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, kind, source="", texts=(), draw=0, seed=0):
        line = json.dumps({"kind": kind, "source": source, "texts": list(texts), "draw": draw, "seed": seed})
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


probe = Probe()


def expect(condition, *what):
    if not condition:
        print("seed", SEED, *map(repr, what))
        sys.exit(1)


def mutations(rng, text):
    """Returns the text with one or two characters changed, removed or added."""
    letters = list(text)
    for _ in range(rng.randint(1, 2)):
        at, kind = rng.randint(0, len(letters)), rng.randint(0, 2)
        if kind == 0 or at == len(letters):
            letters.insert(at, rng.choice(LETTERS))
        elif kind == 1:
            letters[at] = rng.choice(LETTERS)
        else:
            del letters[at]
    return "".join(letters)


def atom(rng, depth, anchors):
    pick = rng.randint(0, 9 if depth > 0 else 6)
    if pick <= 2:
        return rng.choice(["a", "b", "0", " ", "é", "😀", r"\.", r"\-", r"\\", '"', r"\x61", r"\u00e9"])
    if pick == 3:
        return rng.choice([r"\d", r"\w", r"\D", r"\W", "."])
    if pick <= 5:
        inside = "".join(rng.choice(["a", "b-d", "0-9", "é", r"\d", r"\]", "^", "😀-😃", r"\\", "_"])
                         for _ in range(rng.randint(1, 3))).lstrip("^") or "a"
        return "[" + rng.choice(["", "", "^"]) + inside + "]"
    if pick == 6:
        return rng.choice("^$") if anchors and rng.random() < 0.7 else "a"
    return rng.choice(["(", "(?:", "(?P<n%d>" % rng.randint(0, 10 ** 9)]) + pattern(rng, depth - 1, anchors) + ")"


def pattern(rng, depth, anchors):
    branches = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        parts = []
        for _ in range(rng.randint(0 if depth < 3 else 1, 3)):
            one = atom(rng, depth, anchors)
            if one not in "^$" and rng.random() < 0.4:
                one += rng.choice(["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}", "*?", "+?", "??", "{0,12}?"])
            parts.append(one)
        branches.append("".join(parts))
    return "|".join(branches)


class TooSlow(Exception):
    pass


def too_slow(*_):
    raise TooSlow


def slow_is_skipped(match):
    """Wraps a match function of re, which backtracks: returns None if it takes over 0.1 s."""
    def limited(text):
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.1)
            try:
                return bool(match(text))
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
        except TooSlow:  # the timer may also expire in `finally`
            return None
    return limited


def regexes():
    rng = random.Random(SEED)
    refused = compared = 0
    signal.signal(signal.SIGALRM, too_slow)
    for number in range(PATTERNS):
        source, search = pattern(rng, 3, number % 2), number % 2
        try:
            compiled = re.compile(source, re.ASCII)
        except (re.error, OverflowError):
            continue
        match = slow_is_skipped(compiled.search if search else compiled.fullmatch)
        drawn = probe.ask("search" if search else "regex", source, draw=12, seed=number)
        if "error" in drawn:
            # The only reasons: an anchor inside of a count, or a pattern without matches (a$b).
            refused += 1
            expect("inside of a count" in drawn["error"] or "no text at all" in drawn["error"], source, drawn)
            continue
        texts = [t for t in drawn["drawn"] if t is not None]
        for text in texts:
            expect("\n" in text or "\r" in text or match(text) is not False, source, "drew", text)
        texts = [mutations(rng, t) for t in texts for _ in range(4)] + texts
        texts += ["".join(rng.choices(LETTERS, k=rng.randint(0, 6))) for _ in range(20)]
        texts = [t for t in texts if not set(t) & set("\n\r\u2028\u2029")]
        answer = probe.ask("search" if search else "regex", source, texts)
        for text, full in zip(texts, answer["full"]):
            want = match(text)
            expect(want is None or full == want, source, text, full)
            compared += want is not None
            if want is None:
                break
    expect(compared > 20 * PATTERNS, "compared", compared)
    expect(refused < PATTERNS / 4, "refused", refused)


def anchors():
    """^ and $ next to parts that may be empty, for every text of up to four letters."""
    texts = ["".join(letters) for n in range(5) for letters in itertools.product("ab", repeat=n)]
    for source in ["(a$)b*", "b*(^a)", "(a$)?b?", "a$|^b", "(^)a($)b*", "(a|$)b?", "(a$)(b*)(a?)", "(a?)(b*)(^a)", "^a*$"]:
        want = [bool(re.search(source, text, re.ASCII)) for text in texts]
        expect(probe.ask("search", source, texts)["full"] == want, source)


def counts():
    """Counts that can be reached in several ways, for every text of up to forty letters."""
    texts = ["a" * n for n in range(41)]
    for source in ["(aa)*a{5}", "(a{3})*a{4}", "(a{2}|a{5})*a{6}", "(a{4,5})*a{9}", "a{3}(aaa)*a{2}", "(aa)*(a{3}|a{8})",
                   "(a{7})*(aa){2}", "(a|a{4})?a{10}(a{6})*"]:
        want = [bool(re.fullmatch(source, text)) for text in texts]
        expect(probe.ask("regex", source, texts)["full"] == want, source)


def nested(rng, depth):
    """Returns a random pattern of nested counts over parts that may be empty."""
    if depth == 0:
        return rng.choice(["a", "b", "ab", "a?", "a|", "", "[ab]"])
    if rng.random() < 0.3:
        return nested(rng, depth - 1) + nested(rng, depth - 1)
    if rng.random() < 0.3:
        return "(%s|%s)" % (nested(rng, depth - 1), nested(rng, depth - 1))
    count = rng.choice(["?", "*", "+", "{0,3}", "{2}", "{2,4}", "{1,5}", "{3,}", "??", "*?", "{1,2}?"])
    return "(%s)%s" % (nested(rng, depth - 1), count)


def nested_counts():
    """Nested counts compared with re, for every text of up to seven letters."""
    rng = random.Random(SEED + 2)
    texts = ["".join(letters) for n in range(8) for letters in itertools.product("ab", repeat=n)]
    sources = ["((a{0,3}){2,4}){1,5}", "((a{0,3}b?){2,4}){2}", "((a|){3}b){0,2}", "(((a?){2,3}){2}){2}"]
    sources += [nested(rng, rng.randint(2, 4)) for _ in range(PATTERNS)]
    compared = 0
    for source in sources:
        match = slow_is_skipped(re.compile(source).fullmatch)
        full = probe.ask("regex", source, texts)["full"]
        for text, got in zip(texts, full):
            want = match(text)
            expect(want is None or got == want, source, text, got)
            compared += want is not None
            if want is None:
                break
    expect(compared > 100 * len(sources), "compared", compared)


def escaped(text):
    out = json.dumps(text, ensure_ascii=False)[1:-1]
    return out


def json_regexes():
    """Patterns over the characters of a JSON string, whose texts are escaped as in JSON."""
    rng = random.Random(SEED + 1)
    for source in [r'^[^a]*$', r'["\\]+', r'^\s\S$', r'\t', r'^.{3}$', r'^\x00?$', r'[\u0000-\u001f]', r'é|😀', r'^a\/b$']:
        texts = [mutations(rng, t) for t in ["", "a", 'x"\\', "\t\u00a0", "a/b", "\x00\x1f", "é😀b"] for _ in range(8)]
        answer = probe.ask("json_search", source, [escaped(t) for t in texts])
        for text, full in zip(texts, answer["full"]):
            expect(full == bool(re.search(source, text)), source, text, full)
        wrong = probe.ask("json_search", "^.$", ['\\u0061', '\\u0009', '"', '\\', '\\/', "\t", "\\u001F"])
        expect(not any(wrong["full"]), wrong)


def regex_errors():
    for source, words in [
        ("(?=a)", "look-ahead"), ("(?!a)", "look-ahead"), ("(?<=a)", "look-behind"), ("(?<!a)", "look-behind"),
        (r"(a)\1", "back-reference"), (r"\bx", "word boundary"), ("(?i)a", "flags"), ("a++", "possessive"),
        ("(?>a)", "atomic"), (r"(?P<x>a)(?P=x)", "back-reference"), ("(", "without its )"), (")", "without its ("),
        ("[a", "without its ]"), ("*", "without an operand"), ("a**", "quantifier after a quantifier"), (r"\q", "unknown escape"),
        ("[b-a]", "reversed"), ("a{3,2}", "reversed"), (r"\x1", "not complete"), ("[]", "begins with ]"),
        (r"\p{Greek}", "general category"), ("a{1000001}", "over 1000000"), ("(" * 101 + ")" * 101, "too deep"),
        ("a$b", "no text at all"), (r"(?(1)a)", "conditional"), (r"\07", "octal"), ("a\\", "at its end"),
        ("(^a){2}", "inside of a count"), ("x" * 65537, "at most 65536"), ("(?<>a)", "name does not end"), ("(?P>x)", "recursion"),
        ("(?<!a)b", "look-behind (?<!"), (r"[\w-a", "without its ]"), (r"\u{1000000}", "not complete"), (r"\U00110000", "not complete"),
        ("?", "without an operand"), ("+a", "without an operand"), (r"\c1", "not complete"), ("a{1000001,}", "over 1000000"),
    ]:
        answer = probe.ask("regex", source)
        expect(words in answer.get("error", ""), source, answer)
    for source, text in [(r"\p{Lu}\p{L}*", "Élan"), (r"[\p{Nd}]+", "٣4"), (r"\P{L}", "1"), (r"\u{1F600}", "😀"), (r"\ud83d\ude00", "😀"),
                         (r"\cJ", "\n"), (r"a{,2}b", "aab"), (r"{x}", "{x}"), (r"a(?#note)b", "ab"), (r"(?<n>a)", "a"), (r"\s", "\ufeff"),
                         (r"\U0001F600", "😀"), ("a{2}{", "aa{"), ("(" * 100 + "a" + ")" * 100, "a"), ("(a)" * 101, "a" * 101),
                         (r"\Aab\z", "ab"), (r"\Aab\Z", "ab"), (r"\u{10ffff}", "\U0010ffff"), (r"\U0010ffff", "\U0010ffff"),
                         (r"\udbff\udfff", "\U0010ffff"), (r"\cj\cJ\cZ", "\n\n\x1a"), (r"[\b]\v\f", "\b\x0b\f"), ("a{1}", "a"),
                         ("[a-a]", "a"), ("a{0,1000000}", "aa"), ("x" * 65536, "x" * 65536), (r"\P{L}\p{L}", "1a"), ("[a-]+", "a-"),
                         (r"[\d-]+", "1-"), (r"[\w-a]+", "w-a"), ("a{,}", "a{,}"), ("a{}", "a{}"),
                         (r"\P{Nd}", "\U0010ffff"), ("a(?#x)b", "ab")]:
        answer = probe.ask("regex", source, [text])
        expect(answer.get("full") == [True], source, answer)
    blanks = [chr(c) for c in (9, 10, 11, 12, 13, 32, 0xa0, 0x1680, 0x2000, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0xfeff)]
    others = [chr(c) for c in (8, 14, 0x1f, 0x21, 0x9f, 0xa1, 0x167f, 0x1fff, 0x200b, 0x2027, 0x202a, 0x3001, 0xfefe, 0xff00)]
    words = [c for c in map(chr, range(128)) if c.isalnum() or c == "_"]
    for source, members in [(r"\s", blanks), (r"\S", others), (r"\w", words), (r"\W", sorted(set(map(chr, range(128))) - set(words))),
                            (".", ["\x0b", "\u2027", "\u202a"])]:
        expect(all(probe.ask("regex", source, members)["full"]), source)
    for source, members in [(r"\s", others), (r"\S", blanks), (".", ["\n", "\r", "\u2028", "\u2029"])]:
        expect(not any(probe.ask("regex", source, members)["full"]), source)


GRAMMARS = [
    # (source, alphabet, a function that returns true for texts of the grammar)
    ('root ::= "a"* "b"', "ab", lambda t: re.fullmatch("a*b", t)),
    ('root ::= x | y x\nx ::= "a" "b"?\ny ::= "b"{2,3}', "ab", lambda t: re.fullmatch("(bb|bbb)?ab?", t)),
    ('root ::= "(" root* ")"', "()", lambda t: balanced(t)),
    ('root ::= [^a-c\\n]{1,2} # two\n| "c" # more\n', "abcd", lambda t: re.fullmatch("d{1,2}|c", t)),
    ('root ::= ("ab" | "b")+ ("a")', "ab", lambda t: re.fullmatch("(ab|b)+a", t)),
    ('root ::= "\\x61" "\\"" [\\]\\-] .', 'a"]-', lambda t: re.fullmatch('a"[]-].', t)),
    ('root  ::=  pal\npal ::= "a" pal "a"\n | "b" pal "b" | "a" | ""', "ab", lambda t: palindrome(t)),
    ('root ::= \'a\' ( "b" |\n "c" )\n  "d"{2}', "abcd", lambda t: re.fullmatch("a[bc]dd", t)),
    ('root ::= empty "a" empty\nempty ::= | "b" empty', "ab", lambda t: re.fullmatch("b*ab*", t)),
    ('root ::= "é" [à-ý]', "éaè", lambda t: re.fullmatch("é[à-ý]", t)),
    ('root ::= "a" | "ab"+ | ("b") | "" | "aa" "b" | c | "bb"{2} | "ba"\nc ::= "abb"', "ab",
     lambda t: re.fullmatch("a|(ab)+|b||aab|abb|bbbb|ba", t)),
    ('root ::= "a"{2,} "b"{0,} "c"{,2}', "abc", lambda t: re.fullmatch("a{2,}b*c{0,2}", t)),
    ('root ::= (("a"?)*){2,3} "b"', "ab", lambda t: re.fullmatch("a*b", t)),
    ('root ::= Z9.a-b_c | x\r\nZ9.a-b_c ::= "a"\r\nx::="b"', "ab", lambda t: t in ("a", "b")),
    (r'root ::= "\U0001F600" | "\u00e9" | "\n\r\t"', "😀é\n\r\t",
     lambda t: t in ("😀", "é", "\n\r\t")),
    ("root ::= [a-a] [b-]{2}", "ab-", lambda t: re.fullmatch("a[b-]{2}", t)),
    ('root ::= "a"? | "ab" "b"', "ab", lambda t: t in ("", "a", "abb")),
    ('root ::= ("a" | "b") | "c"', "abc", lambda t: t in ("a", "b", "c")),
    ('root ::= "" | "a" ""', "ab", lambda t: t in ("", "a")),
    # A dot matches any character, except as part of a rule's name.
    ("root ::= d.\nd ::= [0-9]", "5x.", lambda t: re.fullmatch("5.", t)),
    ('root ::= d.d | d.{2}"." | "x.y ::= " | \'x.y ::=\' | [x.y ::=\\]] # x.y ::=\nd ::= "d"', "dx.",
     lambda t: re.fullmatch(r"d.d|d..\.|[x.y]", t)),
    ('root ::= a.b d. | d..a.b\na.b # its name\n::= "a"\nd ::= "d"', "adx", lambda t: re.fullmatch("ad.|d..a", t)),
    ('root ::= "\\"" a.b\na.b ::= "x"', '"x', lambda t: t == '"x'),
]


def balanced(text):
    depth = 0
    for i, c in enumerate(text):
        depth += 1 if c == "(" else -1
        if depth <= 0 and i + 1 < len(text):
            return False
    return bool(text) and depth == 0


def palindrome(text):
    half = len(text) // 2
    return text == text[::-1] and (len(text) % 2 == 0 or text[half] == "a")


def gbnf():
    for source, letters, inside in GRAMMARS:
        texts = ["".join(t) for n in range(8 if len(letters) < 4 else 6) for t in itertools.product(letters, repeat=n)]
        answer = probe.ask("gbnf", source, texts, draw=20, seed=3)
        expect("error" not in answer, source, answer)
        members = [t for t in texts if inside(t)]
        for text, full, read in zip(texts, answer["full"], answer["bytes"]):
            expect(full == bool(inside(text)), source, text, full)
            begins = max((len(text[:n].encode()) for n in range(len(text) + 1)
                          if any(m.startswith(text[:n]) for m in members)), default=0)
            expect(read >= begins, source, text, read, begins)
        for text in answer["drawn"]:
            expect(text is None or set(text) - set(letters) or inside(text), source, "drew", text)
    # Thousands of alternatives with a common beginning become one choice, whatever is between them.
    many = ['"a%05d"' % i for i in range(17000)]
    answer = probe.ask("gbnf", "root ::= " + " | ".join(many[:9000]) + ' | [x] "y" | ' + " | ".join(many[9000:]),
                       ["a16999", "a00000", "xy", "a17000", "a1699"], draw=20, seed=3)
    expect(answer.get("full") == [True, True, True, False, False], answer)
    expect(all(t == "xy" or '"%s"' % t in many for t in answer["drawn"]), answer)
    names = ["r%d" % i for i in range(5000)]
    answer = probe.ask("gbnf", "root ::= " + " | ".join(names) + "\n" + "\n".join('%s ::= "%s."' % (n, n) for n in names),
                       ["r0.", "r1024.", "r4999.", "r5000.", "r1."])
    expect(answer.get("full") == [True, True, True, False, True], answer)
    for source, words in [
        ("root ::= a", "the rule a is used and not defined"), ('x ::= "a"', "no rule named root"),
        ("root ::= root \"a\" | \"b\"", "left recursion"), ('root ::= "a', "closing quote"), ('root ::= "a" )', ") without its ("),
        ('root ::= ("a"', "( without its )"), ("root ::= [a", "[ without its ]"), ('root ::= "a"{3,2}', "not a repeat count"),
        ('root ::= "\\q"', "unknown escape"), ('root ::= "a"\nroot ::= "b"', "already defined"), ("start: a", "Lark"),
        ("root ::= <think>", "a token"), ('root ::= (= "a")', "look-ahead"), ("root ::= *", "rule name is expected"),
        ('\n\nroot ::= "a" ]', "in line 3"), ("", "no rule named root"), ('root ::= "a" root', "no text at all"),
        ('root ::= ""? root "a" | "b"', "left recursion"), ('root ::= "a"\n]', "in line 2"),
        ('root ::= "\\U00110000"', "unknown escape"), ('root ::= "\\ud800"', "unknown escape"), ('root ::= "\\udfff"', "unknown escape"),
        ('root ::= "a\nb"', "closing quote"), ("root ::= [b-a]", "reversed"), ('root ::= "a"{}', "not a repeat count"), ('root ::= "a"{,}', "not a repeat count"),
        ('root ::= "a"{1,1000001}', "over 1000000"), ('root ::= "a"{1000001,}', "over 1000000"), ("root ::= !<think>", "a token"),
        ("root ::= " + "(" * 101 + '"a"' + ")" * 101, "too deep"), ("#" + "x" * (1 << 18), "at most 262144"), ("root ::= Z", "the rule Z"),
        ('root ::= "a"{2,1000000000000}', "over 1000000"),
    ]:
        answer = probe.ask("gbnf", source)
        expect(words in answer.get("error", ""), source, answer)
    for source, text in [
        ("root ::= " + "(" * 100 + '"a"' + ")" * 100, "a"), ("root ::= " + '("a")' * 101, "a" * 101), ('root ::= "a"{0,1000000}', "aaa"),
        (r'''root ::= "\"\'\[\]\-\^\/\\"''', "\"'[]-^/\\"), ('root ::= "a"#' + "x" * ((1 << 18) - 13), "a"),
    ]:
        answer = probe.ask("gbnf", source, [text])
        expect(answer.get("full") == [True], source[:100], answer)


def value(rng, depth):
    pick = rng.randint(0, 6 if depth > 0 else 4)
    if pick == 0:
        return rng.choice([True, False, None])
    if pick == 1:
        return rng.choice([0, -1, 17, 10 ** 20, 0.5, -2.25, 1e-7, 1e300])
    if pick <= 4:
        return "".join(rng.choices('ab"\\/\n\t\x00\x1f\x7fé😀', k=rng.randint(0, 6)))
    if pick == 5:
        return [value(rng, depth - 1) for _ in range(rng.randint(0, 3))]
    return {"k%d\n" % i: value(rng, depth - 1) for i in range(rng.randint(0, 3))}


def json_objects():
    rng = random.Random(SEED + 2)
    objects = [{"k": value(rng, 4)} for _ in range(150)]
    tight = [json.dumps(o, ensure_ascii=False, separators=(",", ":")) for o in objects]
    loose = [json.dumps(o, ensure_ascii=False, indent=rng.choice([None, 0, 2])) for o in objects]
    for kind, texts in [("json", tight), ("json_loose", tight), ("json_loose", loose)]:
        answer = probe.ask(kind, texts=texts, draw=60, seed=5)
        for text, full in zip(texts, answer["full"]):
            expect(full, kind, text)
        for text in answer["drawn"]:
            if text is not None:
                json.loads(text)
        broken = [mutations(rng, t) for t in texts for _ in range(3)]
        answer = probe.ask(kind, texts=broken)
        for text, full in zip(broken, answer["full"]):
            if full:
                json.loads(text)
    answer = probe.ask("json", texts=["[]", '"a"', "{}", "{,}", '{"a":1,}', '{"a":01}', '{"a":-}', '{"a":1.}', '{"a" :1}'])
    expect(answer["full"] == [False, False, True] + 6 * [False], answer)


regexes()
anchors()
counts()
nested_counts()
json_regexes()
regex_errors()
gbnf()
json_objects()
print("ok")
