#!/usr/bin/env python3
"""Writes tests/golden/jinja/cases.json: small templates with what Python's jinja2 makes of them, in the environment that
Hugging Face's apply_chat_template sets up. The unit test holds our interpreter to them.

    python3 tools/golden_jinja.py [--check]     needs jinja2 3.1
"""
import argparse
import datetime
import itertools
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

TARGET = pathlib.Path(__file__).parent.parent / "tests/golden/jinja/cases.json"
NOW = datetime.datetime(2026, 7, 4, 12, 0)

INPUTS = {
    "s": "Hello, World",
    "pad": "  padded\t\n",
    "uni": "Straße ÀÉ日本 😀",
    "quoted": "it's \"x\" \\ \n\t\x01é\u200b",
    "html": "<a href=\"x\">T&'s</a>",
    "lines": "one\n\ntwo\r\nthree\n",
    "csv": "a,b,,c",
    "words": "the quick  brown\tfox",
    "empty": "",
    "n": 7,
    "neg": -3,
    "zero": 0,
    "big": 1234567890123,
    "f": 2.5,
    "tiny": 1e-7,
    "large": 1e16,
    "t": True,
    "no": False,
    "nil": None,
    "xs": [3, 1, 2],
    "mixed": [1, "a", None, 2.5, True, [1, "x"], {"k": "v"}],
    "names": ["b", "A", "c", "B", "a"],
    "none_list": [],
    "d": {"b": 2, "a": 1, "C": 3},
    "nested": {"a": {"b": [10, {"c": "deep"}]}, "items": "shadow", "x y": 1},
    "none_dict": {},
    "users": [
        {"name": "ann", "age": 30, "tags": ["x"], "ok": True},
        {"name": "Bob", "age": 25, "tags": [], "ok": False},
        {"name": "cy", "age": 30, "tags": ["y", "z"]},
    ],
    "tree": [{"v": 1, "kids": [{"v": 2, "kids": []}, {"v": 3, "kids": [{"v": 4, "kids": []}]}]}, {"v": 5, "kids": []}],
    "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}],
}

TEXTS = ["s", "pad", "uni", "quoted", "lines", "csv", "words", "empty"]

# Where ours differs on purpose: integers beyond 64 bits and complex numbers do not exist, subscripts have one value, "self"
# is unknown, a comment or raw block that the end of the template cuts off is an error, `for a, in` is accepted.
DIFFERENT = ("12345678901234567890", "9223372036854775807 + 1", "xs[]", "xs[1, 2]", "self is defined", "{% for a, in ")

