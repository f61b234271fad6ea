"""NVIDIA's perf_analyzer, unmodified, drives the daemon: HTTP, gRPC, streaming, batches, system shared memory.

    build/venv/bin/python tests/e2e/perf_analyzer_test.py [-v] [TestCase.test]      $TENSORD: the daemon (default build/tensord)

The program is in a wheel of an older tritonclient (reference: its newer ones have none) and wants libb64 (a Debian package, see
deploy/packages.sh) and a CUDA runtime library (a wheel too; no GPU is needed). Both wheels are fetched once, to build/perf_analyzer;
a machine that cannot fetch them fails this test.
"""
import glob
import os
import re
import shutil
import subprocess
import sys
import unittest
import zipfile

from v2_server import ROOT, Daemon, setUpModule as make_models

WHEELS = ("tritonclient==2.48.0", "nvidia-cuda-runtime-cu12==12.9.79")
PLACE = os.path.join(ROOT, "build", "perf_analyzer")
PROGRAM = os.path.join(PLACE, "perf_analyzer")
COUNT = 500   # requests of a run


def fetch():
    making = PLACE + ".new"
    shutil.rmtree(making, True)
    os.makedirs(making)
    subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "-d", making, *WHEELS], check=True)
    for wheel in glob.glob(os.path.join(making, "*.whl")):
        with zipfile.ZipFile(wheel) as z:
            for name in z.namelist():
                if re.search(r"bin/perf_analyzer$|lib/libcudart\.so[^/]*$", name):
                    with open(os.path.join(making, os.path.basename(name)), "wb") as f:
                        f.write(z.read(name))
        os.unlink(wheel)
    os.chmod(os.path.join(making, "perf_analyzer"), 0o755)
    os.rename(making, PLACE)


def setUpModule():
    make_models()
    if not os.path.exists(PROGRAM):
        fetch()


class PerfAnalyzer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.d = Daemon()

    @classmethod
    def tearDownClass(cls):
        code = cls.d.stop()
        assert code == 0, f"exit {code}: {''.join(cls.d.log[-5:])}"

    def answered(self, model):
        """Requests that went well, or not, so far."""
        if model == "none":
            return 0
        versions = [s["inference_stats"] for s in self.d.rest.get_inference_statistics(model)["model_stats"]]
        return sum(s["success"]["count"] + s["fail"]["count"] for s in versions)

    def run_it(self, *args, model="types:rows", wire="http"):
        port = self.d.rest_port if wire == "http" else self.d.port
        env = {**os.environ, "LD_LIBRARY_PATH": PLACE + ":" + os.environ.get("LD_LIBRARY_PATH", "")}
        command = [PROGRAM, "-m", model, "-i", wire, "-u", f"127.0.0.1:{port}", "--request-count", str(COUNT), *args]
        before = self.answered(model)
        for last in (False, True):
            try:
                p = subprocess.run(command, capture_output=True, text=True, timeout=40, env=env)
                break
            except subprocess.TimeoutExpired as e:
                # Some three in a thousand runs do not end: the program's threads that send requests are done and all answers are
                # there, nothing is left in either socket, and its main thread sleeps on in InferenceProfiler::Measure, for a
                # count of requests that nobody raises any more. When the server has answered all of them it gets a second try.
                text = f"{command} hangs; answered before: {before}, now: {self.answered(model)}; it said: {e.stdout}"
                print(text, file=sys.stderr)
                self.assertFalse(last or self.answered(model) < before + COUNT, text)
        return p.returncode, p.stdout + p.stderr

    def measures(self, *args, batch=1, **kw):
        code, text = self.run_it(*args, **kw)
        self.assertEqual(code, 0, text)
        number = lambda what: int(re.search(what + r": (\d+)", text).group(1))
        self.assertGreaterEqual(number("Request count"), COUNT, text)
        # from the server's statistics; a request may be joined with others or spread over idle lanes, so executions are as many as they are
        # a request under way while the program reads the statistics (4 at most) may have run and not yet been answered; and on a busy machine
        # its threads have sent some before its main thread has read them for the first time
        asked = batch * number("Successful request count")
        self.assertAlmostEqual(number("Inference count"), asked, delta=4 * batch + 0.2 * asked, msg=text)
        self.assertGreater(number("Execution count"), 0, text)
        self.assertGreater(float(re.search(r"Throughput: ([\d.]+) infer/sec", text).group(1)), 0, text)

    def test_http(self):
        self.measures()

    def test_http_asynchronous(self):
        self.measures("--async", "--concurrency-range", "4")

    def test_grpc(self):
        self.measures(wire="grpc")

    def test_streaming(self):
        self.measures("--streaming", "--async", "--concurrency-range", "2", wire="grpc")

    def test_batches(self):
        for wire in ("http", "grpc"):
            self.measures("-b", "8", batch=8, wire=wire)

    def test_shared_memory(self):
        for wire in ("http", "grpc"):
            self.measures("--shared-memory", "system", "--output-shared-memory-size", "1024", wire=wire)
        self.assertEqual(self.d.rest.get_system_shared_memory_status(), [])

    def test_models_without_rows(self):
        for wire in ("http", "grpc"):
            self.measures("--shape", "x:3", batch=3, model="half", wire=wire)

    def test_wrong_requests(self):
        code, text = self.run_it(model="none")
        self.assertNotEqual(code, 0)
        self.assertIn("Request for unknown model: 'none' is not found", text)
        code, text = self.run_it("--shared-memory", "system", "--output-shared-memory-size", "1", "--shape", "s:2", model="types:text", wire="grpc")
        self.assertNotEqual(code, 0)
        self.assertIn("should be at least", text)


if __name__ == "__main__":
    unittest.main()
