# SPDX-License-Identifier: Apache-2.0
"""Predicts decode steps of models that are split over the GPUs of one or several nodes, and their memory: the tables of docs/CLUSTER.md,
which page.py writes.

A rank computes what docs/SEVERAL_GPUS.md describes: its share of the heads, of the columns of the MLP, whole experts, and of the
vocabulary; a KV head is copied where there are more ranks than KV heads. A layer sums the results of all ranks twice in the default
mode; the step gathers the logits once. Kernels are those of predict.py. A sum within a node takes the time that NCCL 2.29 took with
nccl-tests for as many GPUs and bytes (peers.json, interpolated between powers of two; if every second size is left out,
the interpolation is off by 3 to 5 % there). Nobody measured several nodes: NCCL's own model of a tree adds 2 log2(nodes) times the latency of a
network hop (NET_HOP_US, of the protocol LL128 in its tuning table), and each node sends and receives 2 (nodes - 1) / nodes of the
bytes over its network cards, one of 400 Gbit/s per GPU (a DGX H100 has eight). The error is that of the kernels; that of the
network is not known.
"""
import json
import math

from predict import DIM, HERE, Experts, Model, added

PAGE = HERE.parents[1] / "docs/CLUSTER.md"
NET_HOP_US, NET_GBS = 8.5, 50  # src/graph/tuning.cc of NCCL; 400 Gbit/s
KEYS, STREAMS = 1024, (1, 32, 256)
CARD_GB, OTHERS_GB = {"H100": 80, "H200": 141}, 4  # activations, graphs, NCCL, the driver