EXPRESSIONS = """
1 + 2 * 3 - 4
7 // 2, -7 // 2, 7 // -2, 7.5 // 2
7 % 3, -7 % 3, 7 % -3, 7.5 % 2, -7.5 % 2
7 / 2, 6 / 2, 1 / 3
2 ** 10, 2 ** -1, 2 ** 0.5, -2 ** 2, 2 ** 3 ** 2
1 / 0
1 // 0
1 % 0
1.0, 1.5, 100000.0, 1e15, 1e16, 1.23e-5, 1e-4, 0.1 + 0.2, 1e100, 123456789.123456789
tiny, large, f, big
1_000, 0x1f, 0b101, 0o17, 1_0.5
'a' 'b' "c"
'a' ~ 1 ~ none ~ true ~ 1.0 ~ [1] ~ missing
'a' + 'b' * 3
3 * 'ab', 'ab' * 0, 'ab' * -1
[1, 2] + [3], [0] * 3, (1, 2) + (3,), (1,) * 2
'a' + 1
1 + 'a'
[1] + (2,)
none + 1
true + true, true * 3, -true
1 < 2 < 3, 1 < 3 < 2, 3 > 2 >= 2, 1 == 1.0, 1 == true, 'a' == 'a', 'a' != 'b'
'a' < 'b', 'B' < 'a', 'a' < 'ab', [1, 2] < [1, 3], (1,) < (1, 2)
1 < 'a'
none < 1
[1] < (1,)
{'a': 1} < {'a': 2}
not true, not none, not '', not [], not 0, not 0.0, not 'x'
true and 'x', '' and 'x', 'y' or 'x', '' or 'x', none or false or 0, 1 and 2 and 3
not 1 == 2, not 1 in [1], 1 not in [1], 1 in [1, 2] and 3 not in [1]
'a' in 'abc', '' in 'abc', 'd' in 'abc', 'a' in ['a'], 'a' in {'a': 1}, 1 in (1, 2), 2 in d.values()
1 in 'abc'
'a' in none
'a' in 5
'x' if true else 'y', 'x' if false else 'y', 'x' if false
('x' if false) is defined
1 if none else 2 if false else 3
s[0], s[-1], s[1:4], s[:3], s[-5:], s[::2], s[::-1], s[100:], s[5:2], s[-100:3]
uni[0], uni[-1], uni[1:6], uni[::-1], uni[7], uni[4]
s[20]
s[20] is defined
s['x'] is defined
s[1.5] is defined
xs[0], xs[-1], xs[1:], xs[::-1], xs[5] is defined, xs[::2], xs[-2:]
s[::0]
xs['a'] is defined
d['a'], d.a, d['zz'] is defined, d.zz is defined, d.get('a'), d.get('zz'), d.get('zz', 9)
nested.a.b[1].c, nested['a']['b'][0], nested['items'], nested['x y'], nested.a.b.1.c
nested.items is string, nested.items is callable
d.items is defined, d['items'] is callable, d['keys'] is defined
messages[0]['items']['type'] is defined
d.items()|list, d.keys()|list, d.values()|list
d.items(), d.keys(), d.values()
d.items()|length, d|length, xs|length, s|length, uni|length, none_list|length
5|length
none|length
missing
missing.x
missing['x']
missing()
missing + 1
'x' + missing
missing ~ 'x'
missing == missing, missing == none, missing == '', missing != 1
missing < 1
missing is defined, missing is undefined, missing is none, missing is string, missing is iterable, missing is sequence, missing is mapping
missing|length, missing|list, missing|join(','), missing|string, missing|default('d'), missing|first is defined
missing in [1], 1 in missing
not missing, missing or 'x', missing and 'x'
missing|int
missing|float
missing|upper, missing|trim
missing|tojson
[missing]
s.x is defined, s.x
s.x.y
5.x is defined
none.x is defined, none['x'] is defined
none.x.y
s.upper, 1
[1, 2.0, 'x', none, true, [1], {'a': (1,)}, ()]
(1, 2), (1,), (), [[]], {}, {'a': 1, 2: 'b', none: 1.5, (1, 2): 3}
{[1]: 2}
{'a': 1, 'a': 2}, {1: 'a', 1.0: 'b', true: 'c'}
quoted, [quoted]
['it\\'s', '"', '\\'"', 'a\\nb', 'é', '\\x00', '\\u200b', '\\U0001f600', '\\xa0']
'\\x41\\u00e9\\101\\q\\a\\b\\f\\v\\r|'
'a\\
b'
'\\ud83d'
'\\xZZ'
mixed, users[0], d
mixed|tojson
users|tojson
users|tojson(indent=2)
d|tojson(indent=4)
d|tojson(sort_keys=true), d|tojson(separators=(',', ':')), uni|tojson(ensure_ascii=true), d|tojson(indent='--')
{'a': [], 'b': {}, 'c': [{}]}|tojson(indent=2)
quoted|tojson, quoted|tojson(ensure_ascii=true), html|tojson
{1: 2, none: 3, true: 4, 1.5: 5}|tojson, (1, 2)|tojson
{(1, 2): 3}|tojson
range(3)|tojson
d.items()|tojson
1.0|tojson, 1e16|tojson, tiny|tojson, none|tojson, true|tojson, 'x'|tojson
range(5)|list, range(2, 5)|list, range(0, 10, 3)|list, range(5, 0, -2)|list, range(0)|list, range(3)
range(5)[1], range(5)[-1], range(3)|length, 2 in range(3), range(4)|sum
range('a')
range(1, 2, 0)
range()
xs is iterable, s is iterable, 5 is iterable, d is mapping, xs is mapping, s is sequence, d is sequence, xs is sequence, range(3) is sequence, d.items() is sequence, d.items() is iterable
1 is number, 1.5 is number, true is number, '1' is number, 1 is integer, true is integer, 1.0 is integer, 1.0 is float, true is boolean, 1 is boolean
true is true, 1 is true, false is false, 0 is false, none is none, 0 is none
3 is odd, 4 is even, 4 is odd, 9 is divisibleby 3, 9 is divisibleby(4), 2.0 is even
1 is eq 1, 1 is equalto 2, 2 is gt 1, 2 is ge 2, 1 is lt 2, 1 is le 0, 1 is ne 2, 2 is sameas 2, 'a' is in 'abc', 1 is in [1]
'ABC' is upper, 'abc' is lower, 'aBc' is upper, '' is lower, 'a1' is lower
s is string and s is not none, s is not string, not s is string
'upper' is filter, 'nope' is filter, 'odd' is test
range is callable, s is callable, s.upper is callable
html|escape, html|e, html|forceescape, html|safe, (html|safe)|e, html|e|e
('<'|safe) + '>', '<' + ('>'|safe), ('<'|safe) ~ '>', ('<'|e)|length
('<%s>'|safe)|replace('%s', '&'), ('a'|safe)|upper, ('<b>'|safe).join(['<', '>']), ['<'|safe, '>']|join('&')
[html|safe]
s|upper, s|lower, s|title, s|capitalize, s|length, s|reverse, s|wordcount, s|string, s|trim('Hd')
uni|upper, uni|lower, uni|title, uni|capitalize, uni|reverse
"hello wORLD-foo (bar) [baz] {q} <r> it's o'neil"|title, "hello wORLD-foo it's o'neil x2y".title(), 'ǆ ŉ ﬁ ß'.upper(), 'ΑΣ ΑΣΑ Σ'.lower(), 'İ'.lower()|length
pad|trim, pad|trim|length, '--a--'|trim('-'), none|trim, 5|trim, [1]|trim
s|replace('l', 'L'), s|replace('l', 'L', 1), s|replace('', '-'), s|replace('zz', 'y'), 5|replace(5, 6), s|replace('o', missing)
s|first, s|last, xs|first, xs|last, none_list|first is defined, none_list|last is defined, d|first, d|last, empty|first is defined
xs|sort, xs|sort(reverse=true), names|sort, names|sort(case_sensitive=true), names|sort(reverse=true), users|sort(attribute='age')|map(attribute='name')|list, users|sort(attribute='age,name')|map(attribute='name')|list
mixed|sort
d|dictsort, d|dictsort(true), d|dictsort(by='value'), d|dictsort(reverse=true), d|dictsort(false, 'value', true)
d|dictsort(by='x')
xs|dictsort
xs|sum, xs|min, xs|max, names|min, names|max, users|sum(attribute='age'), none_list|sum, none_list|max is defined, xs|sum(start=10), [0.1, 0.2]|sum, [[1], [2]]|sum(start=[]), names|min(case_sensitive=true), users|max(attribute='age')
names|sum
xs|join, xs|join(', '), xs|join(1), users|join(', ', attribute='name'), [1, none, 'a', true]|join('|'), s|join('-'), d|join(','), none_list|join(',')
xs|unique|list, [1, 1.0, true, '1', 'a', 'A']|unique|list, ['a', 'A']|unique(true)|list, users|unique(attribute='age')|map(attribute='name')|list
xs|map('string')|list, names|map('upper')|join, names|map('replace', 'a', 'z')|list, users|map(attribute='name')|list, users|map(attribute='ok', default='?')|list, users|map(attribute='tags.0', default='-')|list, [1.5]|map('int')|list, none|map('upper')|list
users|map(attribute='nope')|list
users|map('nope')|list
users|map()|list
xs|select|list, [0, 1, '', 'x', none]|select|list, xs|select('odd')|list, xs|reject('odd')|list, xs|select('gt', 1)|list, xs|select('in', [1, 2])|list, names|select('equalto', 'a')|list, [0, 1]|reject|list
users|selectattr('ok')|map(attribute='name')|list, users|rejectattr('ok')|map(attribute='name')|list, users|selectattr('age', 'equalto', 30)|list|length, users|selectattr('tags', 'defined')|list|length, users|rejectattr('name', 'in', ['ann'])|map(attribute='name')|join(','), users|selectattr('ok', 'undefined')|map(attribute='name')|list
xs|select('nope')|list
users|selectattr()|list
none|selectattr('x')|list, missing|selectattr('x')|list
users|groupby('age')|map(attribute='grouper')|list, users|groupby('age')|map(attribute='list')|map('length')|list, users|groupby('age')|map('first')|list, users|groupby('ok', default=false)|length
users|groupby('nope')|length
xs|batch(2)|list, xs|batch(2, 'x')|list, range(7)|slice(3)|list, range(7)|slice(3, 'x')|list, none_list|batch(2)|list
xs|reverse|list, d|reverse|list, (1, 2)|reverse|list, range(3)|reverse|list
xs|list, s|list, d|list, (1, 2)|list, 'ß日'|list
5|list
none|list
xs|count, d|items|list, none_dict|items|list, missing|items|list
xs|items|list
'42'|int, ' 42 '|int, '42.9'|int, 'x'|int, 'x'|int(5), '0x1A'|int(0, 16), '0b11'|int(base=0), 3.9|int, -3.9|int, true|int, none|int, [1]|int, '1_000'|int, '-5'|int, '+5'|int, ''|int, '1e3'|int
'1.5'|float, 'x'|float, 'x'|float(2.5), 3|float, true|float, none|float, '1e3'|float, 'inf'|float, '-.5'|float, '1_0.5'|float, 'nan'|float
5|abs, -5|abs, -2.5|abs, true|abs
'x'|abs
2.5|round, 3.5|round, 2.567|round(2), 2.567|round(1, 'floor'), 2.511|round(1, 'ceil'), 5|round, 1234|round(-2), 2.5|round(0, 'ceil'), 0.15|round(1), 2.675|round(2), -0.5|round, 15|round(-1), 25|round(-1), 1e20|round(2)
2.5|round(1, 'x')
'x'|round
'%s and %r'|format('a', 'b'), '%d %5d|%-5d|%05d|%+d|% d'|format(1, 2, 3, 4, 5, 6), '%x %X %#x %o %c %c'|format(255, 255, 255, 8, 65, 'z'), '%.2f %8.3f|%-8.1f|%e %g'|format(1.5, 2.25, 3.75, 1234.5, 0.0001), '%s %%'|format(none), '%(a)s-%(b)d'|format(a=1, b=2)
'%s' % 'x', '%s %s' % ('a', 1), '%d%%' % 5, '%s' % [1, 2], '%s' % {'a': 1}, '%(a)s' % {'a': 1}, '%5s|%-5s|%.2s' % ('ab', 'cd', 'efgh'), '%r' % 'x', '%i' % 3.99, '%s' % missing, 'x' % {}, '%*d' % (5, 3), '%.3d' % 7, '%s' % true, '%g %g %g' % (1e10, 1e-5, 100000.0)
'%s' % ('a', 'b')
'%s %s' % 'a'
'%d' % 'a'
'%q' % 1
'{} {}'.format(1, 'a'), '{0} {1} {0}'.format('a', 'b'), '{a} {b}'.format(a=1, b=2), '{{}} {}'.format(1), '{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd'), '{:05d} {:+d} {:,} {:_} {:x} {:#x} {:b} {:o} {:c}'.format(42, 42, 1234567, 1234567, 255, 255, 5, 8, 65), '{:.2f} {:8.3f} {:e} {:g} {:%} {:.1%}'.format(1.5, 2.25, 1234.5, 0.5, 0.25, 0.125), '{!r} {!s}'.format('a', 'b'), '{0[a]} {0[b]} {1[0]}'.format(d, xs), '{:{w}}|'.format('x', w=4), '{} {}'.format(none, true), '{:,.2f}'.format(1234567.891), '{:.3}'.format('abcdef'), '{:.3}'.format(1.0), '{:6}|'.format(1.5), '{:=+6d}'.format(5), '{:<05}'.format(3)
'{}'.format()
'{a}'.format(b=1)
'{:d}'.format('x')
'{:q}'.format(1)
'{'.format()
'{} {0}'.format(1)
'{:s}'.format(none)
lines|indent, lines|indent(2, true), lines|indent(2, blank=true), lines|indent('> '), 'a\\nb'|indent(first=true), ''|indent, 'a\\n'|indent, 'a\\n\\nb'|indent(1, true, true)
5|indent
words|truncate(10), words|truncate(10, true), words|truncate(10, false, '…'), words|truncate(12, leeway=0), words|truncate(255), s|truncate(9, true, '', 0)
words|truncate(1)
'x'|center(5), 'ab'|center(5), 'abc'|center(6), 'abc'|center(2), '日'|center(4)
words|wordwrap(9), 'averyveryverylongword x'|wordwrap(6), 'a-b well-known facts'|wordwrap(8), lines|wordwrap(3), 'averylongword'|wordwrap(4, false), 'aaa bbb ccc'|wordwrap(7, wrapstring='|')
uni|wordcount, words|wordcount, "it's 2_x"|wordcount, ''|wordcount
'a b/c&d=é'|urlencode, {'a b': 'c/d', 'é': 1}|urlencode, [('x', 1), ('y', 'z z')]|urlencode, 5|urlencode
{'a': '<', 'b': none, 'c': 5}|xmlattr, {'a': 1}|xmlattr(false), {}|xmlattr
{'a b': 1}|xmlattr
'<p>Hello <b>W</b> &amp; <!-- c -->x</p>'|striptags, 'a  b'|striptags, '1 < 2'|striptags
1000|filesizeformat, 1|filesizeformat, 999|filesizeformat, 123456|filesizeformat, 1024|filesizeformat(true), 1e9|filesizeformat, '5000'|filesizeformat
nil|default('x'), nil|default('x', true), ''|d('y', true), 0|default(1, boolean=true), missing|default, missing|d(none)
d|attr('a') is defined, users|attr('nope') is defined
s|nope
s is nope
s|upper(1)
s|replace('a')
s|default(nope=1)
s.nope()
s.upper(1)
s.split(), s.split(','), s.split(', '), csv.split(','), csv.split(',', 1), csv.rsplit(',', 1), words.split(), words.split(none, 1), words.rsplit(none, 1), words.rsplit(), words.split(' '), ''.split(), ''.split(','), csv.split(maxsplit=1, sep=','), 'aXbXc'.split('X', 0), 'aaa'.split('aa'), 'aaa'.rsplit('aa')
s.split('')
s.strip(), pad.strip(), pad.lstrip(), pad.rstrip(), 'xxaxx'.strip('x'), 'xyaxy'.lstrip('yx'), 'xyaxy'.rstrip('yx'), uni.strip('S😀'), pad.strip(none), 'abc'.strip('')
s.startswith('He'), s.endswith('ld'), s.startswith(('x', 'H')), s.startswith(''), s.startswith('W', 7), s.endswith('o', 0, 5), s.startswith('', 20)
s.find('o'), s.find('o', 5), s.rfind('o'), s.find('zz'), s.index('W'), s.count('l'), s.count(''), s.count('l', 4), uni.find('日'), uni.rfind('😀'), s.find(''), s.rfind(''), 'aaa'.count('aa'), s.find('l', -3), s.rindex('o', 0, 6), ''.find('', 1)
s.index('zz')
s.startswith(5)
s.replace('l', 'L'), s.replace('l', 'L', 1), s.replace('', '.'), s.replace('Hello', ''), 'aaaa'.replace('aa', 'b'), s.replace('o', '0', -1)
s.upper(), s.lower(), s.title(), s.capitalize(), s.swapcase(), uni.casefold()|length, 'ÀÉ'.swapcase()
'-'.join(['a', 'b']), ''.join(names), ','.join('abc'), ', '.join(d), '-'.join([])
'-'.join([1])
'-'.join(5)
'a'.center(5, '*'), 'a'.ljust(4) ~ '|', 'a'.rjust(4), '5'.zfill(3), '-5'.zfill(4), 'abc'.zfill(2), '+'.zfill(3), 'a'.center(4, 'é')
'a'.center(5, '**')
'a1'.isalnum(), 'ab'.isalpha(), '12'.isdigit(), '²'.isdigit(), '²'.isdecimal(), '½'.isnumeric(), ' '.isspace(), 'Ab Cd'.istitle(), 'AB'.isupper(), 'ab'.islower(), ''.isalpha(), 'x_1'.isidentifier(), '1x'.isidentifier(), 'é'.isascii(), 'a\\n'.isprintable(), ''.isprintable(), '日'.isalpha(), '٣'.isdigit()
'a=b=c'.partition('='), 'a=b=c'.rpartition('='), 'abc'.partition('='), 'abc'.rpartition('='), 'prefix-x'.removeprefix('prefix-'), 'x.py'.removesuffix('.py'), 'abc'.removeprefix('z')
lines.splitlines(), lines.splitlines(true), ''.splitlines(), 'a\\x0bb\\x1cc\\u2028d'.splitlines()
'a\\tb\\t\\tc'.expandtabs(), 'ab\\tc'.expandtabs(4), 'x'.encode is callable
'{a}'.format_map({'a': 5})
xs.index(1), xs.count(3), (1, 2).index(2), xs.copy(), d.copy(), {}.fromkeys(['a', 'b'], 0), (1, 1).count(1)
xs.index(99)
xs.append(1)
xs.append is defined, xs.pop is callable, d.update is defined
xs.pop()
d.pop('a')
d.update({})
d.clear()
xs.sort()
5 .bit_length(), 2.5.is_integer(), 2.0.is_integer(), (5).bit_length(), n.bit_length()
dict(a=1, b=2), dict([('x', 1)]), dict({'a': 1}, b=2), dict()
dict(1)
namespace(a=1).a, namespace().x is defined, namespace(a=1)
namespace({'a': 1}, b=2).b
cycler('a', 'b').next(), cycler('a').current
cycler()
joiner(', ')() ~ 'a'
raise_exception('boom')
strftime_now('%Y-%m-%d'), strftime_now('%d %B %Y'), strftime_now('%H:%M'), strftime_now('%A %j %b %y %I %p %%'), strftime_now('')
[1, 2][0], {'a': 1}.a, {'a': 1}['a'], (1, 2)[1], 'abc'[1], [1, 2, 3][1:][0], ('a' ~ 'b')[0], (1 if true else 2)
[x for x in xs]
{1, 2}
lambda: 1
s.upper().lower().strip()|upper|lower, (s|upper)[0:2], -1|abs, -xs[0], +n, --n, not not n
-'a'
+'a'
f.real is defined, n.real is defined
1 is 1
a b
1 +
(1
)
[1, 2
'abc
{{ 1
1,
n if
*xs
xs[
xs[]
xs[1, 2]
d.
.5
1..real
@x
a = 1
s|
s|upper|
s is
true.x is defined, True, False, None, TRUE is defined
loop is defined, self is defined, caller is defined, varargs is defined
""".strip().split("\n")

