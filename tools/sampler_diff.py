#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares weft's sampling with the logits processors of transformers: a chi-square test of the counts of
many draws against the processors' probabilities. Seeded. Needs torch, transformers and the program
distribution_probe of the build:

    tools/sampler_diff.py --program build/release/bin/distribution_probe [--cases 200]
"""
import argparse
import math
import random
import subprocess
import sys

import torch
from transformers.generation import logits_process as methods

VOCAB, DRAWS = 40, 100000


def case_of(dice):
    case = dict(seed=dice.randrange(2**63), temperature=1.0, top_p=1.0, min_p=0.0, top_k=0,
                repetition=1.0, logits=[round(dice.gauss(0, 1.5), 4) for _ in range(VOCAB)],
                prompt=[], outputs=[], bias={}, frequency=0.0, presence=0.0, stops=[], output_min=0,
                banned=[], allowed=[])
    for name, value in (("temperature", lambda: dice.choice([0.3, 0.7, 1.3, 2.0])),
                        ("top_p", lambda: dice.choice([0.3, 0.7, 0.9, 0.99])),
                        ("min_p", lambda: dice.choice([0.02, 0.1, 0.4])),
                        ("top_k", lambda: dice.choice([2, 5, 20, VOCAB - 1])),
                        ("repetition", lambda: dice.choice([0.7, 1.1, 1.5, 2.0]))):
        if dice.random() < 0.4:
            case[name] = value()
    if dice.random() < 0.3:
        case["frequency"] = dice.choice([-0.4, 0.2, 0.7])
        case["presence"] = dice.choice([0.0, -0.5, 0.6])
    if case["repetition"] != 1 or case["frequency"]:
        case["prompt"] = [dice.randrange(VOCAB) for _ in range(8)]
        case["outputs"] = [dice.randrange(VOCAB) for _ in range(8)]
    if dice.random() < 0.3:
        case["bias"] = {dice.randrange(VOCAB): round(dice.uniform(-4, 4), 3) for _ in range(4)}
    if dice.random() < 0.4:
        case["stops"] = dice.sample(range(VOCAB), dice.randrange(1, 5))
        case["output_min"] = dice.choice([0, DRAWS + 1])
    if dice.random() < 0.4:
        case[dice.choice(["banned", "allowed"])] = dice.sample(range(VOCAB), dice.randrange(10, 20))
    return case


class FrequencyAndPresence:
    """Frequency and presence penalty as defined by OpenAI, which transformers lacks: only outputs count."""

    def __init__(self, outputs, frequency, presence):
        self.outputs, self.frequency, self.presence = outputs, frequency, presence

    def __call__(self, ids, scores):
        scores = scores.clone()
        for token in set(self.outputs):
            scores[0, token] -= self.outputs.count(token) * self.frequency + self.presence
        return scores


def mask_of(case):
    if case["allowed"]:
        return sum(1 << token for token in case["allowed"])
    return sum(1 << token for token in range(VOCAB) if token not in case["banned"]) if case["banned"] else 0


def line_of(case):
    seen = [0] * VOCAB
    for token in case["outputs"]:
        seen[token] += 1
    for token in case["prompt"]:
        seen[token] |= 0x8000
    numbers = [DRAWS, case["seed"], case["temperature"], case["top_p"], case["min_p"], case["top_k"],
               case["repetition"], case["frequency"], case["presence"], VOCAB, *case["logits"], *seen, len(case["bias"])]
    for token, value in case["bias"].items():
        numbers += [token, value]
    numbers += [case["output_min"], len(case["stops"]), *case["stops"], mask_of(case)]
    return " ".join(map(str, numbers)) + "\n"


def probabilities(case):
    """Applies the processors in weft's order: masks, bias, penalties, temperature, min-p, top-k, top-p."""
    ids = torch.tensor([case["prompt"] + case["outputs"] or [0]], dtype=torch.long)
    scores = torch.tensor([case["logits"]], dtype=torch.float64)
    chain = []
    if case["allowed"]:
        chain.append(methods.PrefixConstrainedLogitsProcessor(lambda batch, ids: case["allowed"], 1))
    if case["banned"]:  # half of them with each of the two processors that ban tokens
        half = len(case["banned"]) // 2
        chain.append(methods.SuppressTokensLogitsProcessor(case["banned"][:half]))
        chain.append(methods.NoBadWordsLogitsProcessor([[token] for token in case["banned"][half:]]))
    if case["stops"]:
        chain.append(methods.MinNewTokensLengthLogitsProcessor(ids.shape[1], case["output_min"], case["stops"]))
    if case["bias"]:
        chain.append(methods.SequenceBiasLogitsProcessor(
            {(token,): value for token, value in case["bias"].items()}))
    if case["repetition"] != 1:
        chain.append(methods.RepetitionPenaltyLogitsProcessor(case["repetition"]))
    if case["frequency"] or case["presence"]:
        chain.append(FrequencyAndPresence(case["outputs"], case["frequency"], case["presence"]))
    chain.append(methods.TemperatureLogitsWarper(case["temperature"]))
    if case["min_p"] > 0:
        chain.append(methods.MinPLogitsWarper(case["min_p"]))
    if case["top_k"] > 0:
        chain.append(methods.TopKLogitsWarper(case["top_k"]))
    if case["top_p"] < 1:
        chain.append(methods.TopPLogitsWarper(case["top_p"]))
    for processor in chain:
        scores = processor(ids, scores)
    return torch.softmax(scores.double(), -1)[0].tolist()


def excess(expected, counts):
    """Returns the excess of chi-square in standard deviations of its cube root (tests/kernels/distribution.c)."""
    square, cells, rare_p, rare = 0.0, 0, 0.0, 0
    for p, count in zip(expected, counts):
        if p == 0 and count > 0:
            return math.inf
        if p * DRAWS < 10:
            rare_p, rare = rare_p + p, rare + count
            continue
        square += (count - p * DRAWS) ** 2 / (p * DRAWS)
        cells += 1
    if rare_p * DRAWS >= 1:
        square += (rare - rare_p * DRAWS) ** 2 / (rare_p * DRAWS)
        cells += 1
    if cells < 2:
        return 0.0
    part = 2 / (9 * (cells - 1))
    return ((square / (cells - 1)) ** (1 / 3) - (1 - part)) / math.sqrt(part)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--program", required=True)
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    dice = random.Random(args.seed)
    cases = [case_of(dice) for _ in range(args.cases)]
    run = subprocess.run([args.program], input="".join(map(line_of, cases)), text=True,
                         capture_output=True, check=True)
    lines = run.stdout.splitlines()
    assert len(lines) == len(cases), f"{len(lines)} answers to {len(cases)} cases"
    failed, worst = 0, 0.0
    for case, line in zip(cases, lines):
        off = excess(probabilities(case), list(map(int, line.split())))
        worst = max(worst, off)
        if off > 5:
            failed += 1
            print(f"{off:.1f} standard deviations off: {case}")
    print(f"{len(cases) - failed} passed, {failed} failed; the worst is {worst:.1f} standard "
          f"deviations off (seed {args.seed})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
