#!/usr/bin/env python3
"""Prints the largest files and functions and fails past the ceilings: 800 lines a file, 100 a function.
Generated tables (tests/golden) do not count. A function is found by its braces at namespace or class level: good enough
to point at what has grown too long."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "include", "tests", "tools", "bench")
SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".py", ".js"}
MAX_FILE, MAX_FUNCTION, SHOWN = 800, 100, 5
CODE_ONLY = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/', re.S)


def blank(match):
    return re.sub(r"[^\n]", " ", match.group())


def cpp_functions(text):
    """(name, first line, lines) of every braced body that follows a parameter list, outermost first."""
    text = CODE_ONLY.sub(blank, text)
    stack, start = [], 0
    for i, c in enumerate(text):
        if c in ";}":
            start = i + 1
        if c == "{":
            head = text[start:i]
            is_function = bool(re.search(r"\)\s*(const|noexcept|override|final|->[\s\w:<>,*&]+|:[^{]*)*\s*$", head)) and \
                not re.search(r"^\s*(if|for|while|switch|catch|else|do)\b", head.strip()) and "=" not in head.split("(")[0]
            stack.append((is_function and not any(f for f, _, _ in stack), head, i))
            start = i + 1
        elif c == "}" and stack:
            function, head, begin = stack.pop()
            if function:
                name = re.findall(r"([\w:~]+)\s*\(", head)
                first = text.count("\n", 0, begin) + 1
                yield (name[0] if name else "?", first, text.count("\n", begin, i) + 1)


def python_functions(text):
    lines = text.split("\n")
    for i, line in enumerate(lines):
        found = re.match(r"(\s*)(?:async )?def (\w+)", line)
        if found:
            indent, j, last = len(found[1]), i + 1, i
            while j < len(lines) and (not lines[j].strip() or len(lines[j]) - len(lines[j].lstrip()) > indent or lines[j].lstrip().startswith(")")):
                last = j if lines[j].strip() else last
                j += 1
            yield (found[2], i + 1, last - i + 1)


def main():
    files, functions = [], []
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            relative = path.relative_to(ROOT).as_posix()
            if path.suffix not in SUFFIXES or relative.startswith("tests/golden/"):
                continue
            text = path.read_text()
            files.append((text.count("\n"), relative))
            found = python_functions(text) if path.suffix == ".py" else () if path.suffix == ".js" else cpp_functions(text)
            functions += [(lines, f"{relative}:{first} {name}") for name, first, lines in found]
    files.sort(reverse=True)
    functions.sort(reverse=True)
    median = files[len(files) // 2][0] if files else 0
    print(f"check_size: {len(files)} files, median {median} lines")
    for kind, rows, ceiling in (("file", files, MAX_FILE), ("function", functions, MAX_FUNCTION)):
        for lines, name in rows[:SHOWN]:
            print(f"  {kind} {lines:4} {name}{'   over the ceiling of %d' % ceiling if lines > ceiling else ''}")
    return 1 if files and (files[0][0] > MAX_FILE or functions[0][0] > MAX_FUNCTION) else 0


if __name__ == "__main__":
    sys.exit(main())
