#include "training/data/recognize_data.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "oneflow_core/base/stand_in.h"
#include "oneflow_core/base/status.h"
#include "training/data/doubt_text.h"
#include "training/data/json_lines.h"

namespace oneflow {
namespace {

using namespace std::string_view_literals;

constexpr int64_t kHead = 1 << 14;
// Bytes of lines of JSON that are looked at, and where fewer than two lines are in them.
constexpr int64_t kFirstLines = 1 << 16, kLongestLines = 1 << 24;
// Of what is not unpacked yet to its end. Units of any size divide it.
constexpr int64_t kUnknownSize = int64_t{1} << 60;

std::string_view NameInPath(std::string_view path) { return path.substr(path.rfind('/') + 1); }

// Where the bytes to look at come from: a file, or what is unpacked of one.
struct Source {
  std::string path;
  std::string_view name;  // without folder and, unpacked, without what says how it was packed
  int64_t size = 0;
  // Bytes [at, at + bytes) of them, as far as there are any.
  std::function<absl::StatusOr<std::string>(int64_t at, int64_t bytes)> read;
};

absl::StatusOr<std::string> ReadPart(const DataFile& file, int64_t at, int64_t bytes) {
  std::string part(std::max<int64_t>(0, std::min(bytes, file.size() - at)), '\0');
  if (part.empty()) return part;
  RETURN_IF_ERROR(file.Read(at, std::as_writable_bytes(std::span(part))));
  return part;
}

Source SourceFrom(const DataFile& file) {
  return {file.path(), NameInPath(file.path()), file.size(),
          [&file](int64_t at, int64_t bytes) { return ReadPart(file, at, bytes); }};
}

template <typename T>
T NumberAt(std::string_view bytes, size_t at) {
  T value = 0;
  if (at + sizeof value <= bytes.size()) std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// The first bytes of a file, and its last.
struct Contents {
  std::string_view name;
  std::string head, tail;
  int64_t size = 0;
  bool text = false;   // the head is UTF-8 without zero bytes
  std::string binary;  // why the head may be no text, whatever its encoding; empty: it may be

  bool Has(std::string_view magic, size_t at = 0) const {
    return std::string_view(head).substr(std::min(at, head.size())).starts_with(magic);
  }
  bool Named(std::string_view extension) const {
    return name.size() > extension.size() && name.ends_with(extension);
  }
};

// `truncated`: a character at the end may go on.
bool IsUtf8(std::string_view text, bool truncated) {
  return FindNoUtf8(text) + (truncated ? 3 : 0) >= text.size();
}

absl::StatusOr<Contents> ReadContents(const Source& source) {
  Contents made;
  made.name = source.name;
  made.size = source.size;
  ASSIGN_OR_RETURN(made.head, source.read(0, kHead));
  if (source.size < kUnknownSize) {
    ASSIGN_OR_RETURN(made.tail, source.read(std::max<int64_t>(0, source.size - 16), 16));
  }
  made.binary = FindBinary(made.head);
  made.text = made.head.find('\0') == std::string::npos &&
              IsUtf8(made.head, std::ssize(made.head) < source.size);
  return made;
}

// ---- What magic bytes alone do not tell. ----

bool IsGzip(const Contents& c) {
  // Reserved flags are 0; the level and the system are known ones.
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(c.head[i]); };
  return c.head.size() >= 10 && byte(3) < 32 && (byte(8) == 0 || byte(8) == 2 || byte(8) == 4) &&
         (byte(9) < 14 || byte(9) == 255);
}

// A frame of both formats that holds no data, which may be the first.
bool IsSkippableFrame(const Contents& c) { return NumberAt<uint32_t>(c.head, 0) >> 4 == 0x184d2a5; }

// Letters may also begin a text.
bool IsBinary(const Contents& c) { return !c.text; }

bool EndsAsItBegins(const Contents& c) { return !c.text || c.tail.ends_with(c.head.substr(0, 4)); }

bool IsArrowStream(const Contents& c) {
  const auto length = NumberAt<int32_t>(c.head, 4);
  return length > 0 && length % 8 == 0 && length < c.size && NumberAt<uint32_t>(c.head, 8) < 1024;
}

bool IsPickle(const Contents& c) {
  const bool named = c.Named(".pkl") || c.Named(".pickle");
  if (!c.Has("\x80"sv)) return named && c.tail.ends_with('.');  // protocols 0 and 1 are text
  return c.head.size() > 2 && c.head[1] >= 2 && c.head[1] <= 5;
}

// A header of 8 bytes: the length of the JSON that follows.
bool IsSafetensors(const Contents& c) {
  const auto length = NumberAt<uint64_t>(c.head, 0);
  return c.head.size() > 8 && c.head[8] == '{' && length >= 2 && length < (1 << 27) &&
         static_cast<int64_t>(length) <= c.size - 8;
}

bool IsTar(const Contents& c) { return c.Has("ustar", 257); }

// A character that a text has: no control character but white space, and assigned.
bool IsTextCharacter(uint32_t character) {
  if (character < 32) return character >= '\t' && character <= '\r';
  if (character >= 0x110000) return false;
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(character))) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO: return false;
    default: return true;
  }
}

