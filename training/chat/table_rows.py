"""Writes the rows of a table as lines of JSON, for chat_lines.cc: table_rows.py KIND PATH."""
import json
import sys

import pyarrow as pa

KIND, PATH = sys.argv[1:]


def batches():
    if KIND == "parquet":
        import pyarrow.parquet as pq
        return pq.ParquetFile(PATH).iter_batches(batch_size=1024)
    source = pa.memory_map(PATH)
    if KIND == "stream":
        return pa.ipc.open_stream(source)
    file = pa.ipc.open_file(source)
    return (file.get_batch(i) for i in range(file.num_record_batches))


def without_nulls(value):
    """Structs of a list share their fields: those that one lacks are null."""
    if isinstance(value, dict):
        return {name: without_nulls(x) for name, x in value.items() if x is not None}
    if isinstance(value, list):
        return [without_nulls(x) for x in value]
    return value


def main():
    try:
        for batch in batches():
            for row in batch.to_pylist():
                text = json.dumps(without_nulls(row), ensure_ascii=False, default=str)
                sys.stdout.buffer.write(text.encode("utf-8", "backslashreplace") + b"\n")
        sys.stdout.buffer.flush()
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        words = " ".join(str(error).split())
        sys.stderr.write(f"{PATH}: cannot be read as {KIND}: {words}; it is damaged; fetch it again\n")
        sys.exit(2)


main()
