# SPDX-License-Identifier: Apache-2.0
"""The output of commands, compared with each other and with plain arithmetic: options that influence
a result, the options that the help of each command lists, and refusals at a server's start.

    python3 tests/cli/test_results.py build/release/bin/weft
"""

import json
import math
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import unittest

from program import CHAT, EMBED, RERANK, ROOT, WEFT, weft

SERVING = ("kv-share", "step-stretch", "generation-config", "max-queued-requests", "max-queued-tokens",
           "max-result-bytes", "enable-prefix-caching")


class Results(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)

    def out(self, *args, feed=b""):
        done = weft(*args, feed=feed)
        self.assertEqual((done.returncode, done.stderr), (0, b""), args)
        return done.stdout

    def fails(self, code, says, *args, feed=b""):
        done = weft(*args, feed=feed)
        said = done.stderr.decode()
        self.assertEqual(done.returncode, code, said)
        self.assertIn(says, said)
        self.assertEqual(said.count("\n"), 1, said)

    def generated(self, *options, prompt="This red river remembers", raw=True):
        return json.loads(self.out("generate", CHAT, *(("--raw",) if raw else ()), "--json", "--prompt", prompt,
                                   "--max-tokens", "12", *options))

    def test_help_lists_what_a_command_has(self):
        """Options for many clients are in the help of serve and inspect only, and unknown to other commands."""
        for command in ("serve", "inspect", "generate", "embed", "rerank", "perplexity"):
            listed = set(re.findall(r"^  --(?:\[no-\])?([a-z0-9-]+)", self.out(command, "--help").decode(), re.M))
            whole = command in ("serve", "inspect")
            for name in SERVING:
                self.assertEqual(name in listed, whole, f"{command}: --{name}")
                if not whole:
                    self.fails(2, f"unknown option --{name}", command, CHAT, f"--{name}", "1")
            for name in ("port", "api-key", "max-connections", "shutdown-timeout", "http-threads"):
                self.assertEqual(name in listed, command == "serve", f"{command}: --{name}")
            for name in ("dtype", "max-model-len", "device", "threads", "log-level"):
                self.assertIn(name, listed, command)
        self.assertIn("usage: weft serve [NAME=]MODEL", self.out("help", "serve").decode())

    def test_tokens_at_both_ends(self):
        got = self.generated("--temperature", "0")
        prompt = json.loads(self.out("tokenize", CHAT, feed=b"This red river remembers"))
        self.assertEqual(got["prompt_token_ids"], prompt)
        self.assertIn(len(got["token_ids"]), range(1, 13))
        self.assertEqual(got["finish_reason"], "stop" if got["token_ids"][-1] in (500, 502) else "length")
        text = self.out("generate", CHAT, "--raw", "--prompt", "This red river remembers", "--max-tokens", "12",
                        "--temperature", "0").decode()
        self.assertEqual(text, got["text"] + "\n")
        chat = self.generated("--temperature", "0", raw=False)
        self.assertNotEqual(chat["prompt_token_ids"], prompt)  # includes the template's tokens
        message = json.dumps({"messages": [{"role": "user", "content": "This red river remembers"}],
                              "add_generation_prompt": True}).encode()
        rendered = self.out("render", CHAT, feed=message)
        self.assertEqual(chat["prompt_token_ids"], json.loads(self.out("tokenize", CHAT, "--no-special", feed=rendered)))
        system = self.generated("--temperature", "0", "--system", "Be red", raw=False)
        self.assertGreater(len(system["prompt_token_ids"]), len(chat["prompt_token_ids"]))

    def test_sampling_options(self):
        greedy = self.generated("--temperature", "0")
        for options in (("--top-k", "1"), ("--top-p", "0"), ("--temperature", "0", "--seed", "5"),
                        ("--top-k", "1", "--temperature", "2")):
            self.assertEqual(self.generated(*options)["token_ids"], greedy["token_ids"], options)
        one, same, other = (self.generated("--temperature", "2", "--seed", s)["token_ids"] for s in ("7", "7", "8"))
        self.assertEqual(one, same)
        self.assertNotEqual(one, other)
        drawn = {tuple(self.generated("--temperature", "2")["token_ids"]) for _ in range(3)}
        self.assertGreater(len(drawn), 1)  # no seed: a different answer each time
        self.assertEqual(self.generated("--temperature", "2", "--seed", "-2")["token_ids"],
                         self.generated("--temperature", "2", "--seed", "-2")["token_ids"])
        for option, wrong in (("--temperature", "2.1"), ("--temperature", "-0.1"), ("--top-p", "1.01"),
                              ("--top-k", "-1"), ("--max-tokens", "-1")):
            self.fails(2, f"{option} must be a ", "generate", CHAT, "--prompt", "x", option, wrong)

    def test_lengths_of_generation(self):
        prompt = "This red river remembers"
        count = len(json.loads(self.out("tokenize", CHAT, feed=prompt.encode())))
        for limit, window, wanted in ((3, 0, 3), (1, 0, 1), (50, count + 4, 4), (4, count + 4, 4), (0, count + 3, 3)):
            got = json.loads(self.out("generate", CHAT, "--raw", "--json", "--temperature", "0", "--prompt", prompt,
                                      "--max-tokens", limit, "--max-model-len", window))
            self.assertEqual((len(got["token_ids"]), got["finish_reason"]), (wanted, "length"), (limit, window))

    def test_flags_of_tokenize(self):
        text = b"red <|im_start|> river"
        marked = json.loads(self.out("tokenize", CHAT, feed=text))
        plain = json.loads(self.out("tokenize", CHAT, "--plain", feed=text))
        self.assertIn(501, marked)  # the id in tokenizer.json
        self.assertNotIn(501, plain)
        self.assertGreater(len(plain), len(marked))
        whole = self.out("detokenize", CHAT, feed=json.dumps(marked).encode())
        short = self.out("detokenize", CHAT, "--no-special", feed=json.dumps(marked).encode())
        self.assertIn(b"<|im_start|>", whole)
        self.assertNotIn(b"<|im_start|>", short)
        with_both = json.loads(self.out("tokenize", EMBED, feed=b"red river"))
        without = json.loads(self.out("tokenize", EMBED, "--no-special", feed=b"red river"))
        self.assertEqual(with_both[1:-1], without)
        self.assertEqual(self.out("tokenize", CHAT, "--no-special"), b"[]\n")
        self.assertEqual(self.out("detokenize", CHAT, feed=b"[]"), b"")
        for wrong, says in ((b"{}", "stdin must hold a JSON array of token ids"), (b"5", "must hold a JSON array"),
                            (b"[1.5]", "element 0 is not a token id"), (b"[0, 2147483648]", "element 1 is not"),
                            (b"[true]", "element 0 is not")):
            self.fails(1, says, "detokenize", CHAT, feed=wrong)

    def test_vectors_are_of_length_one(self):
        lines = self.out("embed", EMBED, feed=b"red river\nred river\nwarm sea\n").splitlines()
        first, same, other = (json.loads(line) for line in lines)
        self.assertEqual(first, same)
        self.assertNotEqual(first, other)
        for vector in (first, other):
            self.assertAlmostEqual(sum(x * x for x in vector), 1, 4)
        quantised = json.loads(self.out("embed", EMBED, "--dtype", "int8", feed=b"red river\n"))
        self.assertNotEqual(quantised, first)
        self.assertGreater(sum(a * b for a, b in zip(quantised, first)), 0.99)
        for threads in ("1", "2"):
            self.assertEqual(json.loads(self.out("embed", EMBED, "--threads", threads, feed=b"red river\n")), first)

    def test_windows_of_perplexity(self):
        text = " ".join(["This red river remembers the shore"] * 12)
        file = self.folder / "text"
        file.write_text(text)

        def measured(*options):
            return json.loads(self.out("perplexity", CHAT, file, "--json", *options))
        ids = json.loads(self.out("tokenize", CHAT, feed=text.encode()))
        whole = measured()
        self.assertEqual(whole["tokens"], len(ids) - 1)
        self.assertAlmostEqual(whole["bits_per_byte"],
                               math.log2(whole["perplexity"]) * whole["tokens"] / len(text.encode()), 3)
        for window, stride in ((2, 1), (8, 4), (8, 7), (16, 1), (33, 32)):
            got = measured("--window", str(window), "--stride", str(stride))
            self.assertEqual((got["tokens"], got["window"], got["stride"]), (len(ids) - 1, window, stride))
        self.assertEqual(measured("--window", "8")["stride"], 4)  # half a window
        self.assertEqual(measured("--window", str(len(ids)))["perplexity"], whole["perplexity"])
        self.assertEqual([measured(*o)["dtype"] for o in ((), ("--dtype", "int8"))], ["bfloat16", "int8"])
        self.fails(2, "--window must be a whole number from 2 ", "perplexity", CHAT, file, "--window", "1")

    def test_logits_are_compared(self):
        file, logits = self.folder / "text", self.folder / "logits"
        file.write_text("This red river remembers the shore across winter. This machine finds a pattern.")

        def measured(*options):
            return json.loads(self.out("perplexity", CHAT, file, "--json", "--window", "16", "--dtype", *options))
        first = measured("float32", "--write-logits", logits)
        self.assertNotIn("kl_divergence", first)
        data = logits.read_bytes()
        vocab, window, stride = struct.unpack_from("=8x3I", data)
        record = struct.Struct(f"=i{vocab}f")
        self.assertEqual((window, stride, len(data)), (16, 8, 24 + first["tokens"] * record.size))
        rows = [record.unpack_from(data, 24 + i * record.size) for i in range(first["tokens"])]
        self.assertEqual([row[0] for row in rows],
                         json.loads(self.out("tokenize", CHAT, feed=file.read_bytes()))[1:])
        logs = [math.log(sum(math.exp(x) for x in row[1:])) - row[1 + row[0]] for row in rows]
        self.assertAlmostEqual(math.log(first["perplexity"]), sum(logs) / len(logs), 4)
        same = measured("float32", "--compare-logits", logits)
        self.assertEqual([same[k] for k in ("perplexity", "kl_divergence", "equal_best", "logit_error")],
                         [first["perplexity"], 0, 1, 0])
        # logits that are twice as large: errors and divergence by plain sums
        logits.write_bytes(data[:24] + b"".join(record.pack(row[0], *(2 * x for x in row[1:])) for row in rows))
        got = measured("float32", "--compare-logits", logits)
        divergence = error = 0
        for row in rows:
            p, q = ([math.exp(factor * x) for x in row[1:]] for factor in (2, 1))
            divergence += sum(a / sum(p) * math.log(a / sum(p) / (b / sum(q))) for a, b in zip(p, q))
            error += sum(abs(x) for x in row[1:]) / vocab
        self.assertAlmostEqual(got["kl_divergence"], divergence / len(rows), 3)
        self.assertAlmostEqual(got["logit_error"], error / len(rows), 3)
        self.assertEqual(got["equal_best"], 1)
        logits.write_bytes(data[:24] + b"".join(record.pack(row[0], *(-x for x in row[1:])) for row in rows))
        line = self.out("perplexity", CHAT, file, "--window", "16", "--compare-logits", logits).decode().splitlines()[-1]
        self.assertRegex(line, r"^compared: KL divergence [0-9.e+]+ nats, equal best tokens 0, mean error of a logit [0-9.]+$")

    def test_logits_that_do_not_fit_are_refused(self):
        file, logits = self.folder / "text", self.folder / "logits"
        file.write_text("This red river remembers the shore across winter.")
        self.out("perplexity", CHAT, file, "--write-logits", logits)
        compared = ("--compare-logits", logits)
        self.fails(1, "window 1024, stride 512; here they are 503, 1024 and 1", "perplexity", CHAT, file, *compared, "--stride", "1")
        data = logits.read_bytes()
        for damaged, says in ((data[:-1], " ends after "), (data + b"x", " has logits of more tokens"),
                              (data[:24] + b"\x7f" + data[25:], " has logits of another text: token 1 differs"),
                              (b"", " has no logits; "), (b"x" + data[1:], " has no logits; ")):
            logits.write_bytes(damaged)
            self.fails(1, f"{logits}{says}", "perplexity", CHAT, file, *compared)
        self.fails(1, "none: No such file", "perplexity", CHAT, file, "--compare-logits", self.folder / "none")
        self.fails(1, "No space left", "perplexity", CHAT, file, "--write-logits", "/dev/full")
        self.fails(2, "not both", "perplexity", CHAT, file, *compared, "--write-logits", logits)

    def test_what_inspect_shows(self):
        shown = self.out("inspect", CHAT).decode()
        config = json.loads((pathlib.Path(CHAT) / "config.json").read_text())
        self.assertRegex(shown, rf"(?m)^weft-demo-chat: Llama\w*, generator, [0-9.]+ M parameters in \w+, "
                                rf"{config['max_position_embeddings']} tokens at most$")
        self.assertIn(f"{config['vocab_size']} in the model", shown)
        self.assertIn("chat template: the model's\n", shown)
        self.assertRegex(shown, r"(?m)^(\d+) tensors \(-v lists them\)$")
        self.assertNotIn("lm_head", shown)
        self.assertIn("  lm_head.weight ", weft("inspect", "-v", CHAT).stdout.decode())
        blocks = re.search(r"keys and values +([0-9.]+) MiB \((\d+) blocks of (\d+) tokens", shown)
        self.assertEqual(blocks[3], "64")
        less = self.out("inspect", CHAT, "--block-size", "16", "--kv-cache-memory", "64M").decode()
        self.assertRegex(less, r"keys and values +64\.00 MiB \(\d+ blocks of 16 tokens")
        template = self.folder / "t"
        template.write_text("{{ messages }}")
        self.assertIn(f"chat template: {template}\n", self.out("inspect", CHAT, "--chat-template", template).decode())
        self.assertIn("128 tokens at most", self.out("inspect", CHAT, "--max-model-len", "128").decode())
        self.assertRegex(self.out("inspect", EMBED).decode(), "(?m), embedder, ")
        self.assertRegex(self.out("inspect", RERANK).decode(), "(?m), reranker, ")
        self.assertNotIn("chat template", self.out("inspect", RERANK).decode())

    def test_dummy_weights(self):
        folder = self.folder / "dummy"
        folder.mkdir()
        shutil.copy(pathlib.Path(CHAT) / "config.json", folder)
        done = weft("generate", folder, "--load-format", "dummy", "--prompt", "x", "--max-tokens", "3")
        self.assertEqual(done.returncode, 0, done.stderr)
        config = json.loads((folder / "config.json").read_text())
        self.fails(1, "neither a readable tokenizer.json nor another tokenizer file", "generate", folder, "--prompt", "x")
        for wrong in (0, -5, 2**31, "many", None):
            (folder / "config.json").write_text(json.dumps({**config, "vocab_size": wrong}))
            self.fails(1, "vocab_size", "generate", folder, "--load-format", "dummy", "--prompt", "x")

    def test_dummy_weights_have_the_declared_format(self):
        folder = self.folder / "dummy-awq"
        folder.mkdir()
        config = json.loads((pathlib.Path(CHAT) / "config.json").read_text())
        for bits, held in ((4, "int4z_32"), (8, "int8")):
            declared = {"quant_method": "awq", "bits": bits, "group_size": 32, "version": "gemm"}
            (folder / "config.json").write_text(json.dumps({**config, "quantization_config": declared}))
            done = weft("generate", folder, "--load-format", "dummy", "--prompt", "x", "--max-tokens", "3", "--log-level", "info",
                        "--device", "cpu")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr.decode(), r"(?m) info model 'dummy-awq': random weights in the format of the folder, "
                             rf"quantized, awq gemm {bits} bits \(quantization_config\): held as {held}$")
            shown = [weft("inspect", folder, "--device", "cpu", *more).stdout.decode() for more in ((), ("--load-format", "dummy"))]
            self.assertRegex(shown[0], f"(?m)^  feed-forward .* {held}$")
            self.assertEqual(*(re.search("(?ms)^weights:\n.*?float32$", text)[0] for text in shown))

    def test_templates_from_files(self):
        template = self.folder / "t"
        template.write_text("{% for m in messages %}{{ m.content }}!{% endfor %}")
        got = json.loads(self.out("generate", CHAT, "--json", "--prompt", "red", "--max-tokens", "1", "--chat-template",
                                  template))
        self.assertEqual(got["prompt_token_ids"], json.loads(self.out("tokenize", CHAT, "--no-special", feed=b"red!")))
        template.write_text("{% for %}")
        self.fails(1, "chat template of model 'weft-demo-chat': ", "generate", CHAT, "--prompt", "x", "--chat-template",
                   template)
        self.fails(1, "No such file", "generate", CHAT, "--prompt", "x", "--chat-template", self.folder / "none")
        folder = pathlib.Path(shutil.copytree(CHAT, self.folder / "bare"))
        for path in ("tokenizer_config.json", "chat_template.jinja"):
            if (folder / path).exists() and path.endswith("json"):
                config = json.loads((folder / path).read_text())
                config.pop("chat_template", None)
                (folder / path).write_text(json.dumps(config))
            elif (folder / path).exists():
                (folder / path).unlink()
        done = weft("generate", folder, "--prompt", "red", "--max-tokens", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(b"model 'bare' has no chat template: message contents are joined by newlines", done.stderr)

    def test_kinds_of_models(self):
        for command, folder, says in (("generate", EMBED, "is an embedder: use 'weft embed'"),
                                      ("generate", RERANK, "is a reranker: use 'weft rerank'"),
                                      ("embed", CHAT, "is a generator: use 'weft generate'"),
                                      ("rerank", EMBED, "is an embedder: use 'weft embed'")):
            more = {"generate": ("--prompt", "x"), "rerank": ("--query", "x")}.get(command, ())
            self.fails(1, says, command, folder, *more, feed=b"x\n")

    def test_starts_that_are_refused(self):
        self.fails(2, f"two models are named 'weft-demo-embed': write NAME=MODEL for one of them", "serve", "--port",
                   "0", EMBED, EMBED)
        self.fails(2, "--served-model-name names all models 'x': write MODEL,served-model-name=x for one of them",
                   "serve", f"a={EMBED}", f"b={CHAT}", "--served-model-name", "x")
        self.fails(2, "two models are named 'a'", "serve", f"a={EMBED}", f"b={CHAT}", f"a={RERANK}")
        self.fails(2, "it names no folder", "serve", "a=")
        self.fails(2, "model 'a': unknown model option 'port'", "serve", f"a={EMBED},port=1")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.fails(1, f"cannot listen on 127.0.0.1 port {port}: another process listens on it: choose another "
                          "port with --port (make serve: PORT=...)\n", "serve", "--port", port, "--log-level", "error", EMBED)
        self.fails(1, "--host not a host: ", "serve", "--port", "0", "--log-level", "error", "--host", "not a host",
                   "--api-key", "k", EMBED)
        self.fails(1, "--ssl-certfile", "serve", "--port", "0", "--log-level", "error", "--ssl-certfile", __file__,
                   "--ssl-keyfile", __file__, EMBED)

    def first_words(self, *args):
        """Returns the lines of a server's start, up to the one to copy, and its port."""
        with subprocess.Popen([WEFT, "serve", "--port", "0", "--api-key", "k", *map(str, args)], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as server:
            said = []
            while not said or not said[-1].startswith("curl "):
                said.append(server.stdout.readline())
                self.assertTrue(said[-1], said)
            server.terminate()
        return said, re.search(r":(\d+)/\n$", said[0])[1]

    def test_the_first_words_of_a_server(self):
        (first, key, model, paste), port = self.first_words("--host", "0.0.0.0", RERANK)
        self.assertRegex(first, rf"^weft \S+ serves at http://127\.0\.0\.1:{port}/\n$")
        self.assertEqual(key, "API key: set with --api-key; replace KEY below by it\n")
        self.assertRegex(model, r"^  weft-demo-rerank +reranker +\S+ +cpu +\d+ MiB\n$")
        self.assertEqual(paste, f'curl http://127.0.0.1:{port}/v1/rerank -H "Authorization: Bearer KEY" -H \'Content-Type: application/json\' '
                         '-d \'{"model":"weft-demo-rerank","query":"warm wool","documents":["Wool is warm.","Cold sea."]}\'\n')
        said, port = self.first_words(RERANK, f"e={EMBED}", f"c={CHAT}", "--kv-cache-memory", "1536M")
        self.assertRegex(said[4], r"^  c +generator +\S+ +cpu +[1-3]\.\d\d GiB\n$")
        self.assertIn(f'http://127.0.0.1:{port}/v1/chat/completions -H', said[-1])
        self.assertTrue(said[-1].endswith('{"model":"c","messages":[{"role":"user","content":"Hi"}],"max_tokens":64}\'\n'), said[-1])
        if socket.has_ipv6:
            try:
                socket.create_server(("::1", 0), family=socket.AF_INET6).close()
            except OSError:
                return  # this machine has no such address
            said, port = self.first_words("--host", "::", EMBED)
            self.assertIn(f" serves at http://[::1]:{port}/\n", said[0])
            self.assertIn(f'curl http://[::1]:{port}/v1/embeddings -H', said[-1])
            self.assertIn('{"model":"weft-demo-embed","input":"The loom is warm."}', said[-1])

    def test_what_the_plan_says_of_http(self):
        said = weft("serve", "--port", "0", "-v", EMBED, "--kv-cache-memory", "1", CHAT).stderr.decode()
        line = re.search(r"(?m)^http: connections, request bodies and their preparation may use up to ([0-9.]+) GiB "
                         r"in addition to the models, including ([0-9.]+) GiB for request bodies \(--max-body-memory\)$", said)
        self.assertTrue(line, said)
        self.assertLess(float(line[2]), float(line[1]))
        said = weft("serve", "--port", "0", "-v", "--max-body-memory", "4G", EMBED, "--kv-cache-memory", "1",
                    CHAT).stderr.decode()
        self.assertIn("including 4.00 GiB for request bodies", said)


if __name__ == "__main__":
    unittest.main()
