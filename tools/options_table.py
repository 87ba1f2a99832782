#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/OPTIONS.md, the reference of all options, from the option tables of cli/.

  tools/options_table.py --write    writes the page
  tools/options_table.py --check    prints the lines in which the page differs and exits 1

The help texts are those of `weft help COMMAND`; only the introductions are written here.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/OPTIONS.md"

HEAD = """# Options

`tools/options_table.py` generates this page from the option tables in `cli/`; `weft help COMMAND`
prints the same texts. [`OPERATING.md`](OPERATING.md) describes what to use the options for.

- Options may be written anywhere: `--port 8001` or `--port=8001`. Options that are on or off have
  two forms, `--ui` and `--no-ui`.
- `-v` is `--log-level debug`; `--help` lists the options of a command.
- Numbers of bytes take the suffixes K, M, G and T (powers of 1024): `--payload-limit 64M`.
- Options of models apply to all models if they are written with `--`. Written after a model's
  folder they apply to that model only and win: `weft serve a=models/a,dtype=int8 models/b --dtype
  bfloat16`. A comma inside a value is written `\\,`; in a shell, quote it: `'a=A,device=cuda:0\\,1'`.
"""
SECTIONS = [  # heading, introduction, file, array, which rows
    ("The server", "Options of `weft serve`.", "settings.c", "serve_rows", "all"),
    ("The device and the log", "Options of `serve`, `chat`, `generate`, `embed`, `rerank`, `perplexity` "
     "and `inspect`.", "settings.c", "device_rows", "all"),
    ("Models", "Options of the same commands, for all models with `--` or for one after its folder.",
     "settings.c", "model_rows", "first"),
    ("Models that are served", "Further options of models, of `serve` and `inspect`.", "settings.c",
     "model_rows", "last"),
    ("`weft chat`", "", "chat.c", "chat_rows params_rows", "all"),
    ("`weft generate`", "", "generate.c", "rows", "all"),
    ("`weft embed`", "", "embed.c", "rows", "all"),
    ("`weft rerank`", "", "rerank.c", "rows", "all"),
    ("`weft perplexity`", "", "perplexity.c", "rows", "all"),
    ("`weft bench`", "", "bench_options.c", "rows", "all"),
    ("`weft bench` without a server", "Options with `--model FOLDER` and no URL, besides those of the device "
     "and the model.", "bench_offline.c", "rows", "all"),
    ("`weft tokenize`", "", "tokenize.c", "rows", "all"),
    ("`weft detokenize`", "", "tokenize.c", "detokenize_rows", "all"),
    ("`weft render`", "", "render.c", "rows", "all"),
]
TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[(){},]|[^\s"(){},]+')


def source(name):
    """Returns the text of a file of cli/ without comments."""
    text = (ROOT / "cli" / name).read_text()
    return re.sub(r'("(?:\\.|[^"\\\n])*")|//[^\n]*', lambda m: m[1] or "", text)


def macros():
    """Returns {name: (parameters, body)} of the macros that produce rows."""
    text = (source("options.h") + source("continuation.h")).replace("\\\n", " ")
    found = re.findall(r"#define (OPTION_ROW|OPTION_NUMBER|OPTION_CHOICES|GENERATION_ROWS)\(([^)]*)\)(.*)", text)
    return {name: ([p.strip() for p in parameters.split(",")], body) for name, parameters, body in found}


def split(text):
    """Returns the parts of a list, split at top-level commas."""
    parts, depth, current = [], 0, []
    for token in TOKEN.findall(text):
        if token in "({":
            depth += 1
        elif token in ")}":
            depth -= 1
        if token == "," and depth == 0:
            parts.append(" ".join(current))
            current = []
        else:
            current.append(token)
    return [part for part in parts + [" ".join(current)] if part]


def expand(element, known):
    """Returns the rows {...} of one element after macro expansion."""
    call = re.match(r"(\w+) \( (.*) \)$", element, re.S)
    if not call or call[1] not in known:
        return [element]
    parameters, body = known[call[1]]
    values = split(call[2])
    if parameters[-1] == "...":
        fixed = len(parameters) - 1
        values = values[:fixed] + [" , ".join(values[fixed:])]
        parameters = parameters[:fixed] + ["__VA_ARGS__"]
    for parameter, value in zip(parameters, values):
        body = re.sub(r'("(?:\\.|[^"\\])*")|\b%s\b' % parameter, lambda m: m[1] or value, body)
    return [row for part in split(body) for row in expand(part, known)]


def words(text):
    """Returns the text of adjacent string literals."""
    return "".join(re.findall(r'"((?:\\.|[^"\\])*)"', text)).replace('\\"', '"').replace("\\\\", "\\")


def number(text):
    """Returns the value of a number or of an enum constant."""
    text = text.replace(" ", "")
    if re.fullmatch(r"0x[\da-f]+p\d+", text):
        return float.fromhex(text)
    if re.fullmatch(r"\d[\d.e]*", text):
        return float(text)
    headers = [p for d in ("cli", "cluster", "kernels", "scheduler", "runtime/model") for p in (ROOT / d).glob("*.[ch]")]
    for header in sorted(headers):
        found = re.search(r"\b%s = (\d+)" % re.escape(text), header.read_text())
        if found:
            return float(found[1])
    sys.exit("options_table: no value of %s" % text)


def rows_of(name, arrays):
    """Returns (name, kind, low, high, choices, default, help) of each row."""
    known = macros()
    for array in arrays.split():
        body = re.search(r"option_row %s\[\] = \{(.*?)\n\};" % array, source(name), re.S)[1]
        for row in [row for element in split(body) for row in expand(element, known)]:
            cells = split(row[row.index("{") + 1:row.rindex("}")])
            choices = [words(choice) for choice in split(cells[5].strip("{} "))]
            yield (words(cells[0]), cells[1], cells[3], cells[4], [c for c in choices if c],
                   words(cells[6]), words(cells[7]))


def bytes_text(value):
    suffixes = iter(["", "K", "M", "G", "T"])
    suffix = next(suffixes)
    while value >= 1024 and value % 1024 == 0 and suffix != "T":
        value, suffix = value / 1024, next(suffixes)
    return "%.10g%s" % (value, suffix)


def value_text(kind, low, high, choices):
    if kind in ("OPTION_FLAG", "OPTION_SWITCH"):
        return "on or off"
    if kind == "OPTION_COUNT":
        return "{:,.0f} to {:,.0f}".format(number(low), number(high))
    if kind == "OPTION_REAL":
        return "%g to %s" % (number(low), "{:,.10g}".format(number(high)))
    if kind == "OPTION_BYTES":
        return "%s to %s bytes" % (bytes_text(number(low)), bytes_text(number(high)))
    if kind == "OPTION_INTEGER":
        return "a 64-bit integer"
    if kind == "OPTION_CHOICE":
        return ", ".join("`%s`" % c for c in choices)
    if kind == "OPTION_DEVICES":
        return ", ".join("`%s`" % c for c in choices) + "; of GPUs also `:N,...`"
    return "text; repeatable" if kind == "OPTION_TEXTS" else "text"


def section(heading, introduction, name, arrays, which):
    rows = list(rows_of(name, arrays))
    if which != "all":
        serving = int(number("SERVING_ROWS"))
        rows = rows[:-serving] if which == "first" else rows[-serving:]
    lines = ["", "## " + heading, ""] + ([introduction, ""] if introduction else [])
    lines += ["| option | value | default | meaning |", "|---|---|---|---|"]
    for option, kind, low, high, choices, default, text in sorted(rows):
        names = "`--%s`" % option
        if kind in ("OPTION_FLAG", "OPTION_SWITCH"):
            names += ", `--no-%s`" % option
        cells = (names, value_text(kind, low, high, choices), default, text)
        lines.append("| %s |" % " | ".join(cell.replace("|", "\\|") for cell in cells))
    return lines


def main():
    page = HEAD + "\n".join(line for entry in SECTIONS for line in section(*entry)) + "\n"
    old = PAGE.read_text() if PAGE.exists() else ""
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page)
        return 0
    if sys.argv[1:] != ["--check"]:
        sys.exit(__doc__)
    for line in page.split("\n"):
        if line not in old.split("\n"):
            print("docs/OPTIONS.md does not have: %s" % line)
    if page != old:
        print("docs/OPTIONS.md differs from the option tables: tools/options_table.py --write writes it")
    return page != old


if __name__ == "__main__":
    sys.exit(main())
