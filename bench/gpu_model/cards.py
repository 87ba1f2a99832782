# SPDX-License-Identifier: Apache-2.0
"""The constants of the GPUs: those of cards.json, which the constants that fit.py fits to measurements (fitted.json) replace. Each names its source."""
import json
import pathlib

NOT_FITTED = {"attention_start_us": 0, "prefill_start_tiles": 0, "prefill_factor": 1}


def fitted_file():
    return pathlib.Path(__file__).with_name("fitted.json")


def numbers(written):
    """Returns {name: number} of {name: [number, source]}"""
    return {name: value[0] for name, value in written.items() if name not in ("like", "latency")}


def cards(frozen=False):
    """Returns {card: {name: number, "latency": {opcode: cycles}}}. frozen: without the fitted constants."""
    written = json.loads(pathlib.Path(__file__).with_name("cards.json").read_text())
    written.pop("sources")
    out = {}
    for card, own in written.items():
        base = out.get(own.get("like"), {"latency": {}})
        latency = {**base["latency"], **numbers(own.get("latency", {}))}
        out[card] = {**NOT_FITTED, **base, **numbers(own), "latency": latency}
        out[card]["product_gap_us"] = out[card]["gap_us"]
    if not frozen:
        for card, own in json.loads(fitted_file().read_text()).items():
            if card != "sources":
                out[card].update(numbers(own))
    return out
