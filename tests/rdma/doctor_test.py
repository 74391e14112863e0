#!/usr/bin/env python3
"""Two doctors over two RDMA devices, as processes. Usage: doctor_test.py PHUBCTL"""
import json
import pathlib
import re
import signal
import subprocess
import sys
import unittest

PHUBCTL = sys.argv.pop(1)
DEADLINE = 60  # only bounds a failure


class Listener:
    def __init__(self, *options):
        self.process = subprocess.Popen(
            [PHUBCTL, "doctor", "--listen", "192.0.2.1:0", *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.line = self.process.stdout.readline()
        match = re.match(r"listening on (192\.0\.2\.1:\d+), without authentication", self.line)
        assert match, self.line
        self.address = match[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def finish(self):
        """Its exit code and what it has said."""
        error = self.process.communicate(timeout=DEADLINE)[1]
        return self.process.returncode, error


def examine(*options):
    done = subprocess.run([PHUBCTL, "--json", "doctor", "--seconds", "0.3", *options],
                          capture_output=True, text=True, timeout=DEADLINE)
    return done.returncode, json.loads(done.stdout)


def found(report, check):
    return [finding for finding in report["findings"] if finding["check"] == check]


class Doctors(unittest.TestCase):
    def test_two_devices_are_measured_over_tcp_and_verbs(self):
        with Listener("--once", "--verbs-devices", "rxe0") as listener:
            code, report = examine("--peer", listener.address, "--verbs-devices", "rxe1")
            self.assertEqual(listener.finish()[0], 0)
        self.assertEqual(code, 0, report["findings"])
        peer = report["peer"]
        self.assertEqual(peer["here"]["rdma"]["device"], "rxe1")
        self.assertEqual(peer["there"]["rdma"]["device"], "rxe0")
        self.assertEqual(peer["here"]["rdma"]["gid"], "::ffff:192.0.2.2")
        for transport in ("tcp", "verbs"):
            numbers = peer[transport]
            self.assertEqual(numbers["error"], "")
            self.assertTrue(numbers["verified"])
            for way in ("there", "back"):
                self.assertGreater(numbers[f"bytes_per_second_{way}"], 0)
            self.assertGreater(numbers["half_round_trip_seconds_64_bytes"], 0)
        for check in ("peer", "version", "tcp", "path mtu", "verbs"):
            for finding in found(report, check):
                self.assertEqual(finding["status"], "ok", finding)
        self.assertEqual(len(found(report, "verbs")), 3)

    def test_different_mtus_are_a_warning_with_the_cure(self):
        usual = pathlib.Path("/sys/class/net/rdma1/mtu").read_text().strip()
        subprocess.run(["ip", "link", "set", "rdma1", "mtu", "1500"], check=True)
        try:
            with Listener("--once", "--verbs-devices", "rxe0") as listener:
                _, report = examine("--peer", listener.address, "--verbs-devices", "rxe1")
        finally:
            subprocess.run(["ip", "link", "set", "rdma1", "mtu", usual], check=True)
        finding = found(report, "path mtu")[0]
        self.assertEqual(finding["status"], "warn")
        self.assertIn("1024 bytes here, 4096 there", finding["finding"])
        self.assertTrue(report["peer"]["verbs"]["verified"])

    def test_a_device_that_is_down_there_leaves_tcp(self):
        with Listener("--verbs-devices", "rxe9") as listener:
            code, report = examine("--peer", listener.address, "--verbs-devices", "rxe1")
            self.assertEqual(code, 0, report["findings"])
            self.assertIn("rxe9", report["peer"]["there"]["rdma"]["obstacle"])
            self.assertIsNone(report["peer"]["verbs"])
            self.assertTrue(report["peer"]["tcp"]["verified"])
            listener.process.send_signal(signal.SIGINT)
            code, said = listener.finish()
            self.assertEqual(code, 0)
            self.assertIn(": done", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
