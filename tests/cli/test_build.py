# SPDX-License-Identifier: Apache-2.0
"""tools/build.sh with a fake ninja: its output on a terminal, in a pipe and after a failure.

    python3 tests/cli/test_build.py
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from terminals import terminal_open  # noqa: E402

SCRIPT = ROOT / "tools/build.sh"
STEPS = 200
NINJA = f"""#!/bin/sh
echo "ninja: Entering directory 'build/release'"
echo '[0/2] Re-checking globbed directories...'
[ "$FAKE" = idle ] && {{ echo 'ninja: no work to do.'; exit 0; }}
for i in $(seq {STEPS}); do echo "[$i/{STEPS}] Building C object {'a' * 100}.o"; done
[ "$FAKE" = broken ] || exit 0
echo 'error: it does not build'
exit 1
"""


class Build(unittest.TestCase):
    def setUp(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "tools").mkdir()
        self.script = shutil.copy(SCRIPT, folder / "tools")
        shutil.copy(SCRIPT.with_name("configure.sh"), folder / "tools")
        (folder / "ninja").write_text(NINJA)
        (folder / "cmake").write_text("#!/bin/sh\necho 'the compiler is missing'\n[ \"$FAKE\" != bare ]\n")
        for program in "ninja", "cmake":
            (folder / program).chmod(0o755)
        self.folder = folder

    def environment(self, fake):
        return {**os.environ, "PATH": f"{self.folder}:{os.environ['PATH']}", "FAKE": fake}

    def piped(self, fake):
        done = subprocess.run([self.script, "weft"], capture_output=True, text=True, env=self.environment(fake))
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()

    def on_a_terminal(self, fake):
        terminal, side = terminal_open(unittest.SkipTest)
        with subprocess.Popen([self.script, "weft"], stdout=side, stderr=side, env=self.environment(fake)) as build:
            os.close(side)
            said = b""
            try:
                while piece := os.read(terminal, 65536):
                    said += piece
            except OSError:  # a pseudo-terminal reports its end as an error
                os.close(terminal)
        return build.returncode, said.decode().replace("\r\n", "\n")

    def test_a_pipe_gets_few_lines(self):
        code, lines = self.piped("")
        self.assertEqual(code, 0)
        self.assertEqual(lines[-1], f"building: {STEPS} of {STEPS} steps")
        self.assertIn(len(lines), range(2, 7), lines)

    def test_a_terminal_gets_one_moving_line(self):
        code, said = self.on_a_terminal("")
        self.assertEqual((code, said.count("\n")), (0, 0), said)
        self.assertIn(f"\r[{STEPS}/{STEPS}] Building", said)
        self.assertTrue(all(len(part) < 80 for part in said.split("\r")), said)
        self.assertNotIn("\x1b", said)
        self.assertEqual(said.split("\r")[-2:], [" " * 79, ""])

    def test_a_failure_shows_the_whole_log(self):
        for code, said in (self.piped("broken"), self.on_a_terminal("broken")):
            lines = said if isinstance(said, list) else said.split("\n")
            self.assertEqual(code, 1)
            self.assertIn("error: it does not build", lines)
            self.assertEqual(sum("Building C object" in line and "\r" not in line for line in lines), STEPS)

    def test_nothing_to_do_says_nothing(self):
        self.assertEqual(self.piped("idle"), (0, []))

    def test_a_failed_configuration_shows_its_log(self):
        self.assertEqual(self.piped("bare"), (1, ["the compiler is missing"]))

    def test_it_configures_again_if_libh2o_was_missing_or_the_presets_are_newer(self):
        made, presets = self.folder / "build/release", self.folder / "CMakePresets.json"
        made.mkdir(parents=True)
        presets.touch()
        for found, age, code in (("1", 10, 0), ("", 10, 1), ("1", -10, 1)):
            (made / "CMakeCache.txt").write_text(f"H2O_FOUND:INTERNAL={found}\nCMAKE_HOME_DIRECTORY:INTERNAL={self.folder}\n")
            (made / "build.ninja").touch()
            now = (made / "build.ninja").stat().st_mtime
            os.utime(presets, (now - age, now - age))
            self.assertEqual(self.piped("bare")[0], code, (found, age))

    def test_a_moved_folder_is_configured_from_scratch(self):
        made = self.folder / "build/release"
        made.mkdir(parents=True)
        (made / "build.ninja").touch()
        (self.folder / "cmake").write_text("#!/bin/sh\necho \"$@\"\nexit 1\n")
        for home in "/nonexistent/we ft", pathlib.Path("/"):
            (made / "CMakeCache.txt").write_text(f"H2O_FOUND:INTERNAL=1\nCMAKE_HOME_DIRECTORY:INTERNAL={home}\n")
            self.assertEqual(self.piped(""), (1, ["--preset release --fresh"]))


if __name__ == "__main__":
    unittest.main()
