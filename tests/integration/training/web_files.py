"""A web server with range requests over the files of a folder, over TLS where it has a certificate."""
import http.server
import pathlib
import re
import ssl
import subprocess
import threading


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet

    def do_GET(self):
        path = self.server.folder / self.path.split("?")[0].lstrip("/")
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        with self.server.lock:
            self.server.requests += 1
            fails = self.server.fails(self.server.requests)
        fault = self.server.fault(path.name)
        if fails or not path.is_file():
            return self.answer(503 if fails else 404, b"")
        if isinstance(fault, int):
            return self.answer(fault, b"")
        content = path.read_bytes()
        tag = f'"{path.stat().st_mtime_ns}"'
        if self.headers.get("If-Match", tag) != tag:
            return self.answer(412, b"")
        if not asked or not self.server.has_ranges:
            return self.answer(200, content)
        first, last = (int(number) for number in asked.groups())
        body, length = content[first:last + 1], last + 1 - first
        if length > 1 and fault == "lie":
            first, last = first + 1, last + 1
        if length > 1 and fault == "cut":
            body = body[:-1]
            self.close_connection = True
        self.answer(206, body, {
            "Content-Range": f"bytes {first}-{last}/{len(content)}", "ETag": tag}, length)

    def answer(self, status, body, headers=None, length=None):
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass  # a client that went away


class WebFiles:
    """`certificate`: a file with a key and a certificate."""

    def __init__(self, folder, certificate=None):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.folder = pathlib.Path(folder)
        self.server.lock = threading.Lock()
        self.server.requests = 0
        self.server.fails = lambda request: False  # whether the request with this number gets 503
        # What is wrong with the answers for the file of this name: a status, "cut" or "lie".
        self.server.fault = lambda name: None
        self.server.has_ranges = True
        self.scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
            self.scheme = "https"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def url(self, path=""):
        return f"{self.scheme}://127.0.0.1:{self.server.server_address[1]}/{path}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def make_certificate(path):
    """A key and its own certificate for 127.0.0.1, in one file."""
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-days", "1", "-subj", "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
         path, "-out", f"{path}.cert"], check=True, capture_output=True, timeout=60)
    certificate = pathlib.Path(f"{path}.cert")
    with open(path, "a", encoding="utf-8") as file:
        file.write(certificate.read_text())
    return certificate
