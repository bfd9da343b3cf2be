"""Reads traces in Perfetto's protobuf, by the numbers of its fields; shares no code with what writes them.

Refuses what Perfetto would: a packet that needs what its sequence has not said, an unknown name, a slice that does not end.
"""
import collections
import struct
import zlib

# Wire types: varint, 64 bits, bytes.
PACKET = {6: "clock_snapshot", 8: "timestamp", 10: "sequence", 11: "event", 12: "interned", 13: "flags", 50: "compressed",
          59: "defaults", 60: "track", 126: "attributes"}
EVENT = {3: "categories", 4: "arguments", 9: "type", 10: "name", 11: "track", 30: "value", 47: "flows", 48: "ends_flows"}
TRACK = {1: "uuid", 2: "name", 5: "parent", 8: "counter", 11: "ordering", 12: "rank"}
INTERNED = {1: "categories", 2: "names", 3: "arguments", 29: "texts"}
BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4
CLEARED, NEEDS_STATE = 1, 2
BYTES = 3  # unit of a counter
OWN_CLOCK, TRACE_CLOCK = 64, 6

Slice = collections.namedtuple("Slice", "device track category name begin end arguments")
Trace = collections.namedtuple("Trace", "facts slices flows counters marks")


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            value, at = data[at:at + 8], at + 8
        else:
            assert key & 7 == 2, key
            size, at = varint(data, at)
            value, at = data[at:at + size], at + size
        yield key >> 3, value
    assert at == len(data)


def message(data, names, *lists):
    """By name; of `lists` all values. A field that is not known is an error."""
    read = {name: [] for name in lists}
    for number, value in fields(data):
        if names[number] in lists:
            read[names[number]].append(value)
        else:
            read[names[number]] = value
    return read


def packets(data):
    for number, value in fields(data):
        assert number == 1
        packet = message(value, PACKET)
        if "compressed" in packet:
            assert len(value) < 512 << 10
            yield from packets(zlib.decompress(packet["compressed"]))
        else:
            yield packet


class Sequence:
    def __init__(self):
        self.time, self.track, self.differences, self.known = 0, None, False, {name: {} for name in INTERNED.values()}

    def update(self, packet):
        for number, value in fields(packet.get("interned", b"")):
            text = message(value, {1: "iid", 2: "text"})
            assert text["iid"] not in self.known[INTERNED[number]], "said twice"
            self.known[INTERNED[number]][text["iid"]] = text["text"].decode(errors="replace")
        if "defaults" in packet:
            defaults = message(packet["defaults"], {11: "event", 58: "clock"})
            self.differences = defaults["clock"] == OWN_CLOCK
            self.track = message(defaults["event"], {11: "track"})["track"]
        if "clock_snapshot" in packet:
            clocks = [message(c, {1: "id", 2: "time", 3: "incremental"}) for _, c in fields(packet["clock_snapshot"])]
            assert clocks == [{"id": OWN_CLOCK, "time": 0, "incremental": 1}, {"id": TRACE_CLOCK, "time": 0}], clocks

    def moment(self, timestamp):
        self.time = self.time + timestamp if self.differences else timestamp
        return self.time

    def arguments(self, event):
        read = {}
        for data in event["arguments"]:
            argument = message(data, {1: "name", 4: "int", 5: "double", 17: "text"})
            name = self.known["arguments"][argument["name"]]
            if "text" in argument:
                read[name] = self.known["texts"][argument["text"]]
            elif "double" in argument:
                read[name] = struct.unpack("<d", argument["double"])[0]
            else:
                read[name] = argument["int"]
        return read


class Reader:
    def __init__(self):
        self.sequences, self.tracks, self.open = {}, {}, {}
        self.flows = collections.defaultdict(list)  # by id: (time, ends, slice)
        self.trace = Trace({}, [], [], [], [])

    def path(self, uuid):
        """The names of a track's device and of the track."""
        track = self.tracks[uuid]
        return (self.tracks[track["parent"]]["name"], track["name"]) if track.get("parent") else (track["name"], "")

    def take(self, packet):
        if "attributes" in packet:
            for _, data in fields(packet["attributes"]):
                fact = message(data, {1: "key", 3: "value"})
                self.trace.facts[fact["key"].decode()] = fact["value"].decode()
        if "track" in packet:
            track = message(packet["track"], TRACK)
            track["name"] = track.get("name", b"").decode(errors="replace")
            assert track["uuid"] not in self.tracks
            self.tracks[track["uuid"]] = track
        number = packet.get("sequence")
        if packet.get("flags", 0) & CLEARED:
            self.sequences[number] = Sequence()
        if number is None:
            return
        sequence = self.sequences[number]
        sequence.update(packet)
        if "event" in packet:
            assert packet["flags"] & NEEDS_STATE
            event = message(packet["event"], EVENT, "categories", "arguments", "flows", "ends_flows")
            self.take_event(sequence, event, sequence.moment(packet["timestamp"]))

    def take_event(self, sequence, event, time):
        uuid = event.get("track", sequence.track)
        device, track = self.path(uuid)
        if event["type"] == COUNTER:
            assert message(self.tracks[uuid]["counter"], {3: "unit"}) == {"unit": BYTES}
            self.trace.counters.append((device, track, time, event["value"]))
            return
        if event["type"] == END:
            begun = self.open.pop(uuid)
            self.trace.slices[begun] = self.trace.slices[begun]._replace(end=time)
            self.add_flows(event, time, begun)
            return
        category = "".join(sequence.known["categories"][iid] for iid in event["categories"])
        name = sequence.known["names"][event["name"]]
        if event["type"] == INSTANT:
            self.trace.marks.append((device, category, name, time))
            return
        assert event["type"] == BEGIN and uuid not in self.open
        self.open[uuid] = len(self.trace.slices)
        self.add_flows(event, time, len(self.trace.slices))
        self.trace.slices.append(Slice(device, track, category, name, time, None, sequence.arguments(event)))

    def add_flows(self, event, time, index):
        for ends, name in enumerate(["flows", "ends_flows"]):
            for flow in event[name]:
                self.flows[struct.unpack("<Q", flow)[0]].append((time, ends, index))

    def finish(self):
        assert not self.open
        for members in self.flows.values():
            (_, starts, source), (_, ends, target) = sorted(members)
            assert (starts, ends) == (0, 1), members
            self.trace.flows.append((source, target))
        return self.trace


def read_perfetto(path):
    reader = Reader()
    with open(path, "rb") as file:
        for packet in packets(file.read()):
            reader.take(packet)
    return reader.finish()
