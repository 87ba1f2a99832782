#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads docs/openapi.yaml and keeps it equal to the code.

  tools/openapi.py                 rewrites the lines between `# made:` and `# end`
  tools/openapi.py --check         prints the differences between the document and the code, exits 1
  tools/openapi.py --json FILE     writes the document as JSON
  tools/openapi.py --source FILE   writes the JSON as a C source that defines openapi_json

Fields are read from the field_rule arrays of http/api. Ignored and refused fields are written here.
For fields that the code reads, the names are compared, and the types if the table contains them.
Routes are read from the route arrays and the aliases of http/route.c, statuses from http/errors.c.
The build needs only Python: yaml_read supports the part of YAML that the document uses.
"""
import json
import pathlib
import re
import sys

import api_tables

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs/openapi.yaml"
API = ROOT / "http/api"
LETTERS = {"b": "boolean", "i": "integer", "n": "number", "s": "string", "a": "array", "o": "object"}
HEADERS = {"x-request-id": "RequestId", "request-id": "RequestId",
           "openai-processing-ms": "ProcessingMs", "cache-control": "CacheControl"}
RETRY = {"retry-after": "RetryAfter", "retry-after-ms": "RetryAfterMs"}
MORE_HEADERS = {400: {"x-should-retry": "ShouldRetry"}, 401: {"www-authenticate": "WwwAuthenticate"}, 405: {"allow": "Allow"},
                500: {"x-should-retry": "ShouldRetry"}, 503: RETRY, 529: RETRY}
SHAPES = {"openai": "Error", "messages": "MessagesError", "either": "EitherError"}


# YAML: mappings and sequences in blocks, JSON-like flows, plain and double quoted scalars, '>-'.

KEY = re.compile(r'("(?:[^"\\]|\\.)*"|[^\s"\[\]{},#][^:#]*?):(?:\s+(.*))?$')
WORDS = {"null": None, "true": True, "false": False, "": None}


def scalar(text):
    if text in WORDS:
        return WORDS[text]
    if re.fullmatch(r"-?(0|[1-9]\d*)", text):
        return int(text)
    if re.fullmatch(r"-?\d+\.\d+", text):
        return float(text)
    if re.search(r": |:$| #", text) or text[0] in "&*!|>%@`'-?":
        sys.exit("docs/openapi.yaml: '%s' needs quotes" % text)
    return text


def flow(text, at=0, inside=False):
    """Returns (value, offset after it) of a flow value."""
    at += len(text[at:]) - len(text[at:].lstrip())
    if text[at] == '"':
        return json.JSONDecoder().raw_decode(text, at)
    if text[at] not in "[{":
        end = re.compile(r"[,\]}]|: |$" if inside else r"$").search(text, at).start()
        return scalar(text[at:end].strip()), end
    closing = "]" if text[at] == "[" else "}"
    out = [] if closing == "]" else {}
    at += 1
    while True:
        at += len(text[at:]) - len(text[at:].lstrip())
        if text[at] == closing:
            return out, at + 1
        value, at = flow(text, at, True)
        if closing == "]":
            out.append(value)
        else:
            if text[at] != ":" or value in out:
                sys.exit("docs/openapi.yaml: '%s' at %d" % (text, at))
            out[value], at = flow(text, at + 1, True)
        at += len(text[at:]) - len(text[at:].lstrip())
        at += text[at] == ","


def yaml_lines(text):
    """Returns [indent, text] of each line; flows and folded texts of several lines are joined."""
    out, lines = [], text.split("\n")
    while lines:
        line = lines.pop(0)
        body = line.strip()
        if not body or body.startswith("#"):
            continue
        indent = len(line) - len(line.lstrip())
        if body.endswith(">-"):
            folded = []
            while lines and len(lines[0]) - len(lines[0].lstrip()) > indent:
                folded.append(lines.pop(0).strip())
            body = body[:-2] + json.dumps(" ".join(folded), ensure_ascii=False)
        bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", body)
        while sum(map(bare.count, "[{")) > sum(map(bare.count, "]}")):
            body += " " + lines.pop(0).strip()
            bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", body)
        out.append([indent, body])
    return out


def block(lines):
    """Removes one value from the start of the lines and returns it."""
    indent, body = lines[0]
    if body.startswith("- "):
        out = []
        while lines and lines[0][0] == indent and lines[0][1].startswith("- "):
            lines[0] = [indent + 2, lines[0][1][2:]]
            out.append(block(lines))
        return out
    if not KEY.match(body) or body[0] in "[{":
        return flow(lines.pop(0)[1])[0]
    out = {}
    while lines and lines[0][0] == indent and not lines[0][1].startswith("- "):
        found = KEY.match(lines.pop(0)[1])
        key = flow(found.group(1))[0]
        if key in out:
            sys.exit("docs/openapi.yaml: '%s' stands twice" % key)
        if found.group(2):
            out[key] = flow(found.group(2))[0]
        else:
            nested = lines and lines[0][0] > indent
            out[key] = block(lines) if nested else None
    return out


def yaml_read(text):
    lines = yaml_lines(text)
    out = block(lines)
    if lines:
        sys.exit("docs/openapi.yaml: '%s' stands at a wrong indent" % lines[0][1])
    return out


# The tables of the code

class Row:
    def __init__(self, kind, name, types, word, passes):
        self.kind, self.name, self.types, self.members = kind, name, types, word
        self.passes = json.loads(passes.replace('\\"', '"')) if passes else []

    @property
    def sense(self):
        return self.kind.startswith("NOT_SERVED"), self.types, self.members, self.passes

    @property
    def refused(self):
        return self.kind.startswith("NOT_SERVED")


class Tables:
    """The field_rule tables. rows: {FILE.ARRAY: rows}; after: {table: table that its rules continue with}."""

    def __init__(self):
        self.rows, self.after, self.rules = {}, {}, {}
        following = {}
        for source in sorted(API.glob("*.c")):
            text = source.read_text()
            for array, body in re.findall(r"field_rule (\w+)\[\] = \{(.*?)\};", text, flags=re.S):
                entries = re.findall(api_tables.ENTRY, body)
                if body.count("FIELD_") != len(entries):
                    sys.exit("http/api/%s: a row of %s is not understood" % (source.name, array))
                self.rows[table_name(source.stem, array)] = [Row(*entry) for entry in entries]
            for static, name, array, more in re.findall(
                    r"(static )?const struct field_rules (\w+) =\s*FIELD_RULES\((\w+),\s*&?(\w+)\)",
                    text):
                table = table_name(source.stem, array)
                self.rules[source.stem if static else "", name] = table
                if more != "NULL":
                    following[table] = source.stem, more
        self.after = {table: self.table_of(*more) for table, more in following.items()}

    def table_of(self, stem, rules):
        return self.rules.get((stem, rules)) or self.rules["", rules]

    def chain(self, table):
        """Returns the table and the tables that its rules continue with."""
        return [table] + self.chain(self.after[table]) if table in self.after else [table]

    def chains(self):
        """Returns the chains of all tables that no other table continues with."""
        return [self.chain(table) for table in self.after if table not in self.after.values()]

    def hidden(self, table):
        """Returns names whose rule an earlier table replaces, which an allOf cannot express."""
        out = set()
        for chain in self.chains():
            before = chain[:chain.index(table)] if table in chain else []
            own = {row.name: row.sense for row in self.rows[table]}
            out |= {row.name for each in before for row in self.rows[each]
                    if own.get(row.name, row.sense) != row.sense}
        return out

    def shown(self, table):
        """Returns (table of the row, row): the table's rows without the hidden ones, and the rows hidden after it."""
        chain = next((chain for chain in self.chains() if chain[0] == table), [table])
        last = chain[0] == table and table not in self.after.values()
        names = set()
        for each in chain:
            for row in self.rows[each]:
                hidden = row.name in self.hidden(each)
                if row.name not in names and (hidden if each != table else not hidden):
                    yield each, row
            names |= {row.name for row in self.rows[each]}
            if not last:
                return

    def all_refused(self, table):
        return [(row.name, row.refused) for row in self.rows[table]] == [("*", True)]


