# SPDX-License-Identifier: Apache-2.0
"""The commands of the executable from a shell: exit codes, one-sentence errors, unusual input, output
without a reader. Uses the models that `make serve` serves first.

    python3 tests/cli/test_commands.py build/release/bin/weft
"""

import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

from program import CHAT, EMBED, RERANK, ROOT, WEFT, weft
from terminals import terminal_open

ASSETS = pathlib.Path(os.environ.get("WEFT_ASSETS") or "WEFT_ASSETS is not set").absolute()
COMMANDS = ("serve", "generate", "embed", "rerank", "tokenize", "detokenize", "render", "inspect",
            "perplexity", "chat")
GENERATE = ("generate", CHAT, "--prompt", "hi", "--max-tokens", "4")


class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def fails(self, code, says, *args, **more):
        done = weft(*args, **more)
        said = done.stderr.decode()
        self.assertEqual(done.returncode, code, said)
        self.assertIn(says, said)
        self.assertEqual(said.count("\n"), 1, said)

    def copy(self, source, name):
        return pathlib.Path(shutil.copytree(source, self.folder / name))

    def test_a_gguf_file_is_a_model_for_all_commands(self):
        files = ROOT / "tests/fuzz/corpus/gguf"
        chat, embed = self.folder / "my chat.gguf", self.folder / "vectors"
        shutil.copy(files / "llama", chat)
        shutil.copy(files / "bert", embed)
        ids = json.loads(weft("tokenize", chat, feed=b"abcd e").stdout)
        self.assertEqual(weft("detokenize", chat, feed=json.dumps(ids).encode()).stdout.decode().strip()[:4], "abcd")
        asked = {"messages": [{"role": "user", "content": "abc"}]}
        self.assertEqual(weft("render", chat, feed=json.dumps(asked).encode()).stdout.strip(), b"abc")
        done = weft("generate", chat, "--prompt", "ab", "--max-tokens", "3", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(json.loads(done.stdout)["prompt_token_ids"])
        self.assertEqual(len(json.loads(weft("embed", embed, feed=b"a b").stdout)), 32)
        shown = weft("inspect", chat).stdout.decode()
        self.assertTrue(shown.startswith("my chat: LlamaForCausalLM, generator, "), shown)
        self.assertIn(" in Q4_1, Q5_1, 64 tokens at most", shown)
        self.assertRegex(shown, r"(?m)^  attention +[0-9.]+ MiB bfloat16, Q4_1$")
        shown = weft("inspect", chat, "--dtype", "bfloat16").stdout.decode()
        self.assertIn(" in bfloat16, 64 tokens at most", shown)
        self.fails(1, "cut.gguf: byte 8: the number of tensors needs 8 bytes", "inspect", self.cut(chat, 12))

    def cut(self, file, bytes_left):
        path = self.folder / "cut.gguf"
        path.write_bytes(file.read_bytes()[:bytes_left])
        return path

    def test_help_and_usage(self):
        for command in COMMANDS:
            done = weft(command, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, b""), command)
            self.assertIn(b"usage: weft " + command.encode(), done.stdout)
            self.fails(2, "unknown option --nothing", command, "--nothing")
            self.fails(2, "usage: weft " + command, command)
        self.fails(2, "there is no command 'nothing' (see weft --help)", "nothing")
        self.fails(2, "there is no command 'tokenise', did you mean 'tokenize'? (see weft --help)", "tokenise")
        self.fails(2, "unknown option --temperatur, did you mean '--temperature'?", "generate", "--temperatur", "1")
        for command in (("serve",), ("inspect",), ("generate", "--prompt", "a"), ("chat",)):
            self.fails(2, "unknown model option 'dtyp', did you mean 'dtype'?", *command, f"{CHAT},dtyp=int8")
        self.fails(1, "there is no folder ", "inspect", self.folder / "none")
        self.assertEqual(weft().returncode, 2)
        self.assertEqual(weft("--version").returncode, 0)
        self.fails(2, "--prompt TEXT is required", "generate", CHAT)
        self.fails(2, "whole number of 64 bits", *GENERATE, "--seed", "1.5e18")

    def test_an_argument_too_many_is_told_its_place(self):
        for says, command, *args in (
                ("texts come on stdin, one a line", "embed", EMBED), ("the text comes on stdin", "tokenize", CHAT),
                ("the prompt is given with --prompt TEXT", "generate", CHAT), ("on stdin", "detokenize", CHAT),
                ("documents come on stdin, one a line", "rerank", RERANK), ("on stdin", "render", CHAT),
                ("one model is inspected at a time", "inspect", CHAT),
                ("there is one text", "perplexity", CHAT, "FILE"), ("at most 64 models", "serve", *64 * [CHAT])):
            self.fails(2, f"weft {command}: 'hello' is an argument too many: ", command, *args, "hello")
            self.fails(2, says, command, *args, "hello")
        self.fails(2, "weft embed: MODEL is missing", "embed")
        self.fails(2, "--dtype must be one of auto, float32, bfloat16, float16, int8, int4, fp8, got 'int3'", "inspect", CHAT, "--dtype", "int3")
        self.fails(2, "weft perplexity: an argument is missing", "perplexity", CHAT)
        self.fails(2, "give MODEL or --template FILE, not both", "render", CHAT, "--template", "x")

    def test_options_of_no_use_are_refused(self):
        self.fails(2, "--system has no effect with --raw", "generate", CHAT, "--prompt", "a", "--raw", "--system", "x")
        for name, *options in (("threads", "--threads", "2"), ("exact", "--no-exact"), ("exact", "--exact"), ("device", "--device=cpu"),
                               ("dtype", "--dtype", "int8"), ("threads", "-v", "--threads", "0")):
            self.fails(2, f"--{name} has no effect with --url", "chat", "--url", "http://127.0.0.1:9", *options)
        done = weft("chat", "--url", "http://127.0.0.1:9", "m", "--log-format", "json", "-v", "--top-k", "2", feed=b"")
        self.assertEqual((done.returncode, done.stdout), (0, b""), done.stderr)

    def test_a_request_is_rendered_as_the_server_does(self):
        template = self.folder / "t.jinja"
        template.write_text("{{ messages | length }} {{ add_generation_prompt }} {{ tools is none }} {{ documents is none }} "
                            "{{ enable_thinking }} {{ chat_template_kwargs is defined }}")
        asked = {"messages": [], "chat_template_kwargs": {"enable_thinking": False, "messages": [1], "add_generation_prompt": False}}
        for more, said in (({}, "0 True True True False False"), ({"add_generation_prompt": False, "tools": [1]}, "0 False False True False False"),
                           ({"add_generation_prompt": None}, "0 True True True False False")):
            done = weft("render", "--template", template, feed=json.dumps({**asked, **more}).encode())
            self.assertEqual((done.stdout.decode(), done.stderr), (said, b""))
        self.fails(1, "chat_template_kwargs must be an object", "render", "--template", template,
                   feed=b'{"messages":[],"chat_template_kwargs":1}')
        plain = self.copy(EMBED, "plain")  # no template
        asked = {"messages": [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]}
        self.assertEqual(weft("render", plain, feed=json.dumps(asked).encode()).stdout.decode(), "a\nb")

    def test_a_terminal_is_told_that_stdin_is_read(self):
        for what, typed, *args in (("lines", b"a\n\x04", "embed", EMBED), ("text", b"a\n\x04", "tokenize", CHAT)):
            ours, theirs = terminal_open(unittest.SkipTest)
            os.write(ours, typed)
            done = weft(*args, stdin=theirs)
            os.close(ours)
            os.close(theirs)
            self.assertEqual((done.returncode, done.stderr.decode()),
                             (0, f"weft: reading {what} from stdin, Ctrl-D ends it\n"))
            self.assertIn(b"]", done.stdout)

    def test_what_a_file_says_is_safe_on_a_terminal(self):
        template = self.folder / "evil.jinja"
        template.write_text("a\x1b]0;owned\x07b\u202ec\n")
        ours, theirs = terminal_open(unittest.SkipTest)
        done = subprocess.run([WEFT, "render", "--template", template], input=b'{"messages": []}', stdout=theirs,
                              stderr=subprocess.PIPE, timeout=600)
        shown = os.read(ours, 4096)
        os.close(ours)
        os.close(theirs)
        self.assertEqual((done.returncode, shown), (0, b"a\\x1b]0;owned\\x07b\\u{202e}c"), done.stderr)
        self.assertEqual(weft("render", "--template", template, feed=b'{"messages": []}').stdout.decode(),
                         "a\x1b]0;owned\x07b\u202ec")

    def test_a_key_of_the_environment_is_one_line(self):
        done = subprocess.run([WEFT, "chat", "--url", "http://127.0.0.1:9"], input=b"a\n", capture_output=True,
                              env={**os.environ, "OPENAI_API_KEY": "sk-x\r"}, timeout=600)
        self.assertEqual((done.returncode, done.stderr), (1, b"weft: the key in OPENAI_API_KEY must be one line\n"))

    def test_special_tokens_in_text(self):
        """[SEP] in a text is the token if the option is set, otherwise five characters."""
        def vector(text, *options):
            done = weft("embed", EMBED, *options, feed=text.encode())
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            return json.loads(done.stdout)
        option = "--special-tokens-in-text"
        self.assertEqual(vector("warm sea\n"), vector("warm sea\n", option))
        self.assertNotEqual(vector("warm [SEP] sea\n"), vector("warm [SEP] sea\n", option))
        self.assertEqual(vector("warm [SEP] sea\n", option), vector("warm[SEP]sea\n", option))

    def test_dynamic_frequencies_are_said(self):
        folder = self.copy(CHAT, "dynamic")
        config = json.loads((folder / "config.json").read_text())
        length = config["max_position_embeddings"]
        config["rope_scaling"] = {"type": "dynamic", "factor": 4.0}
        (folder / "config.json").write_text(json.dumps(config))
        for wanted, said in ((0, False), (length, False), (2 * length, True)):
            done = weft("generate", folder, "--prompt", "hi", "--max-tokens", "1", "--max-model-len", wanted)
            self.assertEqual(done.returncode, 0, done.stderr)
            line = f"transformers gives those up to {length} tokens the trained ones"
            self.assertEqual(line.encode() in done.stderr, said, done.stderr)

    def test_help_of_one_command(self):
        for command in COMMANDS:
            self.assertEqual(weft("help", command).stdout, weft(command, "--help").stdout)
            self.assertEqual(weft("help", command).returncode, 0)
        self.fails(2, "there is no command 'bogus'", "help", "bogus")
        self.fails(2, "weft help: 'extra' is an argument too many", "help", "serve", "extra")
        self.assertEqual(weft("help").stdout, weft("--help").stdout)
        with open("/dev/full", "wb") as full:
            self.fails(1, "No space left", "help", "serve", stdout=full)

    def lines_of_a_server(self, *options, folder=EMBED, **environment):
        """Runs the curl line that a server prints for copying; returns the printed lines and the answer."""
        with subprocess.Popen([WEFT, "serve", "--port", "0", folder, *options],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              env={**os.environ, **environment}) as server:
            said = []
            while not said or "curl " not in said[-1]:
                said.append(server.stdout.readline().decode())
                self.assertTrue(said[-1], said)
            deadline, answer = time.monotonic() + 600, b""
            while b"embedding" not in answer and time.monotonic() < deadline:
                line = said[-1].replace("Bearer KEY", "Bearer typed")
                answer = subprocess.run(["sh", "-c", line], capture_output=True, timeout=600,
                                        env={**os.environ, **environment}).stdout
            server.terminate()
        return "".join(said), answer

    @unittest.skipUnless(shutil.which("curl"), "curl is not installed")
    def test_lines_to_paste(self):
        made, answer = self.lines_of_a_server()
        self.assertIn(b'"object":"embedding"', answer)
        self.assertRegex(made, r"(?s)^weft \S+ serves at http://127.0.0.1:\d+/\nAPI key: (weft-\w+)\n.*Bearer \1\"")
        given, answer = self.lines_of_a_server("--api-key", "typed")
        self.assertIn(b'"object":"embedding"', answer)
        self.assertIn("API key: set with --api-key; replace KEY below by it\n", given)
        self.assertNotIn("typed", given)
        self.assertNotIn("WEFT_API_KEY", given)
        known, answer = self.lines_of_a_server(WEFT_API_KEY="shown")
        self.assertIn(b'"object":"embedding"', answer)
        self.assertIn("API key: the value of WEFT_API_KEY\n", known)
        self.assertIn('Bearer $WEFT_API_KEY"', known)
        file = self.folder / "it's $(here).keys"
        file.write_text("# first\r\n\r\nfiled\r\n#x\nother\n")
        kept, answer = self.lines_of_a_server("--api-key-file", file)
        self.assertIn(b'"object":"embedding"', answer)
        self.assertNotIn("filed", kept)
        self.assertIn(f"API key: a line of {file}\n", kept)
        named, answer = self.lines_of_a_server(folder=f"it's \"one\"={EMBED}")
        self.assertIn(b'"object":"embedding"', answer)

    def test_help_says_what_an_option_takes(self):
        def says(command):
            return " ".join(weft(command, "--help").stdout.decode().split())
        self.assertIn("--kv-cache-memory 0..1024T ", says("serve"))
        self.assertIn("--max-result-bytes 1K..1T ", says("serve"))
        self.assertIn("text of the prompt (required)", says("generate"))
        self.assertIn("post-processor", says("tokenize"))
        self.assertNotIn("post-processor", says("detokenize"))
        self.assertIn("special tokens as part of the text", says("detokenize"))

    def test_every_option_stands_in_the_guide(self):
        guide = (ROOT / "docs/OPTIONS.md").read_text()
        for command in COMMANDS:
            names = re.findall(r"^  --(?:\[no-\])?([a-z0-9-]+)", weft(command, "--help").stdout.decode(), re.M)
            self.assertTrue(names, command)
            for name in names:
                self.assertRegex(guide, rf"`[^`\n]*--(no-)?{name}(?![\w-])", f"{command}: docs/OPTIONS.md")

    def test_wrong_options_of_a_server_exit_2(self):
        for says, *options in (("--api-key: an API key must be", "--api-key", ""),
                               ("--api-key: an API key must be", "--api-key", "a b"),
                               ("listening on 0.0.0.0 needs a key", "--host", "0.0.0.0"),
                               ("--allowed-origins: 'foo' is not an origin: write scheme://host", "--allowed-origins", "https://a.b,foo"),
                               ("must be set together", "--ssl-certfile", "x"), ("must be set together", "--ssl-keyfile", "x"),
                               ("--ssl-ciphers needs --ssl-certfile", "--ssl-ciphers", "HIGH"),
                               ("--ssl-ciphers: 'NOTHING' is no cipher suite", "--ssl-certfile", "x", "--ssl-keyfile", "x",
                                "--ssl-ciphers", "HIGH:NOTHING")):
            self.fails(2, says, "serve", "--port", "0", self.folder / "none", *options)

    def test_a_pipe_in_place_of_a_file(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        self.fails(1, "pipe", "render", "--template", pipe, feed=b'{"messages":[]}')
        self.fails(1, "pipe", "serve", "--port", "0", "--log-level", "error", "--api-key-file",
                   pipe, CHAT)

    def test_missing_folders(self):
        for command in (("inspect",), ("generate", "--prompt", "x"), ("embed",), ("tokenize",),
                        ("rerank", "--query", "q"), ("render",), ("detokenize",),
                        ("serve", "--port", "0", "--log-level", "error")):
            self.fails(1, "No such file or directory", *command, self.folder / "none")
        self.fails(1, "is a file, not a model folder", "inspect", __file__)

    def test_what_is_no_model_folder_names_the_remedy(self):
        """Every command that opens a model prints the sentence. Cases: (argument, words of the sentence)."""
        zoo = self.folder / "zoo"
        shutil.copytree(EMBED, zoo / "b-model")
        shutil.copytree(EMBED, zoo / "c-model")
        (zoo / "a-notes").mkdir()
        cache = self.folder / "models--O--N"
        shutil.copytree(EMBED, cache / "snapshots/0f1e")
        pickled = self.copy(EMBED, "pickled")
        (pickled / "model.safetensors").rename(pickled / "pytorch_model.bin")
        shards = self.copy(EMBED, "shards")
        (shards / "model.safetensors").rename(shards / "pytorch_model-00001-of-00002.bin")
        pth = self.copy(EMBED, "pth")
        (pth / "model.safetensors").rename(pth / "consolidated.pth")
        quant = self.folder / "quant"
        quant.mkdir()
        (quant / "x.Q8_0.gguf").write_bytes(b"GGUF")
        (quant / "y.gguf").write_bytes(b"<html>")
        pointer = self.copy(EMBED, "pointer")
        (pointer / "model.safetensors").write_text(
            "version https://git-lfs.github.com/spec/v1\noid sha256:" + 64 * "0" + "\nsize 1234567\n")
        lora = self.folder / "lora"
        lora.mkdir()
        (lora / "adapter_config.json").write_text("{}")
        for given, says in (
                (zoo, f"but folders in it are models: give one of them, such as {zoo}/b-model"),
                (cache, f"such as {cache}/snapshots/0f1e"),
                (pickled, "pytorch_model.bin is no file of torch.save: it does not begin as a zip archive"),
                (shards, "has no model.safetensors, no pytorch_model.bin and no index of one: give a folder"),
                (pth, "consolidated.pth is not read, only safetensors and pytorch_model.bin are; convert it once"),
                (quant, f"give the GGUF file itself, {quant}/x.Q8_0.gguf"),
                (quant / "x.Q8_0.gguf", "byte 4: the version needs 4 bytes, but only 0 are"),
                (quant / "y.gguf", "does not begin as a GGUF file: it is cut or something else"),
                (f"{EMBED}/model.safetensors", f"give the folder that holds it, {EMBED}\n"),
                (pointer, "model.safetensors is a Git LFS pointer, not the weights: run 'git lfs pull' in"),
                (lora, "it is an adapter; merge it into its base model and give that"),
                ("Qwen/Qwen2.5-0.5B", "there is no folder Qwen/Qwen2.5-0.5B here, Qwen/Qwen2.5-0.5B is not complete in "
                 "/nowhere, and HF_HUB_OFFLINE is set: unset it, or copy the model there")):
            self.fails(1, says, "inspect", given)
            self.fails(1, says, "serve", "--port", "0", "--log-level", "error", given)
            if given not in (pickled, shards, pth, pointer):
                self.fails(1, says, "tokenize", given)

    def test_a_mistyped_path_is_no_hub_id(self):
        (self.folder / "models").mkdir()
        for given in ("models/nope", "./nope", "nope", self.folder / "nope"):
            done = weft("inspect", given, cwd=self.folder)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"there is no folder {given} (No such file or directory): give the".encode(), done.stderr)
        self.assertIn(b"HF_HUB_OFFLINE is set", weft("inspect", "other/nope", cwd=self.folder).stderr)

    def rewrite(self, folder, change):
        """Rewrites the folder's weights with the header and tensors that `change` has modified."""
        path = folder / "model.safetensors"
        raw = path.read_bytes()
        size = int.from_bytes(raw[:8], "little")
        header, data = json.loads(raw[8:8 + size]), raw[8 + size:]
        data = change(header, data) or data
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(len(text).to_bytes(8, "little") + text + data)

    def test_both_vocabularies_are_told(self):
        folder = self.copy(CHAT, "wide")
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 510}))
        shown = weft("inspect", "--load-format", "dummy", folder).stdout.decode()
        self.assertIn("vocabulary: 503 ids in the tokenizer, 510 in the model; ", shown)

    def test_a_classifier_without_labels(self):
        folder = self.copy(RERANK, "classifier")
        config = json.loads((folder / "config.json").read_text())
        for name in ("id2label", "label2id", "num_labels"):
            config.pop(name, None)
        (folder / "config.json").write_text(json.dumps(config))

        def double(header, data):
            for name in ("classifier.weight", "classifier.bias"):
                entry = header[name]
                first, end = entry["data_offsets"]
                entry["data_offsets"] = [len(data), len(data) + 2 * (end - first)]
                entry["shape"][0] = 2
                data += 2 * data[first:end]
            return data
        self.rewrite(folder, double)
        self.fails(1, "has 2 labels (rows of classifier.weight); a reranker has one, classifiers are "
                   "not served", "inspect", folder)

    def test_limits_of_what_is_read(self):
        folder = self.copy(EMBED, "many")
        self.rewrite(folder, lambda header, data: header.update(
            {f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(530000)}))
        self.fails(1, "at most 524288 tensors", "inspect", folder)
        path = folder / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        for long, code in ((60000, 0), (70000, 1)):
            made = {"type": "Prepend", "prepend": "x" * long}
            path.write_text(json.dumps({**tokenizer, "normalizer": made}))
            done = weft("tokenize", folder, feed=b"hi")
            self.assertEqual(done.returncode, code, done.stderr)
        self.fails(1, "at most 65536 are served: is there a Prepend or Replace with a long text?",
                   "tokenize", folder, feed=b"hi")
        made = {"type": "Sequence", "normalizers": [
            {"type": "Replace", "pattern": {"String": "x"}, "content": "x" * 300}] * 2}
        path.write_text(json.dumps({**tokenizer, "normalizer": made}))
        self.fails(1, "at most 65536 are served", "tokenize", folder, feed=b"hi")
        self.fails(1, "has no config.json, but folders in it are models", "inspect", self.folder)

    def test_a_model_is_judged_by_its_config_alone(self):
        folder = self.folder / "alone"
        folder.mkdir()
        config = json.loads((pathlib.Path(CHAT) / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "limit": [0, float("inf")]}))
        done = weft("inspect", folder)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertIn(b"alone: LlamaForCausalLM, generator, ", done.stdout)
        self.assertIn(b"the folder has no weights: the plan is that of weights as config.json declares them", done.stdout)
        del config["torch_dtype"]
        (folder / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "fp8"}}))
        done = weft("inspect", folder)
        self.assertIn(b" parameters in int8, ", done.stdout)
        self.assertIn(b"quantized, fp8 (quantization_config): planned as int8", done.stdout)
        awq = {"bits": 4, "group_size": 32, "version": "gemm", "zero_point": True}
        held = {"attention": "int4z_32", "feed-forward": "int4z_32"}
        for beside, declared, left in ((False, awq, {}), (True, awq, {}),
                                       (False, {**awq, "modules_to_not_convert": ["self_attn"]}, {"attention": "bfloat16"}),
                                       (True, {**awq, "modules_to_not_convert": ["up_proj"]}, {"feed-forward": "bfloat16, int4z_32"}),
                                       (False, {**awq, "modules_to_not_convert": ["layers.1.mlp"]}, {"feed-forward": "bfloat16, int4z_32"})):
            (folder / "quant_config.json").unlink(missing_ok=True)
            if beside:
                (folder / "quant_config.json").write_text(json.dumps(declared))
            keys = {} if beside else {"quantization_config": {"quant_method": "awq", **declared}}
            (folder / "config.json").write_text(json.dumps({**config, **keys}))
            done = weft("inspect", folder, "--device", "cpu")
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            for kind, format in {**held, **left}.items():
                self.assertRegex(done.stdout.decode(), rf"(?m)^  {kind} +[0-9.]+ MiB {format}$")
            where = "quant_config.json" if beside else "quantization_config"
            self.assertRegex(done.stdout.decode(), rf"(?m)^quantized, awq gemm 4 bits \({where}\): planned as int4z_32$")
        (folder / "quant_config.json").unlink(missing_ok=True)
        for more in ({"architectures": ["MadeUpForCausalLM"]},
                     {"architectures": ["MadeUpForCausalLM"], "vocab_size": None}):
            (folder / "config.json").write_text(json.dumps(
                {**config, **more, "quantization_config": {"quant_method": "fp8"}}))
            for options in ((), ("--load-format", "dummy")):
                self.fails(1, "the architecture MadeUpForCausalLM is not served; served are those of Bert, ",
                           "inspect", folder, *options)
        self.assertEqual(weft("inspect", folder).stdout, b"architecture: MadeUpForCausalLM\n"
                         b"format: quantized, fp8 (quantization_config)\nserved: no\n")

    def test_a_plan_that_does_not_fit_is_shown(self):
        for options, says in ((("--kv-cache-memory", "1"), "needs "), (("--kv-cache-memory", "9T"), "are free")):
            done = weft("inspect", CHAT, *options)
            self.assertEqual(done.returncode, 1)
            self.assertIn(says, done.stderr.decode())
            self.assertIn(b"served: yes, as generator, but not in the memory of this machine\n", done.stdout)
            self.assertRegex(done.stdout.decode(), r"(?m)^  keys and values.* MiB")
            self.assertRegex(done.stdout.decode(), r"(?m)^weights:$")

    def test_output_that_is_full(self):
        ids = weft("tokenize", CHAT, feed=b"hello").stdout
        for feed, *args in ((b"", "inspect", CHAT), (b"x", "tokenize", CHAT), (b"", "--help"),
                            (ids, "detokenize", CHAT), (b"", "embed", "--help"), (b"", *GENERATE),
                            (b"", *GENERATE, "--json"), (b"x\n", "embed", EMBED),
                            (b"x\n", "rerank", RERANK, "--query", "q"),
                            (b"x\n", "rerank", RERANK, "--query", "q", "--top-n", "1"),
                            (b'{"messages":[{"role":"user","content":"x"}]}', "render", CHAT)):
            with open("/dev/full", "wb") as full:
                self.fails(1, "writing to stdout failed: No space left", *args, feed=feed,
                           stdout=full)

    def test_a_reader_that_leaves(self):
        """If the reader of stdout exits, the command ends like a program killed by SIGPIPE (141 in a shell) and prints no
        error; help texts and similar output end with 0."""
        for code, feed, *args in ((-signal.SIGPIPE, b"a\nb\n", "embed", EMBED), (0, b"", "help", "serve"),
                                  (0, b"", "--help"), (0, b"", "inspect", CHAT), (0, b"", "inspect", "-v", CHAT),
                                  (-signal.SIGPIPE, b"x", "tokenize", CHAT), (-signal.SIGPIPE, b"", *GENERATE)):
            read, write = os.pipe()
            os.close(read)
            with open(write, "wb") as nobody:
                done = weft(*args, feed=feed, stdout=nobody)
            self.assertEqual(done.returncode, code, args)
            self.assertNotRegex(done.stderr, b"(?i)pipe|writing", args)

    def test_each_line_is_answered_at_once(self):
        with subprocess.Popen([WEFT, "embed", EMBED], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE) as talk:
            for text in (b"one\n", b"two\n"):
                talk.stdin.write(text)
                talk.stdin.flush()
                self.assertEqual(len(json.loads(talk.stdout.readline())), 64)
            talk.stdin.close()
            self.assertEqual(talk.wait(600), 0)

    def perplexity(self, text, *options, folder=CHAT):
        file = self.folder / "text"
        file.write_text(text)
        done = weft("perplexity", folder, file, "--json", *options)
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return json.loads(done.stdout)

    def test_perplexity(self):
        text = ("This red river remembers the shore across winter. This machine finds a pattern. "
                "Every river follows a window. This warm song remembers every stone. ") * 2
        ids = json.loads(weft("tokenize", CHAT, feed=text.encode()).stdout)
        whole = self.perplexity(text, "--window", len(ids))
        self.assertEqual((whole["tokens"], whole["window"]), (len(ids) - 1, len(ids)))
        self.assertAlmostEqual(whole["bits_per_byte"] * len(text),
                               math.log2(whole["perplexity"]) * whole["tokens"], delta=0.05)
        # within one window the split into steps and blocks makes no difference
        for options in (("--max-num-seqs", 4), ("--block-size", 16), ("--stride", 1),
                        ("--max-num-seqs", 3, "--block-size", 32)):
            again = self.perplexity(text, "--window", len(ids), *options)
            self.assertEqual(again["perplexity"], whole["perplexity"], options)
        # each token is scored once, with at least window minus stride tokens before it
        narrow = [self.perplexity(text, "--window", 8, "--stride", n) for n in (1, 4, 7)]
        self.assertEqual({n["tokens"] for n in narrow}, {whole["tokens"]})
        self.assertEqual(len({n["perplexity"] for n in narrow}), 3)
        mixed = " ".join(sorted(text.split(), key=lambda word: word[::-1]))
        self.assertLess(2 * whole["perplexity"], self.perplexity(mixed)["perplexity"])
        told = weft("perplexity", CHAT, "-", feed=text.encode()).stdout.decode().splitlines()
        self.assertEqual([line.split()[0] for line in told],
                         ["perplexity", "tokens", "bits", "window"])

    def test_perplexity_of_a_trained_model(self):
        folder = ASSETS / "decoder/tinystories-656k"
        if not folder.exists():
            self.skipTest(f"no {folder}")
        for case in json.loads((folder / "golden.json").read_text())["cases"][:3]:
            known = [x for x in case["prompt_logprobs"] if x is not None]
            got = self.perplexity(case["prompt"], folder=folder)
            self.assertEqual(got["tokens"], len(known))
            self.assertAlmostEqual(math.log(got["perplexity"]), -sum(known) / len(known), places=4)

    def test_perplexity_refuses(self):
        file = self.folder / "text"
        file.write_text("a")
        self.fails(1, "must have at least 2", "perplexity", CHAT, file, "--window", "8")
        self.fails(1, "--stride 9999999 must", "perplexity", CHAT, file, "--stride", "9999999")
        self.fails(2, "--stride 9 must be below --window 8", "perplexity", CHAT, file, "--window",
                   "8", "--stride", "9")
        self.fails(1, "is over the model's", "perplexity", CHAT, file, "--window", "99999999")
        self.fails(1, "use 'weft embed'", "perplexity", EMBED, file)
        self.fails(1, "No such file", "perplexity", CHAT, self.folder / "none")
        file.write_bytes(b"a \xff b")
        self.fails(1, "UTF-8", "perplexity", CHAT, file)
        self.fails(2, "usage: weft perplexity", "perplexity", CHAT)

    def test_lines(self):
        plain = weft("embed", EMBED, feed=b"a b\n\nc\n").stdout
        self.assertEqual(plain.count(b"\n"), 3)
        self.assertEqual(weft("embed", EMBED, feed=b"a b\r\n\r\nc").stdout, plain)
        self.assertEqual(weft("embed", EMBED).stdout, b"")
        self.fails(1, "line 2: the text is too long", "embed", EMBED, stdout=subprocess.DEVNULL,
                   feed=b"a\n" + b"word " * 300000)
        folder = os.open(self.folder, os.O_RDONLY)
        done = subprocess.run([WEFT, "embed", EMBED], stdin=folder, capture_output=True, timeout=600)
        os.close(folder)
        self.assertEqual((done.returncode, done.stderr), (1, b"weft: reading stdin failed\n"))

    def test_a_prompt_as_long_as_the_context(self):
        prompt = "This red river remembers the shore"
        count = len(json.loads(weft("tokenize", CHAT, feed=prompt.encode()).stdout))
        command = ("generate", CHAT, "--raw", "--json", "--prompt", prompt, "--max-model-len")
        self.fails(1, f"{count} tokens > {count - 1} maximum", *command, count)
        self.assertEqual(len(json.loads(weft(*command, count + 1).stdout)["token_ids"]), 1)

    def test_a_long_file_on_stdin(self):
        """A read of a file returns all requested bytes, a read of a pipe at most 64 KiB."""
        template, path, text = self.folder / "template", self.folder / "in", "x" * (8 << 20)
        template.write_text("{{ a }}")
        path.write_text(json.dumps({"a": text}))
        with open(path, "rb") as file:
            done = subprocess.run([WEFT, "render", "--template", template], stdin=file, capture_output=True,
                                  timeout=600)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(done.stdout.decode(), text)

    def test_documents_by_score(self):
        """--top-n prints the best documents first, equal scores in input order; scores are sigmoids."""
        def scores(*options):
            done = weft("rerank", RERANK, "--query", "warm wool", *options, feed=b"sea\nwool\nsea\nwarm wool\ncold\n")
            self.assertEqual((done.returncode, done.stderr), (0, b""))
            return [json.loads(line) for line in done.stdout.splitlines()]
        every, raw = scores(), scores("--raw-scores")
        self.assertEqual([r["index"] for r in every], [0, 1, 2, 3, 4])
        self.assertEqual(every[0]["relevance_score"], every[2]["relevance_score"])
        for one, logit in zip(every, raw):
            self.assertAlmostEqual(one["relevance_score"], 1 / (1 + math.exp(-logit["relevance_score"])), 6)
        ranked = sorted(every, key=lambda r: (-r["relevance_score"], r["index"]))
        self.assertEqual(scores("--top-n", "9"), ranked)
        self.assertEqual(scores("--top-n", "2"), ranked[:2])

    def test_the_time_of_a_rendering(self):
        template = self.folder / "template"
        template.write_text("{{ strftime_now('%Y-%m-%d %H:%M:%S') }}")
        done = weft("render", "--template", template, "--now", "1999-12-31T23:59:58Z", feed=b"{}")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"1999-12-31 23:59:58", b""))
        for wrong in ("1999-12-31", "1999-12-31T23:59:58Zx", "now", ""):
            self.fails(1, f"--now must look like 2025-07-10T12:00:00Z, got '{wrong}'", "render", "--template",
                       template, "--now", wrong, feed=b"{}")

    def test_the_template_for_tools(self):
        folder = self.copy(CHAT, "tools")
        path = folder / "tokenizer_config.json"
        config = json.loads(path.read_text())
        config["chat_template"] = [{"name": "default", "template": "plain"},
                                   {"name": "tool_use", "template": "tools: {{ tools | length }}"}]
        path.write_text(json.dumps(config))
        for tools, want in (([], b"plain"), ([{"type": "function"}], b"tools: 1")):
            done = weft("render", folder, feed=json.dumps({"messages": [], "tools": tools}).encode())
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, want, b""))
        del config["chat_template"]
        path.write_text(json.dumps(config))
        done = weft("render", folder, feed=b'{"messages":[{"role":"user","content":"as the server"}]}')
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"as the server", b""))

    def test_texts_that_are_none(self):
        done = subprocess.run([WEFT.encode(), *(a.encode() for a in GENERATE[:3]), b"\xff\xfe"],
                              capture_output=True, timeout=600)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"--prompt is not valid UTF-8: byte 0 is 0xFF", done.stderr)
        self.fails(2, "--system is not valid UTF-8", *GENERATE, "--system", b"a\xff")
        self.fails(1, "invalid JSON at byte 0", "detokenize", CHAT)
        self.fails(1, "element 1 is not a token id", "detokenize", CHAT, feed=b"[1, -1]")
        self.fails(1, "element 1: there is no such token as 99999999", "detokenize", CHAT,
                   feed=b"[1, 99999999]")
        folder = self.copy(EMBED, "hole")
        path = folder / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        vocab = tokenizer["model"]["vocab"]
        last = max(vocab, key=vocab.get)
        vocab[last] += 1  # leaves one id without a token
        path.write_text(json.dumps(tokenizer))
        self.fails(1, f"there is no such token as {vocab[last] - 1}", "detokenize", folder,
                   feed=json.dumps([vocab[last], vocab[last] - 1]).encode())
        for command, what in (("embed", "text"), ("rerank", "document")):
            model = EMBED if command == "embed" else RERANK
            query = ("--query", "q") if command == "rerank" else ()
            self.fails(1, f"line 2: the {what} is not valid UTF-8: byte 1 is 0xFF", command, model,
                       *query, feed=b"a\nb\xffc\nd\n", stdout=subprocess.DEVNULL)
        self.fails(1, "the text is not valid UTF-8: byte 1 is 0xFF", "tokenize", CHAT, feed=b"a\xffb")
        self.fails(2, "--query TEXT must not be empty", "rerank", RERANK, "--query", "", feed=b"a\n")
        self.fails(2, "--query is not valid UTF-8", "rerank", RERANK, "--query", b"\xff", feed=b"a\n")
        self.fails(1, "stdin must hold a JSON object", "render", CHAT, feed=b"[]")

    def test_names_with_marks(self):
        for name in ("a,b", "x=y", "dtype=int8,c"):
            folder = self.copy(CHAT, name)
            for command in ("inspect", "tokenize"):
                self.assertEqual(weft(command, folder).returncode, 0, name)
            self.assertIn(f"{name}: Llama".encode(), weft("inspect", folder).stdout)
            self.assertIn(f"{name}: Llama".encode(), weft("inspect", ".", cwd=folder).stdout)
        self.assertIn(b"n: Llama", weft("inspect", f"n={self.folder}/a\\,b,dtype=int8").stdout)

    def test_a_transformer_in_a_folder_of_its_own(self):
        folder = self.folder / "old"
        folder.mkdir()
        shutil.copytree(EMBED, folder / "0_Transformer")
        shutil.move(folder / "0_Transformer/1_Pooling", folder)
        modules = json.loads((folder / "0_Transformer/modules.json").read_text())
        modules[0]["path"] = "0_Transformer"
        (folder / "modules.json").write_text(json.dumps(modules))
        self.assertEqual(weft("embed", folder, feed=b"x\n").stdout,
                         weft("embed", EMBED, feed=b"x\n").stdout)
        self.assertIn(b"tensors (-v lists them)\n", weft("inspect", folder).stdout)

    def test_foreign_text_on_a_terminal(self):
        """Names and texts from model files and arguments are printed without control characters."""
        evil = "a\x1b]0;owned\x07\nweft: all is well\u202e\x9b2J"
        shown = "a\\x1b]0;owned\\x07\\nweft: all is well\\u{202e}\\u{9b}2J"
        folder = self.copy(EMBED, "evil")
        self.rewrite(folder, lambda header, data: header.update(
            {evil: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}))
        self.fails(1, shown, "inspect", folder)
        folder = self.copy(EMBED, "head")
        self.rewrite(folder, lambda header, data: header.update(
            {"cls." + evil: {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}))
        done = weft("inspect", folder, "-v")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"  cls.{shown} ", done.stdout.decode())
        self.assertNotRegex(done.stdout.decode(), "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")

        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "architectures": [evil]}))
        self.fails(1, shown, "inspect", folder)
        (self.folder / "chat.jinja").write_text("{{ raise_exception(%s) }}" % json.dumps(evil))
        self.fails(1, shown, "render", "--template", self.folder / "chat.jinja",
                   feed=b'{"messages":[]}')
        self.fails(2, shown, evil)
        self.fails(2, shown, "inspect", "--" + evil)
        self.fails(2, shown, "generate", CHAT, "--prompt", "x", "--top-k", evil)
        self.fails(2, shown, "serve", f"{evil}={CHAT},dtype=none")
        self.fails(2, "the name of a model is not valid UTF-8: byte 1 is 0xFF", "serve", "--port",
                   "0", b"a\xff=nothing")

    def test_a_tokenizer_of_another_model(self):
        folder = self.copy(CHAT, "other")
        config = json.loads((folder / "config.json").read_text())
        config.update(vocab_size=300, eos_token_id=None)
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "generation_config.json").unlink()
        self.fails(1, "is not one of the 300 ids of the model", "generate", folder, "--prompt", "hi",
                   "--load-format", "dummy", "--log-level", "error")

    def test_the_length_of_the_tokenizer(self):
        folder = self.copy(EMBED, "short")
        for length, tokens in ((16, 16), (10**30, 512), (1024, 512)):
            config = json.loads((folder / "tokenizer_config.json").read_text())
            config["model_max_length"] = length
            (folder / "tokenizer_config.json").write_text(json.dumps(config))
            self.assertIn(f"{tokens} tokens at most".encode(), weft("inspect", folder).stdout)
        (folder / "tokenizer_config.json").write_text('{"model_max_length": 16}')
        (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 32}')
        self.assertIn(b"32 tokens at most", weft("inspect", folder).stdout)
        self.assertIn(b"64 tokens at most",
                      weft("inspect", folder, "--max-model-len", "64").stdout)

    def test_too_little_memory_names_the_remedy(self):
        self.fails(1, "raise --kv-cache-memory\n", *GENERATE, "--kv-cache-memory", "1")
        self.fails(1, "--max-model-len 128 would fit", *GENERATE, "--kv-cache-memory", "40K")
        self.fails(1, "GiB are free: serve fewer models, smaller ones or with --dtype int8, or lower --kv-cache-memory, "
                      "--max-num-batched-tokens, --max-num-seqs or --max-model-len\n", *GENERATE, "--kv-cache-memory",
                   "1000T")

    def test_ranks_that_share_a_model(self):
        """Ranks give the same answer, the plan prints their number, and a model that cannot be split gives one sentence."""
        greedy = (*GENERATE, "--temperature", "0")
        whole = weft(*greedy)
        for ranks in ("2", "4"):
            shared = weft(*greedy, "--tensor-parallel-size", ranks, "--threads", "4")
            self.assertEqual((shared.returncode, shared.stdout), (0, whole.stdout), shared.stderr)
        folder = self.copy(CHAT, "warned")
        (folder / "generation_config.json").write_text('{"temperature": 3}')
        done = weft("inspect", folder, "--tensor-parallel-size", "2", "--threads", "2")
        self.assertIn(b", split over 2 ranks; sizes are the sum of the 2 ranks in this process\n", done.stdout)
        self.assertIn(b"\nweights of rank 0:\n", done.stdout)
        self.assertEqual(done.stderr.count(b"'temperature' is not a number"), 1, done.stderr)
        self.fails(1, "4 heads and 2 KV heads cannot be divided evenly; possible sizes: 1, 2, 4\n", *GENERATE,
                   "--tensor-parallel-size", "3", "--threads", "3")
        self.fails(1, "needs as many threads and the cpu device has 3: lower it, or raise --threads\n", *GENERATE,
                   "--tensor-parallel-size", "4", "--threads", "3")
        self.fails(1, "a BertModel is an encoder and is not split; add ,tensor-parallel-size=1 after its folder\n", "inspect",
                   EMBED, "--tensor-parallel-size", "2", "--threads", "2")
        self.fails(1, "4 heads and 2 KV heads cannot be divided evenly; possible sizes: 1, 2, 4\n", *GENERATE,
                   "--tensor-parallel-size", "8", "--threads", "8")
        self.fails(2, "tensor-parallel-size", *GENERATE, "--tensor-parallel-size", "9")
        if (pathlib.Path(WEFT).parent / "libweft_simt.so").exists():
            plain = (*greedy, "--dtype", "float32")
            shared = weft(*plain, "--tensor-parallel-size", "2", "--device", "simt:3,1")
            self.assertEqual((shared.returncode, shared.stdout), (0, weft(*plain).stdout), shared.stderr)
            for devices, count in ("1", 1), ("1,2,3", 3):
                self.fails(1, f"needs as many GPUs and --device names {count}: add ,device= with 2 numbers\n", *GENERATE,
                           "--tensor-parallel-size", "2", "--device", f"simt:{devices}")
            said = weft("inspect", CHAT, "--tensor-parallel-size", "2", "--device", "simt").stdout
            self.assertIn(b", split over 2 ranks; sizes are the sum of the 2 ranks in this process\n", said)
            self.assertEqual(self.lines_of_gpus(), {"simt:1", "simt:3"})

    def lines_of_gpus(self):
        """Of which GPUs a start has said how products of FP8 weights run, before the products are timed."""
        folder, found = self.copy(CHAT, "fp8"), set()
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "quantization_config": {"quant_method": "fp8"}}))
        with subprocess.Popen([WEFT, "generate", folder, "--load-format", "dummy", "--tensor-parallel-size", "2", "--device",
                               "simt:3,1", "--no-exact", "--max-num-seqs", "1", "--max-model-len", "64", "--prompt", "x",
                               "--log-level", "info"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
            for line in process.stderr:
                if told := re.search(r" info (.*): FP8 weights: products ", line):
                    found.add(told[1])
                if len(found) == 2:
                    process.kill()
        return found

    def test_the_plan_of_several_gpus(self):
        """Models with --device are placed first, the others on the GPU with most memory left. The KV cache of a split
        model is limited by its fullest GPU. The last model does not fit, so the entire plan is printed and nothing is
        loaded."""
        if not (pathlib.Path(WEFT).parent / "libweft_simt.so").exists():
            self.skipTest("no libweft_simt.so beside the program")
        more = f"{CHAT},dtype=float32"
        few = f"{more},max-num-seqs=2"
        wide = f"{more},kv-share=0.1,max-num-seqs=4000,max-num-batched-tokens=6000"
        done = weft("serve", "--port", "0", "--device", "simt:0,1,2,3,4,5", f"left={few},device=simt:0\\,1", f"right={few},device=simt:3\\,4",
                    f"one={few},device=simt:0", f"next={more},device=simt:1,kv-cache-memory=2M", f"two={wide},tensor-parallel-size=2,device=simt:0\\,2",
                    f"both={wide},data-parallel-size=2,device=simt:3\\,5,kv-cache-memory=8M",
                    f"much={few},tensor-parallel-size=2,device=simt:1\\,6,kv-cache-memory=240M", f"plain={few},device=cpu",
                    f"pair={more},max-num-seqs=100,tensor-parallel-size=2,device=simt:4\\,3",
                    f"none={more},device=simt:7,kv-cache-memory=1")
        said = done.stderr.decode()
        self.assertEqual(done.returncode, 1, said)
        self.assertIn("weft: model 'none': a sequence of ", said)
        table = [line for line in said.splitlines() if re.match(r"  \S.{27}( +[a-z]+:?\d*| +[-.0-9]+){9}$", line)]
        names, *rows = (line[30:].split() for line in table)
        self.assertEqual(names, ["simt:0", "simt:1", "simt:3", "simt:4", "simt:2", "simt:5", "simt:6", "cpu", "simt:7"])
        places = {line[2:30].strip(): [n for n, cell in zip(names, row) if cell != "-"] for line, row in zip(table[1:], rows)}
        self.assertEqual(places, {"left": ["simt:1"], "right": ["simt:4"], "one": ["simt:0"], "next": ["simt:1"], "two": ["simt:0", "simt:2"],
                                  "both copy 0": ["simt:3"], "both copy 1": ["simt:5"],
                                  "much": ["simt:1", "simt:6"], "plain": ["cpu"], "pair": ["simt:3", "simt:4"], "none": ["simt:7"], "planned": names, "free": names})
        plans = re.findall(r"device: (?:\S+), .*\n(?:(?!device).*\n)*planned: (\S+) MiB of (\S+ .iB), (\S+) MiB of it", said)
        planned, free, kept = zip(*((float(all), size, float(keys)) for all, size, keys in plans))
        for cell, mib in zip(rows[-2] + rows[-1], planned + tuple(float(size[:-4]) * {"M": 1, "G": 1024}[size[-3]] for size in free), strict=True):
            self.assertAlmostEqual(float(cell), mib / 1024, delta=0.006)
        self.assertNotIn("product workspace", said)  # exact mode needs none
        shares = dict(re.findall(r"^(\w+)[:,].*\n(?:  .*\n)*  keys and values +(\S+) MiB", said, re.M))
        self.assertEqual(shares, {"left": "4.00", "right": "4.00", "one": "4.00", "next": "2.00", "two": shares["two"], "pair": shares["pair"], "both": "8.00", "much": "240.00",
                                  "plain": "4.00", "none": "0.00"})
        room = float(free[0].split()[0]) - planned[0] + kept[0]  # free on simt:0, where `one` has ten times the share
        self.assertAlmostEqual(float(shares["two"]), 2 * room * 0.1 / 1.1, delta=0.5)
        half = float(shares["two"]) / 2
        room = float(free[2].split()[0]) - planned[2] + kept[2] - 8  # free on simt:3, which the second model uses
        self.assertAlmostEqual(float(shares["pair"]), 2 * room, delta=1.5)
        for got, want in zip(kept, (4 + half, 126, 8 + float(shares["pair"]) / 2, 4 + float(shares["pair"]) / 2, half, 8, 120, 4, 0), strict=True):
            self.assertAlmostEqual(got, want, delta=0.51)

    def test_a_plugin_that_is_not_built(self):
        """A missing plugin is one line at level info; the searched folders are printed at debug and with --device cuda."""
        alone = shutil.copy(WEFT, self.folder / "weft")
        for options, code, line, paths in (((), 0, True, False), (("-v",), 0, True, True),
                                           (("--device", "cuda"), 1, False, True)):
            done = subprocess.run([alone, "inspect", CHAT, "--log-level", "info", *options], capture_output=True,
                                  timeout=600)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual(b"no GPU is used: the CUDA plugin is not built (make cuda)\n" in done.stderr, line)
            self.assertEqual(b"libweft_cuda.so" in done.stderr, paths, done.stderr)
            self.assertEqual(done.stderr.endswith(b": 'make cuda' builds the plugin if nvcc is installed, --device cpu "
                                                  b"computes without a GPU\n"), code != 0, done.stderr)

    def test_a_cpu_is_exact_whatever_is_asked(self):
        for options, said in (((), b""), (("--exact",), b""),
                              (("--no-exact",), b"--no-exact changes nothing on a CPU, whose results are exact\n")):
            done = weft("inspect", CHAT, "--device", "cpu", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stderr.endswith(said) if said else done.stderr == b"", done.stderr)

    def test_a_model_with_kv_cache_memory_has_no_share(self):
        """A model with --kv-cache-memory takes no part in the split: the second model gets all of the rest, however small
        its share, and only the third one fails."""
        done = weft("serve", "--port", "0", f"a={CHAT},kv-cache-memory=1M,kv-share=1000",
                    f"b={CHAT},kv-share=0.001", f"c={CHAT},kv-cache-memory=1,kv-share=1000")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"weft: model 'c': a sequence of ", done.stderr)

    def test_keys_and_values_suit_a_laptop(self):
        """The default size of the KV cache, and the rule that its line names: decision 0046."""
        folder = self.copy(CHAT, "large")
        config = json.loads((folder / "config.json").read_text())

        def planned(tokens, *options):
            (folder / "config.json").write_text(json.dumps(
                {**config, "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64,
                 "hidden_size": 576, "max_position_embeddings": tokens}))
            done = weft("inspect", folder, "--device", "cpu", "--load-format", "dummy", "--log-level", "info", *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            said = re.search(r"planned: \S+ [GM]iB of (\S+ [GM]iB), (\S+ [GM]iB) of it for keys and values", done.stderr.decode())
            free, kv = (float(size[:-4]) * {"GiB": 1024, "MiB": 1}[size[-3:]] for size in said.groups())
            mib, rule = re.search(r"keys and values +(\S+) MiB \(.*; (.*)\)", done.stdout.decode()).groups()
            self.assertLess(abs(kv - float(mib)), 6)
            return free / 1024, float(mib), rule
        token = 30 * 2 * 3 * 64 * 2 / 2**20  # MiB
        free, mib, rule = planned(8192)
        if free < 8:
            self.skipTest("less than 8 GiB are free")
        self.assertEqual((mib, rule), (1024, f"the default, {mib / 1024:g} GiB per model"))
        _, mib, rule = planned(65536)
        self.assertEqual((round(mib, 2), rule), (65536 * token, "one sequence of the maximum length"))
        _, mib, rule = planned(64)
        self.assertEqual((round(mib, 2), rule), (256 * 64 * token, "all that --max-num-seqs can fill"))
        self.assertEqual(planned(8192, "--kv-cache-memory", "300M")[1:], (300, "--kv-cache-memory"))

    def test_inspect_shows_each_copy(self):
        shown = weft("inspect", CHAT, "--device", "cpu", "--data-parallel-size", "3", "--kv-cache-memory", "16M").stdout.decode()
        self.assertEqual(re.findall(r", copy (\d): ", shown), ["0", "1", "2"], shown)
        self.assertEqual(len(re.findall(r"keys and values +16\.00 MiB", shown)), 3, shown)

    def test_a_plan_that_does_not_fit_is_shown(self):
        for memory in ("1000T", "1"):
            done = weft(*GENERATE, "--kv-cache-memory", memory, "--log-level", "info")
            said = done.stderr.decode()
            self.assertEqual(done.returncode, 1, said)
            for part in ("weights ", "activations ", "keys and values ", "planned: "):
                self.assertIn(part, said)
            self.assertIn("weft: ", said.splitlines()[-1])
        done = weft("serve", "--port", "0", EMBED, "--kv-cache-memory", "1", CHAT)
        said = done.stderr.decode()
        self.assertEqual(done.returncode, 1, said)
        self.assertRegex(said, r"http: connections, request bodies .* may use up to [0-9.]+ GiB")

    def test_a_model_that_gives_no_numbers(self):
        for command, source in ((("generate", "--prompt", "hi"), CHAT), (("embed",), EMBED),
                                (("rerank", "--query", "hi"), RERANK)):
            folder = self.copy(source, command[0])
            path = folder / "model.safetensors"
            raw = path.read_bytes()
            size = int.from_bytes(raw[:8], "little")
            path.write_bytes(raw[:8 + size] + b"\xff" * (len(raw) - 8 - size))  # all values are NaN
            self.fails(1, "finite", command[0], folder, *command[1:], feed=b"hi\n")


if __name__ == "__main__":
    unittest.main()
