# SPDX-License-Identifier: Apache-2.0
"""What the files of a model folder change: end ids, pooling, how weights are held. Folders of tests/runtime/inputs."""
import json
import pathlib
import shutil
import tempfile
import unittest

from program import CHAT, ROOT, weft

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

    def test_weights_that_int4_cannot_hold_are_counted(self):
        folder = self.copy(CHAT, "narrow")
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "hidden_size": 72, "head_dim": 16}))
        done = weft("inspect", "--load-format", "dummy", folder, "--dtype", "int4", "--device", "cpu")
        self.assertIn(b"weights that are held as bfloat16, not in 4 bits: 5; the number of their columns", done.stderr)

    def test_a_scale_beyond_float16_names_its_tensor(self):
        folder = self.copy(CHAT, "scales")
        config = json.loads((folder / "config.json").read_text())
        config["quantization_config"] = {"quant_method": "compressed-tensors", "format": "pack-quantized"}
        (folder / "config.json").write_text(json.dumps(config))
        raw = (folder / "model.safetensors").read_bytes()
        size = int.from_bytes(raw[:8], "little")
        header, data, name = json.loads(raw[8:8 + size]), raw[8 + size:], "model.layers.0.self_attn.o_proj.weight"
        header.pop(name)
        for tail, dtype, shape, more in (("_packed", "I32", [64, 8], bytes(2048)), ("_scale", "BF16", [64, 1], 64 * b"\x74\x49"),  # 1e6
                                         ("_shape", "I64", [2], b"".join(n.to_bytes(8, "little") for n in (64, 64)))):
            header[name + tail] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(more)]}
            data += more
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + data)
        ask = ("generate", folder, "--prompt", "hi", "--max-tokens", "1", "--device", "cpu")
        self.assertIn(f"model.safetensors: the tensor {name}: ".encode(), weft(*ask).stderr)
        self.assertNotIn(b"largest float16", weft(*ask, "--dtype", "bfloat16").stderr)


if __name__ == "__main__":
    unittest.main()
