"""The line of a training on a terminal: one that is written over and fits it, below what stays; lines of a file have no curve."""
import fcntl
import os
import pty
import re
import resource
import signal
import struct
import subprocess
import termios
import unittest

from tests.e2e.cli import ONEFLOW, FolderCase, run

CLEAR = "\r\x1b[K"
BLOCKS = "▁▂▃▄▅▆▇█"


def a_full_disk():
    """Writes of a process beyond a limit of bytes in a file fail."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6000, 6000))


class TerminalTest(FolderCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.write("text.txt", "some words to learn from, again and again. " * 50)
        run("model", "gpt", "--layers=1", "--heads=2", "--hidden=16", "--sequence=8", "--vocab=256", "--out=gpt.textproto", cwd=cls.dir)
        run("compile", "--graph=gpt.textproto", "--batch=4", "--out=gpt.plan", cwd=cls.dir)
        cls.command = [ONEFLOW, "train", "--plan=gpt.plan", "--data=text.txt", "--steps=60", "--learning_rate=1e-2", "--threads=1",
                       "--eval_fraction=0.1", "--eval_every=20"]

    def shown(self, columns, *flags, locale="C.UTF-8", kind="xterm", **options):
        """All that a terminal of so many columns is sent."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([*self.command, *flags], cwd=self.dir, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                                   env=dict(os.environ, LC_ALL=locale, TERM=kind), **options)
        os.close(theirs)
        data = b""
        try:
            while part := os.read(ours, 1 << 16):
                data += part
        except OSError:  # nobody has the other end any more
            pass
        os.close(ours)
        self.assertEqual(process.wait(), 0)
        return data.decode().replace("\r\n", "\n")

    def frames(self, text):
        """What is written over: the texts between one clearing of the line and the next."""
        return [part for part in text.split(CLEAR)[1:] if part and "\n" not in part]

    def lines(self, text):
        """What is left on the terminal."""
        return [line.split(CLEAR)[-1] for line in text.split("\n")]

    def test_a_line_fits_the_terminal(self):
        for columns, locale, levels in [(80, "C.UTF-8", BLOCKS), (40, "C.UTF-8", BLOCKS), (80, "C", "_.:=+*#-")]:
            with self.subTest(columns=columns, locale=locale):
                text = self.shown(columns, locale=locale)
                frames = self.frames(text)
                self.assertEqual([int(re.match(r"step (\d+)/60  loss ", frame)[1]) for frame in frames],
                                 [step for step in range(1, 61) if step % 20])
                self.assertLess(max(map(len, frames)), columns)
                curve = f"[ {re.escape(levels)}]"
                fields = r"  left \d+:\d\d  \d+ tokens/s" if columns == 80 else ""
                for frame in frames:
                    self.assertRegex(frame, rf"^step \d+/60  loss [\d.]+  {curve}{{8,24}}{fields}(  MFU \d+%)?$")
                self.assertEqual({levels[0], levels[-2 if locale == "C" else -1]} - set(frames[-1]), set())  # the least and the most
                stay = [line for line in self.lines(text) if line.startswith("step ")]
                self.assertEqual([re.match(r"step (\d+)/60  .*  validation loss [\d.]+  left ", line)[1] for line in stay], ["20", "40", "60"])
                # Nothing of a frame is left on a line.
                self.assertTrue(all(re.search(r"left \d+:\d\d$", line) for line in stay), stay)

    def test_notices_stay_above_the_line(self):
        text = self.shown(80, "--tensorboard=full", preexec_fn=a_full_disk)
        said = text.index(CLEAR + "oneflow: warning: steps are missing in --tensorboard: ")
        before, after = self.frames(text[:said])[-1], text[text.index("\n", said) + 1:]
        self.assertTrue(after.startswith(before + CLEAR), after[:200])  # the line is there again
        self.assertEqual(sum(line.startswith("oneflow: warning: steps are missing") for line in self.lines(text)), 1)

    def test_a_file_and_a_dumb_terminal_have_lines(self):
        for out in (run(*self.command[1:], cwd=self.dir)[0], self.shown(80, kind="dumb")):
            self.assertNotIn("\x1b", out)
            steps = [line for line in out.splitlines() if line.startswith("step ")]
            self.assertEqual([int(re.match(r"step (\d+)/60  loss [\d.]+  \d+ tokens/s  ", line)[1]) for line in steps],
                             [1, 11, 20, 21, 31, 40, 41, 51, 60])


if __name__ == "__main__":
    unittest.main()
