# SPDX-License-Identifier: Apache-2.0
"""The Makefile with fake scripts: values with blanks and quotes arrive as they are.

    python3 tests/cli/test_make.py
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Make(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp()).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "tools").mkdir()
        shutil.copy(ROOT / "Makefile", self.folder)
        for name in "tools/deps.sh", "tools/build.sh", "tools/test_some.py", "cmake":
            shows = name in ("tools/test_some.py", "cmake")
            (self.folder / name).write_text("#!/bin/sh\n" + "printf '<%s>' \"$@\" >>shown\n" * shows)
            (self.folder / name).chmod(0o755)

    def make(self, *words):
        """Returns what make printed, and the arguments that the last script got."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "DESTDIR"))}
        environment |= {"PATH": f"{self.folder}:{environment['PATH']}", "HOME": "/home/a b"}
        (self.folder / "shown").write_text("")
        done = subprocess.run(["make", *words], cwd=self.folder, capture_output=True, text=True, env=environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout, (self.folder / "shown").read_text()

    def test_install_takes_any_prefix(self):
        for given, prefix in (("/opt/we ft", "/opt/we ft"), ("out it's", f"{self.folder}/out it's"),
                              ("~/weft", "/home/a b/weft"), ("/opt/../x/", "/x")):
            said, got = self.make("install", f"PREFIX={given}", "DESTDIR=/a stage")
            self.assertEqual(got, f"<--install><build/release><--prefix><{prefix}>")
            self.assertIn(f"installed: /a stage{prefix}/bin/weft ", said)

    def test_t_takes_any_word(self):
        for word in "plan", "it's", "-x", "a b(", "":
            self.assertEqual(self.make("t", f"T={word}")[1], f"<--match={word}>")
        self.assertEqual(self.make("t", "DIFF=1")[1], "<--diff>")


if __name__ == "__main__":
    unittest.main()