def table_name(stem, array):
    own = re.sub(r"_?rows?$", "", array)
    return "%s.%s" % (stem, own) if own else stem


def json_types(row):
    return [LETTERS[letter] for letter in row.types]


# The generated parts

def written(value):
    """Returns a value as a YAML flow."""
    if isinstance(value, dict):
        return "{%s}" % ", ".join("%s: %s" % (k, written(v)) for k, v in value.items())
    if isinstance(value, list):
        return "[%s]" % ", ".join(map(written, value))
    plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w.-]*( [\w.-]+)*", value)
    return value if plain and value not in WORDS else json.dumps(value)


def schema_of(row, tables, table):
    """Returns the schema of a field that is not read, otherwise None."""
    if row.kind == "OBJECT":
        inner = tables.table_of(table.split(".")[0], row.members)
        if tables.all_refused(inner):
            return {"type": ["object", "null"], "additionalProperties": {"type": "null"}}
        return None
    if row.kind == "HARMLESS":
        return {"description": "Ignored.", "type": json_types(row) + ["null"]}
    if not row.refused or row.name == "*":
        return None
    if row.passes:
        return {"enum": row.passes + [None]}
    return {"type": "null"}


def made_fields(tables, table):
    for home, row in tables.shown(table):
        schema = schema_of(row, tables, home)
        if schema:
            yield "%s: %s" % (written(row.name), written(schema))


