"""Loads pytest from what was compiled of it before, and nothing of the project's.

Python is told to take nothing that was compiled before: that goes by size and seconds, and a
change of one character right after a run would be passed over. This holds for the project. What
stands outside of it does not change between two runs, and compiling it anew is most of a run.
Nothing is loaded ahead where the project has a module that could stand in front of one outside.
"""

import os
import sys
from importlib.machinery import all_suffixes
from importlib.util import find_spec

here = os.getcwd()
if sys.path[:1] == [""]:
    sys.path[0] = here


class Outside:
    """Imports from outside of the project only, and from what was compiled."""

    def __enter__(self):
        self.was = sys.path[:], sys.meta_path[:], sys.pycache_prefix
        sys.path[:] = [one for one in sys.path if not is_within(one)]
        sys.meta_path[:] = [one for one in sys.meta_path if is_pythons(one)]
        sys.pycache_prefix = None

    def __exit__(self, kind, *_):
        sys.path[:], sys.meta_path[:], sys.pycache_prefix = self.was
        # What is not there, or not there under that name, is found by whoever needs it, or not.
        return kind is not None and issubclass(kind, ImportError)


def is_within(path):
    return (os.path.realpath(path) + os.sep).startswith(here + os.sep)


def is_pythons(finder):
    """Whether it is one of Python's own finders: others may lead into the project."""
    return getattr(finder, "__module__", "").startswith("_frozen_importlib")


def own():
    """The names by which modules in the project's root are imported."""
    suffixes = tuple(all_suffixes())
    for entry in os.listdir(here):
        package = os.path.join(here, entry, "__init__")
        if entry.endswith(suffixes) or any(os.path.isfile(package + one) for one in suffixes):
            yield entry.split(".")[0]


with Outside():
    free = (name for name in own() if name.isidentifier() and name not in sys.modules)
    if not any(find_spec(name) for name in free):
        import pytest
        from _pytest.config import default_plugins

        for plugin in default_plugins:
            __import__("_pytest." + plugin)
