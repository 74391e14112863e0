"""phubrun: what workers find, what is said, how all end. Usage: launch_test.py LIBRARY BIN"""
import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import unittest

import launched
from launched import DEADLINE, Server, environment, is_there, phubrun, program, temporary_folder
from phub.launch._screen import Screen, harmless
from processes import until


NAMES = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "PHUB_SERVERS", "PHUB_JOB")
SAYS = f"import os; print(*(os.environ[name] for name in {NAMES}))"
PIDS = "import os; print(f'pid {os.getpid()}')\n"


class LaunchTest(unittest.TestCase):
    def run_to_its_end(self, *words, **more):
        return subprocess.run(phubrun(*words), env=environment(**more), capture_output=True, text=True, timeout=DEADLINE)

    def test_what_workers_find(self):
        done = self.run_to_its_end("-n", 3, "--servers", 2, *program(SAYS))
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = sorted(re.findall(r"^\[(\d)\] (\d) (\d) 3 3 127\.0\.0\.1 (\d+) (\S+) (\S+)$", done.stdout, re.M))
        self.assertEqual([line[:3] for line in lines], [(str(i),) * 3 for i in range(3)])
        self.assertEqual(len({line[3:] for line in lines}), 1)
        self.assertRegex(lines[0][4], r"^127\.0\.0\.1:\d+,127\.0\.0\.1:\d+$")
        self.assertNotIn("ready", done.stdout)

    def test_running_servers(self):
        server = Server(cores=1)
        self.addCleanup(server.close)
        done = self.run_to_its_end("--server", server.control, *program(SAYS))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f" {server.control} ", done.stdout)

    def test_servers_of_the_environment(self):
        """They are used, and that is said; servers that are asked for are started all the same."""
        server = Server(cores=1)
        self.addCleanup(server.close)
        done = self.run_to_its_end(*program(SAYS), server=server)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f" {server.control} ", done.stdout)
        self.assertIn(f"phubrun: with the servers of PHUB_SERVERS: {server.control} (--servers", done.stderr)
        done = self.run_to_its_end("--servers", 1, *program(SAYS), server=server)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn(server.control, done.stdout + done.stderr)

    def test_how_running_servers_would_be_started(self):
        for option, word in (("--cores", 2), ("--server-options", "--tokens off"), ("--server-program", "phub-server")):
            done = self.run_to_its_end("--server", "127.0.0.1:1", f"{option}={word}", *program(SAYS))
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"error: {option}: is of servers that are started, but --server names running ones", done.stderr)
            done = self.run_to_its_end(f"{option}={word}", *program(SAYS), PHUB_SERVERS="127.0.0.1:1")
            self.assertEqual(done.returncode, 2)
            self.assertRegex(done.stderr, f"error: {option}: .* PHUB_SERVERS of the environment .* --servers N starts some")

    def test_what_is_no_server_and_no_folder(self):
        for words, more, why in ((["--server", ""], {}, '--server: "" is not HOST:PORT'),
                                 (["--server", "a:1,b"], {}, '--server: "b" is not HOST:PORT'),
                                 ([], {"PHUB_SERVERS": "nowhere"}, 'PHUB_SERVERS: "nowhere" is not HOST:PORT'),
                                 (["--output", __file__], {}, f"--output: {__file__}: no folder")):
            done = self.run_to_its_end(*words, *program(SAYS), **more)
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr)

    def test_the_first_failure_ends_all_and_is_named(self):
        text = PIDS + ("import sys, signal\n"
                       "if os.environ['RANK'] == '1':\n"
                       "    for line in range(30): print('line', line)\n"
                       "    sys.stdout.write('no newline'); sys.stdout.flush(); sys.exit(7)\n"
                       "signal.pause()\n")
        done = self.run_to_its_end("-n", 3, *program(text))
        self.assertEqual(done.returncode, 7)
        self.assertIn("phubrun: 1 failed first: it ended with status 7. Its last lines:\n  line 11\n", done.stderr)
        self.assertTrue(done.stderr.endswith("  line 29\n  no newline\n"), done.stderr)
        for pid in re.findall(r"pid (\d+)", done.stdout):
            self.assertFalse(is_there(pid))

    def test_one_that_a_signal_ended(self):
        done = self.run_to_its_end("-n", 1, *program("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"))
        self.assertEqual(done.returncode, 128 + signal.SIGSEGV)
        self.assertIn("0 failed first: it was ended by SIGSEGV", done.stderr)

    def test_signals_are_forwarded(self):
        """Both end by it; one that does not is killed when its time is over."""
        text = ("import os, signal, sys\n"
                "def on_signal(number, _):\n    print('got', number)\n    if os.environ['RANK'] == '0': sys.exit(0)\n"
                "signal.signal(signal.SIGTERM, on_signal)\nprint('there')\n"
                "while True: signal.pause()\n")
        running = subprocess.Popen(phubrun("-n", 2, "--grace", 5, *program(text)), env=environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(running.kill)
        for _ in range(2):
            self.assertRegex(running.stdout.readline(), r"^\[[01]\] there$")
        running.send_signal(signal.SIGTERM)
        said, error = running.communicate(timeout=DEADLINE)
        self.assertEqual(running.returncode, 128 + signal.SIGTERM)
        self.assertEqual(sorted(re.findall(r"^\[\d\] got .*", said, re.M)), ["[0] got 15", "[1] got 15"])
        self.assertIn("phubrun: SIGTERM: ending", error)

    def test_a_server_that_ends_is_a_failure(self):
        text = ("import os, signal\n"
                "if os.environ['RANK'] == '0':\n"
                "    children = open(f'/proc/{os.getppid()}/task/{os.getppid()}/children').read().split()\n"
                "    server = min(map(int, children))\n"
                "    assert 'phub-server' in open(f'/proc/{server}/cmdline').read()\n"
                "    os.kill(server, signal.SIGKILL)\n"
                "signal.pause()\n")
        done = self.run_to_its_end("-n", 2, *program(text))
        self.assertEqual(done.returncode, 128 + signal.SIGKILL, done.stderr)
        self.assertIn("phubrun: server failed first: it was ended by SIGKILL", done.stderr)

    def test_workers_end_before_servers(self):
        """A worker has time to write what it has, and servers to have part in it: one answers while the worker ends."""
        folder = temporary_folder(self)
        order, pid, answered = folder / "order", folder / "pid", folder / "answered"
        os.mkfifo(answered)
        says = ("import os, signal, sys\n"
                f"def says(what): print(what, file=open({str(order)!r}, 'a'))\n")
        # Signals that wait are handled in the order of their numbers: URG after TERM.
        serves = says + ("signal.signal(signal.SIGTERM, lambda *_: (says('server'), sys.exit(0)))\n"
                         f"signal.signal(signal.SIGURG, lambda *_: (says('answer'), open({str(answered)!r}, 'w').close()))\n"
                         f"print(os.getpid(), file=open({str(pid)!r}, 'w'))\n"
                         "print('phub-server ready control=127.0.0.1:1 data=1 pid=1', flush=True)\n"
                         "while True: signal.pause()\n")
        works = says + ("def on_signal(*_):\n"
                        f"    os.kill(int(open({str(pid)!r}).read()), signal.SIGURG)\n"
                        f"    open({str(answered)!r}).read()\n"
                        "    says('worker')\n"
                        "    sys.exit(0)\n"
                        "signal.signal(signal.SIGTERM, on_signal)\n"
                        "print('there')\n"
                        "while True: signal.pause()\n")
        server = temporary_folder(self) / "server"
        server.write_text(f"#!{sys.executable}\n{serves}")
        server.chmod(0o755)
        running = subprocess.Popen(phubrun("--server-program", server, *program(works)),
                                   env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(running.kill)
        running.stdout.readline()
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=DEADLINE)
        self.assertEqual(order.read_text(), "answer\nworker\nserver\n")

    def test_nothing_is_left_when_phubrun_is_killed(self):
        running = subprocess.Popen(phubrun("-n", 2, *program(PIDS + "import signal; signal.pause()")), env=environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(running.communicate)
        pids = [int(running.stdout.readline().split()[-1]) for _ in range(2)]
        running.kill()
        until(lambda: not any(map(is_there, pids)), "workers are gone")

    def test_a_file_for_each_rank(self):
        folder = temporary_folder(self) / "made" / "for it"
        said = temporary_folder(self) / "said"
        os.mkfifo(said)
        done = self.run_to_its_end("-n", 2, "--output", folder, *program(
            "import os, sys; rank = int(os.environ['RANK']); print('I am', rank, flush=True)\n"
            f"open({str(said)!r}, 'r' if rank else 'w').close()\n"  # 1 fails when 0 has said it
            "sys.exit(rank)"))
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stdout, "")
        self.assertEqual([(folder / f"{rank}.log").read_text() for rank in (0, 1)], ["I am 0\n", "I am 1\n"])
        self.assertIn("1 failed first: it ended with status 1. Its last lines:\n  I am 1\n", done.stderr)
        self.assertTrue((folder / "server.log").exists())

    def test_a_full_disk_ends_the_run_in_order(self):
        folder = temporary_folder(self)
        (folder / "0.log").symlink_to("/dev/full")
        ended = folder / "ended"
        done = self.run_to_its_end("--output", folder, *program(
            "import signal, sys\n"
            f"signal.signal(signal.SIGTERM, lambda *_: (open({str(ended)!r}, 'w').close(), sys.exit(0)))\n"
            "print('a line', flush=True)\n"
            "while True: signal.pause()\n"))
        self.assertIn(f"phubrun: {folder}/0.log: No space left on device; the run ends", done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertTrue(ended.exists())

    def test_long_lines(self):
        """They are passed on in parts, and no character is cut."""
        done = self.run_to_its_end(*program("import sys; sys.stdout.write('x' + 'ü' * 200000)"))
        self.assertEqual(done.stdout, f"[0] x{'ü' * 200000}\n")

    def test_a_bar_is_shown_while_it_grows(self):
        # One for each time: who opens the same again can meet a writer that has not closed it yet.
        folder = temporary_folder(self)
        seen = [folder / "seen first", folder / "seen next"]
        for fifo in seen:
            os.mkfifo(fifo)
        running = subprocess.Popen(phubrun(*program(
            f"import sys; sys.stdout.write('\\r 10 %|#  |'); sys.stdout.flush(); open({str(seen[0])!r}).close()\n"
            "sys.stdout.write('\\r100 %|###|\\r\\nwhich? '); sys.stdout.flush()\n"
            f"open({str(seen[1])!r}).close(); print('that')")), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(running.communicate)
        self.addCleanup(running.kill)
        shown = b""
        for fifo, wanted in zip(seen, (b"[0]  10 %|#  |", b"[0]  10 %|#  |\r[0] 100 %|###|\n[0] which? ")):
            while shown != wanted:
                self.assertTrue(wanted.startswith(shown), shown)
                shown += os.read(running.stdout.fileno(), 1000)
            open(fifo, "w").close()
        self.assertEqual(running.stdout.read(), b"that\n")

    def test_a_file_has_what_was_written(self):
        folder = temporary_folder(self)
        done = self.run_to_its_end("--output", folder, *program("import sys; sys.stdout.write('\\r1\\r2\\x1b[1m\\nno end')"))
        self.assertEqual((done.returncode, (folder / "0.log").read_bytes()), (0, b"\r1\r2\x1b[1m\nno end"))

    def test_the_port_of_the_workers_meeting_is_theirs(self):
        """Nobody else gets it before they meet; PyTorch's store, which sets SO_REUSEADDR, does."""
        done = self.run_to_its_end(*program(f"import os, socket\nHAS_IPV6 = {launched.HAS_IPV6}" """
port = int(os.environ["MASTER_PORT"])
try:
    socket.socket().bind(("", port))
except OSError:
    print("held")
for family, own in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))[:2 if HAS_IPV6 else 1]:
    with socket.socket(family) as meeting:
        meeting.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        meeting.bind((own, port))
        meeting.listen()
        socket.create_connection((own, port), 60).close()
        print("met")
"""))
        self.assertEqual((done.returncode, done.stdout), (0, "[0] held\n" + "[0] met\n" * (1 + launched.HAS_IPV6)), done.stderr)

    def test_what_cannot_be_started(self):
        done = self.run_to_its_end("-n", 2, temporary_folder(self) / "nothing")
        self.assertEqual(done.returncode, 127)
        self.assertIn("nothing: No such file", done.stderr)
        done = self.run_to_its_end("--server-program", "no-such-server", "true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no-such-server is not on the path: install it", done.stderr)
        done = self.run_to_its_end("--server-program", "false", "true")
        self.assertIn("server did not start", done.stderr)
        for wrong in (["-n", "0", "true"], ["--servers", "0", "true"], [], ["-x", "A B=1", "true"], ["-x", "NOT_SET", "true"],
                      ["--grace", "0", "true"], ["--server-options", "'", "true"], ["--slurm", "true"]):
            self.assertEqual(self.run_to_its_end(*wrong).returncode, 2)


class ScreenTest(unittest.TestCase):
    def shown(self, *said, is_terminal):
        out = io.StringIO()
        out.isatty = lambda: is_terminal
        with contextlib.redirect_stdout(out):
            screen = Screen()
            for name, text, end in said:
                screen.say(name, text, end)
            screen.end_line()
        return out.getvalue()

    def test_bars_of_two(self):
        """On a terminal one is drawn over the other; else each has a line of its own. Ends of lines stay."""
        said = (("0", "10 %", "\r"), ("1", "20 %", "\r"), ("0", "90 %", "\r"), ("0", "100 %", "\r"), ("0", "", "\n"), ("1", "a", ""),
                ("1", "b", ""), ("0", "well", "\n"))
        self.assertEqual(self.shown(*said, is_terminal=True),
                         "[0] 10 %\r\x1b[K[1] 20 %\r\x1b[K[0] 90 %\r[0] 100 %\n[1] ab\n[0] well\n")
        self.assertEqual(self.shown(*said, is_terminal=False),
                         "[0] 10 %\n[1] 20 %\n[0] 90 %\r[0] 100 %\n[1] ab\n[0] well\n")

    def test_a_line_whose_end_comes_after_anothers_line(self):
        said = (("0", "there", ""), ("1", "here", "\n"), ("0", "", "\n"), ("0", "100", ""), ("0", " %", "\r"), ("1", "a", "\n"), ("0", "", "\n"),
                ("0", "b", ""), ("1", "c", "\n"), ("0", "d", "\n"), ("0", "", "\n"))
        self.assertEqual(self.shown(*said, is_terminal=True),
                         "[0] there\n[1] here\n[0] 100 %\r\x1b[K[1] a\n[0] 100 %\n[0] b\n[1] c\n[0] d\n[0] \n")
        self.assertEqual(self.shown(*said, is_terminal=False),
                         "[0] there\n[1] here\n[0] 100 %\n[1] a\n[0] b\n[1] c\n[0] d\n[0] \n")

    def test_what_commands_a_terminal(self):
        self.assertEqual(harmless("a\tb\x1b[2J\x9b1m\x7f\n\u202eé"), "a\tb\\x1b[2J\\x9b1m\\x7f\\n\\u202eé")


if __name__ == "__main__":
    for name in ("PHUB_JOB", "PHUB_SERVERS", "PHUB_SERVER_OPTIONS"):
        os.environ.pop(name, None)
    unittest.main(argv=launched.main(globals()))
