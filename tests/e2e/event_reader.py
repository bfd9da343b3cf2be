"""Reads TensorBoard's event files, by the formats of TFRecord and protobuf alone: no code is shared with the writer."""
import struct


def crc32c(data):
    """Bit by bit, Castagnoli's polynomial reflected."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def read_records(data):
    """The records of a file's bytes, whose lengths and checksums are right."""
    records, at = [], 0
    while at < len(data):
        length, crc = struct.unpack_from("<QI", data, at)
        assert crc == masked(data[at:at + 8]), f"the length at {at}"
        record = data[at + 12:at + 12 + length]
        assert (masked(record),) == struct.unpack_from("<I", data, at + 12 + length), f"the record at {at}"
        records.append(record)
        at += 16 + length
    return records


def fields(message):
    """{number: [values]} of a message: an int, 8 or 4 bytes, or those of a text or a message."""
    found, at = {}, 0

    def varint():
        nonlocal at
        number, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return number

    while at < len(message):
        key = varint()
        if key & 7 == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or varint()
            value, at = message[at:at + size], at + size
        found.setdefault(key >> 3, []).append(value)
    return found


class Events:
    """What a file says, by TensorBoard's numbers of fields."""

    def __init__(self, data):
        self.scalars, self.texts, self.starts, self.hyper, self.end = {}, {}, [], {}, None
        for number, record in enumerate(read_records(data)):
            event = fields(record)
            assert struct.unpack("<d", event[1][0])[0] > 1.7e9
            step = event.get(2, [0])[0]
            if number == 0:
                assert event[3] == [b"brain.Event:2"], event
            for session in event.get(7, []):
                assert fields(session) == {1: [1]}  # START
                self.starts.append(step)
            for value in (v for summary in event.get(5, []) for v in fields(summary)[1]):
                self.add(step, fields(value))

    def add(self, step, value):
        tag = value[1][0].decode()
        if 2 in value:
            self.scalars.setdefault(tag, []).append((step, struct.unpack("<f", value[2][0])[0]))
            return
        plugin = fields(fields(value[9][0])[1][0])
        tensor = fields(value[8][0])
        if plugin[1] == [b"text"]:
            assert tensor[1] == [7] and fields(fields(tensor[2][0])[2][0]) == {1: [1]}  # one string
            self.texts[tag] = tensor[8][0].decode()
            return
        assert plugin[1] == [b"hparams"], plugin
        content = fields(plugin[2][0])
        if 3 in content:
            for entry in map(fields, fields(content[3][0])[1]):
                [(kind, [number])] = fields(entry[2][0]).items()
                text = {2: lambda: struct.unpack("<d", number)[0], 3: lambda: number.decode(), 4: lambda: bool(number)}[kind]()
                self.hyper[entry[1][0].decode()] = text
        else:
            self.end = fields(content[4][0])[1][0]
