"""This checkout has none of the problems that check_sources looks for."""

import pathlib
import unittest

from tests.layering import check_sources


class LayeringTest(unittest.TestCase):
    def test_checkout(self):
        # Runs in place (tag "local"): the WORKSPACE it is given leads to the checkout.
        root = pathlib.Path("WORKSPACE").resolve().parent
        self.assertGreater(len(list(check_sources.source_files(root))), 10)
        found = check_sources.problems(root)
        self.assertEqual([], found, "\n" + "\n".join(found))


if __name__ == "__main__":
    unittest.main()
