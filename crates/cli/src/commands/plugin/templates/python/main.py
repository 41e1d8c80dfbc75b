#!/usr/bin/env python3
"""The program that Airlock runs."""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# The plugin's own directory cannot be written.
sys.dont_write_bytecode = True

from server import serve  # noqa: E402
from tools import TOOLS  # noqa: E402

if __name__ == "__main__":
    serve("@NAME@", "0.1.0", TOOLS, sys.stdin.buffer, sys.stdout.buffer)
