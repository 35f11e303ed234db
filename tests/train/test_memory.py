"""Memory that steps free is used again, instead of being cleared by the system each time."""

import platform
import subprocess
import sys

import pytest

CODE = """
import resource
import numpy as np
from zoo_core.io.process import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.empty(40 << 20, np.uint8).fill(1)  # more than glibc keeps of its own accord
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

first = faults()
keep_freed_memory()
faults()
print(first, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other allocators keep it anyway")
def test_pages_are_cleared_once():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert after < before / 10
