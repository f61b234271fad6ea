"""The scripts that the documents show, run against a daemon as a reader would.

    build/venv/bin/python tests/e2e/example_test.py [-v]      $TENSORD: the daemon (default build/tensord)
"""
import os
import re
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


if __name__ == "__main__":
    server.models()
    unittest.main()
