"""A program whose nth allocation fails when a test says so: see failing_malloc.cpp."""
import mmap
import platform
import shutil
import struct
import subprocess
from pathlib import Path

import pytest


class FailingMalloc:
    def __init__(self, folder):
        compiler = shutil.which("c++") or shutil.which("g++")
        if platform.libc_ver()[0] != "glibc" or not compiler:
            pytest.skip("needs glibc and a compiler")
        library, control = Path(folder) / "failing_malloc.so", Path(folder) / "failing_malloc"
        subprocess.run([compiler, "-O1", "-std=c++17", "-shared", "-fPIC", "-fno-builtin", "-o", library,
                        Path(__file__).with_suffix(".cpp")], check=True)
        control.write_bytes(bytes(32))
        self.env = {"LD_PRELOAD": str(library), "FAILING_MALLOC": str(control)}
        with control.open("r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 32)

    def fail(self, nth):
        """0: none from now on."""
        struct.pack_into("q", self.memory, 0, nth)

    def leak(self, bytes_each):
        struct.pack_into("q", self.memory, 16, bytes_each)

    @property
    def made(self):
        return struct.unpack_from("q", self.memory, 8)[0]

    @property
    def failed(self):
        return struct.unpack_from("q", self.memory, 24)[0]