TEMPLATES = r"""
{% for x in xs %}{{ x }}{% endfor %}
{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }};{% endfor %}
{% for x in xs %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}
{% for x in xs %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}
{% for x in xs %}{{ loop.cycle('a', 'b') }}{{ loop.changed(x > 1) }}{% endfor %}
{% for x in xs %}{{ loop.nope is defined }}{{ loop }}{% endfor %}
{% for x in xs if x > 1 %}{{ x }}{{ loop.index }}/{{ loop.length }}{{ loop.last }}{% else %}none{% endfor %}
{% for x in xs if x > 10 %}{{ x }}{% else %}none{% endfor %}
{% for x in none_list %}{{ x }}{% else %}empty{% endfor %}
{% for x in missing %}{{ x }}{% else %}empty{% endfor %}
{% for x in none %}{{ x }}{% endfor %}
{% for x in 5 %}{{ x }}{% endfor %}
{% for c in uni %}[{{ c }}]{% endfor %}
{% for k in d %}{{ k }}{% endfor %}|{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}
{% for k, v in d|dictsort %}{{ k }}={{ v }},{% endfor %}
{% for a, b in [[1, 2], (3, 4), 'xy'] %}{{ a }}-{{ b }};{% endfor %}
{% for a, b in [[1, 2, 3]] %}{{ a }}{% endfor %}
{% for a, b in [1] %}{{ a }}{% endfor %}
{% for (a, (b, c)) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}
{% for a, in [(1,)] %}{{ a }}{% endfor %}
{% for x in 1, 2, 3 %}{{ x }}{% endfor %}
{% for x in xs recursive %}{{ x }}{% endfor %}
{% for n in tree recursive %}{{ n.v }}({{ loop.depth }}){% if n.kids %}[{{ loop(n.kids) }}]{% endif %}{% endfor %}
{% for n in tree %}{{ loop(n.kids) }}{% endfor %}
{% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}
{% for x in xs %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% else %}never{% endfor %}
{% for x in xs %}{% break %}{% else %}else{% endfor %}
{% break %}
{% for x in xs %}{% for y in xs %}{{ loop.index }}{% if y == 1 %}{% break %}{% endif %}{% endfor %}:{{ loop.index }};{% endfor %}
{% set x = 1 %}{% for i in xs %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}
{% set ns = namespace(x=1) %}{% for i in xs %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}
{% set ns = namespace() %}{% set ns.a = 1 %}{% set ns.b = ns.a + 1 %}{{ ns.a }}{{ ns.b }}{{ ns }}{{ ns.c is defined }}
{% set d.x = 1 %}
{% set missing.x = 1 %}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = b, a %}{{ a }}{{ b }}
{% set a, b = 1 %}
{% set (a, b), c = (1, 2), 3 %}{{ a }}{{ b }}{{ c }}
{% set x %}block {{ s }}{% endset %}{{ x|upper }}
{% set x | upper | replace('O', '0') %}block {{ s }}{% endset %}{{ x }}
{% set x %}{% set y = 1 %}{% endset %}{{ y is defined }}
{% set x = 1, 2 %}{{ x }}
{% if true %}{% set x = 1 %}{% endif %}{{ x }}
{% if false %}{% set x = 1 %}{% endif %}{{ x is defined }}
{% if false %}{% set s = 1 %}{% endif %}{{ s }}
{% set s = 'mine' %}{{ s }}
{% for x in xs %}{% set s = x %}{{ s }}{% endfor %}{{ s }}
{% for s in xs %}{{ s }}{% endfor %}{{ s }}
{% set true = 1 %}
{% set 1 = 1 %}
{% set x %}
{% set x = %}
{% if s %}a{% endif %}{% if empty %}b{% elif n %}c{% else %}d{% endif %}{% if no %}{% elif no %}{% else %}e{% endif %}
{% if 1, 2 %}t{% endif %}
{% if %}{% endif %}
{% if true %}
{% endif %}
{% else %}
{% elif true %}
{% if true %}{% endfor %}
{% unknown %}
{% 5 %}
{% %}
{{ }}
{{
{%
{#
{# comment #}a{#- b -#} c
{# multi
line #}
x
a {#- x #} b
{% raw %}{{ x }}{% if %}{% endraw %}
a {%- raw -%} {{ b }} {%- endraw -%} c
{% raw %}
 x
{% endraw %}
y
{% raw %}never ends
{% macro m(a, b=2) %}{{ a }}-{{ b }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=5, a=4) }}{{ m() }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(b=2) }}
{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}
{% macro m(a=1, b) %}{% endmacro %}
{% macro m(a, b=a ~ '!') %}{{ a }}{{ b }}{% endmacro %}{{ m('x') }}
{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}
{% macro m(a) %}{{ a }}{{ varargs }}{% endmacro %}{{ m(1, 2) }}
{% macro m(a) %}{{ a is defined }}{% endmacro %}{{ m() }}
{% macro m() %}{{ s }}{% endmacro %}{% set s = 'new' %}{{ m() }}
{% macro m() %}{{ later }}{% endmacro %}{% set later = 'yes' %}{{ m() }}
{% for x in xs %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}
{% macro f(n) %}{% if n > 0 %}{{ n }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% macro m(x) %}{% set y = x %}{{ y }}{% endmacro %}{{ m(1) }}{{ y is defined }}
{% macro m() %}a{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}
{% macro m(x) %}{{ x }}{% endmacro %}{{ m('<')|upper }}{{ m('a') ~ m('b') }}{{ m('abc')|length }}{{ m('') == '' }}
{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}body{% endcall %}
{% macro m(x) %}[{{ caller(x, 2) }}]{% endmacro %}{% call(a, b) m(1) %}{{ a }}{{ b }}{% endcall %}
{% macro m() %}[{{ caller(1) }}]{% endmacro %}{% call(a, b=9) m() %}{{ a }}{{ b }}{% endcall %}
{% macro m() %}x{% endmacro %}{% call m() %}body{% endcall %}
{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}
{% macro m() %}{% if caller %}{{ caller() }}{% endif %}{% endmacro %}{% call m() %}{{ s }}{% endcall %}
{% call s %}x{% endcall %}
{% call s.upper() %}x{% endcall %}
{% filter upper %}a{{ s }}{% endfilter %}
{% filter upper|replace('A', 'b') %}a{% endfilter %}
{% filter indent(2) %}a
b
{% endfilter %}
{% filter nope %}a{% endfilter %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}
{% with a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}{% endwith %}
{% with %}{% set z = 1 %}{{ z }}{% endwith %}{{ z is defined }}
{% block b %}block {{ s }}{% endblock %}
{% block b %}x{% endblock b %}
{% generation %}gen {{ s }}{% endgeneration %}
{% generation %}{% set q = 1 %}{% endgeneration %}{{ q is defined }}
{% for m in messages %}{% generation %}{{ m.content }}{{ loop.index }}{% endgeneration %}{% endfor %}
{% print s, n %}
{% do xs.append(1) %}
{% include 'x' %}
{% import 'x' as y %}
{% from 'x' import y %}
{% extends 'x' %}
{% if false %}{{ s|nope }}{% endif %}ok
{% if true %}{{ s|nope }}{% endif %}ok
{{ s|nope if false else 'ok' }}
{{ 'ok' if true else s is nope }}
{% for x in none_list %}{{ x|nope }}{% endfor %}
{%- if true -%} a {%- endif -%} b
  {% if true %}
  a
  {% endif %}
b
  {%+ if true %}
  a
  {%- endif +%}
b
  {{ s }}
  {{- s -}}  
 x
  {#  c #}
x
a
{%- for x in xs %}
  {{ x }}
{%- endfor %}
b
{% for x in xs -%}
  {{ x }},
{%- endfor -%}
end
x{% if true %}  
y{% endif %}z
 {% set a = 1 %} {{ a }}

trailing


{{ "a\nb" }}
{{ 'a' }}
{{- ' x ' -}} y {{+ n }}
{{ s }}}} }} %} #} { {
{{ {'a': {'b': 1}} }}
{{ {'a': {'b': 1}}.a.b}}
{{ "{{ not }}" }}{{ '%}' }}
{% set x = "%}" %}{{ x }}
{{ s -}}

 next
{% if n == 7 -%}
    seven
{%- else -%}
    other
{%- endif %}

{% for m in messages %}<|{{ m['role'] }}|>
{{ m['content'] | trim }}<|end|>
{% endfor %}
{% if add_generation_prompt %}x{% endif %}
{%- set c = cycler('a', 'b') -%}{{ c.next() }}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}{{ c.current }}
{%- set j = joiner('|') -%}{% for x in xs %}{{ j() }}{{ x }}{% endfor %}
{%- set it = xs|map('string') -%}{{ it|list }}{{ it|list }}
{%- set it = xs|select('odd') -%}{{ it|first }}{{ it|join }}
{%- set it = xs|map('string') -%}{{ it|length }}
{%- set it = xs|map('string') -%}{{ it[0] is defined }}{{ it is sequence }}{{ it is iterable }}{{ it is mapping }}{{ 'y' if it else 'n' }}
{%- set ns = namespace(stop=false) -%}{% for x in xs if not ns.stop %}{{ x }}{% if x == 1 %}{% set ns.stop = true %}{% endif %}{% endfor %}
{% for x in xs|map('string') %}{{ x }}{{ loop.length }}{{ loop.last }}{% endfor %}
{% for g in users|groupby('age') %}{{ g.grouper }}:{{ g.list|length }};{% endfor %}{% for age, us in users|groupby('age') %}{{ age }}{{ us[0].name }}{% endfor %}
{{ users|groupby('age')|first }}
{% macro a(x) %}{{ b(x) }}{% endmacro %}{% macro b(x) %}<{{ x }}>{% endmacro %}{{ a(1) }}
{% macro m(l) %}{% for x in l %}{{ x if x is not iterable or x is string else m(x) }}{% endfor %}{% endmacro %}{{ m([1, [2, [3, 'a']]]) }}
{{ m(*[1, 2]) if false else range(*[1, 4])|list }}{{ dict(**{'a': 1}) }}{{ '%s%s'|format(*['a', 'b']) }}
{% set f = s.upper %}{{ f() }}{% set g = d.get %}{{ g('a') }}
{% set loop = 5 %}{{ loop }}
{% for loop in xs %}{{ loop }}{% endfor %}
{% for x in xs %}{% set loop = 1 %}{% endfor %}
{{ [1, 2, 3,] }}{{ (1, 2,) }}{{ {'a': 1,} }}{{ range(3,)|list }}
{{ s|replace('l', 'L',) }}
{{ xs[0:2:1] }}{{ xs[:] }}{{ xs[::] }}{{ xs[none:none] }}{{ xs['a':] is defined }}{{ d[1:] is defined }}{{ 5[1:] is defined }}
{{ ("a" "b")|upper }}{{ "a" "b"|upper }}{{ 1 ~ 2 + 3 ~ 4 }}{{ 2 * 3 ~ 4 }}{{ '1' ~ 2 * 3 }}
{{ 1 if 2 if false else 3 else 4 }}
{{ not n is defined }}{{ n is defined and not missing is defined }}{{ n is not defined or n > 3 }}
{{ n is divisibleby 7 and true }}{{ n is eq 7 == true }}
{{ (n, s)[0] }}{{ [n, s][1][0] }}{{ "x".join(xs|map('string')) }}
{{ d.items()|first|first }}{{ (d.items()|list)[0][1] }}
{{ (xs|string)[0] }}{{ xs|string|length }}{{ n|string + 'x' }}
{% if 'role' in messages[0] and messages[0]['role'] == 'user' and 'tool_calls' not in messages[0] %}ok{% endif %}
{% if messages[0].tool_calls %}a{% elif messages[0].get('tool_calls') is none %}b{% endif %}
{{ messages|length > 1 and messages[-1].role != 'user' }}{{ messages[messages|length - 1].content }}
{{ messages[1:]|map(attribute='role')|join(',') }}{{ messages[::-1][0].role }}{{ (messages|last).role }}
{{ '' if no }}|{{ none }}|{{ [none, missing]|join(',') }}
{{ s | replace("World", "{}") | replace('{', '(') }}
{{ "é" }}{{ 'é'|length }}{{ "日本"[1] }}{{ "\u65e5" == '日' }}
{{ 0.1 }}{{ 1.10 }}{{ 1e3 }}{{ 1E-3 }}{{ 3.0 }}{{ -0.0 }}{{ 1.e5 is defined }}
{{ 12345678901234567890 }}
{{ 9223372036854775807 + 1 }}
{{ 012 }}
{{ 1.2.3 }}
{{ a.b.c is defined }}
{{ nested.zz.c is defined }}
{{ nested.a.zz is defined }}{{ nested.a.b.zz is defined }}
{{ messages[5] is defined }}{{ messages[5].role is defined }}
{{ '\'' }}{{ "\"" }}{{ '\\' }}{{ '\n'|length }}
{{ x|default(y|default('z')) }}
{% set x = x|default('new') %}{{ x }}
{% if x is defined and x.y %}a{% endif %}ok
{{ ns.x if ns is defined else 'none' }}
{%if true%}tight{%endif%}{{s}}{{-s-}}
{%- macro opt(a, b=none, c=[]) %}{{ a }}{{ b }}{{ c }}{% endmacro -%}{{ opt(1) }}{{ opt(1, c=[2]) }}
{{ 'a' | upper | lower ~ 'B' }}{{ ('a' ~ 'b') | upper }}{{ 'a' ~ 'b' | upper }}
{{ -1 ** 2 }}{{ (-1) ** 2 }}{{ - n }}{{ 2 - -1 }}{{ 2 -1 }}
{{ 5 // 2 * 2 }}{{ 2 ** 2 * 3 }}{{ 10 - 2 - 3 }}{{ 100 / 10 / 2 }}{{ 7 % 4 % 2 }}
{{ 1 < 2 == true }}{{ (1 < 2) == true }}{{ 1 == 1 in [true] }}
""".lstrip("\n")


