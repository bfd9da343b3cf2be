"""Writes token files, and the chats beside them, as `oneflow data --chat` does, by the bytes that docs/data.md shows."""
import struct


def write_tokens(path, ids):
    with open(path, "wb") as file:
        file.write(struct.pack(f"<{len(ids)}H", *ids))


def write_chats(path, chats):
    """path: of the .bin; chats: lists of (id, counts)."""
    write_tokens(path, [one for chat in chats for one, _ in chat])
    ends, end = [], 0
    for chat in chats:
        end += len(chat)
        ends.append(end)
    mask = bytearray((end + 7) // 8)
    for i, (_, counts) in enumerate(pair for chat in chats for pair in chat):
        mask[i // 8] |= int(counts) << i % 8
    with open(path.removesuffix(".bin") + ".chats", "wb") as file:
        file.write(b"OFCHATS1" + struct.pack(f"<QQ{len(ends)}Q", len(chats), end, *ends) + mask)
