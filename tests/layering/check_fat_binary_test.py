"""tools/check_fat_binary.py on made-up objects."""
import struct
import unittest

from tools.check_fat_binary import entries, problems

PTX, CODE = 1, 2


def made(*parts):
    """An object with one fat binary of (kind, architecture)."""
    entry = "<HHIQIIHHIII"
    body = b"".join(struct.pack(entry, kind, 0x101, 64, 16, 0, 0, 0, 9, architecture, 0, 0).ljust(64, b"\0") + b"\x7f" * 16
                    for kind, architecture in parts)
    return b"ELF and more" + struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body + b"the rest"


class CheckFatBinaryTest(unittest.TestCase):
    def test_entries_of_all_fat_binaries_are_read(self):
        self.assertEqual(entries(made((CODE, 80)) + made((PTX, 90), (CODE, 90))), {("code", 80), ("PTX", 90), ("code", 90)})
        self.assertEqual(entries(b"no fat binary"), set())

    def test_code_alone_is_not_enough(self):
        self.assertEqual(list(problems("a.o", made((CODE, 80), (CODE, 90), (PTX, 90)))), [])
        self.assertEqual(list(problems("a.o", made((CODE, 80), (CODE, 90)))), ["a.o: holds no PTX of 90"])
        self.assertEqual(list(problems("a.o", b"")), ["a.o: holds no PTX of 90, no code of 80, no code of 90"])


if __name__ == "__main__":
    unittest.main()
