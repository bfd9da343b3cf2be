"""train --tensorboard: event files, read by a reader that shares no code with the writer."""
import os
import resource
import signal
import struct
import unittest

from tests.e2e.cli import FolderCase, read_metrics, run
from tests.e2e.event_reader import Events, crc32c, read_records

NAMES = {"loss": "loss", "learning_rate": "lr", "grad_norm": "grad_norm", "tokens_per_second": "tokens_per_second", "mfu": "mfu",
         "step_seconds": "step_seconds/took", "promised_step_seconds": "step_seconds/promised", "dropped": "experts/dropped"}


def a_full_disk():
    """Writes of a process beyond a limit of bytes in a file fail."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))


def f32(number):
    return struct.unpack("f", struct.pack("f", number))[0]


class CurvesTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("text.txt", "some words to learn from, again and again. " * 50)
        run("model", "llama", "--layers=1", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--experts=4",
            "--experts_per_token=2", "--out=moe.textproto", cwd=cls.dir)
        run("compile", "--graph=moe.textproto", "--mesh=data=2", "--batch=4", "--learning_rate=1e-2", "--out=moe.plan", cwd=cls.dir)

    def train(self, *flags, **options):
        return run("train", "--plan=moe.plan", "--data=text.txt", "--threads=1", *flags, cwd=self.dir, **options)

    def files(self, folder):
        return sorted(os.listdir(f"{self.dir}/{folder}"))

    def events(self, folder, index=0):
        return Events(self.read(f"{folder}/{self.files(folder)[index]}"))

    def test_the_reader_knows_the_checksum(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)

    def test_a_run_and_one_that_goes_on(self):
        flags = ["--eval_fraction=0.1", "--eval_every=4", "--tensorboard=curves/moe", "--metrics=m.jsonl", "--checkpoint_dir=ckpt"]
        self.train("--steps=8", *flags)
        [name] = self.files("curves/moe")
        self.assertRegex(name, r"^events\.out\.tfevents\.\d{10}\.\d{6}\.[^/]+\.\d+\.0$")
        first, rows = self.events("curves/moe"), read_metrics(self.dir + "/m.jsonl")
        self.assertEqual(first.starts, [0])
        for of_line, tag in NAMES.items():
            self.assertEqual(first.scalars.pop(tag), [(row["step"], f32(row[of_line])) for row in rows if row[of_line] is not None], tag)
        self.assertEqual(first.scalars.pop("eval/loss"), [(row["step"], f32(row["eval_loss"])) for row in rows if "eval_loss" in row])
        hottest = first.scalars.pop("experts/hottest")
        for row, (step, most) in zip(rows, hottest, strict=True):
            self.assertEqual(step, row["step"])
            self.assertAlmostEqual(most, 4 * max(row["expert_shares"]), places=5)
        [(step, device_bytes)] = first.scalars.pop("bytes/device")
        self.assertEqual(step, 0)
        self.assertGreater(device_bytes, 1e5)
        self.assertEqual(first.scalars, {})
        # The recipe makes the plan again.
        self.write("again.recipe", first.texts["recipe"].removeprefix("```\n").removesuffix("```\n"))
        run("compile", "--graph=moe.textproto", "--recipe=again.recipe", "--out=again.plan", cwd=self.dir)
        self.assertEqual(self.read("again.plan"), self.read("moe.plan"))
        for name, value in {"learning_rate": f32(1e-2), "batch": 4, "mesh": "data=2", "steps": 8, "fuse": True, "model": "llama"}.items():
            self.assertEqual(f32(first.hyper[name]) if isinstance(value, float) else first.hyper[name], value, name)
        self.assertEqual(first.end, 1)  # success
        # Steps that are made again replace those of the file before.
        self.train("--steps=12", "--resume", *flags)
        self.assertEqual(len(self.files("curves/moe")), 2)
        second, rows = self.events("curves/moe", 1), read_metrics(self.dir + "/m.jsonl")
        self.assertEqual(second.starts, [8])
        self.assertEqual(second.scalars["loss"], [(row["step"], f32(row["loss"])) for row in rows[8:]])
        self.assertEqual([step for step, _ in second.scalars["eval/loss"]], [11])

    def test_one_process_of_two_writes(self):
        self.train("--steps=3", "--processes=2", "--tensorboard=two")
        self.assertEqual(len(self.files("two")), 1)
        self.assertEqual([step for step, _ in self.events("two").scalars["loss"]], [0, 1, 2])

    def test_a_full_disk_is_told_and_ends_nothing(self):
        error = self.train("--steps=60", "--tensorboard=full", preexec_fn=a_full_disk)[1]
        self.assertRegex(error, r"(?m)^oneflow: warning: steps are missing in --tensorboard: full/events\S+: cannot be written: "
                                r"(File too large|No space left on device); check the disk$")
        self.assertEqual(error.count("--tensorboard"), 1)
        data = self.read("full/" + self.files("full")[0])
        self.assertLessEqual(len(data), 6000)
        self.assertGreater(len(read_records(data)), 4)  # each complete
        losses = Events(data).scalars["loss"]
        self.assertEqual([step for step, _ in losses], list(range(len(losses))))


if __name__ == "__main__":
    unittest.main()
