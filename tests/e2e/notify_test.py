"""What a service manager is told (sd_notify(3)), by a daemon whose $NOTIFY_SOCKET is a socket of this test; and tensorctl health.

    build/venv/bin/python tests/e2e/notify_test.py [-v]
"""
import contextlib
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

import server
from server import Server

CTL = os.path.join(os.path.dirname(server.DAEMON), "tensorctl")


class Manager:
    """The service manager's side: every message that came, with when."""

    def __init__(self, watchdog_s):
        self.dir = tempfile.mkdtemp(prefix="tensord-e2e.")
        self.path = os.path.join(self.dir, "notify")
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(self.path)
        self.messages = []
        self.variables = {"NOTIFY_SOCKET": self.path, "WATCHDOG_USEC": str(int(watchdog_s * 1e6))}

    @contextlib.contextmanager
    def environment(self):
        os.environ.update(self.variables)
        try:
            yield
        finally:
            for name in self.variables:
                del os.environ[name]

    def read(self, until=None, seconds=10.0):
        """Messages until one has this line; without `until`, of so many seconds."""
        end, got = time.monotonic() + seconds, []
        while time.monotonic() < end:
            self.socket.settimeout(max(end - time.monotonic(), 0.001))
            with contextlib.suppress(TimeoutError):
                got.append(self.socket.recv(4096).decode().split("\n"))
                if until is not None and until in got[-1]:
                    return got
        assert until is None, f"no {until} in {got}"
        return got

    def close(self):
        self.socket.close()
        os.unlink(self.path)
        os.rmdir(self.dir)


class Notify(unittest.TestCase):
    @unittest.skipIf(server.SANITIZED, "a sanitizer's end is not possible in a sandbox")
    def test_a_life_in_the_sandbox(self):
        """Which lets the watchdog ask the daemon itself, at a port that is known before."""
        self.test_a_life("--sandbox", f"--rest_api_port={server.free_port()}")

    def test_a_life(self, *flags):
        server.models()
        manager = Manager(watchdog_s=0.4)
        with manager.environment():
            d = Server(*flags)
        try:
            starting = manager.read("READY=1")
            self.assertTrue(any("STATUS=loading models" in m and any(l.startswith("EXTEND_TIMEOUT_USEC=") for l in m) for m in starting), starting)
            self.assertIn(f"STATUS=serving; gRPC on port {d.port}, REST on {d.rest_port}", starting[-1])
            pings = [m for m in manager.read(seconds=2) if m == ["WATCHDOG=1"]]
            self.assertTrue(6 <= len(pings) <= 14, pings)

            os.kill(d.proc.pid, signal.SIGSTOP)     # nothing turns: nothing is told
            manager.read(seconds=0.3)
            self.assertEqual(manager.read(seconds=0.8), [])
            os.kill(d.proc.pid, signal.SIGCONT)
            manager.read("WATCHDOG=1")

            os.kill(d.proc.pid, signal.SIGHUP)
            reloading = manager.read("RELOADING=1")[-1]
            self.assertTrue(re.fullmatch(r"MONOTONIC_USEC=\d+", reloading[1]), reloading)
            self.assertLess(abs(int(reloading[1].split("=")[1]) - time.monotonic_ns() // 1000), 5_000_000)
            manager.read("READY=1")

            with open(f"/proc/{d.proc.pid}/environ") as f:  # it came with the variables, or nothing is shown here
                self.assertIn("NOTIFY_SOCKET", f.read())
            d.proc.send_signal(signal.SIGTERM)
            manager.read("STOPPING=1")
            self.assertEqual(d.proc.wait(20), 0)
        finally:
            d.stop()
            manager.close()

    def test_a_model_that_is_missing_is_told(self):
        server.models()
        manager = Manager(watchdog_s=30)
        with manager.environment():
            d = Server("--max_num_load_retries=0", versions={"half": (1,), "none": ()})
        try:
            self.assertTrue(any(l.startswith("STATUS=serving, but without none") for l in manager.read("READY=1")[-1]))
            for args, code, words in ((("half",), 0, "SERVING\n"), ((), 1, "NOT_SERVING\n"), (("none", "--json"), 1, '{"serving": false}\n'),
                                      (("half", "--json"), 0, '{"serving": true}\n')):
                r = subprocess.run([CTL, "health", *args, "--server", f"127.0.0.1:{d.port}"], capture_output=True, text=True, timeout=20)
                self.assertEqual((r.returncode, r.stdout), (code, words), r.stderr)
            r = subprocess.run([CTL, "health", "other", "--server", f"127.0.0.1:{d.port}"], capture_output=True, text=True, timeout=20)
            self.assertEqual(r.returncode, 1)
            self.assertIn("NOT_FOUND", r.stderr)
        finally:
            self.assertEqual(d.stop(), 0)
            manager.close()
        r = subprocess.run([CTL, "health", "--server", f"127.0.0.1:{d.port}", "--timeout", "2"], capture_output=True, text=True, timeout=20)
        self.assertEqual(r.returncode, 1)


if __name__ == "__main__":
    unittest.main()
