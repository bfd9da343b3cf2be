#include "training/data/text_reader.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "training/data/byte_stream.h"
#include "training/data/doubt_text.h"
#include "training/data/json_lines.h"
#include "training/data/mapped_file.h"
#include "training/data/python_script.h"
#include "training/data/text_lines.h"
#include "training/data/token_file.h"

namespace oneflow {
namespace {

constexpr std::string_view kTableScript =
#include "training/data/table_text_py.inc"
    ;

constexpr int64_t kMostRows = 1 << 20, kMostBytes = int64_t{1} << 32;  // of a batch

// One document, which is the file.
absl::Status ReadMapped(TextReader* reader) {
  ASSIGN_OR_RETURN(MappedFile opened, MappedFile::Open(reader->facts.path));
  const auto file = std::make_shared<MappedFile>(std::move(opened));
  const auto read = std::make_shared<bool>(file->bytes().empty());
  reader->next = [file, read](TextBlock* block) -> absl::StatusOr<bool> {
    if (std::exchange(*read, true)) return false;
    *block = {
        {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, true, true};
    return true;
  };
  reader->position = [file, read] { return *read ? std::ssize(file->bytes()) : 0; };
  return absl::OkStatus();
}

// One document, unpacked. A block is held back until it is known whether another one follows.
class PackedText {
 public:
  explicit PackedText(std::shared_ptr<ByteStream> stream) : stream_(std::move(stream)) {}
  absl::StatusOr<bool> Next(TextBlock* block) {
    const bool begins = std::exchange(begins_, false);
    if (begins) {
      ASSIGN_OR_RETURN(const std::string_view first, stream_->Next());
      ahead_ = first;
    }
    if (ahead_.empty()) return false;
    std::swap(text_, ahead_);
    ASSIGN_OR_RETURN(const std::string_view following, stream_->Next());
    ahead_ = following;
    *block = {text_, begins, ahead_.empty()};
    return true;
  }

 private:
  const std::shared_ptr<ByteStream> stream_;
  std::string text_, ahead_;
  bool begins_ = true;
};

// Each line is a document.
class LineReader {
 public:
  LineReader(std::string path, std::string key, std::shared_ptr<ByteStream> stream)
      : key_(std::move(key)), lines_(std::move(path), std::move(stream)) {}

  absl::StatusOr<bool> Next(TextBlock* block) {
    for (;;) {
      ASSIGN_OR_RETURN(const std::optional<std::string_view> line, lines_.Next());
      if (!line) return false;
      absl::StatusOr<std::string> text = TextInJson(*line, key_);
      if (!text.ok()) {
        const bool broken = text.status().message().substr(0, 5) == "is no";
        return InputError(
            location(), ToStd(text.status().message()),
            broken ? "correct the line, or leave it out" : "name the key of the text with --key");
      }
      text_ = *std::move(text);
      if (text_.empty()) continue;
      *block = {text_, true, true};
      return true;
    }
  }
  std::string location() const { return lines_.location(); }

 private:
  const std::string key_;
  TextLines lines_;
  std::string text_;
};

// Each row is a document. table_text.py describes its batches.
class TableReader {
 public:
  TableReader(std::string path, PythonScript script)
      : path_(std::move(path)), script_(std::move(script)) {}

  absl::StatusOr<bool> Next(TextBlock* block) {
    for (;;) {
      while (row_ == std::ssize(ends_)) {
        ASSIGN_OR_RETURN(const bool more, ReadBatch());
        if (!more) return false;
      }
      const int64_t begin = row_ == 0 ? 0 : ends_[row_ - 1], end = ends_[row_];
      ++row_;
      if (begin == end) continue;
      *block = {std::string_view(text_).substr(begin, end - begin), true, true};
      return true;
    }
  }
  std::string location() const { return absl::StrCat(path_, ", row ", before_ + row_); }
  // Of the file, up to the batch; 1 where the table does not say how many rows it has.
  double part() const { return all_ > 0 ? static_cast<double>(through_) / all_ : 1; }

 private:
  // False at the end, before the first byte.
  absl::StatusOr<bool> ReadAll(std::span<char> to) {
    for (bool first = true; !to.empty(); first = false) {
      ASSIGN_OR_RETURN(const size_t n, script_.Read(to));
      if (n == 0 && first) return false;
      if (n == 0) return Odd();
      to = to.subspan(n);
    }
    return true;
  }
  absl::StatusOr<bool> ReadNumbers(std::span<int64_t> to) {
    return ReadAll({reinterpret_cast<char*>(to.data()), to.size_bytes()});
  }
  absl::Status Odd() const {
    return absl::UnavailableError(path_ + ": python3 wrote what is no batch of rows");
  }

  absl::StatusOr<bool> ReadBatch() {
    int64_t head[3];
    ASSIGN_OR_RETURN(const bool more, ReadNumbers(head));
    if (!more) return false;
    before_ = through_;
    row_ = 0;
    through_ = head[1];
    all_ = head[2];
    if (head[0] < 0 || head[0] > kMostRows) return Odd();
    std::vector<int64_t> begins(head[0] + 1);
    ASSIGN_OR_RETURN(const bool offsets, ReadNumbers(begins));
    if (!offsets || !std::is_sorted(begins.begin(), begins.end()) || begins.front() < 0 ||
        begins.back() - begins.front() > kMostBytes) {
      return Odd();
    }
    text_.resize(begins.back() - begins.front());
    ASSIGN_OR_RETURN(const bool texts, ReadAll(text_));
    if (!texts) return Odd();
    ends_.assign(begins.begin() + 1, begins.end());
    for (int64_t& end : ends_) end -= begins.front();
    return true;
  }

  const std::string path_;
  PythonScript script_;
  std::string text_;                            // of a batch
  std::vector<int64_t> ends_;                   // of its rows
  int64_t row_ = 0;                             // the next, in the batch
  int64_t before_ = 0, through_ = 0, all_ = 0;  // rows before the batch, up to its end, in all
};

// `read` is shared by the functions of the reader.
template <typename Records>
void ReadRecords(std::shared_ptr<Records> read, TextReader* reader) {
  reader->next = [read](TextBlock* block) { return read->Next(block); };
  reader->location = [read] { return read->location(); };
}

absl::Status ReadTable(const std::string& key, TextReader* reader) {
  ASSIGN_OR_RETURN(PythonScript script,
                   PythonScript::Start({.source = kTableScript,
                                        .arguments = {std::string(TableFormat(reader->facts.kind)),
                                                      reader->facts.path, key},
                                        .purpose = "reading " + reader->facts.path}));
  const auto read = std::make_shared<TableReader>(reader->facts.path, std::move(script));
  ReadRecords(read, reader);
  reader->position = [read, bytes = reader->facts.file_bytes] {
    return static_cast<int64_t>(static_cast<double>(bytes) * read->part());
  };
  return absl::OkStatus();
}

struct OpenedText {
  TextFacts facts;
  std::shared_ptr<ByteStream> stream;
};

absl::StatusOr<OpenedText> OpenStream(const std::string& path) {
  ASSIGN_OR_RETURN(ByteStream opened, ByteStream::Open(path));
  const auto stream = std::make_shared<ByteStream>(std::move(opened));
  TextFacts facts{.path = path, .compression = stream->compression()};
  facts.file_bytes = stream->file().size();
  if (facts.compression == Compression::kNone) {
    RETURN_IF_ERROR(CheckHoldsNoTokens(stream->file()));
    ASSIGN_OR_RETURN(facts.kind, RecognizeText(stream->file()));
  } else {
    ASSIGN_OR_RETURN(facts.kind, RecognizeText(path, [&](size_t n) { return stream->Peek(n); }));
  }
  if (facts.kind == TextKind::kPlain) {
    ASSIGN_OR_RETURN(const std::string_view head, stream->Peek(kDoubtedBytes));
    facts.doubt = DoubtText(head);
  }
  return OpenedText{std::move(facts), stream};
}

}  // namespace

std::string_view TableFormat(TextKind kind) {
  if (kind == TextKind::kParquet) return "parquet";
  return kind == TextKind::kArrowFile ? "arrow" : "stream";
}

absl::StatusOr<TextFacts> LookAtText(const std::string& path) {
  ASSIGN_OR_RETURN(OpenedText opened, OpenStream(path));
  return std::move(opened.facts);
}

bool HoldsPackedText(const std::string& path) {
  if (path.ends_with(".bin") || path.ends_with(".npy")) return false;  // ids
  const absl::StatusOr<ByteStream> stream = ByteStream::Open(path);
  if (!stream.ok()) return false;
  if (stream->compression() != Compression::kNone) return true;
  if (!CheckHoldsNoTokens(stream->file()).ok()) return false;
  const absl::StatusOr<TextKind> kind = RecognizeText(stream->file());
  return kind.ok() && *kind != TextKind::kPlain;
}

absl::StatusOr<TextReader> OpenText(const std::string& path, const std::string& key) {
  ASSIGN_OR_RETURN(OpenedText opened, OpenStream(path));
  const std::shared_ptr<ByteStream> stream = std::move(opened.stream);
  TextReader reader{.facts = std::move(opened.facts)};
  reader.position = [stream] { return stream->position(); };
  reader.location = [path] { return path; };
  if (reader.facts.kind == TextKind::kJsonLines) {
    ReadRecords(std::make_shared<LineReader>(path, key, stream), &reader);
  } else if (reader.facts.records()) {
    RETURN_IF_ERROR(ReadTable(key, &reader));
  } else if (reader.facts.is_file()) {
    RETURN_IF_ERROR(ReadMapped(&reader));
  } else {
    const auto read = std::make_shared<PackedText>(stream);
    reader.next = [read](TextBlock* block) { return read->Next(block); };
  }
  return reader;
}

}  // namespace oneflow
