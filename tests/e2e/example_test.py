"""The scripts that the documents show, run against a daemon as a reader would.

    build/venv/bin/python tests/e2e/example_test.py [-v]      $TENSORD: the daemon (default build/tensord)
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import server  # noqa: E402

DIGITS = os.path.join(server.ROOT, "deploy", "models", "digits")


class IntegratedGradients(unittest.TestCase):
    def test_attributions_sum_to_the_difference_and_make_a_picture(self):
        with server.serving(versions={}, files={"models.config": server.config(("digits", DIGITS))}) as s, tempfile.TemporaryDirectory() as out:
            picture = os.path.join(out, "explanation.svg")
            script = os.path.join(server.ROOT, "docs", "examples", "integrated_gradients.py")
            done = subprocess.run([sys.executable, script, picture, f"http://127.0.0.1:{s.rest_port}/v1/models/digits"], capture_output=True,
                                  text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            rows = re.findall(r"(\d): probability \S+ attributions sum to (\S+), the probabilities differ by (\S+)", done.stdout)
            self.assertEqual([r[0] for r in rows][:1], ["5"], done.stdout)
            self.assertEqual(len(rows), 2)
            for _, total, difference in rows:
                self.assertAlmostEqual(float(total), float(difference), delta=0.01)
            cells = [e for e in xml.parse(picture).iter() if e.tag.endswith("rect")]
            self.assertEqual(len(cells), 1 + 3 * 65)


class FineTuning(unittest.TestCase):
    def test_a_tuned_version_takes_over_and_knows_mirrored_digits(self):
        with tempfile.TemporaryDirectory() as base:
            shutil.copytree(DIGITS, os.path.join(base, "digits"))
            with server.serving(versions={}, files={"models.config": server.config(("digits", os.path.join(base, "digits")))}) as s:
                script = os.path.join(server.ROOT, "docs", "examples", "finetune_digits.py")
                done = subprocess.run([sys.executable, script, f"http://127.0.0.1:{s.rest_port}"], capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            before, after = (float(x) for x in re.findall(r"held-out accuracy \w+: +(\S+)", done.stdout))
            self.assertLess(before, 0.6, done.stdout)
            self.assertGreater(after, 0.95, done.stdout)
            self.assertEqual(sorted(os.listdir(os.path.join(base, "digits"))), ["1", "2"])


if __name__ == "__main__":
    server.models()
    unittest.main()
