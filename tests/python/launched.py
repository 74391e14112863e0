"""Workers in Python, each a process: what runs in them is a function of the test's own file."""
import os
import pathlib
import signal
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/support"), str(ROOT / "worker/torch")]
import processes  # noqa: E402
from processes import DEADLINE, Server, free_port, temporary_folder  # noqa: E402

_ADDRESSES = pathlib.Path("/proc/net/if_inet6")
HAS_IPV6 = _ADDRESSES.exists() and f"{1:032x} " in _ADDRESSES.read_text(encoding="ascii")  # ::1
__all__ = ["DEADLINE", "HAS_IPV6", "ROOT", "Server", "environment", "free_port", "interrupt_one", "is_there", "main", "phubrun", "processes", "program",
           "say_when_in", "start", "temporary_folder", "together"]


def environment(rank=0, workers=1, server=None, **more):
    """What phubrun would set."""
    path = os.pathsep.join([str(ROOT / "worker/torch"), *filter(None, [os.environ.get("PYTHONPATH")])])
    own = {**os.environ, "PYTHONPATH": path, "RANK": str(rank), "WORLD_SIZE": str(workers),
           "OMP_NUM_THREADS": "1", "PHUB_SERVER_PROGRAM": str(processes.BIN / "phub-server"), **more}
    if server is not None:
        own["PHUB_SERVERS"] = server.control
    return own


def phubrun(*words):
    """Its command line; environment() names the server's program."""
    return [sys.executable, "-B", "-m", "phub.launch", *map(str, words)]


def program(text):
    """What a worker runs."""
    return [sys.executable, "-B", "-u", "-c", text]


def is_there(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def start(function, *arguments, rank=0, workers=1, server=None, **more):
    """A process that runs the function of the test's file."""
    return subprocess.Popen([sys.executable, "-B", sys.argv[0], "--in-worker", function.__name__, *map(str, arguments)],
                            env=environment(rank, workers, server, **more), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def say_when_in(function, text):
    """Prints it when the main thread is in a function of that name, where the test's signal is to find it."""
    main_thread = threading.main_thread().ident

    def look():
        frame = sys._current_frames()[main_thread]
        while frame is not None and frame.f_code.co_name != function:
            frame = frame.f_back
        return frame is not None

    def watch():
        while not look():
            threading.Event().wait(0.005)
        print(text, flush=True)
    threading.Thread(target=watch, daemon=True).start()


def together(test, function, *arguments, workers=2, deadline=DEADLINE):
    """Runs it in workers that have a server, and each other on MASTER_PORT. (status, output, error) of each."""
    server = Server(*processes.PATIENT, cores=1)
    test.addCleanup(server.close)
    more = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    running = [start(function, *arguments, rank=rank, workers=workers, server=server, **more) for rank in range(workers)]
    ended = []
    for worker in running:
        try:
            said, error = worker.communicate(timeout=deadline)
        except subprocess.TimeoutExpired:
            for each in running:
                each.kill()
            said, error = worker.communicate()
        ended.append((worker.returncode, said, error))
    return ended


def interrupt_one(test, function):
    """Two workers; rank 0 gets Ctrl-C when it has said that it is waiting, and is to say that it was interrupted."""
    server = Server(*processes.PATIENT, cores=1)
    test.addCleanup(server.close)
    more = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    running = [start(function, rank=rank, workers=2, server=server, **more) for rank in range(2)]
    test.assertEqual(running[0].stdout.readline(), "waiting\n")
    running[0].send_signal(signal.SIGINT)
    said, error = running[0].communicate(timeout=DEADLINE)
    running[1].kill()
    running[1].communicate()
    test.assertEqual((running[0].returncode, said), (0, "interrupted\n"), error)


def main(functions):
    """In a worker: runs its function and ends. Else: takes LIBRARY and BIN from the command line, and leaves what follows,
    as names of tests."""
    if sys.argv[1] == "--in-worker":
        functions[sys.argv[2]](*sys.argv[3:])
        sys.exit(0)
    os.environ["PHUB_LIBRARY"] = sys.argv[1]
    processes.BIN = pathlib.Path(sys.argv[2]).resolve()
    return [sys.argv[0], *sys.argv[3:]]
