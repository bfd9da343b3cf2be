"""Graphs that are built in Python: a Llama equals that of C++, op by op; layouts, stages and arrays."""
import dataclasses
import unittest

import numpy
import oneflow_actors as of

from tests.python.llama import Llama

SMALL = Llama(layers=2, hidden=32, inner=64, heads=4, groups=2, head_dim=8, sequence=16, vocab=64)


class GraphTest(unittest.TestCase):
    def test_a_llama_equals_the_one_of_cpp(self):
        for model in (SMALL, dataclasses.replace(SMALL, layers=1, groups=4, qk_norm=True)):
            ours = model.build().message
            theirs = of.models.llama(**dataclasses.asdict(model)).graph
            self.assertEqual([op.name for op in ours.op], [op.name for op in theirs.op])
            for one, other in zip(ours.op, theirs.op):
                self.assertEqual(one, other)
            self.assertEqual((ours.loss, ours.output, ours.family), (theirs.loss, theirs.output, theirs.family))
        self.assertEqual(of.compile(SMALL.build(), batch=4), of.compile(of.models.llama(**dataclasses.asdict(SMALL)), batch=4))

    def test_arrays_are_the_same_on_any_mesh(self):
        g = of.Graph("mlp")
        x = g.input("x", [4, ("hidden", 8)])
        w = g.input("w", [("hidden", 8), 6])
        y = g.matmul("y", x, w).sbp(data="S(0)", tensor="S(1)")
        with g.stage(1):
            g.output(g.gelu("z", y))
        g.output(y)
        draw = numpy.random.default_rng(1)
        feeds = {"x": draw.random((4, 8), "float32"), "w": draw.random((8, 6), "float32")}
        alone = of.run(g, feeds, mesh={"pipe": 2})
        self.assertEqual(list(alone), ["z", "y"])
        numpy.testing.assert_allclose(alone["y"], feeds["x"] @ feeds["w"], rtol=1e-5)
        split = of.run(g, feeds, "y", mesh={"pipe": 2, "data": 2, "tensor": 2})
        numpy.testing.assert_array_equal(split["y"], alone["y"])
        g.mesh(pipe=2, tensor=2)
        plan = of.compile(g)
        self.assertEqual(plan.devices, 4)
        with self.assertRaisesRegex(of.InputError, "^fetch"):
            of.run(plan, feeds)

    def test_mistakes_name_the_op(self):
        g = of.Graph("twice")
        x = g.input("x", [4])
        g.output(g.gelu("y", g.gelu("y", x)))
        with self.assertRaisesRegex(of.InputError, 'op "y": is defined twice'):
            of.compile(g)
        g = of.Graph("unknown")
        g.output(g.op("geluu", "y", g.input("x", [4]), slope=1.0, dims=[1, 2], kept=True))
        with self.assertRaisesRegex(of.InputError, "geluu"):
            of.compile(g)
        with self.assertRaisesRegex(of.InputError, "op z: attribute slope: None has no type of an attribute"):
            g.op("gelu", "z", x, slope=None)
        with self.assertRaisesRegex(of.InputError, "op z: dtype 'float32' is not known"):
            g.input("z", [4], dtype="float32")


if __name__ == "__main__":
    unittest.main()