def reference(kind, name):
    return {"$ref": "#/components/%s/%s" % (kind, name)}


def made_headers(more=()):
    for name, component in {**HEADERS, **dict(more)}.items():
        yield "%s: %s" % (name, written(reference("headers", component)))


def errors_of(shape):
    """Returns {status: [(code, type)]}."""
    out = {}
    for code, rest in api_tables.error_rows():
        status, openai, messages = re.sub("`", "", rest).split(" | ")
        status = status.split(", ")
        word = messages if shape == "messages" else openai
        own = int(status[-1] if shape == "messages" else status[0])
        out.setdefault(own, []).append((code.strip("`"), word))
    return dict(sorted(out.items()))


def response_name(shape, status):
    return "%s%d" % (SHAPES[shape], status)


def made_statuses(shape, only):
    for status in errors_of(shape):
        if not only or str(status) in only:
            yield '"%d": %s' % (status, written(reference("responses", response_name(shape, status))))


def unique(words):
    return list(dict.fromkeys(words))


def error_schema(shape, errors):
    codes, types = unique(code for code, _ in errors), unique(word for _, word in errors)
    inner = {"type": {"enum": types}}
    if shape == "openai":
        inner["code"] = {"enum": codes}
    own = {"properties": {"error": {"properties": inner}}}
    return {"allOf": [reference("schemas", SHAPES[shape]), own]}


def made_responses():
    for shape in SHAPES:
        for status, errors in errors_of(shape).items():
            each = [error_schema(kind, errors_of(kind)[status]) for kind in ("openai", "messages")
                    if shape in (kind, "either") and status in errors_of(kind)]
            yield response_name(shape, status) + ":"
            yield "  description: %s." % ", ".join(unique(code for code, _ in errors))
            yield "  headers:"
            for line in made_headers(MORE_HEADERS.get(status, {})):
                yield "    " + line
            yield "  content:"
            yield "    application/json:"
            yield "      schema: %s" % written(each[0] if len(each) == 1 else {"anyOf": each})


def made(words, tables):
    kind, rest = words[0], words[1:]
    if kind == "fields":
        if rest[0] not in tables.rows:
            sys.exit("docs/openapi.yaml: http/api has no table %s" % rest[0])
        return made_fields(tables, rest[0])
    if kind == "headers":
        return made_headers()
    if kind == "statuses":
        return made_statuses(rest[0], rest[1:])
    return made_responses()


def rewritten(text, tables):
    def section(found):
        indent = found.group(1)
        lines = [indent + line for line in made(found.group(2).split(), tables)]
        return "".join(line + "\n" for line in ["%s# made: %s" % found.group(1, 2)] + lines +
                       [indent + "# end"])
    return re.sub(r"^( *)# made: (.*)\n(?:.*\n)*? *# end\n", section, text, flags=re.M)


# The comparison

class Document:
    def __init__(self, root):
        self.root = root
        self.schemas = root["components"]["schemas"]
        self.of_table = {table: name for name, schema in self.schemas.items()
                         for table in schema.get("x-fields", [])}

    def resolved(self, value):
        while "$ref" in value:
            value, path = self.root, value["$ref"].split("/")[1:]
            for name in path:
                value = value[name]
        return value

    def types(self, schema):
        """Returns the JSON types that the schema accepts, except null."""
        schema = self.resolved(schema)
        if "anyOf" in schema:
            return set().union(*(self.types(each) for each in schema["anyOf"]))
        if "type" in schema:
            listed = schema["type"]
            return set([listed] if isinstance(listed, str) else listed) - {"null"}
        values = schema.get("enum", [schema["const"]] if "const" in schema else [])
        names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array",
                 dict: "object"}
        return {names[type(value)] for value in values if value is not None}

    def joined(self, name):
        """Returns the tables of a schema and of the schemas in its allOf."""
        out = set(self.schemas[name].get("x-fields", []))
        for each in self.schemas[name].get("allOf", []):
            out |= self.joined(each["$ref"].split("/")[-1])
        return out


