#!/usr/bin/env python3
"""Small templates and what jinja2 makes of them, for test_template_vectors.

    tools/template_vectors.py > tests/runtime/template_vectors.json

White space around every kind of tag, forms of subscripts and of what is undefined, arguments of methods
and filters at their edges. Needs jinja2.
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

# Arguments of methods, filters and tests at their edges, one expression a line.
EDGES = r"""
'banana'.find('na', 3) ~ 'banana'.find('na', -3) ~ 'banana'.find('na', 2, 3) ~ 'éa'.find('a') ~ 'a'.find('')
'banana'.rfind('n', 1, 4) ~ 'banana'.rfind('na', 0, -1) ~ 'banana'.index('a', 2) ~ 'banana'.rindex('a', 1, 3)
'banana'.count('a', 2) ~ 'banana'.count('ana') ~ 'éé'.count('') ~ 'banana'.count('a', -3, -1)
'banana'.startswith('nan', 2) ~ 'banana'.startswith(('x', 'b')) ~ 'banana'.endswith('an', 0, 5) ~ 'a'.startswith('', 2)
'a'.startswith('a', -9) ~ 'ab'.endswith('b', -1) ~ 'ab'.startswith('b', 1, 9) ~ 'ab'.find('b', -9, 9)
'banana'.index('x')
' a  b  c '.split() ~ ' a  b  c '.split(none, 0) ~ ' a  b  c '.rsplit(none, 1) ~ 'a,,b'.split(',') ~ ''.split(',')
'a,b,c'.split(',', 1) ~ 'a,b,c'.rsplit(',', 5) ~ 'abab'.rsplit('ab', 1) ~ ''.split() ~ 'a'.split('aa')
'a=b=c'.partition('=') ~ 'a=b=c'.rpartition('=') ~ 'abc'.partition('=') ~ 'abc'.rpartition('=')
'xxaxx'.strip('x') ~ 'xyaxy'.lstrip('yx') ~ 'xyaxy'.rstrip('xy') ~ '\u2003a\u00a0'.strip() ~ 'éaé'.strip('é') ~ 'a'.strip('')
'aXbX'.replace('X', '', 1) ~ 'ab'.replace('', '-') ~ 'éb'.replace('', '-', 2) ~ 'aaa'.replace('aa', 'b') ~ 'a'.replace('a', 'b', 0)
'abcabc'.removeprefix('abc') ~ 'abcabc'.removesuffix('bc') ~ 'a'.removeprefix('ab') ~ 'a'.removesuffix('')
'-7'.zfill(4) ~ '+'.zfill(3) ~ 'é'.center(4, '*') ~ 'ab'.center(5, '*') ~ 'a'.ljust(3, '.') ~ 'a'.rjust(3) ~ 'abc'.zfill(2)
'a\r\nb\n\nc'.splitlines() ~ 'a\r\nb\n'.splitlines(true) ~ ''.splitlines() ~ '\n'.splitlines() ~ 'a\u2028b\x0bc'.splitlines()
'hELLO wORLD'.title() ~ 'hELLO'.capitalize() ~ "it's 3x".title() ~ 'ǆ ß'.title() ~ 'AΣa İ'.lower() ~ 'ﬁ'.upper()
'²3'.isdigit() ~ '²'.isdecimal() ~ 'Ⅷ'.isalpha() ~ 'a1'.isalnum() ~ ' \t'.isspace() ~ ''.isalpha() ~ 'Aa'.isupper() ~ 'A1'.isupper()
','.join(['a', 'b']) ~ ''.join([]) ~ ','.join('ab') ~ ','.join({'x': 1})
','.join([1])
[1, 2, 1].index(1) ~ [1, 2, 1].count(1) ~ [1, 2].count(9) ~ (1, 2).index(2)
[1].index(2)
d.get('x', 9) ~ d.keys() ~ d.values() ~ ({'a': 1}.items())
'\U0001F600é\x7f\x01"\\/' | tojson
'\U0001F600é\x7f\x01"\\/' | tojson(ensure_ascii=true)
{'b': [1, {}], 'a': []} | tojson(indent=1) ~ ({'b': 1, 'a': 2} | tojson(sort_keys=true)) ~ ([1, 2] | tojson(separators=('; ', ' = ')))
[1.0, 1e22, 0.1, 1e-7, -0.0, none, true] | tojson
'one two three' | truncate(9) ~ ('one two three' | truncate(9, true)) ~ ('one two three' | truncate(8, false, '..', 0)) ~ ('abcdef' | truncate(3, true, '', 2))
'a\n\nb' | indent ~ ('a\n\nb' | indent(1, true, true)) ~ ('a\nb\n' | indent('> ')) ~ ('' | indent(2, true))
2.5 | round ~ (3.5 | round) ~ (-2.675 | round(2)) ~ (1234 | round(-2)) ~ (2.1 | round(0, 'ceil')) ~ (2.19 | round(1, 'floor')) ~ (7 | round(1))
'0x1f' | int(0, 16) ~ ('0b11' | int(0, 0)) ~ ('12_3' | int) ~ (' -4 ' | int) ~ ('4.9' | int) ~ ('x' | int(7)) ~ (2.9 | int) ~ ('z' | int(1, 36))
'1e3' | float ~ ('x' | float(2.5)) ~ (true | float) ~ (-3 | abs) ~ (-0.5 | abs)
[1, 2, 3, 4, 5] | batch(2, 0) | list ~ ([1, 2, 3, 4, 5] | slice(3, 0) | list) ~ ([] | batch(2) | list) ~ ([1, 2, 3] | slice(2) | list)
['b', 'A', 'a'] | sort ~ (['b', 'A', 'a'] | sort(case_sensitive=true)) ~ ([3, 1, 2] | sort(reverse=true)) ~ (['b', 'A'] | unique | list)
[{'a': 2, 'b': 1}, {'a': 1, 'b': 1}] | sort(attribute='b,a') | map(attribute='a') | list
[{'a': 'x', 'n': 1}, {'a': 'y', 'n': 2}, {'a': 'X', 'n': 3}] | groupby('a') | map('first') | list
[{'n': 1}, {'n': 2}] | sum(attribute='n', start=10) ~ ([1, 5, 3] | max) ~ (['b', 'A'] | min) ~ ([{'n': 2}, {'n': 1}] | min(attribute='n'))
{'b': 1, 'A': 2} | dictsort ~ ({'b': 1, 'A': 2} | dictsort(true)) ~ ({'b': 1, 'A': 2} | dictsort(by='value', reverse=true))
[[1, 2], [3]] | map('last') | list ~ ([0, 1, ''] | select | list) ~ ([1, 2, 3] | reject('gt', 1) | list) ~ ([{'k': 1}, {}] | map(attribute='k', default=0) | list)
[{'k': 1, 'v': 0}, {'k': 0, 'v': 1}] | selectattr('k') | map(attribute='v') | list ~ ([{'k': 1}, {'k': 2}] | rejectattr('k', 'odd') | list)
'a b/c&é' | urlencode ~ ({'k': 'a b', 'é': '/'} | urlencode) ~ ('a_.-~b' | urlencode)
'%05d|%-5s|%+.1e|%x|%%|%c' % (42, 'ab', 0.5, 255)
'%05d|%-5s|%+.1e|%x|%o|%r' % (42, 'ab', 0.5, 255, 8, 'é')
'%(a)s-%(b)03d' % {'a': 1, 'b': -2} ~ ('%.2s|%5.1f' % ('abc', 2.25)) ~ ('%s' % 'x') ~ ('%d' % 3.9) ~ ('%i%%' % true)
'{0}{1}{0}'.format('a', 'b') ~ '{:>5}|{:*^5}|{:<3}|'.format('a', 'b', 'c') ~ '{:,}'.format(1234567) ~ '{:.2f}'.format(2.345) ~ '{x[0]}{{}}'.format(x=[7])
'{:05d}|{:+d}|{:#x}|{:.1%}|{:e}'.format(-42, 7, 255, 0.256, 12345.678)
7 // -2 ~ (-7) // 2 ~ (-7) % 3 ~ 7 % -3 ~ 7.5 // 2 ~ (-7.5) % 2 ~ 2 ** -1 ~ (-2) ** 3 ~ 7 / 7
1 == 1.0 ~ (1 is sameas 1.0) ~ ('a' < 'b') ~ ([1, 2] < [1, 3]) ~ ((1,) < (1, 0)) ~ (true + 1) ~ ('a' in 'bab') ~ ('' in '')
3 is odd ~ (3 is divisibleby 3) ~ (none is none) ~ ('a' is string) ~ ([] is iterable) ~ ({} is mapping) ~ (1.0 is float) ~ (true is integer) ~ ('A' is upper) ~ (range is callable)
range(5, 0, -2) | list ~ range(3) ~ (range(0) | list) ~ range(2, 9)[2] ~ range(1, 7, 3) ~ range(4)[::-1]
'abcdef'[::2] ~ 'abcdef'[4:1:-1] ~ 'abcdef'[-99:2] ~ 'éa\U0001F600'[-1] ~ 'abc'[5:] ~ [1, 2, 3][-2:] ~ [1, 2, 3][::-2] ~ (1, 2)[5:]
['a', 'b'] | join ~ (['a', 'b'] | join('é')) ~ ([{'k': 1}, {'k': 2}] | join(',', attribute='k')) ~ ('ab' | join('-')) ~ ([1, none] | join)
'é' | length ~ ({'a': 1} | length) ~ ('abc' | reverse) ~ ([1, 2] | reverse | list) ~ ('abc' | first) ~ ('abc' | last) ~ ('abc' | list) ~ ('x' * 3) ~ ([0] * 2)
'<a href="x">&\'' | e ~ ('<b>' | safe | e) ~ ('<b>' | forceescape) ~ ('a b' | wordcount) ~ ('a' | center(5)) ~ (' a ' | trim) ~ ('xax' | trim('x')) ~ ("they're x-y" | title)
{'class': 'a b', 'id': none, 'x': '<'} | xmlattr ~ ({'x': 1} | xmlattr(false)) ~ ('abc' | replace('b', 'x')) ~ ('aaa' | replace('a', 'b', 2))
""".strip().split("\n")


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
    for form in [f for f in FORMS if f] + FILTERED + EDGES:
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
