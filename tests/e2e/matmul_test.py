"""The worked example of the field: x 4x5 times w 5x8 under data parallelism, model parallelism and a
contraction split; `run --shards` shows each rank's part."""
import os
import tempfile
import unittest

from tests.e2e.cli import read_npy, run, write_npy

X = [float(i % 7 - 3) for i in range(20)]
W = [float(i % 5 - 2) for i in range(40)]
OUT = [[sum(X[i * 5 + k] * W[k * 8 + j] for k in range(5)) for j in range(8)] for i in range(4)]


def flat(rows):
    return [v for row in rows for v in row]


class MatmulTest(unittest.TestCase):
    def shards(self, example):
        graph = os.path.abspath(f"examples/{example}.textproto")
        with tempfile.TemporaryDirectory() as folder:
            write_npy(folder + "/x.npy", [4, 5], X)
            write_npy(folder + "/w.npy", [5, 8], W)
            run("run", "--graph=" + graph, "--feed=x=x.npy", "--feed=w=w.npy", "--fetch=out=out.npy",
                "--shards", cwd=folder)
            self.assertEqual(read_npy(folder + "/out.npy"), ([4, 8], flat(OUT)))
            return [read_npy(f"{folder}/out.rank{r}.npy") for r in range(2)]

    def test_data_parallel_gives_halves_of_rows(self):
        self.assertEqual(self.shards("matmul_data_parallel"),
                         [([2, 8], flat(OUT[:2])), ([2, 8], flat(OUT[2:]))])

    def test_model_parallel_gives_halves_of_columns(self):
        self.assertEqual(self.shards("matmul_model_parallel"),
                         [([4, 4], flat(row[:4] for row in OUT)), ([4, 4], flat(row[4:] for row in OUT))])

    def test_contraction_split_gives_partial_sums(self):
        # 5 = 3 + 2: rank 0 sums over k = 0, 1, 2 and rank 1 over k = 3, 4.
        part = lambda ks: [sum(X[i * 5 + k] * W[k * 8 + j] for k in ks) for i in range(4) for j in range(8)]
        self.assertEqual(self.shards("matmul_contraction_split"),
                         [([4, 8], part([0, 1, 2])), ([4, 8], part([3, 4]))])


if __name__ == "__main__":
    unittest.main()