def property_findings(document, tables, table, home, row):
    name = document.of_table[table]
    where = "docs/openapi.yaml: the schema %s" % name
    schema = document.schemas[name].get("properties", {}).get(row.name)
    if row.name == "*":
        if home == table and row.refused and not tables.all_refused(table) and \
                document.schemas[name].get("additionalProperties") != {"type": "null"}:
            yield "%s lacks 'additionalProperties: {type: \"null\"}'" % where
        return
    if schema is None:
        yield "%s has no property '%s', which http/api reads (%s)" % (where, row.name, table)
    elif row.kind == "TYPED" and document.types(schema) != set(json_types(row)):
        yield "%s: '%s' must have the types %s" % (where, row.name, ", ".join(json_types(row)))
    elif row.kind == "OBJECT" and not schema_of(row, tables, home):
        inner = tables.table_of(home.split(".")[0], row.members)
        found = [document.resolved(each) for each in [schema] + schema.get("anyOf", [])]
        if not any(inner in each.get("x-fields", []) for each in found):
            yield "%s: '%s' must be the schema of %s" % (where, row.name, inner)


def field_findings(document, tables):
    for table in tables.rows:
        if table not in document.of_table:
            yield "docs/openapi.yaml: no schema has the fields of %s (x-fields)" % table
            continue
        for home, row in tables.shown(table):
            yield from property_findings(document, tables, table, home, row)
    for name, schema in document.schemas.items():
        named = schema.get("x-fields")
        if not named:
            continue
        for table in set(named) - set(tables.rows):
            yield "docs/openapi.yaml: the schema %s names the table %s, which is not there" % (name, table)
        known = {row.name for table in named if table in tables.rows
                 for _, row in tables.shown(table)}
        for field in set(schema.get("properties", {})) - known:
            yield "docs/openapi.yaml: the schema %s has '%s', which no table has" % (name, field)
    for table, after in tables.after.items():
        if table in tables.after.values() or table not in document.of_table:
            continue
        while after:
            if after not in document.joined(document.of_table[table]):
                yield "docs/openapi.yaml: the schema of %s lacks that of %s in its allOf" % (table, after)
            after = tables.after.get(after)


def code_routes():
    """Returns {(method, path)} of the code, with aliases; a route for the rest of a path ends in {id}."""
    out = {tuple(first.strip("`").split()) for first, _ in api_tables.route_rows()}
    text = (ROOT / "http/route.c").read_text()
    aliases = re.findall(r'\{"(/[^"]+)", "(/[^"]+)"\}', text)
    aliases += [(path, path.replace("/v1/v1", "/v1", 1))
                for path in re.findall(r'has_prefix\(path, "([^"]+)"', text)]
    for alias, path in aliases:
        out |= {(method, alias) for method, known in out if known == path}
    return {(method, path + "{id}" if path.endswith("/") else path) for method, path in out}


def route_findings(document):
    here = set()
    for path, item in document.root["paths"].items():
        methods = set(document.resolved(item)) & {"get", "put", "post", "delete", "options", "patch"}
        if "options" not in methods:
            yield "docs/openapi.yaml: %s has no options" % path
        here |= {(method.upper(), path) for method in methods if method != "options"}
    for method, path in sorted(code_routes() - here):
        yield "docs/openapi.yaml does not have the route %s %s" % (method, path)
    for method, path in sorted(here - code_routes()):
        yield "docs/openapi.yaml has %s %s, which is no route" % (method, path)


def findings(text):
    tables = Tables()
    if rewritten(text, tables) != text:
        yield "docs/openapi.yaml: what is made differs from the code: run tools/openapi.py"
    document = Document(yaml_read(text))
    yield from field_findings(document, tables)
    yield from route_findings(document)


# The document as a C source

def source_of(text):
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    pieces = re.findall(r"(?:\\.|[^\\]){1,90}", escaped)
    return ('// Made of docs/openapi.yaml by tools/openapi.py.\n#include "http/api/endpoints.h"\n\n'
            "const char openapi_json[] =\n    %s;\n"
            "const size_t openapi_json_bytes = sizeof openapi_json - 1;\n"
            % "\n    ".join('"%s"' % piece for piece in pieces))


def main():
    text = DOCUMENT.read_text()
    mode = sys.argv[1:2]
    if mode == ["--check"]:
        found = list(findings(text))
        for finding in found:
            print(finding)
        sys.exit(1 if found else 0)
    if mode in (["--json"], ["--source"]):
        out = json.dumps(yaml_read(text), separators=(",", ":"))
        pathlib.Path(sys.argv[2]).write_text(source_of(out) if mode == ["--source"] else out)
        return
    new = rewritten(text, Tables())
    if new != text:
        DOCUMENT.write_text(new)


if __name__ == "__main__":
    main()