template <typename Unit>
Unit UnitAt(std::string_view bytes, size_t i, bool big) {
  Unit unit = 0;
  for (size_t b = 0; b < sizeof unit; ++b) {
    const size_t shift = 8 * (big ? sizeof unit - 1 - b : b);
    unit |=
        static_cast<Unit>(Unit{static_cast<unsigned char>(bytes[i * sizeof unit + b])} << shift);
  }
  return unit;
}

// True of characters of Chinese or Japanese: ideographs, kana, and their punctuation.
bool IsHan(uint32_t character) {
  return (character >= 0x3000 && character < 0x3100) ||
         (character >= 0x4e00 && character < 0xa000) || (character >= 0xff00 && character < 0xfff0);
}

// UTF-16 without a mark: all its units are characters of a text, and those of ASCII (spaces, line
// feeds) leave zeros in one place of the two. A text of bytes with a few zeros has them anywhere,
// and its pairs of letters would be characters of many pages. Chinese has many pages, and may have
// little of ASCII; its lower bytes are any, control characters among them, which no text has in
// another encoding.
bool IsUtf16(const Contents& c, bool big) {
  const size_t units = c.head.size() / 2;
  size_t ascii = 0, turned = 0;  // the other byte is zero
  size_t han = 0;
  std::array<bool, 256> pages = {};
  if (c.size % 2 != 0) return false;
  for (size_t i = 0; i < units; ++i) {
    uint32_t unit = UnitAt<uint16_t>(c.head, i, big);
    pages[unit >> 8] = true;
    if (unit >= 0xd800 && unit < 0xdc00) {
      if (i + 1 == units) break;
      const uint32_t low = UnitAt<uint16_t>(c.head, ++i, big);
      if (low < 0xdc00 || low >= 0xe000) return false;
      unit = 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
    }
    if (!IsTextCharacter(unit)) return false;
    ascii += unit < 128 ? 1 : 0;
    turned += unit % 256 == 0 ? 1 : 0;
    han += IsHan(unit) ? 1 : 0;
  }
  constexpr size_t kFewest = 32;
  if (units >= kFewest && han * 10 >= units * 9 &&
      static_cast<size_t>(CountControls(c.head)) * 100 >= c.head.size()) {
    return !IsUtf8(c.head, true);
  }
  const bool one_script = std::count(pages.begin(), pages.end(), true) <= 8;
  return ascii > 0 && ascii * 100 >= units && turned * 4 <= ascii &&
         (one_script || !IsUtf8(c.head, true));
}

bool IsUtf16Little(const Contents& c) { return IsUtf16(c, false); }
bool IsUtf16Big(const Contents& c) { return IsUtf16(c, true); }

bool IsUtf32(const Contents& c, bool big) {
  const size_t units = c.head.size() / 4;
  if (c.size % 4 != 0 || units == 0) return false;
  for (size_t i = 0; i < units; ++i) {
    if (!IsTextCharacter(UnitAt<uint32_t>(c.head, i, big))) return false;
  }
  return true;
}

bool IsUtf32Little(const Contents& c) { return IsUtf32(c, false); }
bool IsUtf32Big(const Contents& c) { return IsUtf32(c, true); }

// ---- The table. ----

struct Kind {
  const char* what;
  const char* hint;                              // the path replaces FILE
  std::string_view names;                        // with which no text ends, each after a space
  std::string_view magic;                        // at the begin
  bool (*is)(const Contents&) = nullptr;         // a further condition
  bool weak = false;                             // ids may begin so
  TextKind table = TextKind::kPlain;             // of which the text of a column can be read
  Compression compression = Compression::kNone;  // which ByteStream unpacks
};

constexpr char kUnpack[] = "unpack it first, and give the text";
constexpr char kTable[] = "write the text of its rows to a file, and give that";
constexpr char kColumn[] = "give it as text, whose --key names the column";
constexpr char kModel[] = "give text, or token ids that `oneflow data` writes";
constexpr char kConvert[] = "write its text to a file in UTF-8, and give that";
constexpr char kUtf16[] = "convert it: iconv -f UTF-16 -t UTF-8 FILE > text.txt";
constexpr char kUtf32[] = "convert it: iconv -f UTF-32 -t UTF-8 FILE > text.txt";

