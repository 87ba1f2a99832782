# SPDX-License-Identifier: Apache-2.0
"""The official Cohere clients, version 1 and 2 of the API, on the rerank route."""

import cohere

from harness import KEY, main

DOCUMENTS = ["A thread of wool is warm.", "The sea is cold.", "Ships sail.", "A loom weaves wool."]


def check(results):
    scores = [r.relevance_score for r in results]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= s <= 1 for s in scores)


def test_rerank_v1():
    client = cohere.Client(api_key=KEY, base_url=main().base)
    answer = client.rerank(model="rerank", query="warm wool", documents=DOCUMENTS)
    assert sorted(r.index for r in answer.results) == [0, 1, 2, 3]
    check(answer.results)
    assert answer.meta.billed_units.search_units == 1
    answer = client.rerank(model="rerank", query="warm wool", documents=DOCUMENTS, top_n=2,
                           return_documents=True)
    assert len(answer.results) == 2
    assert all(r.document.text == DOCUMENTS[r.index] for r in answer.results)


def test_rerank_v2():
    client = cohere.ClientV2(api_key=KEY, base_url=main().base)
    answer = client.rerank(model="rerank", query="warm wool", documents=DOCUMENTS, top_n=3)
    assert len(answer.results) == 3
    check(answer.results)


def test_any_base_address():
    for base in ("", "/v1", "/v2"):
        for client in (cohere.Client, cohere.ClientV2):
            answer = client(api_key=KEY, base_url=main().base + base).rerank(
                model="rerank", query="warm wool", documents=DOCUMENTS, top_n=1)
            assert len(answer.results) == 1


def test_errors():
    client = cohere.ClientV2(api_key=KEY, base_url=main().base)
    for call, kind in (
        ({"model": "none", "documents": ["a"]}, cohere.NotFoundError),
        ({"model": "rerank", "documents": []}, cohere.BadRequestError),
        ({"model": "tiny", "documents": ["a"]}, cohere.BadRequestError),
    ):
        try:
            client.rerank(query="q", request_options={"max_retries": 0}, **call)
        except kind:
            continue
        raise AssertionError(call)
