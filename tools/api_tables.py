#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keeps the tables of docs/API.md equal to the code.

  tools/api_tables.py            rewrites the tables; a hand-written meaning is kept
  tools/api_tables.py --check    prints the rows that differ and exits 1

A table is between `<!-- table NAME -->` and `<!-- end -->`. Fields are read from the field_rule
arrays of http/api, errors from http/errors.c, routes from the route arrays. A row without a
meaning fails the check.
"""
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/API.md"


NAME, STRING = r'"([\w*]+)"', r'"((?:\\.|[^"\\])*)"'
ENTRY = r'FIELD_(\w+)\(\s*%s\s*(?:,\s*(?:%s|(\w+))\s*)?(?:,\s*(?:%s|NULL))?' % (NAME, STRING, STRING)


def object_of(text, word):
    """Returns the text that contains these rules, possibly that of another file, and the name of their array."""
    for home in [text] + [p.read_text() for p in sorted((ROOT / "http/api").glob("*.c"))]:
        found = re.search(r"field_rules %s = FIELD_RULES\((\w+)," % word, home)
        if found:
            return home, found.group(1)
    sys.exit("no file has the rules %s" % word)


def rules_of(text, array):
    """Returns (name, use, accepted values) for each row of a field_rule array; members are named OBJECT.NAME."""
    body = re.search(r"field_rule %s\[\] = \{(.*?)\};" % array, text, flags=re.S).group(1)
    for kind, name, _, word, passes in re.findall(ENTRY, body):
        if kind != "OBJECT":
            use = {"HARMLESS": "IGNORED", "READ_BY": "READ", "TYPED": "READ"}.get(kind, "REFUSED")
            yield name, use, passes.replace('\\"', '"')
            continue
        home, inside = object_of(text, word)
        members = list(rules_of(home, inside))
        if any(use == "READ" for _, use, _ in members):
            yield name, "READ", ""
        elif all(use == "IGNORED" for _, use, _ in members):
            yield name, "IGNORED", ""
        for member, use, values in members:
            if use != "READ":
                yield "%s.%s" % (name, member), use, values


def rules_in(table):
    source, array = FIELDS[table]
    return list(rules_of((ROOT / "http/api" / source).read_text(), array))


def field_rows(table):
    for name, use, _ in rules_in(table):
        if use == "READ":
            yield "`%s`" % name, ""


def field_lists(table):
    """Returns two paragraphs on the fields that are not read."""
    rules = rules_in(table)
    ignored = ["`%s`" % name for name, use, _ in rules if use == "IGNORED"]
    refused = ["`%s`%s" % (name, " (`%s`)" % passes[1:-1].replace(",", ", ") if passes else "")
               for name, use, passes in rules if use == "REFUSED"]
    lines = []
    for head, names in (("Ignored: %s.", ignored),
                        ("Refused by name, but for the values in brackets: %s.", refused)):
        if names:
            lines += [""] + textwrap.wrap(head % ", ".join(names), 100, break_on_hyphens=False)
    return lines[1:]


def error_rows():
    text = (ROOT / "http/errors.c").read_text().replace(" bad,", ' "invalid_request_error",')
    text = text.replace(" bad}", ' "invalid_request_error"}')
    pattern = r'\[HTTP_(\w+)\]\s*=\s*\{\s*(\d+),\s*(\d+),\s*"(\w+)",\s*"(\w+)",\s*"(\w+)"\s*\}'
    for _, openai, messages, kind, code, kind_messages in re.findall(pattern, text):
        status = openai if openai == messages else "%s, %s" % (openai, messages)
        yield "`%s`" % code, "%s | `%s` | `%s`" % (status, kind, kind_messages)


def route_rows():
    pattern = r'\.method = "(\w+)",\s*\.path = "([^"]+)"|\b\w+_ROUTE\("([^"]+)"'
    for source in sorted((ROOT / "http/api").glob("*.c")):
        for method, path, posted in re.findall(pattern, source.read_text()):
            yield "`%s %s`" % (method or "POST", path or posted), ""


FIELDS = {name: (name + ".c", name + "_rows")
          for name in ("decoding", "chat", "completions", "responses", "messages", "embeddings", "rerank")}
FIELDS["infill"] = ("infill_request.c", "infill_rows")
FIELDS["not-served"] = ("not_served.c", "rows")
FIELDS.update((name.replace("_", "-"), ("tokens.c", name + "_rows"))
              for name in ("tokenize", "tokenize_chat", "detokenize"))
TABLES = {"errors": ("code | status | type | type on Messages", error_rows),
          "routes": ("route", route_rows)}
TABLES.update((name, ("field", lambda name=name: field_rows(name))) for name in FIELDS)


def meanings(table):
    """Returns {first cell: last cell} of the current table."""
    rows = [line.strip("| ").split(" | ") for line in table.split("\n") if line.startswith("| `")]
    return {row[0]: row[-1].strip() for row in rows if len(row) > 1}


def table_of(name, old):
    head, rows = TABLES[name]
    if name == "not-served":  # of both generation endpoints: none of its fields is read
        return "\n".join(field_lists(name))
    known = meanings(old)
    lines = ["| %s | meaning |" % head, "|%s" % ("---|" * (head.count("|") + 2))]
    seen = {}
    for first, rest in rows():
        if first in seen and seen[first] == rest:
            continue
        seen[first] = rest
        cells = [first] + ([rest] if rest else []) + [known.get(first, "")]
        lines.append("| %s |" % " | ".join(cells))
    lists = field_lists(name) if name in FIELDS else []
    lines += [""] + lists if lists else []
    return "\n".join(lines)


def main():
    page = PAGE.read_text()
    pattern = r"(<!-- table ([\w-]+) -->\n)(.*?)(<!-- end -->)"
    new = re.sub(pattern, lambda m: m[1] + table_of(m[2], m[3]) + "\n" + m[4], page, flags=re.S)
    named = {m[1] for m in re.findall(pattern, new, flags=re.S)}
    findings = ["docs/API.md has no table %s" % name for name in sorted(set(TABLES) - named)]
    findings += ["docs/API.md: no meaning in: %s" % line for line in new.split("\n")
                 if re.match(r"\| `.*\|\s*\|$", line)]
    if sys.argv[1:] == ["--check"]:
        old = set(page.split("\n"))
        findings += ["docs/API.md does not have: %s" % line for line in new.split("\n")
                     if line not in old]
        if new != page and not findings:
            findings.append("docs/API.md has rows that the code has not")
    elif new != page:
        PAGE.write_text(new)
    for finding in findings:
        print(finding)
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
