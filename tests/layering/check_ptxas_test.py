"""tools/check_ptxas.py on made-up output of ptxas."""
import unittest

from tools.check_ptxas import allowed_kernels, functions, problems

ADD = "_ZN7oneflow4cuda12_GLOBAL__N_13AddIfEEvPT_"  # void oneflow::cuda::(anonymous namespace)::Add<float>(float*)


def said(architecture, stack, spilled=0):
    return [f"ptxas info    : Compiling entry function '{ADD}' for '{architecture}'",
            f"ptxas info    : Function properties for {ADD}",
            f"    {stack} bytes stack frame, {spilled} bytes spill stores, {spilled} bytes spill loads",
            "ptxas info    : Used 32 registers, used 0 barriers"]


class CheckPtxasTest(unittest.TestCase):
    def found(self, lines, allowed=""):
        return list(problems(allowed_kernels(allowed), list(functions(lines))))

    def test_kernels_in_registers_are_fine(self):
        self.assertEqual(self.found(said("sm_80", 0) + said("sm_90a", 0)), [])

    def test_stack_frames_and_spills_must_be_on_the_list_and_no_larger(self):
        said_of_add = said("sm_90a", 64, 8)
        self.assertEqual(self.found(said_of_add),
                         [f"Add (sm_90a, {ADD}): a stack frame of 64 bytes and 16 bytes spilled, 0 and 0 are allowed"])
        self.assertEqual(self.found(said_of_add, "# why\nAdd 64 16 an array\n"), [])
        self.assertEqual(len(self.found(said_of_add, "Add 56 16 an array\n")), 1)
        self.assertEqual(len(self.found(said_of_add, "Add 64 8 an array\n")), 1)

    def test_the_list_holds_no_more_than_is_needed(self):
        self.assertEqual(self.found(said("sm_80", 0), "Add 64 0 an array\n"),
                         ["Add: has neither stack frame nor spills any more; strike it off the list"])

    def test_a_line_of_the_list_without_a_reason_is_an_error(self):
        with self.assertRaises(ValueError):
            allowed_kernels("Add 64 0\n")


if __name__ == "__main__":
    unittest.main()
