#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes small templates and their outputs in jinja2, for test_template_vectors.

    tools/template_vectors.py > tests/runtime/template_vectors.json

They contain white space around every kind of tag, forms of subscripts and of undefined values, and edge cases
of arguments of methods and filters. Needs jinja2.
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

# Edge cases of arguments of methods, filters and tests, one expression per line.
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


# Rare forms and refused ones, one expression per line.
RARE = r"""
range(3) | list | length ~ range(4, none)
range(1, 5, 0)
range('a')
range(missing)
range(*[1, 4]) | list ~ range(*(2,)) | list
'{}-{}'.format(*['a', 'b']) ~ '{x}'.format(**{'x': 1}) ~ '{}{x}{y}'.format(7, x=8, **{'y': 9})
dict(**{'a': 1}, b=2)
dict(a=1, **{'a': 2})
dict(**{1: 2})
dict(**[1])
dict(*1)
dict([('a', 1), ('b', 2)], c=3) ~ dict({'x': 1}, x=2) ~ dict() ~ dict([])
dict([1])
dict([(1, 2, 3)])
dict('ab')
dict([('a', 1)], [('b', 2)])
{'a0': 0, 'a1': 1, 'a2': 2, 'a3': 3, 'a4': 4, 'a5': 5, 'a6': 6, 'a7': 7, 'a8': 8, 'a9': 9, 'a3': 33}
{0: 'a', 1: 'b', 2: 'c', 3: 'd', 4: 'e', 5: 'f', 6: 'g', 7: 'h', 8: 'i', '8': 'j', 8.0: 'k', true: 'l', 0.5: 'm', none: 'n'}
{0: 'a', 1: 'b', 2: 'c', 3: 'd', 4: 'e', 5: 'f', 6: 'g', 7: 'h', 8: 'i', '8': 'j'}[8.0] ~ {0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 8: 9, 9: 10}[true]
{0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 8: 9, 9: 10}.get(10, 'none') ~ (11 in {0: 1, 1: 2, 2: 3, 3: 4, 4: 5, 5: 6, 6: 7, 7: 8, 8: 9})
{(1, 2): 'a', (1, 3): 'b', 'c': 1, 'd': 2, 'e': 3, 'f': 4, 'g': 5, 'h': 6, 'i': 7}[(1, 3)] ~ {(1,): 2}[(1,)] ~ {(): 3}[()]
{'k': 1, [1]: 2}
{{}: 1}
{(1, [2]): 1}
{'a': 1}[[1]]
{'a': 1, 'b': 2} == {'b': 2, 'a': 1.0} ~ ({'a': 1} == {'a': 2}) ~ ({'a': 1} == {'b': 1}) ~ ({'a': 1} == {}) ~ ({} == {})
[1, [2, 'x']] == [1, [2, 'x']] ~ ([1, 2] == [1, 3]) ~ ([1] == [1, 2]) ~ ([1] == (1,)) ~ ((1, 2) == (1, 2)) ~ (range(2) == range(2)) ~ ([] == '')
({'a': 1} == {'b': 1}) ~ ({'a': 1, 'b': 2} == {'b': 2, 'a': 1.0}) ~ ({'a': 1} == {'a': 2}) ~ ({'a': {}} == {'a': {}}) ~ ({1: 2} == {true: 2})
([1, [2, 'x']] == [1, [2, 'x']]) ~ ([1, [2]] == [1, [3]]) ~ (d == d) ~ (1 < 2 < 3) ~ (1 < 3 < 2) ~ (1 < 2 > 3)
d == d ~ (l == l) ~ (l != l[:]) ~ (l[:] == l) ~ (d != {}) ~ (none == none) ~ (none == false) ~ (0 == false) ~ ('1' == 1)
[1, 'a'] < [1, 2]
[1] < 'a'
1 < 'a'
none < 1
missing < 1
1 < missing
[[1], [1, 0]] | sort ~ ([(2, 'a'), (1, 'b')] | sort) ~ ([[2], [1, 9]] | max) ~ ((1, 2) <= (1, 2)) ~ ([2] > [1, 5]) ~ ([] < [0])
1 < 2 < 3 ~ (1 < 3 < 2) ~ (3 > 2 >= 2 == 2 != 1) ~ (1 in [1] in [[1]]) ~ (2 not in [1]) ~ (1 not in {1: 2})
1 in 'a1'
1 in 2
'x' in none
+ 3 ~ (+ 2.5) ~ (- -2) ~ (-2.5) ~ (+ true) ~ (- true) ~ (-0.0)
-'a'
+ none
-missing.x
3 * 'ab' ~ ('ab' * 0) ~ ('ab' * -1) ~ (2 * [1]) ~ ([1, 2] * 0) ~ ((1,) * 2) ~ ([1] + [2, 3]) ~ ((1,) + (2,)) ~ (true * 3)
[1] + (2,)
'a' + 1
1 + 'a'
[1] * 'a'
1.5 * 'a'
5.5 - 2 ~ (2 * 1.5) ~ (1 / 4) ~ (2.0 / 4) ~ (2 ** 10) ~ (2.0 ** 0.5) ~ (4 ** 0.5) ~ (0 ** 0) ~ (-5 // 2.0) ~ (5 % -2.5) ~ (-5 % 2.5) ~ (5.0 % 5)
1 / 0
1 // 0
1 % 0
1.0 / 0
1.0 % 0
0 ** -1
7 is divisibleby 0
(-6.0) // 4 ~ (6.0 // -4) ~ (-6.0 % 4) ~ (6.0 % -4) ~ (-4.0 % 4) ~ (4.0 % -4) ~ (0.0 % -3) ~ (1e300 * 1e10) ~ (-1e300 * 1e10) ~ (1e300 * 1e10 - 1e300 * 1e10)
(1e300 * 1e10) | tojson ~ ((-1e300 * 1e10) | tojson) ~ ((1e300 * 1e10 - 1e300 * 1e10) | tojson)
9223372036854775807 ~ -9223372036854775807 ~ 0x1F ~ 0b101 ~ 0o17 ~ 1_000 ~ 1_0.5e1_0 ~ 1e3 ~ 0.5E-3 ~ 00
1__0
0x
0b2
1.e3
"\x41\u00e9\U0001F600\101\7\a\b\f\n\r\t\v\\\'\"\q\
x" ~ '\N{DASH}'
'\x4'
'\u12'
'\U00110000'
'abc
a.0
l.0 ~ l.2 ~ (1, 2).1
l.x.0
l."x"
l.
l[
l[1
l)
(1
[1, 2
{1: 2
{1 2}
{1: }
[1 2]
a ? b
1 if
1 if t else
(1 if false) ~ (1 if t) ~ (1 if false else 2 if false else 3) ~ ((1 if false) is defined)
a|
a|nofilter
a is
a is nothing
a is not defined ~ (a is not none) ~ (3 is not divisibleby 2) ~ (not a is defined) ~ (3 is divisibleby(3)) ~ (3 is eq 3) ~ (3 is gt(2)) ~ (2 is in [1, 2]) ~ ('a' is in 'bab')
a is defined is string
a(
a()
n()
a.upper
a.upper(1)
a.upper(x=1)
a.nope()
l.append(4)
d.update({})
d.pop('x')
a.startswith()
a.split(',', 1, 2)
a.split(sep='A') ~ 'a,b,c'.split(sep=',', maxsplit=1) ~ 'a b'.split(maxsplit=1) ~ 'a\nb'.splitlines(keepends=true)
a.split('A', sep='x')
a.split(nope=1)
a.split('')
a.partition('')
a.center(3, 'xy')
a.center('x')
a.find(1)
a.join(1)
a.strip(1)
a.replace('a')
'ab'.replace(1, 'x')
d.copy() ~ l.copy() ~ d.get(1) ~ d.get(d.x) ~ d.get('q', missing) is defined
d.get()
d.get([1])
l.index()
'12'.isdigit() ~ '12'.isnumeric() ~ '½'.isnumeric() ~ '½'.isdigit() ~ '١'.isdecimal() ~ 'a'.isnumeric() ~ 'Ⅷ'.isnumeric() ~ '½'.isalnum() ~ '½'.isdecimal()
'ab'.isalnum() ~ ''.isalnum() ~ ''.isspace() ~ ''.isdigit() ~ ' a'.isspace() ~ 'aA'.islower() ~ 'a1'.islower() ~ '1'.islower() ~ 'ª'.islower() ~ 'ǅ'.isupper()
'a\tb'.expandtabs(4) ~ 'x'.encode
[1, 2] | map('string') | join ~ ([[1]] | map('first', 1))
[1] | map
[1] | map(1)
[1] | map(nope=1)
[1] | map('nope')
[1] | select('nope')
[1] | selectattr
[1] | selectattr('x', 'nope')
[[1, 2], [3, 4]] | map(attribute=1) | list ~ ([[1, [5]], [3, [6]]] | map(attribute='1.0') | list) ~ ([{'a': {'b': 1}}, {'a': {}}] | map(attribute='a.b', default='z') | list)
[{'a': 1}, {}] | map(attribute='a') | list ~ ([{'a': 1}, {'a': 0}, {}] | selectattr('a') | list) ~ ([{'a': 1}, {'a': 0}, {}] | rejectattr('a', 'defined') | list)
[{'a': {'b': 2}}, {'a': {'b': 1}}] | sort(attribute='a.b') ~ ([{'a': 'B'}, {'a': 'b'}, {'a': 'A'}] | unique(attribute='a') | list) ~ (['a', 'A'] | unique(true) | list)
[[1, 'a'], [1, 'b'], [2, 'c']] | groupby(0) | list ~ ([{'x': 1}, {}] | groupby('x', default=0) | map(attribute='grouper') | list) ~ (['Ab', 'aB'] | groupby('0', case_sensitive=true) | map('first') | list)
[{'x': 1}, {}] | groupby('x') | list
[{'a': 1}] | groupby('a') | map(attribute='list') | list
[1, none] | sort
[1, 'a'] | max
n | length
z | length
n | list
n | first
n | last
n | join
n | sort
missing | first
missing | last ~ (missing | sort) ~ (missing | unique | list) ~ (missing | sum) ~ (missing | reverse | list) ~ (missing | map('upper') | list) ~ (missing | batch(2) | list)
missing | items | list ~ (d | items | list) ~ ({} | items | list)
n | items
n | dictsort
missing | dictsort
d | dictsort(by='nope')
d | dictsort | first ~ ({'b': 'x', 'A': 'Y'} | dictsort(by='value')) ~ ({'b': 'x', 'A': 'Y'} | dictsort(true, 'value', true))
l | map('string') | last
(l | select('odd')) | last
['a', 'b'] | sum
[[1], [2]] | sum(start=[])
[1.5, 2] | sum ~ ([] | sum) ~ ([] | sum(start=3)) ~ ([true, 2] | sum) ~ ([{'k': {'j': 2}}] | sum('k.j'))
l | slice(0) | list
l | batch(0) | list
'abc' | slice(2) | list ~ ('abcde' | batch(2, 'x') | list) ~ ({'a': 1, 'b': 2} | batch(2) | list) ~ ('abc' | sort) ~ ({'b': 1, 'a': 2} | sort) ~ ({'b': 1} | list | first)
d | attr('x') ~ (d | attr('items')) | length ~ (a | attr('nope')) ~ (a | attr('upper'))()
a | attr(1)
'a' | int ~ (none | int(5)) ~ ([] | int) ~ ('' | int) ~ ('-' | int) ~ ('+5' | int) ~ ('1_' | int) ~ ('_1' | int) ~ ('1__2' | int) ~ ('0o17' | int(0, 8)) ~ ('-0x1F' | int(0, 16)) ~ ('0x' | int(9, 16)) ~ ('10' | int(base=2)) ~ ('inf' | int(3)) ~ ('1e2' | int)
'9223372036854775807' | int ~ ('-9223372036854775808' | int) ~ ('0b' | int(4, 2)) ~ ('0o9' | int(4, 8)) ~ ('zz' | int(0, 36)) ~ ('0XfF' | int(0, 16)) ~ ('08' | int) ~ ('08' | int(5, 0))
'1.5' | float ~ (none | float) ~ ('' | float(1)) ~ (' 2 ' | float) ~ ('1_0.5' | float) ~ ('_1' | float) ~ ('1_' | float) ~ ('0x1' | float) ~ ('inf' | float) ~ ('-Infinity' | float) ~ ('1e' | float) ~ ('.5' | float) ~ ('5.' | float) ~ ('.' | float)
'a' | abs
none | abs
missing | abs
'a' | round
missing | round
1.5 | round(0, 'nope')
25 | round(-1) ~ (35 | round(-1, 'floor')) ~ (31 | round(-1, 'ceil')) ~ (true | round) ~ (-0.4 | round) ~ (0.5 | round | int) ~ (1e20 | round) ~ (2.5 | round(precision=0, method='floor'))
n | upper ~ (z | upper) ~ (l | upper) ~ (1.5 | lower) ~ (none | title) ~ (missing | upper) ~ (true | capitalize) ~ (n | trim) ~ (l | replace('1', '9')) ~ (n | center(4)) ~ (n | wordcount)
'abcdef' | truncate(5, true, '...', 0) ~ ('abcdef' | truncate(6, leeway=0)) ~ ('ab cd ef' | truncate(7, leeway=0)) ~ ('abcdefgh' | truncate(5, leeway=2)) ~ ('abcdefgh' | truncate(5, leeway=3)) ~ ('é é é é' | truncate(6, end='…', leeway=0))
'abcdef' | truncate(2)
'abc' | truncate(-1, leeway=0)
'a\nb\n\nc' | indent(2) ~ ('a\n\nb' | indent(2, blank=true)) ~ ('a\nb' | indent(first=true)) ~ ('a' | indent(0)) ~ ('a\r\nb' | indent(1)) ~ ('\n' | indent(1, true))
'a' | indent(-3)
'a b\tc' | wordcount ~ ('' | wordcount) ~ ("it's a-b _c" | wordcount)
'%s %s' | format('a', 1) ~ ('%(x)s' | format(x=2)) ~ ('%s' | format(none)) ~ ('x' | format)
'%s' | format(1, x=2)
'%s' | format
'%s' | format(1, 2)
'%d' | format('a')
'%d' | format(missing)
'%(a)s' | format(b=1)
'%z' | format(1)
'%' | format(1)
'%(a' | format(a=1)
'%-6d|%+d|% d|%06.2f|%6s|%.3s|%x|%X|%#x|%#o|%e|%E|%g|%G|%r' | format(3, 4, 5, 2.5, 'a', 'abcdef', 255, 255, 255, 8, 12.5, 12.5, 0.0001, 1e20, 'é')
'%5.1f|%-7.2e|%g|%g|%+.0f|%#.0f|%5d|%-5d|%05d|%i|%u|%.3d|%s' | format(-2.25, 12345.678, 1e15, 123456789.0, 2.5, 2.0, -3, -3, -3, 7.9, 8, 5, [1])
'{:d}'.format('a')
'{:s}'.format(1)
'{'.format(1)
'}'.format(1)
'{1}'.format(1)
'{x}'.format(y=1)
'{0}{}'.format(1, 2)
'{}{0}'.format(1, 2)
'{:q}'.format(1)
'{:5'.format(1)
'{!x}'.format(1)
'{0[0]}{0[1]}|{a[k]}|{a[0]}|{!r}|{!s}'.format([1, 2], 'x', 'y', a={'k': 3, '0': 4}) ~ '{0[k]}'.format({'k': 'v'})
'{!r}|{!s}|{!r:>5}'.format('é', 'é', 'a')
'{:<5}|{:^5}|{:>5}|{:=5}|{:05}|{:*<4}|{:_>6}'.format(1, 2, 3, -4, -5, 'a', 'é') ~ '{:<}'.format(1) ~ '{:}'.format('x')
'{:o}|{:x}|{:X}|{:#o}|{:#X}|{:,.2f}|{:+}|{: }|{:-}'.format(8, 255, 255, 8, 255, 1234.5, 1, 1, 1)
'{:f}|{:F}|{:e}|{:E}|{:g}|{:G}|{:%}|{:.0f}|{:.3}|{:+.1f}|{: .1f}|{}|{:+}|{:8}'.format(1.5, 1.5, 1.5, 1.5, 1e-5, 1e-5, 0.5, 2.5, 'abcdef', 1.25, 1.25, 1.5, 2.0, 2.5)
'{:f}|{:.1f}|{:e}'.format(1, 2, 3) ~ '{:x}'.format(-255) ~ '{:#x}'.format(-1) ~ '{:,}'.format(-1234) ~ '{:,}'.format(123) ~ '{:,}'.format(1234567.5) ~ '{:10,}'.format(-1234)
{'a': 1} | urlencode ~ ([('a', 'b c'), ('d', 1)] | urlencode) ~ ('é/?=&~' | urlencode) ~ (1 | urlencode) ~ ({'a b': none} | urlencode)
[1] | urlencode
n | xmlattr
{'a b': 1} | xmlattr
{'a': none} | xmlattr ~ ({} | xmlattr) ~ ({'a': missing, 'b': 2} | xmlattr)
{'a': 'x', 'b': [1, {'c': none}]} | tojson(indent=2) ~ ([] | tojson(indent=2)) ~ ({} | tojson(indent=0)) ~ ([[], {}] | tojson(indent=1)) ~ ([1] | tojson(indent='-'))
{1: 2, none: 3, true: 4, 1.5: 5, 'a': 6} | tojson ~ ({'b': {'z': 1, 'y': 2}, 'a': 0} | tojson(sort_keys=true, indent=1)) ~ ([1, {'a': 2}] | tojson(separators=(',', ':')))
{(1, 2): 3} | tojson
missing | tojson
[missing] | tojson
[1] | tojson(separators=1)
[1] | tojson(separators=(1, 2))
range(3) | tojson
(1, 2) | tojson ~ ('</script>' | tojson) ~ (none | tojson) ~ ('\u2028' | tojson(ensure_ascii=true))
'a' is escaped ~ (('a' | e) is escaped) ~ ('upper' is filter) ~ ('nope' is filter) ~ ('odd' is test) ~ ('nope' is test) ~ (1 is filter) ~ (none is test)
1 is sameas 1 ~ ('a' is sameas 'b') ~ (none is sameas none) ~ (true is sameas true) ~ (true is sameas 1) ~ (l is sameas l) ~ (l is sameas l[:]) ~ (d is sameas d) ~ (d is sameas {})
1 is number ~ (true is number) ~ (1.5 is number) ~ ('1' is number) ~ (true is boolean) ~ (1 is boolean) ~ (true is true) ~ (false is false) ~ (1 is true) ~ (1 is integer) ~ (1.0 is integer) ~ ('a' is sequence) ~ (1 is sequence) ~ (d is sequence) ~ (d is iterable) ~ (1 is iterable) ~ (missing is iterable) ~ (missing is sequence) ~ (a.upper is callable) ~ (1 is callable)
'ab' is lower ~ ('Ab' is lower) ~ (1 is lower) ~ ('' is upper) ~ (none is upper) ~ (2 is even) ~ (2 is odd) ~ (-3 is odd) ~ (2.0 is even) ~ (2.5 is odd)
'a' is odd
missing is odd
1 is gt 'a'
1 is divisibleby
1 is lt 2 ~ (1 is lessthan 2) ~ (1 is le 1) ~ (1 is ge 2) ~ (1 is greaterthan 0) ~ (1 is ne 1) ~ (1 is equalto 1) ~ (1 is '==' 1)
(cycler is defined) ~ (joiner is callable) ~ (namespace is defined) ~ (strftime_now is defined) ~ (raise_exception is callable)
namespace(1)
namespace(a=1).a ~ namespace({'b': 2}).b ~ namespace([('c', 3)], d=4).d ~ namespace().x
joiner(1, 2)
cycler()
raise_exception()
raise_exception('no')
strftime_now()
strftime_now('%a %A %b %B %d %-d %m %-m %y %Y %H %-H %I %-I %M %S %f %p %j %-j %w %u %U %W %% %n%t| %F %T %D %R %e %h') ~ strftime_now('')
strftime_now('%c') ~ strftime_now('%x') ~ strftime_now('%X') ~ strftime_now('x%') ~ strftime_now('%Z')
('<b>' | safe) + '<i>' ~ ('<i>' + ('<b>' | safe)) ~ (('<b>' | safe) ~ '<i>') ~ (('<b>' | safe) * 2) ~ ([('<' | safe), '<'] | join)
('<b>' | e | e) ~ ('<b>' | e | forceescape) ~ (('<a>' | safe) | string is escaped) ~ (('<' | safe) | replace('<', '>'))
'a' 'b' ~ "c" 'd'
[1, 2,] ~ (1, 2,) ~ (1,) ~ () ~ {'a': 1,} ~ [] ~ {} ~ [[]] ~ [()] ~ ((1)) ~ ['a', "it's", 'q"q', 'b\\\n\t\x00\x7fé\u2028']
[true, none, 1.0, 1e100, 1e16, 1e-5, 123456789012345680.0, -0.0, range(2), range(1, 2), range(0, 4, 2), {1: (2,)}, 'x' | safe]
[range, a.upper, joiner] | length
true ~ True ~ false ~ False ~ none ~ None
""".strip("\n").split("\n")