class Link:
    """The collectives of `ranks` GPUs on `nodes` nodes."""

    def __init__(self, card, ranks, nodes):
        self.ranks, self.nodes = ranks, nodes
        peers = json.loads((HERE / "peers.json").read_text())[card]["all_reduce"][str(ranks // nodes)]
        self.table = sorted((int(size), us) for size, us in peers.items())

    def inside(self, size):
        """Returns the microseconds of an all-reduce within a node, between the logarithms of the measured sizes."""
        size = min(max(size, self.table[0][0]), self.table[-1][0])
        after = next(i for i, (at, _) in enumerate(self.table) if at >= size)
        (a, x), (b, y) = self.table[max(0, after - 1)], self.table[after]
        return y if a == b else x * (y / x) ** (math.log(size / a) / math.log(b / a))

    def sum(self, size):
        """Returns the seconds of an all-reduce of `size` bytes of each rank."""
        hops = 2 * math.ceil(math.log2(self.nodes)) * NET_HOP_US * 1e-6
        sent = 2 * (self.nodes - 1) / self.nodes * size / (NET_GBS * 1e9 * self.ranks / self.nodes)
        return self.inside(size) * 1e-6 + hops + sent


class Split:
    """A rank of a split decoder. shape: hidden, heads, kv_heads, layers, vocab, and inter, or experts, chosen, inner."""

    def __init__(self, card, kernels, shape, ranks, nodes=1):
        base = Experts if "experts" in shape else Model
        self.model, self.shape, self.ranks, self.link = base(card, kernels), shape, ranks, Link(card, ranks, nodes)
        self.model.hidden, self.model.kv_heads = shape["hidden"], max(1, shape["kv_heads"] // ranks)
        self.model.heads = shape["heads"] // ranks
        for name in ("experts", "chosen", "inner"):
            if name in shape:
                setattr(self.model, name, shape[name])

    def parameters(self):
        """Returns the number of weights of all ranks, without copies."""
        s = self.shape
        mlp = 3 * s["hidden"] * (s["inner"] * s["experts"] if "experts" in s else s["inter"])
        return s["layers"] * (s["hidden"] * DIM * 2 * (s["heads"] + s["kv_heads"]) + mlp) + 2 * s["vocab"] * s["hidden"]

    def kv_bytes(self):
        """Returns the bytes of keys and values of a token on all ranks."""
        return 4 * self.shape["layers"] * DIM * self.model.kv_heads * self.ranks

    def experts(self, rows):
        """Returns the times of the experts of the rank that has most of them to compute: Poisson's mean and the deviation that the
        largest of `ranks` samples has."""
        m, ranks = self.model, self.ranks
        most = lambda mean: mean + math.sqrt(2 * mean * (1 - 1 / ranks) * math.log(ranks))
        pairs = most(rows * m.chosen / ranks)
        used = min(pairs, m.experts / ranks, most(m.used(rows) / ranks))
        ops = m.mixture(rows)
        return added([ops["route"], ops["gate"], ops["combine"], *(
            m.experts_product(rows, n, k, (pairs, used)) for n, k in ((2 * m.inner, m.hidden), (m.hidden, m.inner)))])

    def step(self, rows):
        """Returns the seconds of a decode step, those of its collectives, and the error of the step."""
        m, s, ranks = self.model, self.shape, self.ranks
        hidden, heads = s["hidden"], (m.heads + 2 * m.kv_heads) * DIM
        norm = m.rows("add and norm of 4096: a row", rows * hidden / 4096, rows * hidden * 8)
        post = m.rows("heads and KV, 32 and 8 of 128: a row", rows * heads / 128 / 48, rows * heads * 4)
        layer = [m.product(rows, heads, hidden), m.decode_attention(rows, KEYS), m.product(rows, hidden, m.heads * DIM), norm, norm, post]
        if "experts" in s:
            layer += [m.product(rows, s["experts"], hidden), self.experts(rows)]
        else:
            inter = s["inter"] // ranks
            layer += [m.product(rows, 2 * inter, hidden), m.product(rows, hidden, inter),
                      m.rows("SwiGLU of 14336: a row", rows * inter / 14336, rows * inter * 6)]
        others = [m.timed(0, 0, "instructions")] * 6
        end = added([m.product(rows, s["vocab"] // ranks, hidden), m.sampling(rows, s["vocab"]), *others])
        own = added([added([added(layer)] * s["layers"]), end])
        sums = 2 * s["layers"] * self.link.sum(2 * rows * hidden) + self.link.sum(4 * rows * s["vocab"]) / 2
        return own[0] + sums, sums, own[2]


SHAPES = {
    "Llama-3.1-70B": {"hidden": 8192, "heads": 64, "kv_heads": 8, "layers": 80, "vocab": 128256, "inter": 28672},
    "Qwen3-235B-A22B": {"hidden": 4096, "heads": 64, "kv_heads": 4, "layers": 94, "vocab": 151936, "experts": 128, "chosen": 8, "inner": 1536},
}


LAYOUTS = ((8, 1), (8, 2), (16, 2), (32, 4))  # ranks, nodes


def tables():
    kernels = json.loads((HERE / "after.json").read_text())
    times = ["| model, bfloat16, predicted | streams | 8 ranks on 1 node | 8 ranks on 2 nodes of 4 GPUs | 16 ranks on 2 nodes | 32 ranks on 4 nodes | 2 and 4 copies of 8 ranks: tokens/s |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    memory = ["| model, bfloat16, predicted | ranks | weights, GB a GPU | keys and values, KB a token and GPU | tokens that fit, H100 80 GB | tokens that fit, H200 141 GB |",
              "| --- | --- | --- | --- | --- | --- |"]
    for name, shape in SHAPES.items():
        for ranks, nodes in ((4, 1), *LAYOUTS[:1], *LAYOUTS[2:]):
            split = Split("H100", kernels, shape, ranks, nodes)
            weights, token, fits = 2 * split.parameters() / ranks, split.kv_bytes() / ranks, []
            for card in ("H100", "H200"):
                room = 0.95 * CARD_GB[card] * 1e9 - weights - OTHERS_GB * 1e9
                fits.append("{:,.0f}".format(room // token // 1000 * 1000) if room > 8192 * token else "none")
            memory.append("| %s | %d | %.1f | %.0f | %s | %s |" % (name, ranks, weights / 1e9, token / 1e3, *fits))
        for card in ("H100", "H200"):
            for rows in STREAMS:
                cells, rates = [], []
                for ranks, nodes in LAYOUTS:
                    time, sums, error = Split(card, kernels, shape, ranks, nodes).step(rows)
                    rates.append(rows / time)
                    cells.append("%.1f ± %.1f ms (%.1f), %s" % (time * 1e3, error * 1e3, sums * 1e3, "{:,.0f}".format(rows / time)))
                times.append("| %s, %s | %d | %s | %s, %s |" % (name, card, rows, " | ".join(cells), *("{:,.0f}".format(n * rates[0]) for n in (2, 4))))
    return {"times": times, "memory": memory}
