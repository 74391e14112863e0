"""The Prometheus configuration, the alerts and the Grafana dashboard against the real Prometheus.

Usage: prometheus_test.py BIN; exits 77 (skipped) without prometheus and promtool.
"""

import json
import math
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import processes  # noqa: E402
from processes import until  # noqa: E402

PROMETHEUS = ROOT / "deploy" / "prometheus"
DASHBOARD = ROOT / "deploy" / "grafana" / "phub.json"


def promtool(*words, text=None):
    done = subprocess.run(["promtool", *words], input=text, capture_output=True, text=True,
                          timeout=processes.DEADLINE)
    return done.returncode, done.stdout + done.stderr


def fetch(url):
    with urllib.request.urlopen(url, timeout=processes.DEADLINE) as reply:
        return reply.read().decode()


def dashboard_expressions():
    """[(panel, expression)] as a server without Grafana can evaluate them."""
    found = []
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "10s").replace("$instance", ".*")
            found.append((panel["title"], expression))
    return found


def alert_expressions():
    """The text of each `expr`, folded lines joined; promtool has checked the file itself."""
    text = (PROMETHEUS / "alerts.yml").read_text()
    blocks = re.findall(r"^ +expr: (?:>\n((?:^ {10}.*\n)+)|(.+)\n)", text, re.M)
    return [" ".join(folded.split()) or plain for folded, plain in blocks]


class StaticTest(unittest.TestCase):
    def test_promtool_accepts_the_configuration_and_the_rules(self):
        for words in (("check", "config", PROMETHEUS / "prometheus.yml"),
                      ("check", "rules", PROMETHEUS / "alerts.yml")):
            code, said = promtool(*words)
            self.assertEqual(code, 0, said)

    def test_each_alert_fires_where_it_should_and_only_there(self):
        code, said = promtool("test", "rules", pathlib.Path(__file__).parent / "alerts_test.yml")
        self.assertEqual(code, 0, said)


class Prometheus:
    """The program itself, with a data folder of its own: no service."""

    def __init__(self, target):
        self.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self.folder.name)
        config = (PROMETHEUS / "prometheus.yml").read_text()
        for old, new in (("127.0.0.1:9107", target), ("scrape_interval: 5s", "scrape_interval: 1s"),
                         ("evaluation_interval: 15s", "evaluation_interval: 1s")):
            assert old in config, old
            config = config.replace(old, new)
        (folder / "prometheus.yml").write_text(config)
        shutil.copy(PROMETHEUS / "alerts.yml", folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self.log = open(folder / "log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={folder / 'prometheus.yml'}",
             f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={self.address}"],
            stdout=self.log, stderr=self.log)

    def query(self, expression):
        words = urllib.parse.urlencode({"query": expression})
        try:
            reply = json.loads(fetch(f"http://{self.address}/api/v1/query?{words}"))
        except urllib.error.HTTPError as error:
            if error.code == 503:  # still starting
                raise
            raise AssertionError(f"{expression}: {error.read().decode()}") from error
        return [float(series["value"][1]) for series in reply["data"]["result"]]

    def is_scraping(self):
        try:
            return self.query('up{job="phub"} == 1') and self.query("phub_job_running == 1")
        except (urllib.error.URLError, ConnectionError):
            return False

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()
        self.folder.cleanup()


class LiveTest(processes.JobTest):
    server_options = ("--http", "127.0.0.1:0")

    def test_every_expression_of_dashboard_and_alerts_holds_on_a_running_job(self):
        self.start(2, "tcp")
        metrics = f"http://{self.server.http}/metrics"
        until(lambda: all(name in fetch(metrics) for name in ("phub_job_round_seconds", "phub_member_step_share")),
              "the job has done its first rounds, and its workers have reported them")
        text = fetch(metrics)
        code, said = promtool("check", "metrics", text=text)
        self.assertEqual(code, 0, said)
        names = set(re.findall(r"^(phub_\w+)", text, re.M))

        prometheus = Prometheus(self.server.http)
        self.addCleanup(prometheus.close)
        until(prometheus.is_scraping, "Prometheus scrapes the server")
        for panel, expression in dashboard_expressions():
            with self.subTest(panel=panel, expression=expression):
                for name in set(re.findall(r"phub_\w+", expression)) - {"phub_job"}:  # a label
                    self.assertIn(name, names)

                def has_data(expression=expression):
                    values = prometheus.query(expression)
                    return any(not math.isnan(value) for value in values)
                until(has_data, f"{panel}: {expression} has data")
        alerts = alert_expressions()
        self.assertEqual(len(alerts), (PROMETHEUS / "alerts.yml").read_text().count("- alert:"))
        for expression in alerts:
            prometheus.query(expression)  # fails when it does not parse
        until(lambda: prometheus.query("sum(rate(phub_job_rounds_total[10s]))")[0] > 0.0, "rounds go on")
        rules = json.loads(fetch(f"http://{prometheus.address}/api/v1/rules"))
        self.assertEqual(sum(len(group["rules"]) for group in rules["data"]["groups"]), len(alerts))


if __name__ == "__main__":
    if not shutil.which("prometheus") or not shutil.which("promtool"):
        print("skipped: needs the package prometheus (deploy/packages.sh)")
        sys.exit(77)
    processes.BIN = pathlib.Path(sys.argv[1])
    unittest.main(argv=sys.argv[:1])
