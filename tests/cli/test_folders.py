# SPDX-License-Identifier: Apache-2.0
"""What the files of a model folder change: end ids, pooling. Folders of tests/runtime/inputs."""
import json
import pathlib
import shutil
import tempfile
import unittest

from program import ROOT, weft

INPUTS = ROOT / "tests/runtime/inputs"


class Folders(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def copy(self, source, name):
        return pathlib.Path(shutil.copytree(source, self.folder / name))

    def test_the_tokenizer_s_eos_token_ends_an_answer(self):
        folder = self.copy(INPUTS / "eos-of-tokenizer-config", "eos")
        ask = ("generate", folder, "--prompt", "hi", "--max-tokens", "8", "--json")
        self.assertEqual(json.loads(weft(*ask).stdout)["finish_reason"], "stop")
        config = json.loads((folder / "tokenizer_config.json").read_text())
        del config["eos_token"]
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        self.assertEqual(json.loads(weft(*ask).stdout)["finish_reason"], "length")
        config = json.loads((folder / "config.json").read_text())
        del config["eos_token_id"]
        (folder / "config.json").write_text(json.dumps(config))
        self.assertIn(b"has no end-of-sequence id", weft(*ask).stderr)

    def test_additional_chat_templates(self):
        folder = self.copy(INPUTS / "additional-chat-templates", "templates")
        for tools, want in (([], b"D"), ([{"type": "function"}], b"T")):
            ask = json.dumps({"messages": [], "tools": tools}).encode()
            self.assertEqual(weft("render", folder, feed=ask).stdout.strip(), want)

    def test_templates_know_the_model_s_own_tokens(self):
        folder = self.copy(INPUTS / "additional-chat-templates", "variables")
        config = json.loads((folder / "tokenizer_config.json").read_text())
        config |= {"image_token": "<pad>", "extra_special_tokens": {"sound_token": "<mask>"}}
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
        (folder / "chat_template.jinja").write_text("{{ image_token }}{{ sound_token }}{{ eos_token }}")
        self.assertEqual(weft("render", folder, feed=b'{"messages": []}').stdout.strip(), b"<pad><mask></s>")

    def test_an_encoder_without_pooling_is_served_with_the_mean(self):
        folder = self.copy(INPUTS / "bert-without-modules", "bert")
        shown = weft("inspect", folder)
        self.assertIn(b"pooling: mean\n", shown.stdout)
        self.assertIn(b"names no pooling", shown.stderr)
        bare = weft("embed", folder, feed=b"a b\n").stdout
        (folder / "modules.json").write_text(json.dumps(
            [{"type": "sentence_transformers.models." + name, "path": path}
             for name, path in (("Transformer", ""), ("Pooling", "1_Pooling"))]))
        (folder / "1_Pooling").mkdir()
        for pooling, same in (("mean", True), ("cls", False)):
            (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode": pooling}))
            done = weft("embed", folder, feed=b"a b\n")
            self.assertEqual((done.stdout == bare, done.stderr), (same, b""))


if __name__ == "__main__":
    unittest.main()
