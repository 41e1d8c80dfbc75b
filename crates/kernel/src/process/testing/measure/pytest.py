
# Runs pytest and notes which lines of the project it runs, as lcov.
#
# Arguments: where the report goes, then those of pytest. Where the coverage library is installed it
# does the noting; where it is not, the interpreter's own tracing does. A library of that name in the
# project itself is not asked: the report is not the project's to write.

import dis
import threading

report, arguments = sys.argv[1], sys.argv[2:]
root = here + os.sep
SKIPPED = {"node_modules", "site-packages", "venv", "build", "dist", "target", "vendor"}


def is_own(path):
    """Whether a file is the project's."""
    if not path.startswith(root) or not path.endswith(".py"):
        return False
    folders = path[len(root) :].split(os.sep)[:-1]
    return not any(name in SKIPPED or name.startswith((".", "__pycache__")) for name in folders)


def runnable(path):
    """The lines of a file that hold something to be run."""
    try:
        with open(path, "rb") as file:
            waiting = [compile(file.read(), path, "exec", dont_inherit=True)]
    except (OSError, SyntaxError, ValueError):
        return set()
    lines = set()
    while waiting:
        code = waiting.pop()
        lines.update(line for _, line in dis.findlinestarts(code) if line)
        waiting.extend(one for one in code.co_consts if hasattr(one, "co_code"))
    return lines


def project():
    """Every file of the project."""
    for directory, folders, names in os.walk(root):
        folders[:] = [name for name in folders if is_own(os.path.join(directory, name, "x.py"))]
        yield from (path for name in names if is_own(path := os.path.join(directory, name)))


class Tracing:
    """The interpreter's own tracing."""

    def __init__(self):
        self.seen = {}
        self.tracers = {}

    def tracer(self, name):
        path = os.path.abspath(name)
        if not is_own(path):
            return None
        seen = self.seen.setdefault(path, set())

        def trace(frame, event, _):
            if event == "line":
                seen.add(frame.f_lineno)
            return trace

        return trace

    def called(self, frame, event, argument):
        name = frame.f_code.co_filename
        if name not in self.tracers:
            self.tracers[name] = self.tracer(name)
        return self.tracers[name]

    def start(self):
        threading.settrace(self.called)
        sys.settrace(self.called)

    def stop(self):
        sys.settrace(None)
        threading.settrace(None)

    def write(self):
        with open(report, "w", encoding="utf-8", errors="surrogateescape") as file:
            for path in sorted(project()):
                seen = self.seen.get(path, set())
                file.write(f"SF:{path}\n")
                for line in sorted(runnable(path)):
                    file.write(f"DA:{line},{int(line in seen)}\n")
                file.write("end_of_record\n")


class Library:
    """The coverage library."""

    def __init__(self, coverage):
        self.noting = coverage.Coverage(data_file=None, config_file=False, source=[root])

    def start(self):
        self.noting.start()

    def stop(self):
        self.noting.stop()

    def write(self):
        self.noting.lcov_report(outfile=report)


def chosen():
    """The library if there is one that can do it, else the interpreter's own tracing."""
    with Outside():
        import coverage

        if hasattr(coverage.Coverage, "lcov_report"):
            return Library(coverage)
    return Tracing()


noting = chosen()
sys.argv = ["pytest", *arguments]
noting.start()
try:
    import pytest

    code = pytest.console_main()
finally:
    noting.stop()
    noting.write()
sys.exit(code)