# Complete templates: loops, macros, calls, scopes, and malformed tags.
SOURCES = [
    "{% for x in l recursive %}{{ x }}{% endfor %}",
    "{% for x in [1, [2, [3]], 4] recursive %}{% if x is iterable %}({{ loop(x) }}@{{ loop.depth }}{{ loop.depth0 }}){% else %}{{ x }}"
    "{% endif %}{% endfor %}",
    "{% for x in l %}{{ loop(l) }}{% endfor %}", "{% for x in l recursive %}{{ loop() }}{% endfor %}",
    "{% for x in l recursive %}{{ loop(l, l) }}{% endfor %}", "{% for x in l recursive %}{{ loop(1) }}{% endfor %}",
    "{% for x in 'abc' %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}"
    "{{ loop.depth }}{{ loop.depth0 }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.nope }};{% endfor %}",
    "{% for x in l %}{{ loop | length }}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for x in l %}{{ loop.cycle() }}{% endfor %}",
    "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }}{{ loop.changed(x, 'a') }}{% endfor %}",
    "{% for x in [1, 1, 2, 2, 1] %}{{ loop.changed(x) }};{% endfor %}",
    "{% for x in l %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{{ loop.nextitem + 0 if loop.nextitem is defined }}{% endfor %}",
    "{% for x in l %}{{ x }}{% else %}none{% endfor %}{% for x in [] %}{{ x }}{% else %}none{% endfor %}",
    "{% for x in [1, 2, 3] if x > 3 %}{{ x }}{% else %}none{% endfor %}", "{% for x in l if x is odd %}{{ loop.length }}{{ loop.last }}{{ x }}{% endfor %}",
    "{% for a, b in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{{ a }}{% endfor %}",
    "{% for a, b in [1] %}{{ a }}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for a, b in [(1, 2), (2, 1)] if a < b %}{{ a }}{% endfor %}", "{% for k, v in d.items() if v == 1 %}{{ k }}{% endfor %}",
    "{% for x in missing %}{{ x }}{% else %}e{% endfor %}", "{% for x in n %}{% endfor %}", "{% for x in none %}{% endfor %}",
    "{% for x in d %}{{ x }},{% endfor %}", "{% for x in 'é😀a' %}{{ x }},{% endfor %}", "{% for x in l %}{% set y = x %}{% endfor %}{{ y }}",
    "{% for x in l %}{% if x == 2 %}{% continue %}{% endif %}{{ x }}{% endfor %}", "{% for x in l %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% break %}", "{% for x in l %}{{ loop.index }}{% for y in 'ab' %}{{ loop.index }}{{ loop.depth }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{{ loop }}", "{% set loop = 1 %}{{ loop }}", "{% for x in l %}", "{% for x of l %}{% endfor %}", "{% for in l %}{% endfor %}",
    "{% for 1 in l %}{% endfor %}", "{% for x.y in l %}{% endfor %}", "{% for x in l %}{% endif %}", "{% endfor %}", "{% if %}{% endif %}", "{% if t %}{% else %}{% else %}{% endif %}",
    "{% if t %}", "{% if false %}a{% elif t %}b{% else %}c{% endif %}{% if false %}a{% elif false %}b{% elif n %}c{% endif %}", "{% elif t %}",
    "{% nope %}", "{% 1 %}", "{% %}", "{% if t x %}{% endif %}", "{{ a b }}", "{{ }}", "{{ a", "{% if t", "{# a", "{% raw %} a", "{{ a }", "{{ 'a }}", "{{ a } }}", "}}", "%}", "#}", "{",
    "{{ \\ }}", "{{ a $ }}", "{{ a ! }}", "{% raw %}{{ a }}{% if %}{# #}{% endraw %}", "{% raw x %}{% endraw %}",
    "{% macro m(a, b=2, *c) %}{% endmacro %}", "{% macro m(a, b=2) %}{{ a }}{{ b }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, 2, 3) }}{{ m(b=1, a=2) }}{{ m(1, c=3) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m() }}|{{ m(1) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}",
    "{% macro m(a) %}{{ a.x }}{% endmacro %}{{ m() }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(3) }}",
    "{% macro m(a=1, b) %}{% endmacro %}", "{% macro %}{% endmacro %}", "{% macro m %}{% endmacro %}", "{% macro m(1) %}{% endmacro %}", "{% macro m(a, %}{% endmacro %}",
    "{% macro m(a, b) %}{% endmacro %}{{ m.name }}{{ m.nope }}{{ m is callable }}", "{% macro m() %}x{% endmacro %}{{ m }}", "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{% call m() %}in{% endcall %}", "{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(x, y=5) m() %}{{ x }}{{ y }}{% endcall %}",
    "{% macro m() %}{{ caller(1) }}{% endmacro %}{% call(x, y=5) m() %}{{ x }}{{ y }}{% endcall %}", "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% macro m() %}x{% endmacro %}{% call m() %}in{% endcall %}",
    "{% macro m(caller=7) %}{{ caller }}{% endmacro %}{{ m() }}", "{% call a %}{% endcall %}", "{% call a.upper() %}{% endcall %}", "{% call n() %}{% endcall %}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% macro m() %}{{ x }}{% endmacro %}{% set x = 1 %}{{ m() }}{% set x = 2 %}{{ m() }}",
    "{% for x in l %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}", "{% macro m(a) %}<{{ a }}>{% endmacro %}{{ m(1) | upper }}{{ (m(1) ~ m(2)) | length }}{{ m(1) is string }}",
    "{% macro m(*args) %}{{ args }}{% endmacro %}{{ m(1) }}", "{% macro m(a) %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(*[1, 2, 3], **{'x': 4}) }}", "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1], **{'b': 2}) }}",
    "{% macro m(a) %}{{ kwargs }}{% endmacro %}{{ m(x=1, x=2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*1) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(**1) }}", "{{ range(a=1) }}", "{{ range() }}", "{{ range(1, 2, 3, 4) }}",
    "{{ dict(a=1, 2) }}", "{{ dict(**d, *l) }}", "{{ dict(**d, **d) }}", "{{ range(*l, 4) }}", "{{ dict(a=) }}", "{{ dict(a=1 b=2) }}", "{{ dict(1=2) }}",
    "{% set c = cycler('a', 'b', 'c') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.next() }}",
    "{% set j = joiner() %}{{ j() }}a{{ j() }}b{{ j() }}", "{% set j = joiner(' | ') %}{{ j() }}a{{ j() }}b", "{% set j = joiner() %}{{ j.next() }}", "{% set j = joiner() %}{{ j.current }}", "{% set c = cycler(1) %}{{ c.nope }}",
    "{% set c = cycler(1) %}{{ c() }}", "{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}", "{% set ns = namespace() %}{% set ns.a = 1 %}{% set ns.b = 2 %}{% set ns.a = 3 %}{{ ns.a }}{{ ns.b }}",
    "{% set ns = namespace(a=0,b=1,c=2,d=3,e=4,f=5,g=6,h=7) %}{% set ns.i = 8 %}{% set ns.j = 9 %}{{ ns.a }}{{ ns.g }}{{ ns.i }}{{ ns.j }}", "{% set ns = namespace(a=1, b='x') %}{{ ns }}", "{% set d.x = 1 %}", "{% set nope.x = 1 %}",
    "{% set n.x = 1 %}", "{% set ns.x %}a{% endset %}", "{% set ns = namespace() %}{% set ns.x %}a{{ 1 }}{% endset %}{{ ns.x }}", "{% set x %}<{{ a }}>{% endset %}{{ x }}{{ x | length }}", "{% set x | upper %}a{{ n }}b{% endset %}{{ x }}",
    "{% set x | replace('a', 'b') | upper %}aa{% endset %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = [1] %}", "{% set a, b = missing %}", "{% set a, b = 'xy' %}{{ a }}{{ b }}", "{% set (a, b) = (1, 2) %}{{ b }}", "{% set a %}",
    "{% set true = 1 %}", "{% set 'a' = 1 %}", "{% set = 1 %}", "{% set a = %}", "{% set a = 1, 2 %}{{ a }}", "{% set a = (1, 2) %}{{ a[1] }}", "{% set a.b, c = 1, 2 %}",
    "{{ range(3) }} {{ range(0, 10, 3) }} {{ range(5, 1) }} {{ range(10, 0, -3) }} {{ [range(2)] }} {{ range(1, 10)[2:4] }} {{ range(0, 3, 2) }}",
    "{{ 'ΑΣ' | lower }} {{ 'ΑΣΑ'.lower() }} {{ 'Σ'.lower() }} {{ 'ΑΣ.Β'.lower() }} {{ 'ΑΣ. Β'.lower() }} {{ 'AΣ\u0301'.lower() }} {{ 'A\u0301Σ'.lower() }} {{ 'ΣΣ'.lower() }} {{ '1Σ'.lower() }}",
    "{{ 'ΑΣ'.capitalize() }} {{ 'ΑΣ'.title() }} {{ 'ΑΣ ΒΣΓ' | title }} {{ 'ΑΣ' | capitalize }} {{ 'Α\u00adΣ\u00ad'.lower() }} {{ 'ǅΣ'.lower() }} {{ 'Σǅ'.lower() }}",
    "{% macro m(a, b=2) %}{{ varargs }}{% endmacro %}{{ m.arguments }}{{ m.catch_varargs }}{{ m.catch_kwargs }}{{ m.caller }}{{ m.name }}{{ m.other }}",
    "{% macro m() %}{{ kwargs }}{{ caller }}{% endmacro %}{{ m.arguments }}{{ m.catch_varargs }}{{ m.catch_kwargs }}{{ m.caller }}",
    "{% for loop in l %}{{ loop }}{% endfor %}", "{% for a, loop in [[1, 2]] %}{{ a }}{% endfor %}", "{% for (a, (b, loop)) in [] %}{% endfor %}", "{% set loop = 1 %}{{ loop }}", "{% for loops in l %}{{ loops }}{% endfor %}",
    "{% filter upper %}a{{ a }}b{% endfilter %}", "{% filter replace('a', 'b') | upper %}aa{% endfilter %}", "{% filter nope %}{% endfilter %}", "{% filter %}{% endfilter %}", "{% filter upper %}",
    "{% with x = 1, y = 2 %}{{ x }}{{ y }}{% endwith %}{{ x is defined }}", "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x }}", "{% with x = 1, y = x %}{{ y }}{% endwith %}", "{% with x %}{% endwith %}", "{% with x = 1 y = 2 %}{% endwith %}",
    "{% block b %}x{{ a }}{% endblock %}", "{% block b %}x{% endblock b %}", "{% block %}{% endblock %}", "{% block b %}{% set q = 1 %}{% endblock %}{{ q }}", "{% generation %}a{{ a }}{% endgeneration %}", "{% generation %}",
    "{% if t %}{% set q = 1 %}{% endif %}{{ q }}", "{% set x = 1 %}{% for i in l %}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "{% include 'a' %}", "{% do l %}",
    "{%- for x in l -%} {{ x }} {%- endfor -%} z", "a{#- c -#} b", "{{ a }}{{- n -}} {{ z }}", "a\n{% if t %}\nb\n{% endif %}\nc\n", "  {% set x = 1 %}  \n  {{ x }}", "\n\n{{ a }}\n\n", "{{ a }}\r\n{% if t %}\r\nx{% endif %}\r\n",
    "{% for x in [0.1, 1.0, 1e16, 1e15, 123456789.125, 1e-4, 1e-5, 5e-324, 1.7976931348623157e308] %}{{ x }} {% endfor %}",
    "{% for k, v in dict(a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8, i=9, j=10, k=11, l=12, m=13, n=14, o=15, p=16, q=17).items() %}{{ k }}{{ v }}{% endfor %}",
    "{{ dict(a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8, i=9, j=10, k=11, l=12, m=13, n=14, o=15, p=16, q=17).q }}{{ dict(a=1, b=2, c=3, d=4, e=5, f=6, g=7, h=8, i=9).z }}",
    "{{ 'Μαΐου' | upper }} {{ 'ᾳ' | upper }} {{ 'ᾳβ'.title() }} {{ 'ΐ'.title() }} {{ 'ᾷΰẖẗẘẙẚǰ' | upper }} {{ 'ᾷ'.capitalize() }} {{ 'ῼ' | upper }} {{ 'ﬓﬗ' | upper }} {{ 'ﬗ'.title() }}",
    "{{ 'ᾀᾇᾈᾐᾗᾟᾠᾧᾯ' | upper }} {{ 'ᾀ'.title() }} {{ 'ᾟ'.title() }} {{ 'ΰß ﬁ' | title }} {{ 'ŉ'.upper() }} {{ 'և'.capitalize() }} {{ 'ﬆ' | upper }}",
    "{{ 'a\\nb\\r' | indent }}|", "{{ 'a\\r' | indent(2, true) }}|", "{{ '\\r' | indent }}|", "{{ 'a\\r\\n' | indent }}|", "{{ 'a\\n\\r' | indent(2, blank=true) }}|", "{{ 'a\\n' | indent }}|",
    "{{ {'update': 5}.update is defined }}{{ {'update': 5}.update }}{{ {'update': 5}['update'] }}", "{{ {'pop': 5}.pop is defined }}{{ {'clear': 5}.clear }}{{ {'setdefault': 5}.setdefault }}{{ {'popitem': 5}.popitem }}",
    "{{ {'append': 5}.append }}{{ {'updates': 5}.updates }}{{ {'update': 5} | attr('update') is defined }}{{ '{0.update}|'.format({'update': 5}) }}", "{{ {'update': 5}.update.x }}",
    "{{ '½ a' | wordcount }}{{ 'a½ ² ₂x 五' | wordcount }}{{ '½' | wordcount }}",
    "{{ '٣' | int }} {{ '٣' | float }} {{ '1٣_٤' | int }} {{ '٣.٥' | float }} {{ '𝟡' | int }} {{ '𝟎𝟗' | int }} {{ '½' | int(9) }} {{ '-٣' | int }} {{ '1_٣.5' | float }} {{ '1__0' | float(7) }} {{ '٣é' | float(7) }}",
    "{{ '0x_1f' | int(base=16) }} {{ '0x__1f' | int(7, 16) }} {{ '0x_' | int(7, 16) }} {{ '0b_1' | int(base=2) }} {{ '_1' | int(7) }} {{ '0x1_f' | int(base=16) }} {{ '0x1f_' | int(7, 16) }} {{ '0o_17' | int(base=8) }}",
]


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
    for form in [f for f in FORMS if f] + FILTERED + EDGES + RARE:
        yield "{{ " + form + " }}"
    for _ in range(700):
        yield spaced(rng)
    yield from SOURCES


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
