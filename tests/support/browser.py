"""Headless Chromium for tests of pages; `is_there` says whether it can be had."""

import base64
import json
import shutil

try:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service
except ImportError:
    webdriver = None


def is_there():
    return webdriver is not None and bool(shutil.which("chromium") and shutil.which("chromedriver"))


SKIPPED = "skipped: needs chromium, chromium-driver and python3-selenium (deploy/packages.sh)"


class Browser:
    def __init__(self):
        options = webdriver.ChromeOptions()
        for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu",
                     "--disable-background-networking", "--disable-component-update", "--no-first-run"):
            options.add_argument(word)
        options.binary_location = shutil.which("chromium")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
        self.requested = []
        self.complaints = []

    def look(self, width, height, scheme):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600})
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})

    def text(self, css):
        # One call: elements may be replaced between two.
        return self.driver.execute_script(
            "return document.querySelector(arguments[0])?.innerText ?? ''", css)

    def run(self, script):
        return self.driver.execute_script("return " + script)

    def screenshot(self, path, highest=2600):
        """The page from its top, to a file."""
        height = self.run("document.documentElement.scrollHeight")
        width = self.run("innerWidth")
        picture = self.driver.execute_cdp_cmd("Page.captureScreenshot", {
            "captureBeyondViewport": True,
            "clip": {"x": 0, "y": 0, "width": width, "height": min(height, highest), "scale": 1}})
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(picture["data"]))

    def forget(self):
        self.collect()
        self.requested, self.complaints = [], []

    def collect(self):
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                self.requested.append(message["params"]["request"]["url"])
        self.complaints += self.driver.get_log("browser")