// The first row that fits counts.
constexpr Kind kKinds[] = {
    {"is compressed with gzip", "unpack it first: gzip -dk FILE", " .gz .tgz", "\x1f\x8b\x08"sv,
     IsGzip, false, TextKind::kPlain, Compression::kGzip},
    {"is compressed with zstd", "unpack it first: zstd -d FILE", " .zst .zstd .tzst",
     "\x28\xb5\x2f\xfd"sv, nullptr, false, TextKind::kPlain, Compression::kZstd},
    {"is compressed with xz", "unpack it first: xz -dk FILE", " .xz .txz .lzma", "\xfd\x37zXZ\0"sv},
    {"is compressed with bzip2", "unpack it first: bzip2 -dk FILE", " .bz2 .tbz", "BZh"sv,
     [](const Contents& c) { return c.Has("1AY&SY", 4); }},
    {"is compressed with lz4", "unpack it first: lz4 -d FILE", " .lz4", "\x04\x22\x4d\x18"sv},
    {"is compressed with zstd or lz4", kUnpack, "", "", IsSkippableFrame},
    {"is compressed with lzip", "unpack it first: lzip -dk FILE", " .lz", "LZIP\x01"sv},
    {"is compressed with compress", "unpack it first: gzip -dk FILE", " .Z", "\x1f\x9d\x90"sv,
     nullptr, true},
    {"is compressed with Brotli", "unpack it first: brotli -dk FILE", " .br", ""},
    {"is compressed with Snappy", kUnpack, " .snappy .sz", "\xff\x06\0\0sNaPpY"sv},
    {"is a zip archive, as .npz, .docx and files of PyTorch are", kUnpack,
     " .zip .npz .docx .xlsx .odt .epub .jar .whl .pt .pth .ckpt", "PK\x03\x04"sv},
    {"is an empty zip archive", kUnpack, "", "PK\x05\x06"sv},
    {"is a 7-Zip archive", kUnpack, " .7z", "7z\xbc\xaf\x27\x1c"sv},
    {"is a RAR archive", kUnpack, " .rar", "Rar!\x1a\x07"sv},
    {"is a tar archive", "unpack it first: tar -xf FILE, and give the texts in it", " .tar", "",
     IsTar},
    {"is a Parquet table", kColumn, " .parquet", "PAR1", EndsAsItBegins, false, TextKind::kParquet},
    {"is an encrypted Parquet table", kTable, "", "PARE", EndsAsItBegins},
    {"is an Arrow or Feather table", kColumn, " .arrow .feather .ipc", "ARROW1\0\0"sv, nullptr,
     false, TextKind::kArrowFile},
    {"is an Arrow stream, as of Hugging Face's datasets", kColumn, "", "\xff\xff\xff\xff"sv,
     IsArrowStream, false, TextKind::kArrowStream},
    {"is a Feather table", kTable, "", "FEA1", EndsAsItBegins},
    {"is an Avro table", kTable, " .avro", "Obj\x01"sv},
    {"is an ORC table", kTable, " .orc", "ORC", IsBinary, true},
    {"is an HDF5 file", kTable, " .h5 .hdf5", "\x89HDF\r\n\x1a\n"sv},
    {"is an SQLite database", kTable, " .sqlite .sqlite3 .db", "SQLite format 3\0"sv},
    {"is a file of TFRecords", kTable, " .tfrecord .tfrecords", ""},
    {"is a file of MessagePack", kTable, " .msgpack", ""},
    {"holds pickled objects of Python",
     "write the text or the ids in them to a file: numpy.save for ids", " .pkl .pickle", "",
     IsPickle, true},
    {"holds a state of PyTorch", kModel, "", "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46"sv},
    {"holds token ids", "give it as --data of `oneflow train`", " .bin .npy", ""},
    {"holds weights (safetensors)", kModel, " .safetensors", "", IsSafetensors},
    {"holds a model (GGUF)", kModel, " .gguf", "GGUF", IsBinary},
    {"is an ELF program or library", kModel, " .so .o .a",
     "\x7f"
     "ELF"sv},
    {"is a PDF document", kConvert, " .pdf", "%PDF-"},
    {"is an RTF document", kConvert, " .rtf", "{\\rtf1"},
    {"is a document of Microsoft Office", kConvert, " .doc .xls .ppt",
     "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"sv},
    {"is a picture (PNG)", kModel, " .png", "\x89PNG\r\n\x1a\n"sv},
    {"is a picture (JPEG)", kModel, " .jpg .jpeg", "\xff\xd8\xff"sv, nullptr, true},
    {"is a picture (GIF)", kModel, " .gif", "GIF8", IsBinary},
    {"is sound, a picture or a film (RIFF)", kModel, " .wav .webp .avi", "RIFF", IsBinary},
    {"is sound (MP3)", kModel, " .mp3", "ID3", IsBinary, true},
    {"is sound or a film (Ogg)", kModel, " .ogg .opus", "OggS\0"sv},
    {"is sound (FLAC)", kModel, " .flac", "fLaC", IsBinary},
    {"is text in UTF-32", kUtf32, "", "\xff\xfe\0\0"sv},
    {"is text in UTF-32", kUtf32, "", "\0\0\xfe\xff"sv},
    {"is text in UTF-16", kUtf16, "", "\xff\xfe"sv, nullptr, true},
    {"is text in UTF-16", kUtf16, "", "\xfe\xff"sv, nullptr, true},
};

