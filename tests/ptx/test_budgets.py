#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests budgets.py: counts within 3 % of their budget, above, below, new, and no longer counted."""
import unittest

import budgets

ROW = {"instructions": 1000.0, "conflicts": 0.0}


def said(**counts):
    return budgets.judge({"a tile": {**ROW, **counts}}, {"a tile": ROW})


class Judged(unittest.TestCase):
    def test_within_three_percent_nothing_is_said(self):
        for value in (970, 1000, 1030):
            self.assertEqual(said(instructions=value), [])

    def test_above_is_named_with_count_and_budget(self):
        self.assertEqual(said(instructions=1031), ["a tile: instructions are 1031, the budget is 1000"])
        self.assertEqual(said(conflicts=0.01), ["a tile: conflicts are 0.01, the budget is 0"])

    def test_what_fell_asks_to_renew(self):
        self.assertEqual(said(instructions=969), ["a tile: instructions are 969 and have fallen below the budget of 1000: renew"])

    def test_of_an_older_architecture_only_what_is_above_is_told(self):
        self.assertEqual(budgets.judge({"a tile": {"mma": 90.0, "sectors": 104.0}}, {"a tile": {"mma": 100.0, "sectors": 100.0}},
                                       falls=False), ["a tile: sectors are 104, the budget is 100"])

    def test_new_and_gone_rows_ask_to_renew(self):
        self.assertEqual(budgets.judge({"new": {"mma": 1.0}}, {"old": {"mma": 1.0}}), [
            "old is in budgets.txt, but nothing counts it any more: renew", "new: mma (1) have no budget: renew"])

    def test_what_is_written_is_read(self):
        self.assertEqual(budgets.read(budgets.text_of({"a tile": ROW}, "13.0.88")), ("13.0.88", {"a tile": ROW}))


if __name__ == "__main__":
    unittest.main()
