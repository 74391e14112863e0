"""phubrun over ssh: two "hosts", which are a real sshd on this machine. Usage: launch_hosts_test.py LIBRARY BIN"""
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import unittest

import launched
from launched import DEADLINE, environment, is_there, phubrun, processes, program, temporary_folder
from processes import until
from sshd import Sshd, missing

OPEN = "--server-options=--allow-plaintext --tokens off"
SAYS_PID = "import os, signal, sys\nprint('pid', os.getpid(), os.getppid())\n"
WAITS = SAYS_PID + "signal.pause()\n"
FAILS_WHEN_TOLD = """import os, signal, sys
signal.signal(signal.SIGUSR1, (lambda *_: sys.exit(3)) if os.environ["RANK"] == "2" else signal.SIG_IGN)
""" + WAITS
SAYS_TERMINAL_COMMANDS = """import sys
sys.stdout.write("bar 1\\rbar 2\\r\\x1b[2J\\x1b]0;title\\x07\\x9b2J\\u202e \\u00fc\\n")
sys.exit(3)
"""
EXCHANGES = """import os, numpy, phub, phub.numpy
with phub.Client(phub.Options(servers=os.environ["PHUB_SERVERS"], workers=int(os.environ["WORLD_SIZE"]),
                              worker_index=int(os.environ["RANK"]), rule="sum")) as client:
    client.register_keys([phub.Key("w", 4000)])
    print(phub.numpy.push_pull(client, "w", numpy.ones(4000, numpy.float32))[-1])
"""
TOLD_THREE_TIMES = """import json, sys
def say(**what):
    print(mark + json.dumps(what), flush=True)
source, mark = json.loads(sys.stdin.readline())
assert "Keeper" in source
say(there=1, port=2, cpus=3, ipv6=False)
told = None  # since the worker was started
for line in sys.stdin:
    order = json.loads(line)
    if "start" in order:
        told = 0
    elif order == {} and told is not None:
        told += 1
        if told == 3:
            say(of="0", said=[["well", "\\n"]])
            say(of="0", ended=0)
"""


def end(running):
    running.kill()
    running.communicate()


