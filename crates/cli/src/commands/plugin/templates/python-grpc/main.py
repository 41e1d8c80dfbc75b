#!/usr/bin/python3
"""The program that Airlock runs. It sees the system's Python, so that is where grpcio has to be."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "lib")]
# The plugin's own directory cannot be written.
sys.dont_write_bytecode = True

from tools import plugin  # noqa: E402

if __name__ == "__main__":
    plugin.serve()
