#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores a running server's reranker on the held-out questions, compared with BM25 and the server's embedders.

    tools/demo/evaluate.py [--url http://127.0.0.1:8000] [--key KEY] [--limit N] [--floor PERCENT] [-v]

Over 200 questions with 20 passages each: the share with the right passage first, and the mean of 1 / rank. --limit
selects N questions spread over the set; -v prints the wrong answers; below --floor the exit status is 1.
"""

import argparse
import json
import os
import sys
import urllib.error
import urllib.request

import heldout

URL = "http://127.0.0.1:8000"  # default address of `make serve` and `weft serve`


class Server:
    def __init__(self, url, key):
        self.url, self.key = url.rstrip("/"), key

    def ask(self, path, body=None):
        request = urllib.request.Request(self.url + path, body and json.dumps(body).encode(),
                                         {"authorization": f"Bearer {self.key}", "content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def models(self, kind):
        return [model["id"] for model in self.ask("/v1/models")["data"] if model["kind"] == kind]

    def rerank(self, model):
        def scores(query, passages):
            answer = self.ask("/v1/rerank", {"model": model, "query": query, "documents": passages})
            by_index = {result["index"]: result["relevance_score"] for result in answer["results"]}
            return [by_index[i] for i in range(len(passages))]
        return scores

    def embed(self, model):
        def scores(query, passages):
            answer = self.ask("/v1/embeddings", {"model": model, "input": [query, *passages]})
            asked, *given = [each["embedding"] for each in sorted(answer["data"], key=lambda each: each["index"])]
            return [sum(a * b for a, b in zip(asked, each)) for each in given]
        return scores


def evaluate(name, scores_of, questions, show=False):
    """Prints a line. Returns the percentage of questions whose answer is ranked first."""
    first, inverse = 0, 0.0
    for item, passages, answer in questions:
        scores = scores_of(item.query, passages)
        place = heldout.place(scores, answer)
        first += place == 1
        inverse += 1 / place
        if show and place > 1:
            best = max(range(len(passages)), key=lambda i: (scores[i], i != answer))
            print(f"  {item.query}\n    first: {passages[best]}\n    right, place {place}: {item.passage}")
    share = 100 * first / len(questions)
    print(f"{name:<34} {share:5.1f} % first   {inverse / len(questions):.3f} mean of 1/place")
    return share


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", default=URL, help=f"address of the server, {URL} where none is given")
    parser.add_argument("--key", default=os.environ.get("WEFT_API_KEY", ""), help="its key, else WEFT_API_KEY of the environment")
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--floor", type=float, default=0)
    parser.add_argument("-v", "--verbose", action="store_true")
    options = parser.parse_args()
    questions = heldout.questions()
    bm25 = heldout.Bm25([question.item.passage for question in questions])
    if options.limit:
        questions = sorted(questions, key=lambda each: heldout.chance("limit", each.item.query))[:options.limit]
    server = Server(options.url, options.key)
    try:
        rerankers = server.models("reranker")
        if not rerankers:
            sys.exit(f"{options.url} serves no reranker")
        print(f"{len(questions)} questions, {heldout.CANDIDATES} passages each")
        shares = [evaluate(name, server.rerank(name), questions, options.verbose) for name in rerankers]
        evaluate("BM25", bm25.scores, questions)
        for name in server.models("embedder"):
            evaluate(name, server.embed(name), questions)
    except urllib.error.HTTPError as error:
        hint = " (--key KEY, or WEFT_API_KEY)" if error.code == 401 else ""
        sys.exit(f"{options.url}: {error} {error.read().decode()[:200]}{hint}")
    except OSError as error:
        sys.exit(f"{options.url}: {error} (`make serve` starts a server, --url names another)")
    if min(shares) < options.floor:
        sys.exit(f"below {options.floor:g} %")


if __name__ == "__main__":
    main()
