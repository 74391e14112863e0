"""The web page in headless Chromium, on a real server with two workers that train.

Usage: page_test.py BIN SCREENSHOTS; exits 77 (skipped) without chromium, chromedriver and selenium.
"""

import json
import pathlib
import re
import signal
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "support"))
import browser  # noqa: E402
import processes  # noqa: E402
from processes import until  # noqa: E402

if browser.is_there():
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

SCREENSHOTS = pathlib.Path(".")
# What a card's contents stick out of it. A narrow table hides its heads by a clip.
OUTSIDE = """[...document.querySelectorAll("main > section, header")].flatMap((card) => {
  const {left, right} = card.getBoundingClientRect();
  return [...card.querySelectorAll("*:not(thead, thead *)")].map((one) => [one, one.getBoundingClientRect()])
    .filter(([, box]) => box.width > 0 && (box.right > right + 0.5 || box.left < left - 0.5))
    .map(([one]) => `${card.id}: ${one.nodeName} ${one.textContent.slice(0, 40)}`);
})"""


class PageTest(processes.JobTest):
    server_options = ("--http", "127.0.0.1:0")

    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.driver.quit()

    def visit(self, address):
        self.browser.driver.get("about:blank")  # the page before asks its server no more
        self.browser.forget()
        self.browser.driver.get(address)

    def open(self):
        self.visit(f"http://{self.server.http}/")
        until(lambda: self.browser.text("#link").startswith("Live"), "the page has its first figures")

    def rounds(self):
        text = self.browser.text('#job-table tr[data-key="1"] td:nth-child(4)')
        return int(text.replace(",", "").split()[-1]) if text else 0

    def test_a_job_is_seen_training_in_both_schemes_and_widths(self):
        # Worker 1 does eight times the work of worker 0.
        self.workers = [processes.worker(self.server, index, 2, "shm", "--batch", batch)
                        for index, batch in ((0, "16"), (1, "128"))]
        until(self.server.running, "the job runs")
        self.open()
        before = until(self.rounds, "rounds are shown")
        until(lambda: self.rounds() > before + 20, "rounds rise")
        self.assertIn("running", self.browser.text("#job-table"))
        self.assertIn("mnist", self.browser.text("#job"))
        until(lambda: float(self.browser.text(
            '#job-table tr[data-key="1"] td:nth-child(5)').replace("–", "0").split()[-1]) > 0, "a rate is shown")
        self.assertIn("Core 0", self.browser.text("#cores"))
        self.assertIn("busy", self.browser.text("#cores"))
        legend = until(lambda: self.browser.text(".legend"), "the parts of a round are shown")
        for part in ("Compute", "Push", "Wait for the slowest", "Aggregate", "Reply"):
            self.assertIn(part, legend)
        until(lambda: f"pid {self.workers[1].pid}) is the straggler" in self.browser.text(".straggler"),
              "worker 1 is named as the straggler")
        self.look_at_all("page")
        self.check_quiet()
        # A reader who comes later sees what was before.
        until(lambda: sum(len(job["rounds_per_second"]) for job in self.history()) >= 2, "the server has a history")
        self.open()
        first = self.browser.text('[data-key="pace"]')
        ago, unit = re.search(r"(\d+)\u202f(s|min) ago", first).groups()
        self.assertTrue(unit == "min" or int(ago) >= 4, first)
        self.assertGreater(float(re.search(r"most ([\d.]+)", first)[1]), 0)
        self.assertEqual(self.browser.run("document.querySelectorAll('.core .curve').length"), 2)

    def history(self):
        with urllib.request.urlopen(f"http://{self.server.http}/api/history", timeout=processes.DEADLINE) as reply:
            return json.loads(reply.read())["jobs"]

    def start_with_state(self):
        folder = processes.temporary_folder(self)
        config = folder / "server.textproto"
        config.write_text(f'state_folder: "{folder}/state"\nsecurity {{ tokens: "off" }}\n')
        self.server.close()
        self.server = processes.Server("--config", config, "--http", "127.0.0.1:0")
        self.addCleanup(self.server.close)

    def test_a_failed_job_tells_why_and_the_cure_and_what_lies_on_the_disk_is_shown(self):
        self.start_with_state()
        long_name = "a-name-" + 90 * "W"
        tenant = "t-" + 60 * "M"
        self.server.ctl("tenant", "create", tenant, "--jobs", "1", "--memory-mib", "100", "--disk-mib", "300")
        self.server.ctl("--tenant", tenant, "job", "create", long_name, "--key", "w:1000")
        self.server.ctl("job", "create", long_name, "--key", "w:1000")
        self.start(1, "shm", "--batch", "16", "--job", f"mnist {long_name}")
        self.wait_for_rounds(100)
        file = self.server.ctl("snapshot", f"mnist {long_name}")["snapshot"]["file"]
        self.workers[0].kill()
        job = until(lambda: next((job for job in self.server.ctl("job", "list")["jobs"] if job["state"] == "failed"), None),
                    "the job fails")
        self.visit(f"http://{self.server.http}/#job={job['job_id']}")
        failure = until(lambda: self.browser.text(".failure"), "the job's end is shown")
        self.assertIn("was lost", failure)
        self.assertRegex(failure, rf"Cure. Look in the log of worker 0 \(host .*, pid {self.workers[0].pid}\)")
        self.assertIn("phubctl restore", failure)
        until(lambda: file in self.browser.text(".failure"), "the snapshot is named")
        self.assertIn(file, self.server.table("job", "explain", f"mnist {long_name}"))
        self.assertIn("while a job runs", self.browser.text('[data-key="round"]'))
        self.assertIn(file, self.browser.text("#snapshots"))
        self.assertIn(tenant, self.browser.text("#quotas"))
        self.assertIn("1 of 1", self.browser.text("#quotas"))
        self.assertRegex(self.browser.text("#audit"), r"snapshot take\s")
        self.assertIn("no certificate", self.browser.text("#rest"))
        self.look_at_all("failed")
        self.check_quiet()

    def test_what_nobody_sees_in_a_name_is_shown_escaped(self):
        self.open()
        shown = self.browser.driver.execute_async_script("""
            const done = arguments[0];
            import("/dom.js").then(({h}) => done(h("p", {title: "a\\u200bb"}, "j\\ufeffob\\u202e \\ud83d\\ude00\\u00e9").outerHTML));
            """)
        self.assertEqual(shown, r'<p title="a\u200bb">j\ufeffob\u202e ' + "\U0001f600\u00e9</p>")

    def look_at_all(self, name):
        """Screenshots in both widths and schemes, in none of which something is wider than its card or the screen."""
        for width, height in ((1280, 900), (390, 900)):
            for scheme in ("light", "dark"):
                with self.subTest(width=width, scheme=scheme):
                    self.browser.look(width, height, scheme)
                    until(lambda: self.browser.run("innerWidth") == width, "the width")
                    self.assertLessEqual(self.browser.run("document.documentElement.scrollWidth"), width)
                    self.assertEqual(self.browser.run(OUTSIDE), [])
                    self.browser.screenshot(SCREENSHOTS / f"{name}-{width}-{scheme}.png")

    def check_quiet(self):
        self.browser.collect()
        own = f"http://{self.server.http}/"
        strangers = [url for url in self.browser.requested if not url.startswith((own, "data:", "chrome"))]
        self.assertEqual(strangers, [])
        self.assertEqual(self.browser.complaints, [])

    def test_a_job_is_chosen_with_the_keyboard_and_keeps_the_focus(self):
        for name in ("first", "second"):
            self.server.ctl("job", "create", name, "--key", "w:1000")
        self.open()
        until(lambda: "second" in self.browser.text("#job-table"), "both jobs are listed")
        link = self.browser.driver.find_element(By.LINK_TEXT, "second")
        link.send_keys(Keys.ENTER)
        until(lambda: "Job second" in self.browser.text("#job-title"), "the second job is shown")
        up = self.browser.text("#summary")
        until(lambda: self.browser.text("#summary") != up, "another second is shown")
        self.assertEqual(self.browser.run("document.activeElement.innerText"), "second")
        self.assertEqual(self.browser.run(
            "document.querySelector('tr[aria-current] a').innerText"), "second")

    def start_with_tokens(self):
        """A server that wants tokens; its folder, and the administrator's token."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name)
        config = path / "server.textproto"
        config.write_text(f'state_folder: "{folder.name}/state"\nsecurity {{ tokens: "required" }}\n')
        self.server.close()
        self.server = processes.Server("--config", config, "--http", "127.0.0.1:0")
        self.addCleanup(self.server.close)
        return path, (path / "state" / "admin.token").read_text().strip()

    def enter(self, token):
        self.visit(f"http://{self.server.http}")
        self.browser.run("sessionStorage.clear()")
        self.browser.driver.refresh()
        field = self.browser.driver.find_element(By.ID, "token")
        until(field.is_displayed, "a token is asked for")
        field.send_keys(token, Keys.ENTER)

    def fetch(self, path, token):
        request = urllib.request.Request(f"http://{self.server.http}{path}",
                                         headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=processes.DEADLINE) as reply:
            return reply.read().decode()

    def test_a_tenants_token_shows_its_own_jobs_and_nothing_of_others(self):
        folder, admin = self.start_with_tokens()
        tokens = {}
        credentials = {"admin": folder / "admin"}
        credentials["admin"].mkdir()
        (credentials["admin"] / "token").write_text(admin + "\n")
        for tenant in ("red", "blue"):
            credentials[tenant] = folder / tenant
            credentials[tenant].mkdir()
            for words in (("create", tenant),
                          ("token", "create", tenant, "--save", credentials[tenant] / "token")):
                self.server.ctl("--credentials", credentials["admin"], "tenant", *words)
            tokens[tenant] = (credentials[tenant] / "token").read_text().strip()
            self.workers += [processes.worker(
                self.server, index, 2, "shm", "--batch", "16", "--job", f"job-of-{tenant}",
                "--credentials", credentials[tenant]) for index in range(2)]

        def trains(tenant):
            jobs = json.loads(self.fetch("/api/state", tokens[tenant]))["jobs"]
            return any(job["statistics"]["rounds"] > 2 for job in jobs)
        until(lambda: trains("red") and trains("blue"), "both train")

        state = json.loads(self.fetch("/api/state", tokens["red"]))
        self.assertEqual(state["tenant"], "red")
        self.assertEqual([job["spec"]["name"] for job in state["jobs"]], ["job-of-red"])
        server = state["server"]
        self.assertEqual((server["jobs"], server["resident_bytes"], server["drops"]), (1, 0, []))
        for core in server["cores"]:
            own = sum(job["chunks_completed"] for job in core["jobs"])
            self.assertEqual((core["chunks_completed"], core["connections"]), (own, 0))
        for path in ("/api/state", "/metrics"):
            told = self.fetch(path, tokens["red"])
            self.assertIn("job-of-red", told)
            self.assertNotIn("blue", told)
            self.assertIn("job-of-blue", self.fetch(path, admin))
        for tenant in ("red", "blue"):
            self.server.ctl("--credentials", credentials[tenant], "snapshot", f"job-of-{tenant}")
        told = json.loads(self.fetch("/api/records", tokens["red"]))
        self.assertEqual([each["name"] for each in told["tenants"]], ["red"])
        self.assertEqual([each["job"] for each in told["snapshots"]], ["job-of-red"])
        self.assertEqual((told["snapshots_in_all"], told["sees_audit"], told["audit"]), (1, False, []))
        self.assertNotIn("blue", self.fetch("/api/history", tokens["red"]))
        self.server.ctl("--credentials", credentials["admin"], "tenant", "token", "create", "--role", "observer",
                        "--save", folder / "observer")
        seen = {who: json.loads(self.fetch("/api/records", token)) for who, token in
                (("admin", admin), ("observer", (folder / "observer").read_text().strip()))}
        for told in seen.values():
            self.assertEqual(sorted(each["job"] for each in told["snapshots"]), ["job-of-blue", "job-of-red"])
        self.assertEqual(seen["observer"]["audit"], [])
        self.assertEqual(seen["admin"]["audit"][0]["action"], "token create")

        self.browser.forget()
        self.enter(tokens["red"])
        until(lambda: "job-of-red" in self.browser.text("#job-table"), "red's job is shown")
        until(lambda: "other tenants" in self.browser.text("#cores"), "the others are one part of a core")
        until(lambda: re.search(r"in [1-9]", self.browser.text("#cores")), "red's rates are shown")
        self.assertIn("red", self.browser.text("#summary"))
        self.assertNotIn("Memory", self.browser.text("#summary"))
        self.assertNotIn("blue", self.browser.text("body"))
        self.look_at_all("tenant")
        self.browser.run("sessionStorage.clear()")

    def test_skipped_steps_and_encrypted_connections_are_shown(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name)
        (path / "server.textproto").write_text('security { tokens: "off" encrypt_data: true }\n')
        # From 2^24 on, the first steps' gradients are too large for fp16.
        text = processes.CONFIG.read_text().replace(
            'path: "', f'path: "{processes.CONFIG.parent}/').replace(
            "train {", "train { loss_scale { dynamic { initial: 16777216 } }")
        (path / "worker.textproto").write_text('wire_type: "fp16"\n' + text)
        self.server.close()
        self.server = processes.Server("--config", path / "server.textproto", "--http", "127.0.0.1:0")
        self.addCleanup(self.server.close)
        self.workers = [processes.worker(self.server, index, 2, transport, "--batch", "16",
                                         config=path / "worker.textproto")
                        for index, transport in ((0, "tcp"), (1, "shm"))]
        self.open()
        self.assertRegex(self.browser.text("#summary"), r"Data over tcp\s+encrypted")
        def skipped():
            shown = re.search(r"Steps skipped by vote: ([1-9]\d*) of [\d,]+ rounds \(",
                              self.browser.text('[data-key="skipped"]'))
            return int(shown[1]) if shown else 0
        until(lambda: skipped() >= 3, "three steps are skipped")
        cell = '[data-key="members"] tr[data-key="{}"] td:nth-child(4)'
        until(lambda: self.browser.text(cell.format(0)).startswith("tcp, encrypted"), "tcp's encryption")
        self.assertIn("shm", self.browser.text(cell.format(1)))
        self.assertNotIn("encrypted", self.browser.text(cell.format(1)).split("\n")[0])
        self.look_at_all("encrypted")
        self.check_quiet()

    def test_a_server_with_tokens_asks_for_one_and_shows_nothing_before(self):
        _, token = self.start_with_tokens()
        address = f"http://{self.server.http}"
        for path in ("/api/state", "/api/records", "/api/history", "/metrics"):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(address + path, timeout=processes.DEADLINE)
            self.assertEqual(refused.exception.code, 401)
            self.assertIn("Bearer", refused.exception.headers["WWW-Authenticate"])
            refused.exception.close()
        self.visit(address)
        field = self.browser.driver.find_element(By.ID, "token")
        until(field.is_displayed, "a token is asked for")
        self.assertEqual(self.browser.text("#cores"), "")
        self.assertIn("Not allowed in", self.browser.text("#link"))
        self.assertNotIn("\u25cf", self.browser.run("getComputedStyle(document.getElementById('link'), '::before').content"))
        field.send_keys("wrong", Keys.ENTER)
        until(lambda: self.browser.run("document.getElementById('token').value") == "", "it is sent")
        self.assertTrue(field.is_displayed())
        field.send_keys(token, Keys.ENTER)
        until(lambda: "Core 0" in self.browser.text("#cores"), "the figures are shown")
        self.assertFalse(field.is_displayed())
        self.assertIsNone(self.browser.run("localStorage.getItem('phub-token')"))

    def test_a_server_that_goes_away_is_told_and_its_return_too(self):
        self.open()
        address = self.server.http
        self.server.process.send_signal(signal.SIGSTOP)
        until(lambda: "not answered" in self.browser.text("#banner"), "the page says that nobody answers")
        self.server.process.send_signal(signal.SIGCONT)
        until(lambda: self.browser.text("#link").startswith("Live"), "it goes on after a pause")
        self.server.process.send_signal(signal.SIGTERM)
        self.server.process.wait()
        until(lambda: "not answered" in self.browser.text("#banner"), "the page says that the server is gone")
        self.server.close()
        self.server = processes.Server("--http", address)
        self.addCleanup(self.server.close)
        self.server.ctl("job", "create", "after", "--key", "w:1000")
        until(lambda: "after" in self.browser.text("#job-table"), "the new server's job is shown")


if __name__ == "__main__":
    if not browser.is_there():
        print(browser.SKIPPED)
        sys.exit(77)
    processes.BIN = pathlib.Path(sys.argv[1])
    SCREENSHOTS = pathlib.Path(sys.argv[2])
    unittest.main(argv=sys.argv[:1])
