#!/usr/bin/env python3
"""Small templates and what jinja2 makes of them, for test_template_vectors.

    tools/template_vectors.py > tests/runtime/template_vectors.json

White space around every kind of tag, and forms of subscripts and of what is undefined. Needs jinja2.
"""
import json
import random
import sys

from template_diff import ENV, reference

VARIABLES = {"a": "A", "t": True, "l": [1, 2, 3], "d": {"x": 1, "y": [4], "": 5, "k\0z": 6, "k": 7},
             "o": {"p": {"q": 0}}, "n": 3, "z": None, "s": "text"}
TAGS = ["{{ a }}", "{{- a }}", "{{ a -}}", "{{- a -}}", "{{+ a +}}", "{# c #}", "{#- c #}", "{# c -#}",
        "{% if t %}", "{%- if t %}", "{% if t -%}", "{%+ if t %}", "{% if t +%}", "{% endif %}",
        "{%- endif %}", "{% endif -%}", "{%+ endif %}", "{% set b = a %}", "{%- set b = a -%}",
        "{% raw %} {{ r }}\n {% endraw %}", "{%- raw -%} r \n{%- endraw -%}", "{% raw -%}\n r{%+ endraw +%}"]
SPACES = ["", "", " ", "\n", "  \n", "\n  ", " x ", "x\n", "\nx", "\t", "\n\n", " \n \n ", "\r\n  ",
          "\u00a0", "\u2003\n", "x \n\t"]
FORMS = r"""
a[] | l[] | d[] | o.p[] | n[] | z[] | missing[] | missing[1] | missing.x | a[1,2] | l[1,2] | d[1,2] | l[0,] | l[,] | l[:,1]
l[1:2,0] | a[:,:] | d[:,1] | l[:] | l[::] | l[1:] | l[:-1] | l[::-1] | l[::2] | l[1:2:1] | l[:::] | a[0] | a[-1] | a[5]
a['x'] | a[a] | l['0'] | l[9] | l[-9] | l[1.0] | l[true] | l[none] | l[z] | d['x'] | d.x | d['nope'] | d.nope | d[''] | d[1]
d[none] | d[l] | d[d] | n.x | n[0] | z.x | z['x'] | o.p.q | o.r | o.r.s | o['p']['q'] | o['r']['s'] | d['k\0z'] | d['k']
d.items()~'' | d | o | a[0:1] | a[::-1] | a[1:] | s[1:3] | s[-2:] | s[::0] | l[::0] | l[(1)] | l[(1,)] | l[()] | d[()]
d[('x')] | 'ab'[] | [1, 2][] | {'x': 1}[] | ()[] | (1, 2)[1] | (1, 2)[:1] | missing is defined | a[] is defined
l[1,2] is undefined | d.x.y | d.x.y.z | missing == missing | missing ~ 'x' | missing + 1 | -missing | missing in l
1 in missing | not missing | d.get('q') | d.get('q', 2) | d.get('x') | s.nope | s.upper() | z is none | a[''] | d['k\0']
[][0] | {}['x'] | {}.x | (missing).x | (missing)[] | a[].x | a[][] | a[[]] | l[[0]] | d[[0]] | l[{}] | missing[missing]
l[missing] | d[missing] | a[missing] | l[missing:] | l[:missing] | a[1:'x'] | l['x':] | n[:] | z[:] | d[:] | missing[:]
""".replace("\n", " | ").split(" | ")
FILTERED = r"""missing|default('v') a[]|default('v') a.b|default(1) l.x|default(1) missing|length missing|list
missing|string missing|upper missing|int missing|join missing|tojson missing.x|default(1) missing[]|default(1)
[]|first|default(2) []|last|default(3) []|max []|min z|default(4) z|default(4,true) d|length d|tojson d|list d|dictsort
d.items()|list d.keys()|list o|tojson l[1,2]|default(6) d[()]|default(7)""".split()


def spaced(rng):
    source, opened = "", 0
    for _ in range(rng.randrange(1, 5)):
        tag = rng.choice(TAGS)
        opened += " if " in tag
        if "endif" in tag:
            if opened == 0:
                continue
            opened -= 1
        source += rng.choice(SPACES) + tag
    return source + rng.choice(SPACES) + "".join("{% endif %}" + rng.choice(SPACES) for _ in range(opened))


def cases():
    rng = random.Random(8)
    for form in [f for f in FORMS if f] + FILTERED:
        yield "{{ " + form + " }}"
    for _ in range(700):
        yield spaced(rng)


def main():
    lines = []
    for source in dict.fromkeys(cases()):
        kind, text = reference(ENV, source, VARIABLES)
        if " at 0x" not in text:
            lines.append(json.dumps([source, text if kind == "text" else None]))
    print('{"made_by": "tools/template_vectors.py", "variables": %s,\n"cases": [\n%s\n]}'
          % (json.dumps(VARIABLES), ",\n".join(lines)))


if __name__ == "__main__":
    sys.exit(main())