class Generation(jinja2.ext.Extension):
    """{% generation %}, which marks what the assistant wrote, renders as its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, Generation])

    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def multi_line_templates():
    """Templates of TEMPLATES: a line each, and pairs and triples of neighbours, which test white space control."""
    lines = TEMPLATES.split("\n")
    yield from lines
    for size in (2, 3):
        for i in range(0, len(lines) - size, size):
            yield "\n".join(lines[i:i + size])


def generated():
    for text, call in itertools.product(TEXTS, ["split()", "strip()", "title()", "splitlines()", "upper()", "swapcase()"]):
        yield "{{ %s.%s }}" % (text, call)
    for text, name in itertools.product(TEXTS, ["title", "capitalize", "upper", "tojson", "wordcount", "list", "urlencode",
                                                "length", "indent", "trim", "escape"]):
        yield "{{ %s|%s }}" % (text, name)
    for begin, end, step in itertools.product(["", "1", "-2", "9"], ["", "3", "-1"], ["", "2", "-1"]):
        yield "{{ s[%s:%s:%s] }}|{{ uni[%s:%s:%s] }}" % (begin, end, step, begin, end, step)
    for left, op, right in itertools.product(["7", "-7", "2.5", "'ab'", "xs", "true", "none"],
                                             ["+", "-", "*", "/", "//", "%", "**", "<", "==", "~"],
                                             ["2", "-2", "0.5", "'c'", "true"]):
        yield "{{ %s %s %s }}" % (left, op, right)
    for spec, value in itertools.product(["d", "5d", "05d", "<5d", "^+6d", ",d", "x", "#o", ".2f", "010.3f", "e", "g", "s",
                                          ">8", "*^9", "", "%", "c"], ["5", "-42", "3.14159", "'txt'", "true"]):
        yield "{{ '{:%s}'.format(%s) }}" % (spec, value)
    for spec, value in itertools.product(["%d", "%5d", "%-5d|", "%05d", "%+d", "%x", "%.2f", "%08.3f", "%e", "%g", "%s", "%5s",
                                          "%.1s", "%r", "%c"], ["5", "-42", "3.14159", "'txt'", "true"]):
        yield "{{ '%s' %% (%s,) }}" % (spec, value)
    for number in ["0.5", "1.5", "2.5", "1e22", "1e21", "123456789012345680.0", "0.0001", "0.00001", "5e-324",
                   "1.7976931348623157e308", "0.3", "100.0", "1e5", "12345.678"]:
        yield "{{ %s }} {{ %s|round }} {{ %s|round(2) }} {{ [%s] }} {{ %s|tojson }}" % ((number,) * 5)


def cases():
    env = environment()
    seen = set()
    expressions = ("{{ %s }}" % e.replace("\\\\", "\\") for e in EXPRESSIONS)
    for template in itertools.chain(expressions, multi_line_templates(), generated()):
        if template in seen or template.endswith(("{#", "{% raw %}")) or any(part in template for part in DIFFERENT):
            continue
        seen.add(template)
        try:
            output = env.from_string(template).render(**json.loads(json.dumps(INPUTS)))
            output.encode()  # lone surrogates are no text
            if "j)" in output:  # a complex number
                continue
            if " at 0x" not in output:  # an address: what is printed means nothing
                yield {"template": template, "output": output}
        except Exception as error:
            yield {"template": template, "error": type(error).__name__}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    arguments = parser.parse_args()
    rows = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases())
    text = '{"inputs": %s,\n"cases": [\n%s\n]}\n' % (json.dumps(INPUTS, ensure_ascii=False), rows)
    if arguments.check:
        sys.exit(0 if TARGET.read_text(encoding="utf-8") == text else "tests/golden/jinja/cases.json is out of date")
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text, encoding="utf-8")
    print(text.count('{"template"'), "cases")


if __name__ == "__main__":
    main()
