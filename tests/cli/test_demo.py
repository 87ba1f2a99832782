# SPDX-License-Identifier: Apache-2.0
"""The evaluation of the demo reranker on small sets with hand-computed scores.

    python3 tests/cli/test_demo.py
"""

import contextlib
import io
import math
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/demo"))
sys.dont_write_bytecode = True

import evaluate  # noqa: E402
import heldout  # noqa: E402


class Demo(unittest.TestCase):
    def test_others_of_the_same_score_stand_before_the_answer(self):
        for scores, place in (([3, 2, 1], 1), ([1, 2, 3], 3), ([2, 2, 1], 2), ([0, 0, 0], 3), ([1, 2, 2], 3)):
            self.assertEqual(heldout.place(scores, 0), place, scores)

    def test_bm25_of_three_passages(self):
        passages = ["red wool red", "blue wool", "green"]
        bm25 = heldout.Bm25(passages)
        self.assertEqual((bm25.count, bm25.mean), (3, 2))
        rare, common = math.log(1 + 2.5 / 1.5), math.log(1 + 1.5 / 2.5)
        long, middle = 1.2 * (0.25 + 0.75 * 1.5), 1.2
        wanted = [rare * 2 * 2.2 / (2 + long) + common * 2.2 / (1 + long), common * 2.2 / (1 + middle), 0]
        for got, want in zip(bm25.scores("Red wool, brown?", passages), wanted, strict=True):
            self.assertAlmostEqual(got, want, 12)

    def test_candidates_of_a_question(self):
        questions = heldout.questions()
        everything = [question.item for question in questions]
        self.assertEqual(len(questions), 200)
        for item, passages, answer in questions:
            self.assertEqual((len(passages), len(set(passages)), passages[answer]), (20, 20, item.passage))
            own = {each.passage for each in everything if each.subject == item.subject}
            same = {each.passage for each in everything if each.aspect == item.aspect and each.subject != item.subject}
            self.assertLessEqual(own, set(passages))
            self.assertGreaterEqual(len(same & set(passages)), min(7, len(same)))
            asked = set(heldout.words(item.query))
            others = sorted((len(asked & set(heldout.words(each.passage))) for each in everything
                             if each.subject != item.subject and each.aspect != item.aspect), reverse=True)
            have = sorted((len(asked & set(heldout.words(each.passage))) for each in everything
                           if each.passage in passages and each.subject != item.subject and each.aspect != item.aspect), reverse=True)
            self.assertEqual(have[:4], others[:4][:len(have)], item.query)
        self.assertGreater(len({question.answer for question in questions}), 15)  # the answer can be anywhere

    def test_a_file_of_questions(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "set.txt"
            file.write_text("# a comment\nthe Loom\nplace\n@age\n? How old?\n= Old.\n@size\n? How big?\n= Big.\n\n\nAda\nperson\n@age\n? When?\n= Then.\n")
            self.assertEqual(heldout.items(file), [heldout.Item("the Loom", "place", "age", "How old?", "Old."),
                                                   heldout.Item("the Loom", "place", "size", "How big?", "Big."),
                                                   heldout.Item("Ada", "person", "age", "When?", "Then.")])
            file.write_text("Ada\nperson\n@age\n= Then.\n? When?\n")
            with self.assertRaisesRegex(ValueError, r"set.txt: not @, \?, = under Ada: = Then."):
                heldout.items(file)

    def test_the_line_of_a_scorer(self):
        asked = [heldout.Question(heldout.Item("s", "k", "a", f"q{answer}", f"p{answer}"), ["p0", "p1", "p2", "p3"], answer) for answer in range(4)]
        with contextlib.redirect_stdout(io.StringIO()) as said:
            share = evaluate.evaluate("a name", lambda query, passages: [4, 3, 3, 1], asked, True)
        self.assertEqual(share, 25)
        self.assertEqual(said.getvalue().splitlines(), [
            "  q1", "    first: p0", "    right, place 3: p1", "  q2", "    first: p0", "    right, place 3: p2", "  q3", "    first: p0",
            "    right, place 4: p3", f"{'a name':<34}  25.0 % first   0.479 mean of 1/place"])

    def test_scores_are_those_of_the_passages(self):
        server = evaluate.Server("http://x/", "k")
        self.assertEqual(server.url, "http://x")
        server.ask = lambda path, body=None: {
            "/v1/models": {"data": [{"id": "a", "kind": "reranker"}, {"id": "b", "kind": "embedder"}]},
            "/v1/rerank": {"results": [{"index": 2, "relevance_score": 9}, {"index": 0, "relevance_score": 5}, {"index": 1, "relevance_score": 1}]},
            "/v1/embeddings": {"data": [{"index": 1, "embedding": [1, 0]}, {"index": 0, "embedding": [2, 3]}, {"index": 2, "embedding": [0, 1]}]}}[path]
        self.assertEqual((server.models("reranker"), server.models("embedder")), (["a"], ["b"]))
        self.assertEqual(server.rerank("a")("q", ["x", "y", "z"]), [5, 1, 9])
        self.assertEqual(server.embed("b")("q", ["x", "y"]), [2, 3])


if __name__ == "__main__":
    unittest.main()
