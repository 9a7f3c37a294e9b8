#!/usr/bin/env python3
"""Fails when a room includes another that CMakeLists.txt gives it no arrow to (arrows are transitive), or when rooms form
a cycle. The arrows are read from the martlet_room() lines, which also link the libraries: there is one list."""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOM = re.compile(r"^martlet_room\((\w+)([^)]*)\)", re.M | re.S)
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)


def read_rooms():
    """{room: (folder, [rooms it may include])}"""
    rooms = {}
    for name, rest in ROOM.findall((ROOT / "CMakeLists.txt").read_text()):
        words, section, folder, deps = rest.split(), None, name, []
        for word in words:
            if word in ("DIR", "DEPS", "LIBS"):
                section = word
            elif section == "DIR":
                folder = word
            elif section == "DEPS":
                deps.append(word)
        rooms[name] = (folder, deps)
    return rooms


def reachable(rooms, name, path=()):
    if name in path:
        raise SystemExit(f"rooms form a cycle: {' -> '.join((*path, name))}")
    seen = {name}
    for dep in rooms[name][1]:
        seen |= reachable(rooms, dep, (*path, name))
    return seen


def room_of(rooms, path):
    """The room whose folder is the longest prefix of `path` (relative to src/)."""
    best = None
    for name, (folder, _) in rooms.items():
        if path.startswith(folder + "/") and (best is None or len(folder) > len(rooms[best][0])):
            best = name
    return best


def main():
    rooms = read_rooms()
    allowed = {name: reachable(rooms, name) for name in rooms}
    bad = []
    for file in sorted((ROOT / "src").rglob("*")):
        if file.suffix not in (".h", ".cpp", ".def", ".cu", ".cuh"):
            continue
        relative = file.relative_to(ROOT / "src").as_posix()
        room = room_of(rooms, relative)
        if room is None:
            if "/" in relative:
                bad.append(f"{relative}: belongs to no room")
            continue
        for target in INCLUDE.findall(file.read_text()):
            other = room_of(rooms, target)
            if other and other not in allowed[room]:
                bad.append(f"{relative}: {room} may not include {target} (room {other})")
    print("\n".join(bad) if bad else f"check_deps: {len(rooms)} rooms, every arrow allowed")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