class HostsTest(unittest.TestCase):
    def setUp(self):
        self.sshd = Sshd(self)

    def command(self, *words, hosts="localhost:2", key="user"):
        return phubrun("--ssh", shlex.join(["ssh", *self.sshd.words(key)]), "-H", f"{Sshd.user}@127.0.0.1:2,{hosts}",
                       "--folder", "/", *words)

    def run_to_its_end(self, *words, **more):
        return subprocess.run(self.command(*words, **more), env=environment(), capture_output=True, text=True,
                              timeout=DEADLINE)

    def start_waiting(self, *words, text=WAITS):
        """phubrun with two workers on each host that wait for their end, their PIDs and those of their keepers."""
        running = subprocess.Popen(self.command("--server", "none:1", *words, *program(text)), env=environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(end, running)
        said = [re.search(r"^\[(\d)\] pid (\d+) (\d+)$", running.stdout.readline()) for _ in range(4)]
        pids = {int(line[1]): (int(line[2]), int(line[3])) for line in said}
        return running, [pids[rank][0] for rank in range(4)], [pids[rank][1] for rank in range(4)]

    def until_gone(self, pids):
        until(lambda: not any(map(is_there, pids)), "workers are gone")

    def test_what_workers_find(self):
        """Ranks by host; the command and what is named arrive as they were given, and nothing else does."""
        odd = "it's \"$HOME\"; `id` \\ *\n#"
        names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR")
        text = (f"import os, sys; print(*(os.environ[name] for name in {names}), os.environ['MASTER_PORT'],\n"
                "    sys.argv[1:] == [os.environ['ODD']], 'NOT_NAMED' in os.environ, os.getcwd())")
        done = subprocess.run(
            self.command("-n", 3, "--server", "none:1", "-x", f"ODD={odd}", *program(text), odd),
            env={**environment(), "NOT_NAMED": "1"}, capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = sorted(done.stdout.splitlines())
        port = re.search(r"127\.0\.0\.1 (\d+) ", lines[0])[1]
        self.assertEqual(lines, [f"[0] 0 0 3 2 0 127.0.0.1 {port} True False /",
                                 f"[1] 1 1 3 2 0 127.0.0.1 {port} True False /",
                                 f"[2] 2 0 3 1 1 127.0.0.1 {port} True False /"])

    def test_what_hosts_say_commands_no_terminal(self):
        done = self.run_to_its_end("-n", 1, "--server", "none:1", *program(SAYS_TERMINAL_COMMANDS))
        shown = "\\x1b[2J\\x1b]0;title\\x07\\x9b2J\\u202e ü"
        self.assertEqual((done.returncode, done.stdout), (3, f"[0] bar 1\n[0] bar 2\n[0] {shown}\n"))  # \\r is read as \\n
        self.assertTrue(done.stderr.endswith(f"Its last lines:\n  {shown}\n"), done.stderr)

    def test_a_login_file_that_prints(self):
        """A report of its own, and a line without an end."""
        ssh = temporary_folder(self) / "ssh"
        ssh.write_text("#!/bin/sh\nfor last; do :; done\n"
                       """printf '{"there": 1}\\nphubrun-0 {"there": 1}\\n5\\n\\033[2Jno end'\nexec sh -c "$last"\n""")
        ssh.chmod(0o755)
        done = subprocess.run(phubrun("--ssh", ssh, "-H", "far", "--server", "none:1", "--folder", "/", "echo", "well"),
                              env=environment(), capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual((done.returncode, done.stdout), (0, "[0] well\n"), done.stderr)
        self.assertEqual(done.stderr, 'phubrun: far: {"there": 1}\nphubrun: far: phubrun-0 {"there": 1}\nphubrun: far: 5\n'
                                      "phubrun: far: \\x1b[2Jno end\n")

    def test_a_host_that_says_what_is_no_report(self):
        """With the mark of one: it is shown, and the host is waited for until the deadline."""
        ssh = temporary_folder(self) / "ssh"
        said = ('{"there": 1}', '{"there": 1, "port": "x", "cpus": 1, "ipv6": true}', '{"there": 1, "port": 1, "cpus": 0, "ipv6": true}',
                '{"of": "0", "said": [["a", 1]]}', '{"of": "0", "said": 5}', '{"ports": ["x"]}', '{"ports": [70000]}', "[1]", "{", "[" * 100_000)
        ssh.write_text(f"#!{sys.executable}\nimport json, sys\nmark = json.loads(sys.stdin.readline())[1]\n"
                       f"for each in {said!r}:\n    print(mark + each, flush=True)\nsys.exit(5)\n")
        ssh.chmod(0o755)
        done = subprocess.run(phubrun("--ssh", ssh, "-H", "far", "--server", "none:1", "true"), env=environment(),
                              capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 1)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(done.stderr.count("phubrun: far: phubrun-"), len(said))

    @unittest.skipUnless(launched.HAS_IPV6, "this kernel has no IPv6")
    def test_hosts_that_have_ipv6_alone(self):
        """Servers listen there too, and what workers find is as PyTorch wants it."""
        done = subprocess.run(
            phubrun("--ssh", shlex.join(["ssh", *self.sshd.words("user")]), "-H", f"{Sshd.user}@[::1]:1,localhost:1", "--folder", "/",
                    "--servers", 2, OPEN, "-x", "PYTHONPATH", *program("import os; print(os.environ['MASTER_ADDR'])\n" + EXCHANGES)),
            env=environment(), capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), ["[0] 2.0", "[0] ::1", "[1] 2.0", "[1] ::1"])

    def test_servers_on_each_host_and_workers_that_exchange(self):
        done = self.run_to_its_end("--servers", 2, OPEN, "-x", "PYTHONPATH", *program(EXCHANGES))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.splitlines()), [f"[{rank}] 4.0" for rank in range(4)])

    def test_a_rack_on_each_host(self):
        """The racks' servers reach each other by the hosts' names, and each worker its own rack's."""
        hosts = "*(server.rpartition(':')[0] for server in os.environ['PHUB_SERVERS'].split(','))"
        text = f"import os; print(os.environ['PHUB_RACKS'], {hosts})\n{EXCHANGES}"
        done = subprocess.run(
            phubrun("--ssh", shlex.join(["ssh", *self.sshd.words("user")]), "--rack", f"a={Sshd.user}@127.0.0.1:1", "--rack",
                    "row1/b=localhost:2", "--servers", 2, "--folder", "/", OPEN, "-x", "PYTHONPATH", *program(text)),
            env=environment(), capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 0, done.stderr)
        own = ["127.0.0.1 127.0.0.1", "localhost localhost", "localhost localhost"]  # by rank
        self.assertEqual(sorted(done.stdout.splitlines()),
                         [f"[{rank}] {said}" for rank in range(3) for said in ("3.0", f"a:1,row1/b:2 {own[rank]}")])
    def test_a_server_that_is_not_to_be_open_to_all_says_what_it_wants(self):
        done = self.run_to_its_end(*program("pass"))
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"phubrun: server did not start on {Sshd.user}@127.0.0.1: ", done.stderr)
        self.assertIn("--allow-plaintext", done.stderr)

    def test_the_first_failure_ends_all_and_is_named_with_its_host(self):
        running, pids, _ = self.start_waiting(text=FAILS_WHEN_TOLD)
        running.send_signal(signal.SIGUSR1)
        _, error = running.communicate(timeout=DEADLINE)
        self.assertEqual(running.returncode, 3)
        self.assertIn(f"phubrun: 2 on localhost failed first: it ended with status 3. Its last lines:\n  pid {pids[2]} ",
                      error)
        self.assertFalse(any(map(is_there, pids)))

    def test_nothing_is_left_when_phubrun_is_killed(self):
        running, pids, _ = self.start_waiting()
        running.kill()
        self.until_gone(pids)

    def test_nothing_is_left_when_ssh_is_killed(self):
        running, pids, _ = self.start_waiting()
        children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text(encoding="ascii")
        os.kill(int(children.split()[0]), signal.SIGKILL)
        _, error = running.communicate(timeout=DEADLINE)
        self.assertEqual(running.returncode, 1)
        self.assertIn(f"phubrun: the way to {Sshd.user}@127.0.0.1 ended first (ssh, -9), with 0, 1.", error)
        self.until_gone(pids)

    def test_nothing_is_left_when_a_keeper_is_killed(self):
        running, pids, keepers = self.start_waiting()
        os.kill(keepers[3], signal.SIGKILL)
        _, error = running.communicate(timeout=DEADLINE)
        self.assertIn("phubrun: the way to localhost ended first", error)
        self.until_gone(pids)

    def test_nothing_is_left_when_phubrun_is_silent(self):
        """As when the network between them is gone: no connection ends."""
        running, pids, _ = self.start_waiting("--lost-after", 10)
        running.send_signal(signal.SIGSTOP)
        self.until_gone(pids)
        self.assertIsNone(running.poll())

    def test_hosts_are_told_that_phubrun_lives(self):
        """By a stand-in for ssh, whose worker ends when its host was told three times."""
        ssh = temporary_folder(self) / "ssh"
        ssh.write_text(f"#!{sys.executable}\n{TOLD_THREE_TIMES}")
        ssh.chmod(0o755)
        done = subprocess.run(phubrun("--ssh", ssh, "-H", "far", "--server", "none:1", "--lost-after", 0.2, "true"),
                              env=environment(), capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "[0] well\n", ""))

    def test_a_host_that_does_not_let_us_in(self):
        done = self.run_to_its_end("true", key="stranger")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"phubrun: \S+ cannot be reached \(.*Permission denied.*\): can you log in"
                                      r" there without being asked, by: ssh .* true\n$")

    def test_a_host_that_does_not_answer(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            done = subprocess.run(
                phubrun("--ssh", f"ssh -p {silent.getsockname()[1]}", "-H", "127.0.0.1:2", "--deadline", "0.2", "true"),
                env=environment(), capture_output=True, text=True, timeout=DEADLINE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("phubrun: 127.0.0.1 cannot be reached within 0.2 s (--deadline): can you log in there", done.stderr)

    def test_what_is_not_there(self):
        done = self.run_to_its_end("--server", "none:1", "--folder", temporary_folder(self) / "none", "true")
        self.assertIn("could not be started: there is no folder", done.stderr)
        self.assertIn("share it, or name another with --folder", done.stderr)
        done = self.run_to_its_end("--server", "none:1", "no-such-program")
        self.assertEqual(done.returncode, 127)
        self.assertIn("could not be started: no-such-program: No such file", done.stderr)

    def test_hosts_that_are_none(self):
        for hosts, said in (("-oProxyCommand=id:2", "is not HOST or HOST:WORKERS"), ("a@ b", "is not HOST"),
                            ("localhost:1,localhost:1", "localhost is there twice"), ("", "is not HOST")):
            done = self.run_to_its_end("true", hosts=hosts)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)
        done = self.run_to_its_end("-n", 5, "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("-n 5: -H has room for 4", done.stderr)


if __name__ == "__main__":
    if missing():
        print("SKIPPED: missing:", ", ".join(missing()), "(apt-get install openssh-server)")
        sys.exit(77)
    unittest.main(argv=launched.main(globals()))
