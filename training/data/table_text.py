"""Writes the texts of a column of a table, for training/data/text_reader.cc: table_text.py KIND PATH COLUMN.

stdout: for each batch of rows three int64 (rows in it, rows up to its end, rows in all or 0), then rows + 1 int64, where
the texts begin among the bytes that follow, and where the last ends; then these bytes. All little-endian, as Arrow is.
"""
import struct
import sys

import pyarrow as pa

ROWS = 1024  # of a batch
KIND, PATH, COLUMN = sys.argv[1:]
NAMES = COLUMN.split(".")


def refuse(what, hint, row=None):
    """Ends with the mistake of the user."""
    where = PATH if row is None else f"{PATH}, row {row}"
    sys.stderr.write(f"{where}: {what}; {hint}\n")
    sys.exit(2)


def find(schema):
    """The names of the column and of the structs around it; its own name may have dots."""
    for names in ([COLUMN], NAMES):
        fields = {field.name: field.type for field in schema}
        for at, name in enumerate(names):
            kind = fields.get(name)
            if kind is None:
                break
            if at + 1 == len(names):
                if pa.types.is_dictionary(kind):
                    kind = kind.value_type
                if not any(test(kind) for test in (pa.types.is_string, pa.types.is_large_string)) and "string_view" not in str(kind):
                    refuse(f'column "{COLUMN}" is of type {kind}, and no string', "name a column of text with --key")
                return names
            fields = {kind.field(i).name: kind.field(i).type for i in range(kind.num_fields)} if pa.types.is_struct(kind) else {}
    columns = ", ".join(field.name for field in schema) or "none at all"
    return refuse(f'has no column "{COLUMN}", but {columns}', "name the column of text with --key")


def batches():
    """The names of the column, the rows in all, 0 where it is not known, and batches of them."""
    if KIND == "parquet":
        import pyarrow.parquet as pq
        file = pq.ParquetFile(PATH, buffer_size=1 << 20, pre_buffer=False)
        names = find(file.schema_arrow)
        return names, file.metadata.num_rows, file.iter_batches(batch_size=ROWS, columns=[".".join(names)], use_threads=False)
    source = pa.memory_map(PATH)
    opened = pa.ipc.open_file if KIND == "arrow" else pa.ipc.open_stream
    schema = opened(source).schema
    names = find(schema)
    source.seek(0)
    file = opened(source, options=pa.ipc.IpcReadOptions(included_fields=[schema.get_field_index(names[0])], use_threads=False))
    return names, 0, (file.get_batch(i) for i in range(file.num_record_batches)) if KIND == "arrow" else file


def write(texts, before, rows, out):
    if texts.null_count:
        row = next(i for i in range(len(texts)) if not texts[i].is_valid)
        refuse(f'column "{COLUMN}" is null', "drop such rows first", before + row + 1)
    texts = texts.cast(pa.large_string())
    begin = 8 * texts.offset
    offsets = memoryview(texts.buffers()[1])[begin:begin + 8 * (len(texts) + 1)]
    first, = struct.unpack("<q", offsets[:8])
    last, = struct.unpack("<q", offsets[-8:])
    out.write(struct.pack("<3q", len(texts), before + len(texts), rows))
    out.write(offsets)
    if last > first:
        out.write(memoryview(texts.buffers()[2])[first:last])


def main():
    out = sys.stdout.buffer
    before = 0
    try:
        names, rows, parts = batches()
        for part in parts:
            texts = part.column(names[0])
            for name in names[1:]:
                if texts.null_count:
                    row = next(i for i in range(len(texts)) if not texts[i].is_valid)
                    refuse(f'column "{names[0]}" is null', "drop such rows first", before + row + 1)
                texts = texts.field(name)
            for at in range(0, len(texts), ROWS):
                piece = texts.slice(at, ROWS)
                if pa.types.is_dictionary(piece.type):
                    piece = piece.dictionary_decode()
                write(piece, before, rows, out)
                before += len(piece)
        out.flush()
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        refuse(f"cannot be read as {KIND}: {' '.join(str(error).split())}", "it is damaged; make it or fetch it again")


main()
