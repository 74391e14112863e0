#!/usr/bin/env python3
"""The examples of libphub do what they say. Usage: examples_test.py SERVER EXAMPLE..."""
import re
import subprocess
import sys

server = subprocess.Popen([sys.argv[1], "--control", "127.0.0.1:0", "--data", "127.0.0.1:0",
                           "--cores", "1", "--log-level", "error"],
                          stdout=subprocess.PIPE, text=True)
try:
    control = re.search(r"control=(\S+)", server.stdout.readline())[1]
    for example in sys.argv[2:]:
        workers = [subprocess.Popen([example, control, "2"], stdout=subprocess.PIPE, text=True)
                   for _ in range(2)]
        for worker in workers:
            out, _ = worker.communicate(timeout=120)
            print(out, end="")
            assert worker.returncode == 0, example
finally:
    server.kill()
    server.communicate()
