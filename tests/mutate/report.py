"""What a run says: a progress bar while it works, then a table or JSON lines."""
import collections
import json
import sys
import threading
import time

from trees import BROKEN, KILLED, SURVIVED

BAR_COLUMNS = 24


class Progress:
    """One line that is drawn again on a terminal; elsewhere a line for each outcome."""

    def __init__(self, total, stream=sys.stderr, is_verbose=False):
        self.total, self.stream, self.is_verbose = total, stream, is_verbose
        self.counts = collections.Counter()
        self.began = time.monotonic()
        self.lock = threading.Lock()
        self.is_terminal = stream.isatty()
        self._draw()

    def tell(self, outcome):
        with self.lock:
            self.counts[outcome.result] += 1
            self._clear()
            if not self.is_terminal or outcome.result in (SURVIVED, BROKEN):
                print(f"{outcome.result:15} {outcome.mutant.id}", file=self.stream)
            if self.is_verbose and outcome.result != KILLED:
                print(outcome.said, file=self.stream)
            self._draw()
            self.stream.flush()

    def end(self):
        self._clear()

    def _clear(self):
        if self.is_terminal:
            print("\r\033[K", end="", file=self.stream)

    def _draw(self):
        if not self.is_terminal:
            return
        done = self.counts.total()
        filled = BAR_COLUMNS * done // max(self.total, 1)
        seconds = int(time.monotonic() - self.began)
        print(f"[{'#' * filled}{'-' * (BAR_COLUMNS - filled)}] {done} of {self.total}, {words(self.counts)}"
              f"{seconds // 60}:{seconds % 60:02}", end="", file=self.stream, flush=True)


def words(counts):
    return "".join(f"{count} {result}, " for result, count in sorted(counts.items()))


def summary(outcomes):
    """The table's lines and the exit status."""
    counts = collections.Counter(outcome.result for outcome in outcomes)
    lines = [f"{'RESULT':15} {'SECONDS':>7}  MUTANT"]
    for outcome in outcomes:
        lines.append(f"{outcome.result:15} {outcome.seconds:7.1f}  {outcome.mutant.id}")
        if outcome.result != KILLED:
            lines.append(f"{'':25}{outcome.mutant.shown()}; {', '.join(outcome.mutant.row.tests)}")
    lines.append(words(counts).rstrip(", ") or "no mutants")
    if BROKEN in counts:
        return lines, 2
    return lines, 1 if SURVIVED in counts else 0


def show_json(outcomes):
    for outcome in outcomes:
        mutant = outcome.mutant
        print(json.dumps({"mutant": mutant.id, "line": mutant.line, "old": mutant.old, "new": mutant.new,
                          "tests": mutant.row.tests, "result": outcome.result, "seconds": round(outcome.seconds, 1)}))
