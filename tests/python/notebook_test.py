"""The notebooks of examples/ run, and every cell shows what the committed one shows: text, a table or a page."""
import glob
import unittest

try:
    import nbclient
    import nbformat
except ImportError:
    nbclient = None


def shown(cell):
    """The kinds of the outputs of a cell; the numbers of a search differ by what its seconds allow."""
    return [sorted(output.get("data", {output.get("name"): ""})) for output in cell.get("outputs", [])]


@unittest.skipIf(nbclient is None, "nbclient is not installed (python3-nbclient, python3-ipykernel)")
class NotebookTest(unittest.TestCase):
    def test_they_run(self):
        notebooks = glob.glob("examples/*.ipynb")
        self.assertTrue(notebooks)
        for path in notebooks:
            with self.subTest(path):
                notebook = nbformat.read(path, 4)
                committed = [shown(cell) for cell in notebook.cells]
                nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3").execute()
                self.assertEqual([shown(cell) for cell in notebook.cells], committed)


if __name__ == "__main__":
    unittest.main()
