# SPDX-License-Identifier: Apache-2.0
"""The files that `cmake --install` writes: the program runs there and finds models and plugins relative to itself.

    python3 tests/cli/test_install.py build/release/bin/weft
"""

import gzip
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

WEFT = pathlib.Path(sys.argv.pop(1)).resolve()
BUILD = WEFT.parents[1]


class Install(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", "/usr"], check=True, capture_output=True,
                       env={**os.environ, "DESTDIR": str(cls.folder / "staged")})
        cls.prefix = (cls.folder / "staged/usr").rename(cls.folder / "elsewhere")  # the prefix can be moved

    def weft(self, *args, **more):
        return subprocess.run([self.prefix / "bin/weft", *args], capture_output=True, text=True, timeout=600, cwd=self.folder,
                              **more)

    def test_everything_is_where_distributions_expect_it(self):
        for folder, names in (("models", ("weft-demo-rerank/model.safetensors", "first-chat.jinja")),
                              ("../doc/weft", ("README.md", "LICENSE", "NOTICE", "docs/API.md"))):
            for name in names:
                self.assertTrue((self.prefix / "share/weft" / folder / name).is_file(), name)
        self.assertFalse((self.prefix / "share/weft/models/fetched").exists())
        page = gzip.decompress((self.prefix / "share/man/man1/weft-generate.1.gz").read_bytes()).decode()
        self.assertIn("\n.TP\n\\fB\\-\\-prompt\\fR \\fITEXT\\fR\n", page)
        self.assertEqual(sorted(os.listdir(self.prefix / "bin")), ["weft"])

    def test_built_in_models_have_names(self):
        done = self.weft("embed", "weft-demo-embed", "--device", "cpu", input="hello\n")
        self.assertEqual((done.returncode, done.stdout[:1]), (0, "["), done.stderr)
        done = self.weft("tokenize", "weft-demo-chat", input="hello\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.weft("render", "weft-demo-chat", input='{"messages": [{"role": "user", "content": "hello"}]}')
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in "weft-demo", "models/weft-demo-embed":
            done = self.weft("embed", name, input="hello\n")
            self.assertEqual(done.returncode, 1, done.stderr)
        (self.folder / "weft-demo-embed").mkdir()  # a folder of this name has precedence
        done = self.weft("embed", "weft-demo-embed", input="hello\n")
        (self.folder / "weft-demo-embed").rmdir()
        self.assertEqual(done.returncode, 1)
        self.assertIn("config.json", done.stderr)

    def completed(self, *words):
        """Returns what bash offers for the last of the words."""
        script = ('source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _weft; printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "-c", script, "-", self.prefix / "share/bash-completion/completions/weft", *words],
                              capture_output=True, text=True, check=True, cwd=WEFT.parents[3] / "models")
        return done.stdout.split("\n")[:-1]

    def test_bash_completes_commands_options_and_values(self):
        self.assertEqual(self.completed("weft", "de"), ["detokenize"])
        self.assertEqual(self.completed("weft", "help", "em"), ["embed"])
        self.assertEqual(self.completed("weft", "generate", "--kv-"), ["--kv-cache-dtype", "--kv-cache-memory"])
        self.assertEqual(self.completed("weft", "generate", "--no-ex"), ["--no-exact"])
        for words in ("--dtype", "int"), ("--dtype", "=", "int"):
            self.assertEqual(self.completed("weft", "embed", "m", *words), ["int8", "int4"])
        self.assertEqual(self.completed("weft", "embed", "weft-demo-em"), ["weft-demo-embed"])  # a path
        shown = self.weft("help", "bench").stdout
        named = set(re.findall(r"(?m)^  --(?:\[no-\])?([a-z0-9-]+)", shown))
        self.assertEqual(named | {"help"}, {w[2:] for w in self.completed("weft", "bench", "--") if w[5:] not in named})

    def test_it_serves(self):
        if self.weft("serve", "--help").returncode != 0:
            self.skipTest("this weft was built without its server")
        command = [self.prefix / "bin/weft", "serve", "x=weft-demo-embed,dtype=bfloat16", "--port", "0", "--device", "cpu"]
        manager = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)  # as systemd's
        self.addCleanup(manager.close)
        manager.bind(str(self.folder / "notify"))
        manager.settimeout(60)
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=self.folder,
                              env={**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify")}) as server:
            line = next((line for line in server.stderr if " ready: " in line), "")
            begun = manager.recv(999).split(b"\n") if line else []
            server.terminate()
            server.stderr.read()
        self.assertIn("ready: 1 model", line)
        self.assertEqual(server.returncode, 0)
        self.assertEqual((begun[0], manager.recv(999).split(b"\n")[0]), (b"READY=1", b"STOPPING=1"))

    def test_a_plugin_is_found_in_lib(self):
        plugin = WEFT.parent / "libweft_simt.so"
        if not plugin.exists():
            self.skipTest("libweft_simt.so is not built")
        (self.prefix / "lib/weft").mkdir(parents=True, exist_ok=True)
        shutil.copy(plugin, self.prefix / "lib/weft")
        done = self.weft("embed", "weft-demo-embed", "--device", "simt", input="hello\n")
        self.assertEqual((done.returncode, done.stdout[:1]), (0, "["), done.stderr)

    def test_its_libraries_are_the_system_s_or_its_own(self):
        said = subprocess.run(["ldd", self.prefix / "bin/weft"], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("not found", said)
        self.assertNotIn("build/deps", said)


if __name__ == "__main__":
    unittest.main()
