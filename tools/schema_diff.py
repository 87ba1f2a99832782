#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Differential test of weft's schema compiler against the Python jsonschema library.

    tools/schema_diff.py PROGRAM [--schemas N] [--seed S]

PROGRAM is build/.../bin/schema_check. Schemas are random, with all supported keywords, nested and with
references; values are random and close to valid. The grammar must accept each valid value in some order
of its keys, and no invalid one. If it closes objects (enum schema_others), it must accept no invalid one,
and each valid one of the schema in which they are closed by hand. Every difference is printed; the exit
status is 1 if there is one.
"""
import argparse
import json
import random
import subprocess
import sys

from jsonschema import Draft7Validator, Draft202012Validator

KEYS = ["a", "b", "ab", "x1", ""]
WORDS = ["", "a", "b", "ab", "abc", "x1", "\t", "\u00e4b", "z\"z", "0"]
NUMBERS = [0, 1, 2, 3, -1, -2, 5, 7, 10, 15, 100, 0.5, 1.5, 2.25, -0.5, -1.75, 9.5]
PATTERNS = ["^a", "b$", "^[a-z]*$", "1", "^(ab|x)?", "^.{2}$"]


def scalar(r):
    return r.choice([None, True, False, r.choice(NUMBERS), r.choice(WORDS)])


def value(r, depth=3):
    kind = r.random()
    if depth == 0 or kind < 0.6:
        return scalar(r)
    if kind < 0.8:
        return [value(r, depth - 1) for _ in range(r.randrange(4))]
    return {k: value(r, depth - 1) for k in r.sample(KEYS, r.randrange(4))}


def strings(r):
    s = {}
    if r.random() < 0.4:
        s["minLength"] = r.randrange(3)
    if r.random() < 0.4:
        s["maxLength"] = r.randrange(4)
    if r.random() < 0.4:
        s["pattern"] = r.choice(PATTERNS)
    return s


def numbers(r):
    s = {}
    for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        if r.random() < 0.25:
            s[name] = r.choice(NUMBERS)
    if r.random() < 0.3:
        s["multipleOf"] = r.choice([1, 2, 3, 5, 0.5, 0.25, 1.5])
    return s


def arrays(r, depth, old):
    s = {}
    if r.random() < 0.4:
        name = "items" if old else "prefixItems"
        s[name] = [schema(r, depth - 1, old) for _ in range(r.randrange(1, 3))]
        if r.random() < 0.5:
            s["additionalItems" if old else "items"] = schema(r, depth - 1, old)
    elif r.random() < 0.5:
        s["items"] = schema(r, depth - 1, old)
    if r.random() < 0.3:
        s["minItems"] = r.randrange(3)
    if r.random() < 0.3:
        s["maxItems"] = r.randrange(4)
    if r.random() < 0.2:
        s["contains"] = schema(r, depth - 1, old)
        if not old and r.random() < 0.5:
            s["maxContains"] = r.randrange(1, 3)
    return s


def objects(r, depth, old):
    s = {}
    if r.random() < 0.7:
        s["properties"] = {k: schema(r, depth - 1, old) for k in r.sample(KEYS, r.randrange(4))}
    if r.random() < 0.3:
        s["required"] = r.sample(KEYS, r.randrange(1, 3))
    if r.random() < 0.3:
        s["additionalProperties"] = schema(r, depth - 1, old)
    if r.random() < 0.2:
        s["patternProperties"] = {p: schema(r, depth - 1, old) for p in r.sample(PATTERNS, 1)}
    if r.random() < 0.15:
        s["propertyNames"] = strings(r)
    if r.random() < 0.15:
        s["minProperties"] = r.randrange(3)
    if r.random() < 0.15:
        s["maxProperties"] = r.randrange(4)
    if r.random() < 0.15:
        name = "dependencies" if old else "dependentRequired"
        s[name] = {r.choice(KEYS): r.sample(KEYS, 1)}
    # jsonschema does not count properties as evaluated that additionalProperties evaluates.
    if not old and "additionalProperties" not in s and r.random() < 0.15:
        s["unevaluatedProperties"] = r.choice([False, {"type": "integer"}])
    return s


def schema(r, depth, old):
    kind = r.random()
    if depth <= 0 or kind < 0.08:
        return r.choice([True, {}, {"type": "integer"}, {"type": "string"}, {"const": scalar(r)},
                         {"enum": [value(r, 1) for _ in range(3)]}, {"type": ["null", "array"]}])
    if kind < 0.12:
        return {"$ref": "#/$defs/d"}
    s = {}
    part = r.choice(["string", "number", "array", "object", "mixed"])
    if part in ("string", "mixed"):
        s.update(strings(r))
    if part in ("number", "mixed"):
        s.update(numbers(r))
    if part == "array":
        s.update(arrays(r, depth, old))
    if part == "object":
        s.update(objects(r, depth, old))
    if part != "mixed" and r.random() < 0.7:
        s["type"] = part
    choose = r.random()
    several = lambda n: [schema(r, depth - 2, old) for _ in range(r.randrange(1, n))]
    if choose < 0.1:
        s["anyOf"] = several(4)
    elif choose < 0.2:
        s["oneOf"] = several(4)
    elif choose < 0.3:
        s["allOf"] = several(3)
    elif choose < 0.37:
        s["not"] = schema(r, depth - 2, old)
    elif choose < 0.44:
        s["if"], s["then"] = schema(r, depth - 2, old), schema(r, depth - 2, old)
        if r.random() < 0.5:
            s["else"] = schema(r, depth - 2, old)
    return s


# Generates values that follow the schema more often than random ones.
def near(r, s, root, depth=4):
    if depth == 0 or not isinstance(s, dict) or r.random() < 0.1:
        return value(r, 1)
    if "$ref" in s:
        return near(r, root["$defs"]["d"], root, depth - 1)
    if "const" in s:
        return s["const"]
    if "enum" in s:
        return r.choice(s["enum"])
    for name in ("anyOf", "oneOf", "allOf"):
        if name in s and r.random() < 0.5:
            return near(r, r.choice(s[name]), root, depth - 1)
    if s.get("type") == "object" or "properties" in s or "patternProperties" in s:
        parts = dict(s.get("properties", {}))
        out = {k: near(r, parts[k], root, depth - 1) for k in parts if r.random() < 0.7}
        for k in s.get("required", []):
            out.setdefault(k, near(r, parts.get(k, {}), root, depth - 1))
        if r.random() < 0.4:
            extra = s.get("additionalProperties", {})
            out.setdefault(r.choice(KEYS + ["q"]), near(r, extra, root, depth - 1))
        return out
    if s.get("type") == "array" or "items" in s or "prefixItems" in s:
        items = s.get("items", {})
        first = items if isinstance(items, list) else s.get("prefixItems", [])
        rest = s.get("additionalItems", {}) if isinstance(items, list) else items
        return [near(r, first[i] if i < len(first) else rest, root, depth - 1)
                for i in range(r.randrange(4))]
    if s.get("type") == "string":
        return r.choice(WORDS)
    return r.choice(NUMBERS) if s.get("type") == "number" else value(r, depth - 1)


WHOLE = {"anyOf", "oneOf", "allOf", "not", "if", "$ref", "contains", "dependencies", "dependentRequired"}
ABOUT = {"type", "properties", "required", "minProperties", "maxProperties", "propertyNames", "patternProperties"}
NAMING = {"properties", "required", "patternProperties"}
OPEN, FORCED, STRICT = range(3)


class NotByHand(Exception):
    pass


def closed(s, others):
    """The schema with additionalProperties where the grammar closes an object; NotByHand: that takes more."""
    if isinstance(s, bool):
        return s
    if WHOLE & set(s):
        raise NotByHand
    out = dict(s)
    for word in ("items", "prefixItems", "additionalItems", "additionalProperties", "unevaluatedProperties"):
        if word in s:
            many = isinstance(s[word], list)
            out[word] = [closed(one, others) for one in s[word]] if many else closed(s[word], others)
    for word in ("properties", "patternProperties"):
        if word in s:
            out[word] = {key: closed(one, others) for key, one in s[word].items()}
    closes = s.get("properties") == {} or {OPEN: set(), FORCED: NAMING, STRICT: ABOUT}[others] & set(s)
    if closes and not {"additionalProperties", "unevaluatedProperties"} & set(s):
        required = s.get("required", [])
        if s.get("minProperties", 0) > len(set(s.get("properties", {})) | set(required)):
            raise NotByHand
        out["properties"] = {**{name: True for name in required}, **out.get("properties", {})}
        out["additionalProperties"] = False
    return out


def reference(root, kind, others):
    """(validator, whether the grammar accepts all that it accepts and not only a part)."""
    try:
        return kind(closed({k: v for k, v in root.items() if k != "$defs"}, others)), True
    except NotByHand:
        return kind(root), others == OPEN and '"properties": {}' not in json.dumps(root)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--schemas", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    pipe = subprocess.Popen([args.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    wrong, refused, valid, values, exactly = 0, {}, 0, 0, 0
    for number in range(args.schemas):
        r = random.Random("%d %d" % (args.seed, number))
        old = r.random() < 0.4
        root = schema(r, 4, old)
        if not isinstance(root, dict):
            continue
        if old and "$ref" in root:
            continue
        root["$defs"] = {"d": schema(r, 2, old)}
        instances = [near(r, root, root) for _ in range(12)] + [value(r) for _ in range(6)]
        others = r.choice([OPEN, OPEN, FORCED, STRICT])
        kind = Draft7Validator if old else Draft202012Validator
        validator, exact = reference(root, kind, others)
        pipe.stdin.write(json.dumps({"schema": root, "draft": 7 if old else 2020, "others": others,
                                     "instances": instances}) + "\n")
        pipe.stdin.flush()
        answer = json.loads(pipe.stdout.readline())
        if answer["status"] != "OK":
            word = " ".join(answer["error"].split()[:3])
            refused[word] = refused.get(word, 0) + 1
            if answer["status"] == "INVALID":
                wrong += 1
                print("%d: %s: %s" % (number, json.dumps(root), answer["error"]))
            continue
        for instance, fits in zip(instances, answer["fits"]):
            try:
                want = validator.is_valid(instance)
            except RecursionError:
                continue
            values += 1
            valid += want
            exactly += exact
            if want != fits and (exact or fits):
                wrong += 1
                print("%d, others %d: %s: %s is %s" %
                      (number, others, json.dumps(root), json.dumps(instance), fits))
    print("%d schemas, seed %d: refused %s; %d values, %d valid, %d compared both ways, %d differences" %
          (args.schemas, args.seed, refused, values, valid, exactly, wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
