"""`compile|search --emit_schedule`: the CSV that PyTorch's _PipelineScheduleRuntime reads, read by a reader of the test's own.

A schedule is legal if each stage takes each micro-batch once through F and then B, or I and W. It ends if the ranks get through
their actions and the sends and receives between, however late a carrier takes a send: each waits for the other side.
"""
import csv
import json
import re
import unittest

from tests.e2e.cli import FolderCase, run

ACTION = re.compile(r"(\d+)([FBIW])(\d+)")


def read_schedule(path):
    """By rank, a list of (stage, kind, micro-batch)."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = [[ACTION.fullmatch(cell).groups() for cell in row] for row in csv.reader(file)]
    return [[(int(stage), kind, int(micro_batch)) for stage, kind, micro_batch in row] for row in rows]


def find_faults(schedule, micro_batches):
    """What is not legal, as texts."""
    stages = {stage: rank for rank, row in enumerate(schedule) for stage, _, _ in row}
    yield from [f"stage {s} is missing" for s in range(max(stages) + 1) if s not in stages]
    for stage, rank in stages.items():
        if any(s == stage for r, row in enumerate(schedule) if r != rank for s, _, _ in row):
            yield f"stage {stage} is of two ranks"
        for m in range(micro_batches):
            kinds = "".join(kind for s, kind, of in schedule[rank] if s == stage and of == m)
            if kinds not in ("FB", "FIW"):
                yield f"stage {stage}, micro-batch {m}: {kinds}"
        for kind in "FBIW":
            taken = [m for s, k, m in schedule[rank] if s == stage and k == kind]
            if taken not in ([], list(range(micro_batches))):
                yield f"stage {stage}: {kind} takes {taken}"


def count_moves(schedule):
    """Plays the ranks; a send ends when the other rank stands at the receive, and where it stands is told by the first that
    sends: PyTorch puts a receive on the other list at the moment of the send. Returns the number of transfers; None: stuck."""
    stages = {stage: rank for rank, row in enumerate(schedule) for stage, _, _ in row}
    last = max(stages)
    lists = [[] for _ in schedule]
    left = [list(row) for row in schedule]
    done = set()
    transfers = 0
    moved = True
    while moved:
        moved = False
        for rank, row in enumerate(left):
            if not row:
                continue
            stage, kind, m = row[0]
            backward = kind in "BI"
            source = stage + 1 if backward else stage - 1
            if kind != "W" and 0 <= source <= last and (source, backward, m) not in done:
                continue
            row.pop(0)
            moved = True
            lists[rank].append((stage, kind, m))
            if kind == "W":
                continue
            done.add((stage, backward, m))
            to = stage - 1 if backward else stage + 1
            if 0 <= to <= last and stages[to] != rank:
                transfers += 1
                lists[rank].append(("transfer", transfers))
                lists[stages[to]].append(("transfer", transfers))
    if any(left):
        return None
    # The lists alone, without the order in which they were made: both sides of a transfer take it together.
    at = [0] * len(lists)
    moved = True
    while moved:
        moved = False
        heads = [row[i] if i < len(row) else None for row, i in zip(lists, at)]
        for rank, head in enumerate(heads):
            if head is not None and (head[0] != "transfer" or heads.count(head) == 2):
                at[rank] += 1
                moved = True
    return transfers if all(i == len(row) for row, i in zip(lists, at)) else None


def most_held(row):
    """Micro-batches of a rank, chunks counted one by one, between F and the end of their backward."""
    held = most = 0
    for _, kind, _ in row:
        held += (kind == "F") - (kind in "BW")
        most = max(most, held)
    return most


class EmitScheduleTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        run("model", "gpt", "--layers=6", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=64", "--out=gpt.textproto", cwd=cls.dir)
        cls.write("own.textproto", 'stage { task: "F0 F1 F2 B0 B1 B2" }\nstage { task: "F0 B0 F1 F2 B1 B2" }\n')

    def compile(self, *flags, code=0):
        return run("compile", "--graph=gpt.textproto", "--batch=12", "--emit_schedule=order.csv", *flags, cwd=self.dir, code=code)

    def check(self, ranks, micro_batches, *flags):
        printed = json.loads(self.compile(f"--mesh=pipe={ranks}", f"--micro_batches={micro_batches}", "--format=json", *flags)[0])
        said, schedule = printed["emit_schedule"], read_schedule(f"{self.dir}/order.csv")
        self.assertEqual(list(find_faults(schedule, micro_batches)), [])
        self.assertEqual(len(schedule), ranks)
        self.assertEqual(said["transfers"], count_moves(schedule))
        self.assertEqual(said["most_held"], [most_held(row) for row in schedule])
        return schedule, printed

    def test_orders_of_plans_are_legal_and_end(self):
        for ranks, micro_batches, *flags in [
                (2, 1), (2, 4), (3, 4), (4, 12), (3, 6, "--extra_in_flight=1"), (2, 6, "--schedule=gpipe"),
                (2, 6, "--schedule=interleaved"), (2, 4, "--schedule=interleaved", "--chunks=3"), (3, 4, "--schedule=interleaved"),
                (2, 4, "--schedule=zero_bubble"), (3, 12, "--schedule=zero_bubble", "--extra_in_flight=2"),
                (3, 12, "--schedule=zero_bubble", "--cluster=h100", "--device=cpu"),
                (3, 12, "--schedule=zero_bubble", "--stage_layers=1,2,3", "--cluster=a100", "--device=cpu", "--fill_memory", "--memory=40GB",
                 "--global_norm=false", "--clip=0"),
                (2, 4, "--sync_every=3", "--batch=4"), (2, 3, "--order=own.textproto")]:
            with self.subTest(ranks=ranks, micro_batches=micro_batches, flags=flags):
                every = 3 if "--sync_every=3" in flags else 1
                if every > 1:
                    printed = json.loads(self.compile(f"--mesh=pipe={ranks}", f"--micro_batches={micro_batches}", "--format=json", *flags)[0])
                    self.assertEqual(printed["emit_schedule"]["micro_batches"], every * micro_batches)
                    self.assertEqual(list(find_faults(read_schedule(f"{self.dir}/order.csv"), every * micro_batches)), [])
                else:
                    self.check(ranks, micro_batches, *flags)

    def test_the_order_is_the_plans(self):
        schedule, _ = self.check(2, 3, "--order=own.textproto")
        self.assertEqual(schedule, [[(0, k, int(m)) for k, m in ("F0", "F1", "F2", "B0", "B1", "B2")],
                                    [(1, k, int(m)) for k, m in ("F0", "B0", "F1", "F2", "B1", "B2")]])

    def test_buffers_for_every_micro_batch_are_counted(self):
        _, printed = self.check(2, 4)
        # Each rank receives tensors of 3 x 8 x 16 elements of four bytes, and the plan keeps two of the four.
        self.assertEqual(printed["emit_schedule"]["receive_bytes_beyond_plan"], [2 * 3 * 8 * 16 * 4] * 2)

    def test_memory_by_stage_fits_the_order(self):
        for extra in (0, 2):
            schedule, _ = self.check(3, 12, "--schedule=zero_bubble", f"--extra_in_flight={extra}")
            self.assertEqual([most_held(row) for row in schedule], [3 + extra] * 3)

    def test_text_says_what_was_written(self):
        text = self.compile("--mesh=pipe=2", "--micro_batches=4")[0]
        self.assertRegex(text, r"order.csv: the order of 2 ranks, 2 stages and M = 4 micro-batches for PyTorch's _PipelineScheduleRuntime; "
                               r"by its rules of send and receive it ends \(8 transfers\)\n  micro-batches held at most, by rank: 2 1, as in the plan\n")

    def test_search_writes_that_of_its_first_plan(self):
        text = run("search", "--graph=gpt.textproto", "--batch=4", "--devices=2", "--cluster=h100", "--fix=pipe=2,micro_batches=4",
                   "--emit_schedule=found.csv", cwd=self.dir)[0]
        self.assertIn("plan 1: found.csv: the order of 2 ranks", text)
        self.assertEqual(list(find_faults(read_schedule(f"{self.dir}/found.csv"), 4)), [])

    def test_what_has_no_order_is_refused(self):
        for wanted, *flags in [("the plan has one stage, so there is no order to take; use a mesh with an axis pipe", "--mesh=data=2"),
                               ("steps of schedule 2bw overlap", "--mesh=pipe=2", "--micro_batches=2", "--schedule=2bw", "--clip=0"),
                               ("gpt.textproto is the file of --graph, too", "--emit_schedule=gpt.textproto")]:
            self.assertIn(wanted, self.compile(*flags, code=2)[1])
        for other in ("--pareto", "--largest", "--compare=pipe=2"):
            errors = run("search", "--graph=gpt.textproto", "--batch=4", "--devices=2", "--cluster=h100", "--emit_schedule=a.csv", other,
                         cwd=self.dir, code=2)[1]
            self.assertIn("--emit_schedule", errors)


if __name__ == "__main__":
    unittest.main()
