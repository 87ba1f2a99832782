#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares weft's chat templates with Python's jinja2, configured as published checkpoints expect.

Two kinds of cases, both seeded: every template of a folder over random conversations, and small
generated templates over fixed values. Needs jinja2 and the chat_batch program of the build:

    tools/template_diff.py --program build/dev/bin/chat_batch --templates $WEFT_ASSETS/chat/templates
"""
import argparse
import copy
import datetime
import json
import pathlib
import random
import re
import subprocess
import sys
import warnings

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment

warnings.filterwarnings("ignore", category=SyntaxWarning)  # warnings about generated nonsense
NOW = datetime.datetime(2025, 7, 10, 12, 0, 0)


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class Refusal(Exception):
    pass


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation])

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def refuse(message):
        raise Refusal(str(message))

    words = env.filters["wordcount"]

    def wordcount(value):
        if hasattr(value, "__next__"):  # the text of an iterator is specific to Python: not compared
            raise SystemError("the words of an iterator")
        return words(value)

    env.filters["wordcount"] = wordcount
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = refuse
    env.globals["strftime_now"] = lambda form: NOW.strftime(form)
    return env


ENV = environment()

# Conversations ------------------------------------------------------------------------------

TEXTS = ["", "Hi", "  padded \n", "Äpfel <b>&'\"</b> 你好 😀\nline two", "<|im_end|>", "a</think>b",
         "<think>\nhm\n</think>\n\nanswer", "{{ 1 }} {% x %}", "tab\tand\\slash", "é" * 5,
         "<tool_call>x</tool_call>", "1", "None", "[INST] x [/INST]"]
SCHEMAS = [
    {"type": "object", "properties": {"city": {"type": "string", "description": "City \"name\""},
                                      "unit": {"type": "string", "enum": ["c", "f"]}},
     "required": ["city"]},
    {"type": "object", "properties": {}},
    {"type": "object", "properties": {
        "list": {"type": "array", "items": {"type": "integer"}}, "n": {"type": ["integer", "null"]},
        "deep": {"type": "object", "properties": {"x": {"type": "number", "default": 1.5}},
                 "required": ["x"]},
        "any": {"anyOf": [{"type": "string"}, {"type": "boolean"}]}}, "required": ["list", "deep"]},
]


def random_tool(rng):
    function = {"name": rng.choice(["get_weather", "f", "look_up"])}
    if rng.random() < 0.9:
        function["description"] = rng.choice(TEXTS)
    if rng.random() < 0.9:
        function["parameters"] = rng.choice(SCHEMAS)
    if rng.random() < 0.2:
        function["strict"] = True
    if rng.random() < 0.2:
        function["return"] = {"type": "string", "description": "what"}
    return {"type": "function", "function": function} if rng.random() < 0.9 else function


def random_message(rng):
    role = rng.choice(["user", "user", "assistant", "assistant", "system", "tool", "developer"])
    message = {"role": role}
    kind = rng.random()
    if kind < 0.8:
        message["content"] = rng.choice(TEXTS)
    elif kind < 0.9:
        message["content"] = [{"type": "text", "text": rng.choice(TEXTS)}
                              for _ in range(rng.randrange(3))]
    elif kind < 0.95:
        message["content"] = None
    if role == "assistant" and rng.random() < 0.4:
        arguments = rng.choice([{"city": "Oslo"}, {}, {"x": 1.5, "y": [1, None, True], "z": "é"},
                                {"n": 1e22, "s": "a\nb"}])
        if rng.random() < 0.4:
            arguments = json.dumps(arguments)
        call = {"type": "function", "function": {"name": "get_weather", "arguments": arguments}}
        if rng.random() < 0.7:
            call["id"] = rng.choice(["call_1", "abcdefghi", "functions.f:0"])
        message["tool_calls"] = [call] * rng.randrange(1, 3)
    if role == "assistant" and rng.random() < 0.2:
        message[rng.choice(["reasoning_content", "reasoning", "thinking"])] = rng.choice(TEXTS)
    if role == "tool":
        message["tool_call_id"] = rng.choice(["call_1", "abcdefghi"])
        if rng.random() < 0.5:
            message["name"] = "get_weather"
    return message


def random_context(rng):
    context = {"bos_token": "<s>", "eos_token": "</s>",
               "add_generation_prompt": rng.random() < 0.7}
    messages = [random_message(rng) for _ in range(rng.randrange(0, 5))]
    if rng.random() < 0.7:  # roles that most templates accept
        messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": rng.choice(TEXTS)}
                    for i in range(rng.randrange(1, 5))]
        if rng.random() < 0.4:
            messages.insert(0, {"role": "system", "content": rng.choice(TEXTS)})
        if rng.random() < 0.3:
            messages.append(random_message(rng))
    context["messages"] = messages
    if rng.random() < 0.4:
        context["tools"] = [random_tool(rng) for _ in range(rng.randrange(0, 3))]
    for name, values in (("enable_thinking", [True, False]), ("thinking", [True, False]),
                         ("reasoning_effort", ["low", "high", "none"]),
                         ("documents", [None, [{"title": "t", "text": "x", "doc_id": 1}]]),
                         ("tools", [None]), ("date_string", ["today"]),
                         ("builtin_tools", [["code_interpreter"]]), ("custom_tools", [None]),
                         ("thinking_budget", [0, 512]), ("keep_past_thinking", [True])):
        if rng.random() < 0.12:
            context[name] = rng.choice(values)
    return context


# Generated templates ------------------------------------------------------------------------

VALUES = {"s": "Hello, World", "e": "", "u": "  Grüße\tß 你好\n ", "n": 7, "z": 0, "m": -3, "f": 2.5,
          "g": 1e21, "b": True, "no": None, "l": [3, 1, 2], "el": [], "w": ["b", "A", "c", "a"],
          "d": {"k": 1, "items": 2, "Z": [1, "x"], "a": None}, "ed": {},
          "o": [{"n": "x", "v": 2, "t": {"q": 1}}, {"n": "Y", "v": 1}, {"n": "x", "v": 3, "t": {}}],
          "x": [[1, 2], [3, 4]], "q": "it's \"q\" \\ \x07 é", "lines": "a\n b\r\n\nc\n"}
NAMES = list(VALUES) + ["missing"]
LITERALS = ["1", "0", "-2", "3.0", "0.1", "1e-7", "'a'", "''", "'l'", "'%s-%d'", "'{} {}'", "none",
            "true", "false", "[]", "{}", "()", "(1,)", "['a', 1]", "{'a': 1, 'b': [2]}", "'\\n'",
            "range(3)", "'x' 'y'", "'ß'", "100", "123456789.125", "'12'", "' 3 '", "'1.5'"]
BINARY = ["+", "-", "*", "/", "//", "%", "~", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in",
          "and", "or"]
FILTERS = ["length", "upper", "lower", "title", "capitalize", "trim", "string", "list", "first",
           "last", "tojson", "tojson(indent=2)", "tojson(sort_keys=true)", "int", "float",
           "int(5)", "abs", "round", "round(1)", "round(2, 'floor')", "join", "join(', ')",
           "default('D')", "default('D', true)", "d(1)", "sort", "sort(reverse=true)",
           "sort(case_sensitive=true)", "sort(attribute='v')", "sort(attribute='n,v')", "reverse",
           "reverse|list", "unique|list", "min", "max", "sum", "sum(attribute='v')", "dictsort",
           "dictsort(by='value')", "items|list", "map('upper')|list", "map(attribute='n')|list",
           "map(attribute='t.q', default=9)|list", "select|list", "reject|list",
           "select('odd')|list", "selectattr('t')|list", "selectattr('v', '>', 1)|list",
           "rejectattr('n', 'equalto', 'x')|list", "groupby('n')", "batch(2)|list",
           "batch(2, 'F')|list", "slice(2)|list", "slice(2, 0)|list", "indent", "indent(2, true)",
           "indent(1, false, true)", "indent('>>')", "replace('l', 'LL')", "replace('', '-')",
           "replace('a', 'b', 1)", "escape", "e", "safe", "wordcount", "truncate(5)",
           "truncate(5, true)", "truncate(7, false, '~', 0)", "urlencode", "format(1, 2)", "center(9)",
           "center(10)", "xmlattr", "count", "tojson(separators=(',', ':'))", "tojson(true)",
           "attr('k')", "forceescape"]
TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "true",
         "false", "mapping", "iterable", "sequence", "callable", "odd", "even", "divisibleby(3)",
         "divisibleby 2", "eq(1)", "equalto 'a'", "ne 1", "gt 1", "ge 7", "lt 3", "le 0", "in [1, 7]",
         "sameas none", "lower", "upper", "escaped", "not none", "not defined", "in 'Hello'"]
METHODS = ["strip()", "strip('H ')", "lstrip()", "rstrip('d')", "split()", "split(',')",
           "split('l', 1)", "split(none, 1)", "rsplit('l', 1)", "rsplit()", "rsplit(none, 1)",
           "upper()", "lower()", "title()", "capitalize()", "startswith('H')", "endswith('d')",
           "startswith(('x', 'H'))", "find('o')", "rfind('o')", "find('o', 5)", "index('l')",
           "count('l')", "replace('l', '1')", "replace('l', '1', 1)", "join(['a', 'b'])",
           "join('xyz')", "isdigit()", "isalpha()", "isalnum()", "isspace()", "isupper()",
           "islower()", "splitlines()", "splitlines(true)", "removeprefix('He')",
           "removesuffix('ld')", "zfill(15)", "center(15, '*')", "ljust(14)", "rjust(14, '.')",
           "partition(',')", "rpartition('l')", "format(1, 2, n=3)", "get('k')", "get('zz')",
           "get('zz', 5)", "items()", "items()|list", "keys()|list", "values()|list", "keys()",
           "copy()", "append(1)", "pop()", "update({})", "index(2)", "count(1)",
           "nosuch()"]
FORMATS = ["'%5s|%-5s|' % (s, n)", "'%05d' % n", "'%+.2f' % f", "'%x %X %o' % (n, 255, 8)",
           "'%r' % q", "'%s %s' % (l, d)", "'%(k)s' % d", "'%%' % ()", "'%e' % f", "'%g' % f",
           "'%s' % none", "'%d' % s", "'%s'", "'%s' % (1, 2)", "'{:>8}|{:<6}|{:^7}'.format(s, n, f)",
           "'{0[k]} {1}'.format(d, n)", "'{:,} {:.3f} {:x}'.format(1234567, f, 255)",
           "'{a} {a!r}'.format(a='x')", "'{:05d}'.format(m)", "'{{}} {}'.format(1)", "'{}'.format()",
           "'{:*^9}'.format('mid')", "'{:%}'.format(0.25)", "'{:d}'.format(f)", "'{:.2}'.format(s)"]
SLICES = ["[0]", "[-1]", "[1:]", "[:-1]", "[::2]", "[::-1]", "[1:3]", "[-2:]", "[5:1:-2]", "[99]",
          "['k']", "['n']", ".k", ".n", "['items']", ".items", "[0].n", "[0]['t']", "[:n]", "[m:]",
          "[1.5]", "[none:2]", "[true]", "[::0]", "['0']"]


def expression(rng, depth):
    """Returns an expression that mostly has a value: a failure ends the rendering, and the rest is not compared."""
    for _ in range(3):
        made = any_expression(rng, depth)
        if rng.random() < 0.05 or reference(ENV, "{{ " + made + " }}", VALUES)[0] == "text":
            break
    return made


def any_expression(rng, depth):
    kind = rng.random()
    if depth <= 0 or kind < 0.2:
        return rng.choice(NAMES) if rng.random() < 0.7 else rng.choice(LITERALS)
    inner = expression(rng, depth - 1)
    simple = inner if inner.replace("_", "").isalnum() else "(" + inner + ")"
    if kind < 0.42:
        return f"{simple}|{rng.choice(FILTERS)}"
    if kind < 0.5:
        return f"{simple} is {rng.choice(TESTS)}"
    if kind < 0.63:
        return f"{simple}.{rng.choice(METHODS)}"
    if kind < 0.72:
        return f"{rng.choice(NAMES)}{rng.choice(SLICES)}"  # jinja2 folds those of constants
    if kind < 0.76:
        return rng.choice(FORMATS)
    if kind < 0.8:
        return f"{simple} if {expression(rng, depth - 1)} else {expression(rng, depth - 1)}"
    if kind < 0.83:
        return f"not {simple}"
    if kind < 0.85:
        return f"-{simple}"
    if kind < 0.88:
        return f"[{inner}, {expression(rng, depth - 1)}]"
    return f"{simple} {rng.choice(BINARY)} {expression(rng, depth - 1)}"


def tag(rng, body):
    return "{%" + rng.choice(["", "", "-", "+"]) + " " + body + " " + rng.choice(["", "", "-", "+"]) + "%}"


def space(rng):
    return rng.choice(["", " ", "\n", "  \n", "\n  ", "x", " y\n\n", "\r\n", "\t"])


def statement(rng, depth):
    e = lambda: expression(rng, rng.randrange(3))
    t = lambda body: tag(rng, body)
    kind = rng.random()
    if depth <= 0 or kind < 0.35:
        return "{{" + rng.choice(["", "-"]) + " " + e() + " " + rng.choice(["", "-"]) + "}}"
    body = lambda: template(rng, depth - 1)
    if kind < 0.45:
        return t(f"if {e()}") + body() + rng.choice(["", t(f"elif {e()}") + body()]) + \
            rng.choice(["", t("else") + body()]) + t("endif")
    if kind < 0.6:
        target, over = rng.choice([("i", e()), ("i", rng.choice(["l", "w", "o", "s", "d", "range(4)"])),
                                   ("a, c", rng.choice(["d.items()", "x", "d|dictsort", "l"]))])
        loop = rng.choice(["", "{{ loop.index }}{{ loop.last }}{{ loop.revindex }}",
                           "{{ loop.previtem }}/{{ loop.nextitem }}", "{{ loop.cycle('p', 'q') }}",
                           "{{ loop.changed(i) }}", "{{ loop.length }}{{ loop.first }}",
                           t(f"if i == 2") + t(rng.choice(["break", "continue"])) + t("endif")])
        test = rng.choice(["", "", " if i", f" if {e()}"])
        return t(f"for {target} in {over}{test}") + loop + "{{ i }}{{ a }}" + body() + \
            rng.choice(["", t("else") + body()]) + t("endfor")
    if kind < 0.7:
        return t(f"set {rng.choice(['v1', 'v2'])} = {e()}") + "{{ v1 }}{{ v2 }}{{ s }}"
    if kind < 0.75:
        return t("set v1") + body() + t("endset") + "[{{ v1 }}]"
    if kind < 0.81:
        return t("set ns = namespace(a=1, t='')") + t(f"for i in {rng.choice(['l', 'w'])}") + \
            t(f"set ns.a = {e()}") + t("set ns.t = ns.t ~ i") + t("endfor") + "{{ ns.a }}{{ ns.t }}"
    if kind < 0.9:
        call = rng.choice(["{{ f1(1) }}", "{{ f1(1, 2) }}", "{{ f1(p2=s, p1=l) }}", "{{ f1(1, 2, 3) }}",
                           "{{ f1(1, z=2) }}", "{{ f1() }}", t("call f1(n)") + body() + t("endcall"),
                           t("call(v) f1(n)") + "{{ v }}" + body() + t("endcall"), "{{ f1(*x[0]) }}",
                           "{{ f1(**{'p1': 3}) }}"])
        inside = rng.choice(["", "{{ varargs }}", "{{ kwargs }}", "{{ caller() }}", "{{ caller(5) }}",
                             "{{ caller is defined }}", "{{ v1 }}"])
        return t("macro f1(p1, p2='D')") + "<{{ p1 }}{{ p2 }}" + inside + body() + ">" + \
            t("endmacro") + call
    if kind < 0.93:
        return t(f"filter {rng.choice(['upper', 'trim', 'indent(2)', 'replace(1, 2)|lower'])}") + \
            body() + t("endfilter")
    if kind < 0.95:
        return t(f"with v1 = {e()}, v2 = 3") + "{{ v1 }}" + body() + t("endwith")
    if kind < 0.97:
        return t("for i in x recursive") + "{{ loop.depth }}{{ i }}" + \
            t("if i is not number") + "({{ loop(i) }})" + t("endif") + t("endfor")
    if kind < 0.98:
        return rng.choice(["{# c #}", "{#- c -#}", "{% raw %} {{ x }} {% endraw %}",
                           "{%- raw -%}\n {% y %}\n{%- endraw -%}", "{% generation %}g{% endgeneration %}"])
    return t("set c = cycler('a', 'b')") + "{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}"


def template(rng, depth):
    return "".join(space(rng) + statement(rng, depth) for _ in range(rng.randrange(1, 4))) + space(rng)


# Comparing ----------------------------------------------------------------------------------

def reference(env, source, variables):
    try:
        return "text", env.from_string(source).render(**copy.deepcopy(variables))
    except Refusal as refusal:
        return "refused", str(refusal)
    except RecursionError:
        return "skip", "recursion"
    except (MemoryError, SystemError) as error:
        return "skip", str(error)
    except Exception as error:  # any exception is a failure of the template
        return "error", f"{type(error).__name__}: {error}"


ADDRESS = re.compile(r"0x[0-9a-f]{8}", re.IGNORECASE)


def comparable(expected, actual):
    """False for outputs that cannot be compared: addresses, numbers over 64 bits, generators as text.

    Templates in which an inner scope reads a variable of the request before an outer scope assigns it
    are not generated: the variable is undefined in jinja2, and that of the request in weft.
    """
    if expected[0] == "skip":
        return False
    text = expected[1] if expected[0] == "text" else ""
    if ADDRESS.search(text):  # even if a filter has changed the words around it
        return False
    if any(mark in text for mark in ("generator object", " at 0x", "<built-in", "bound method",
                                     "<class '", "<jinja2", "Undefined", "<Macro '",
                                     "<LoopContext ", "_iterator object")):
        return False
    return "64 bits" not in actual.get("error", "") and "surrogate" not in expected[1]


def agrees(expected, actual):
    kind, text = expected
    if kind == "text":
        return actual.get("text") == text
    if kind == "refused":
        return actual.get("status") == "REFUSED" and actual.get("error")[:900] == text[:900]
    return "status" in actual and actual["status"] != "REFUSED"


class Peer:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def render(self, source, variables):
        line = json.dumps({"source": source, "variables": variables,
                           "now": int(NOW.replace(tzinfo=datetime.timezone.utc).timestamp())})
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            raise SystemExit("chat_batch ended at: " + line)
        return json.loads(answer)


def cases(args, rng):
    templates = sorted(pathlib.Path(args.templates).glob("*.jinja")) if args.templates else []
    for path in templates:
        source = path.read_text(encoding="utf-8")
        for _ in range(args.contexts):
            yield path.name, source, random_context(rng)
    for number in range(args.generated):
        depth = rng.randrange(3)
        source = template(rng, depth) if depth else "{{ " + expression(rng, 3) + " }}"
        yield f"generated {number}", source, VALUES


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--templates")
    parser.add_argument("--contexts", type=int, default=100, help="per template")
    parser.add_argument("--generated", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=10)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    peer = Peer(args.program)
    counts = {"text": 0, "refused": 0, "error": 0, "not compared": 0, "differs": 0}
    for name, source, variables in cases(args, rng):
        expected = reference(ENV, source, variables)
        actual = peer.render(source, variables)
        if not comparable(expected, actual):
            counts["not compared"] += 1
        elif agrees(expected, actual):
            counts[expected[0]] += 1
        else:
            counts["differs"] += 1
            if counts["differs"] <= args.show:
                shown = {} if variables is VALUES else variables
                print(f"--- {name}\n{source if variables is VALUES else ''}\n"
                      f"{json.dumps(shown, ensure_ascii=False)}\njinja2: {expected!r}\n"
                      f"weft:   {actual.get('text', actual.get('error'))!r}")
    print(f"seed {args.seed}, jinja2 {jinja2.__version__}:",
          ", ".join(f"{count} {what}" for what, count in counts.items()))
    return 1 if counts["differs"] else 0


if __name__ == "__main__":
    sys.exit(main())