// They are told by no magic: what is left is looked at in this order.
constexpr Kind kEncodings[] = {
    {"is text in UTF-32", "convert it: iconv -f UTF-32LE -t UTF-8 FILE > text.txt", "", "",
     IsUtf32Little},
    {"is text in UTF-32", "convert it: iconv -f UTF-32BE -t UTF-8 FILE > text.txt", "", "",
     IsUtf32Big},
    {"is text in UTF-16", "convert it: iconv -f UTF-16LE -t UTF-8 FILE > text.txt", "", "",
     IsUtf16Little},
    {"is text in UTF-16", "convert it: iconv -f UTF-16BE -t UTF-8 FILE > text.txt", "", "",
     IsUtf16Big},
};

bool Fits(const Kind& kind, const Contents& contents) {
  if (kind.magic.empty() && kind.is == nullptr) return false;
  return contents.Has(kind.magic) && (kind.is == nullptr || kind.is(contents));
}

bool HasName(const Kind& kind, const Contents& contents) {
  for (size_t at = 0; at < kind.names.size();) {
    const size_t end = std::min(kind.names.find(' ', at + 1), kind.names.size());
    if (contents.Named(kind.names.substr(at + 1, end - at - 1))) return true;
    at = end;
  }
  return false;
}

std::string_view SkipSpace(std::string_view text) {
  return text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
}

// The kind of lines of JSON, and the filter of jq that finds their texts; null: --key finds them.
struct JsonLines {
  const char *each, *filter;
};

// All lines of the first block are JSON objects, and there are two: one is a document. The last of
// a file may be truncated. A name that says so needs but the beginning of one value.
absl::StatusOr<std::optional<JsonLines>> FindJsonLines(const Source& source,
                                                       const Contents& contents) {
  static constexpr JsonLines kObjects = {"an object", nullptr};
  const std::string_view head = contents.head;
  const size_t mark = head.starts_with("\xef\xbb\xbf") ? 3 : 0;
  const std::string_view begin = SkipSpace(head.substr(mark));
  const auto begins_object = [](std::string_view line) {
    return line.starts_with('{') && SkipSpace(line.substr(1)).starts_with('"');
  };
  if (contents.Named(".jsonl") || contents.Named(".ndjson")) {
    if (begins_object(begin)) return kObjects;
    if (begin.starts_with('[')) return JsonLines{"an array", "'.[]'"};
    const size_t end = begin.find('\n');
    const bool truncated = end == begin.npos && std::ssize(head) < contents.size;
    if (begin.starts_with('"') && (truncated || IsJson(begin.substr(0, end)))) {
      return JsonLines{"a string", "."};
    }
  }
  if (!begin.starts_with('{')) return std::nullopt;
  for (const int64_t block : {kFirstLines, kLongestLines}) {
    const auto at = std::ssize(head) - std::ssize(begin);
    ASSIGN_OR_RETURN(const std::string text, source.read(at, block));
    int lines = 0;
    for (std::string_view rest = text; !rest.empty(); ++lines) {
      const size_t end = rest.find('\n');
      const std::string_view line = rest.substr(0, end);
      if (end == rest.npos && std::ssize(text) == block && at + block < contents.size) {
        break;  // the block ends here, no line
      }
      const bool truncated = end == rest.npos && begins_object(line);
      if (!line.starts_with('{') || !(truncated || IsJson(line))) return std::nullopt;
      rest = SkipSpace(rest.substr(line.size()));
    }
    if (lines >= 2) return kObjects;
  }
  return std::nullopt;
}

