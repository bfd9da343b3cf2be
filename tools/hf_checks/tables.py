"""Tables that pyarrow writes, as `oneflow data` reads them."""
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

ROWS = 5000
CHATS = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "training/chat/testdata")


def make_texts():
    draw = random.Random(1)
    texts = ["".join(draw.choice("abc größer 🙂\n") for _ in range(draw.randrange(60))) for _ in range(ROWS)]
    return texts + ["a long one " * 200000]


def make_table(texts, kind):
    column = pa.array(texts)
    typed = {"string": column, "large_string": column.cast(pa.large_string()), "dictionary": column.dictionary_encode(),
             "string_view": column.cast(pa.string_view())}[kind]
    inner = pa.StructArray.from_arrays([column], ["inner"])
    return pa.table({"id": pa.array(range(len(texts))), "text": typed, "meta": inner})


def write_ipc(path, table, new, compression):
    with pa.OSFile(path, "wb") as file, new(file, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as out:
        out.write_table(table, max_chunksize=1700)


def write_all(table, folder):
    """Yields (what, path) of the table in each form."""
    for compression in ["none", "snappy", "gzip", "zstd", "brotli", "lz4"]:
        path = f"{folder}/{compression}.parquet"
        pa.parquet.write_table(table, path, compression=compression, row_group_size=1700)
        yield "Parquet, " + compression, path
    for compression in [None, "lz4", "zstd"]:
        write_ipc(f"{folder}/{compression}.arrow", table, pa.ipc.new_file, compression)
        yield f"Arrow file, {compression}", f"{folder}/{compression}.arrow"
        write_ipc(f"{folder}/{compression}_stream.arrow", table, pa.ipc.new_stream, compression)
        yield f"Arrow stream, {compression}", f"{folder}/{compression}_stream.arrow"
    pa.feather.write_feather(table, folder + "/a.feather")
    yield "Feather", folder + "/a.feather"


class Oneflow:
    """`oneflow data`, for which the python3 of PATH is the one that runs this."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        os.makedirs(folder + "/bin")
        with open(folder + "/bin/python3", "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        os.chmod(folder + "/bin/python3", 0o755)
        self.environment = dict(os.environ, PATH=f"{folder}/bin:{os.environ['PATH']}")

    def data(self, path, *flags):
        """(exit code, stderr)"""
        done = subprocess.run([self.program, "data", "--text=" + path, "--out=out", *flags], cwd=self.folder, env=self.environment,
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stderr.strip()

    def chats(self, path):
        done = subprocess.run([self.program, "data", "--chat", "--data=" + path, "--tokenizer=tuned", "--out=out"], cwd=self.folder,
                              env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        with open(self.folder + "/out/train.bin", "rb") as ids, open(self.folder + "/out/train.chats", "rb") as marks:
            return ids.read(), marks.read()

    def ids(self, path, *flags):
        code, error = self.data(path, "--token_format=megatron", *flags)
        assert code == 0, error
        with open(self.folder + "/out/train.bin", "rb") as ids, open(self.folder + "/out/train.idx", "rb") as index:
            return ids.read(), index.read()


def make_chats():
    """Rows of chats in each form. Structs of a list share their fields: one that a message lacks is null in a table."""
    pairs = [("Hello " + str(i), "größer 🙂\n" * (i % 3 + 1)) for i in range(3000)]
    return {"messages": [{"messages": [{"role": "user", "content": a}, {"role": "assistant", "content": b}]} for a, b in pairs],
            "conversations": [{"conversations": [{"from": "human", "value": a}, {"from": "gpt", "value": b}]} for a, b in pairs],
            "prompt, completion": [{"prompt": a, "completion": b} for a, b in pairs],
            "fields that some lack": [{"messages": [{"role": "user", "content": a},
                                                    {"role": "assistant", "content": b, **({"extra": a} if a[-1] == "1" else {})}]}
                                      for a, b in pairs]}


def check_chats(oneflow):
    """The number of tables that are read differently."""
    os.makedirs(oneflow.folder + "/tuned")
    shutil.copyfile(CHATS + "/tokenizer.json", oneflow.folder + "/tuned/tokenizer.json")
    with open(CHATS + "/chatml.jinja", encoding="utf-8") as template, \
            open(oneflow.folder + "/tuned/tokenizer_config.json", "w", encoding="utf-8") as config:
        json.dump({"bos_token": "<s>", "eos_token": "</s>", "chat_template": template.read()}, config)
    failed = 0
    for form, rows in make_chats().items():
        with open(oneflow.folder + "/chats.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        expected = oneflow.chats("chats.jsonl")
        for what, path in write_all(pa.Table.from_pylist(rows), oneflow.folder):
            same = oneflow.chats(path) == expected
            failed += not same
            print(f"{what}, chats, {form}: {'equal' if same else 'DIFFERENT'}", flush=True)
    return failed


def check(program):
    """Prints a line for each form; returns 1 if one is read differently."""
    failed = 0
    texts = make_texts()
    with tempfile.TemporaryDirectory() as folder:
        oneflow = Oneflow(program, folder)
        with open(folder + "/a.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps({"text": text}) + "\n" for text in texts)
        expected = oneflow.ids("a.jsonl")
        for kind in ["string", "large_string", "dictionary", "string_view"]:
            for what, path in write_all(make_table(texts, kind), folder):
                for flags in [], ["--key=meta.inner"]:
                    same = oneflow.ids(path, *flags) == expected
                    failed += not same
                    print(f"{what}, column {kind}{''.join(flags)}: {'equal' if same else 'DIFFERENT'}", flush=True)
        table = pa.table({"text": pa.array(["a", None]), "n": pa.array([1, 2])})
        pa.parquet.write_table(table, folder + "/null.parquet")
        with open(folder + "/zstd.parquet", "rb") as file:
            bytes_of_table = file.read()
        with open(folder + "/cut.parquet", "wb") as file:
            file.write(bytes_of_table[:-100] + b"PAR1")
        for path, key, words in [("null.parquet", "text", 'null.parquet, row 2: column "text" is null'),
                                 ("null.parquet", "n", 'column "n" is of type int64, and no string'),
                                 ("null.parquet", "none", 'has no column "none", but text, n'),
                                 ("cut.parquet", "text", "cut.parquet: cannot be read as parquet")]:
            code, error = oneflow.data(path, "--key=" + key)
            good = code == 2 and words in error
            failed += not good
            print(f"{'refused' if good else 'NOT REFUSED'}: {error}", flush=True)
        failed += check_chats(oneflow)
    return 1 if failed else 0