absl::Status Refuse(const Source& source, const Kind& kind, std::string_view how = "") {
  const bool unpacked = source.name != NameInPath(source.path);
  return InputError(source.path,
                    absl::StrCat(unpacked ? "unpacked, it " : "", kind.what, ToAbsl(how)),
                    unpacked ? "unpack it first, and see what it is"
                             : absl::StrReplaceAll(kind.hint, {{"FILE", source.path}}));
}

absl::StatusOr<TextKind> Recognize(const Source& source) {
  ASSIGN_OR_RETURN(const Contents contents, ReadContents(source));
  RETURN_IF_ERROR(CheckNoPointer(source.path, contents.head));
  for (const Kind& kind : kKinds) {
    if (!Fits(kind, contents)) continue;
    const bool packed = source.name != NameInPath(source.path);
    if (kind.table != TextKind::kPlain && !packed) return kind.table;
    return Refuse(source, kind);
  }
  for (const Kind& kind : kEncodings) {
    if (Fits(kind, contents)) return Refuse(source, kind);
  }
  for (const Kind& kind : kKinds) {
    if (contents.binary.empty() || !HasName(kind, contents)) continue;
    return Refuse(source, kind, ", by its name, and " + contents.binary);
  }
  ASSIGN_OR_RETURN(const std::optional<JsonLines> lines, FindJsonLines(source, contents));
  if (!lines) return TextKind::kPlain;
  if (lines->filter == nullptr) return TextKind::kJsonLines;
  return InputError(source.path,
                    absl::StrCat("holds JSON Lines: each line is ", lines->each, ", and no object"),
                    absl::StrCat("write the text in it to a file: jq -r ", lines->filter, " ",
                                 source.path, " > text.txt"));
}

}  // namespace

Compression FindCompression(std::string_view head) {
  Contents contents;
  contents.head = head;
  for (const Kind& kind : kKinds) {
    if (kind.compression != Compression::kNone && Fits(kind, contents)) return kind.compression;
  }
  return Compression::kNone;
}

absl::StatusOr<TextKind> RecognizeText(const DataFile& file) { return Recognize(SourceFrom(file)); }

absl::StatusOr<TextKind> RecognizeText(
    const std::string& path, const std::function<absl::StatusOr<std::string_view>(size_t)>& peek) {
  Source source{path, NameInPath(path), kUnknownSize, nullptr};
  for (const std::string_view packed : {".gz", ".zst", ".zstd"}) {
    if (source.name.ends_with(packed)) source.name.remove_suffix(packed.size());
  }
  // Unpacked, and without a name that says more.
  if (source.name == NameInPath(path)) source.name = "";
  ASSIGN_OR_RETURN(const std::string_view head, peek(kHead));
  if (std::ssize(head) < kHead) source.size = std::ssize(head);
  source.read = [&](int64_t at, int64_t bytes) -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(const std::string_view all, peek(at + bytes));
    return std::string(all.substr(std::min<size_t>(at, all.size()), bytes));
  };
  return Recognize(source);
}

absl::Status CheckIsText(const DataFile& file) {
  ASSIGN_OR_RETURN(const TextKind kind, RecognizeText(file));
  if (kind == TextKind::kPlain) return absl::OkStatus();
  const auto* table = std::find_if(std::begin(kKinds), std::end(kKinds),
                                   [kind](const Kind& one) { return one.table == kind; });
  if (table != std::end(kKinds)) return Refuse(SourceFrom(file), *table);
  return InputError(file.path(), "holds JSON Lines: each line is an object", kColumn);
}

absl::Status CheckIsIds(const DataFile& file) {
  const Source source = SourceFrom(file);
  ASSIGN_OR_RETURN(const Contents contents, ReadContents(source));
  RETURN_IF_ERROR(CheckNoPointer(file.path(), contents.head));
  for (const Kind& kind : kKinds) {
    if (!kind.weak && Fits(kind, contents)) return Refuse(source, kind, ", and no token ids");
  }
  return absl::OkStatus();
}

absl::Status CheckIsNoAscii(const DataFile& file) {
  constexpr int64_t kFewest = 64;  // bytes
  ASSIGN_OR_RETURN(const std::string head, ReadPart(file, 0, kHead));
  const bool ascii = std::all_of(head.begin(), head.end(), [](char c) {
    return (c >= ' ' && c <= '~') || (c >= '\t' && c <= '\r');
  });
  if (!ascii || std::ssize(head) < kFewest) return absl::OkStatus();
  return InputError(
      file.path(), "holds text, by its name it would hold token ids",
      "rename it, e.g. to end in .txt; if these are ids, say so with --token_bytes=2");
}

}  // namespace oneflow
