#include "training/data/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
#include "oneflow_core/base/file_kind.h"
#include "oneflow_core/base/status.h"
#include "training/data/npy.h"
#include "training/data/recognize_data.h"
#include "training/data/token_file_meta.h"

namespace oneflow {
namespace {

static_assert(std::endian::native == std::endian::little);

// Bytes that are read at once.
constexpr int64_t kBlock = 1 << 14;

template <typename T>
T At(std::span<const std::byte> bytes, int64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
void Widen(const std::byte* base, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T token;
    std::memcpy(&token, base + i * sizeof token, sizeof token);
    out[i] = static_cast<int32_t>(token);
  }
}

std::string_view Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The first bytes of the file, in `block`.
absl::StatusOr<std::span<const std::byte>> ReadHead(const DataFile& file,
                                                    std::span<std::byte> block) {
  const auto head = block.first(std::min<int64_t>(std::ssize(block), file.size()));
  RETURN_IF_ERROR(file.Read(0, head));
  return head;
}

// The bytes of an id, as the ids of a file without a header look: 8 or 4 where many numbers of that
// size are all below 2^18, most end in two bytes above 3, and several differ. A text has no such
// ids of two bytes; where most of them are 0, the last two do not hold. Else 2.
int GuessIdBytes(std::span<const std::byte> bytes, int64_t file_bytes) {
  constexpr int64_t kFewest = 64;
  constexpr size_t kFewestDifferent = 8;
  constexpr uint64_t kAbove = 1 << 18;
  const auto are_ids = [&]<typename T>(T /*type*/) {
    const int64_t count = std::ssize(bytes) / int64_t{sizeof(T)};
    int64_t telling = 0;  // ids of two bytes that are all small look like the others
    std::set<T> different;
    for (int64_t i = 0; i < count; ++i) {
      const auto id = At<T>(bytes, i * int64_t{sizeof(T)});
      if (id >= kAbove) return false;
      if (id % (1 << 16) <= 3) continue;
      ++telling;
      if (different.size() < kFewestDifferent) different.insert(id);
    }
    return telling * 2 > count && different.size() == kFewestDifferent && count >= kFewest &&
           file_bytes % int64_t{sizeof(T)} == 0;
  };
  return are_ids(uint64_t{}) ? 8 : are_ids(uint32_t{}) ? 4 : 2;
}

absl::StatusOr<TokenFile> OpenHeaderless(DataFile file, std::span<const std::byte> head,
                                         int id_bytes) {
  const int64_t bytes = file.size();
  RETURN_IF_ERROR(CheckIsIds(file));
  if (id_bytes == 0) {
    RETURN_IF_ERROR(CheckIsNoAscii(file));
    id_bytes = GuessIdBytes(head, bytes);
    if (id_bytes == 8) {
      return InputError(file.path(), "looks like ids of eight bytes without a header",
                        "if an id has two bytes or four, say so with --token_bytes=2 or "
                        "--token_bytes=4; else write the ids as uint16 or int32");
    }
    if (id_bytes == 4) {
      return InputError(
          file.path(),
          "looks like ids of four bytes without a header: every other uint16 is below 4",
          "say how many bytes an id has: --token_bytes=4, or --token_bytes=2");
    }
  }
  if (bytes % id_bytes != 0) {
    return InputError(file.path(),
                      absl::StrCat(bytes, " bytes are no whole number of ids of ", id_bytes,
                                   " bytes without a header"),
                      "a .bin file holds token ids (docs/data.md); rename a text file");
  }
  return TokenFile{std::move(file), 0, bytes / id_bytes, id_bytes};
}

absl::StatusOr<TokenFile> OpenNpy(DataFile file, std::string_view head) {
  static constexpr std::string_view kUint32 = "'<u4'";
  static constexpr std::pair<std::string_view, int> kTypes[] = {
      {"'|u1'", 1}, {"'<u2'", 2}, {kUint32, 4}, {"'<i4'", 4}};
  ASSIGN_OR_RETURN(const NpyHeader header, ParseNpyHeader(file.path(), head));
  const auto* type = std::find_if(std::begin(kTypes), std::end(kTypes),
                                  [&](const auto& one) { return one.first == header.descr; });
  if (type == std::end(kTypes)) {
    return InputError(file.path(),
                      "is an array of " + header.descr + ", and token ids are uint16 or int32",
                      "save it as one of these: ids.astype('int32')");
  }
  const int64_t tokens = Product(header.dims), held = file.size() - header.offset;
  if (held != tokens * type->second) {
    return InputError(file.path(),
                      absl::StrCat("its header says ", tokens, " elements of ", type->second,
                                   " bytes, it holds ", held, " bytes"),
                      "it is truncated or damaged; make it again");
  }
  TokenFile made{std::move(file), header.offset, tokens, type->second};
  made.is_uint32 = type->first == kUint32;
  return made;
}

// The header of a file of llm.c.
struct LlmcKind {
  int32_t magic, version;
  int token_bytes;  // 0: no tokens to train on
  const char* name;
};
constexpr LlmcKind kLlmcKinds[] = {
    {kLlmcMagic, kLlmcVersion, 2, "tokens of GPT-2"},
    {kLlmcLlamaMagic, kLlmcLlamaVersion, 4, "tokens of Llama 3"},
    {20240522, 1, 0, "an evaluation: questions with their answers"},
    {20240326, 0, 0, "a model of GPT-2"},
    {20240803, 0, 0, "a model of Llama 3"},
    {20240327, 0, 0, "a model's state for tests"},
    {20240527, 0, 0, "an optimizer's state"},
    {20240328, 0, 0, "a tokenizer"},
};

const LlmcKind* FindLlmcKind(std::span<const std::byte> bytes) {
  if (bytes.size() < 4) return nullptr;
  const auto magic = At<int32_t>(bytes, 0);
  const auto* kind = std::find_if(std::begin(kLlmcKinds), std::end(kLlmcKinds),
                                  [magic](const LlmcKind& one) { return one.magic == magic; });
  return kind == std::end(kLlmcKinds) ? nullptr : kind;
}

absl::StatusOr<TokenFile> OpenLlmc(DataFile file, const LlmcKind& kind,
                                   std::span<const std::byte> head) {
  const int64_t size = file.size();
  if (kind.token_bytes == 0) {
    return InputError(file.path(), absl::StrCat("is a file of llm.c that holds ", kind.name),
                      "give one of its token files (magic 20240520 or 20240801)");
  }
  if (size < kLlmcHeaderBytes) {
    return InputError(file.path(),
                      absl::StrCat("has ", size, " bytes of the ", kLlmcHeaderBytes,
                                   " of llm.c's header, with which it begins"),
                      "it is truncated; make it again");
  }
  const auto version = At<int32_t>(head, 4);
  const int64_t count = At<int32_t>(head, 8);
  const int64_t held = (size - kLlmcHeaderBytes) / kind.token_bytes;
  if (version != kind.version) {
    return InputError(file.path(), absl::StrCat("llm.c ", kind.name, ", version ", version),
                      absl::StrCat("only version ", kind.version, " is supported"));
  }
  if (count < 0 || size != kLlmcHeaderBytes + kind.token_bytes * count) {
    return InputError(file.path(),
                      absl::StrCat("its header says ", count, " tokens, the file holds ", held),
                      "it is truncated or damaged; make it again");
  }
  TokenFile made{std::move(file), kLlmcHeaderBytes, count, kind.token_bytes};
  made.is_uint32 = kind.token_bytes == 4;
  return made;
}

bool IsMegatronIndex(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof kMegatronMagic &&
         std::memcmp(bytes.data(), kMegatronMagic, sizeof kMegatronMagic) == 0;
}

// A Megatron .idx, after its head: i32 size of each sequence, i64 byte offset of each, i64 first
// sequence of each document.
class MegatronIndex {
 public:
  explicit MegatronIndex(const DataFile& index) : index_(index) {}

  // The tokens' width and number; the .bin holds `bin_bytes`.
  absl::Status Check(int64_t bin_bytes) {
    constexpr int64_t kMagic = sizeof kMegatronMagic, kHead = kMagic + 8 + 1 + 8 + 8;
    std::array<std::byte, kHead> head = {};
    RETURN_IF_ERROR(index_.Read(0, std::span(head).first(std::min(kHead, index_.size()))));
    if (index_.size() < kHead || !IsMegatronIndex(head)) {
      return Bad("is no Megatron index (MMIDIDX), but stands beside a .bin");
    }
    const auto version = At<uint64_t>(head, kMagic);
    if (version != kMegatronVersion) return Bad(absl::StrCat("has version ", version));
    const auto type = At<uint8_t>(head, kMagic + 8);
    if (type != kMegatronUint16 && type != kMegatronInt32) {
      return Bad(absl::StrCat("its ids are ", TypeText(type), ", not uint16 (8) or int32 (4)"));
    }
    token_bytes_ = type == kMegatronUint16 ? 2 : 4;
    const auto sequences = At<uint64_t>(head, kMagic + 9);
    const auto documents = At<uint64_t>(head, kMagic + 17);
    const auto rest = static_cast<uint64_t>(index_.size() - kHead);
    if (sequences <= rest / 13 && documents <= rest / 8 && sequences > 0 &&
        sequences * 13 + documents * 8 == rest) {
      return Bad("has a mode for each sequence, as images among text have: it is not text alone");
    }
    if (sequences > rest / 12 || documents > rest / 8 || sequences * 12 + documents * 8 != rest) {
      return Bad(absl::StrCat("lists ", sequences, " sequences and ", documents,
                              " documents, which its size does not fit"));
    }
    RETURN_IF_ERROR(CheckSequences(kHead, static_cast<int64_t>(sequences), bin_bytes));
    return CheckDocuments(kHead + static_cast<int64_t>(sequences) * 12,
                          static_cast<int64_t>(documents), static_cast<int64_t>(sequences));
  }

  int token_bytes() const { return token_bytes_; }

 private:
  // Numbers of the index that stand one after the other, read in blocks.
  template <typename T>
  class Numbers {
   public:
    Numbers(const DataFile& file, int64_t at, int64_t count) : file_(file), at_(at), left_(count) {}

    absl::StatusOr<T> Next() {
      if (next_ == block_.size()) {
        block_.resize(std::min<int64_t>(left_, 1 << 13));
        RETURN_IF_ERROR(file_.Read(at_, std::as_writable_bytes(std::span(block_))));
        at_ += static_cast<int64_t>(block_.size() * sizeof(T));
        left_ -= std::ssize(block_);
        next_ = 0;
      }
      return block_[next_++];
    }

   private:
    const DataFile& file_;
    int64_t at_, left_;
    std::vector<T> block_;
    size_t next_ = 0;
  };

  // One after the other, without gaps.
  absl::Status CheckSequences(int64_t at, int64_t n, int64_t bin_bytes) const {
    Numbers<int32_t> sizes(index_, at, n);
    Numbers<int64_t> offsets(index_, at + 4 * n, n);
    int64_t end = 0;
    for (int64_t i = 0; i < n; ++i) {
      ASSIGN_OR_RETURN(const int32_t size, sizes.Next());
      ASSIGN_OR_RETURN(const int64_t offset, offsets.Next());
      if (size < 0 || offset != end) {
        return Bad(absl::StrCat("sequence ", i, " does not follow on the one before"));
      }
      end += int64_t{size} * token_bytes_;
    }
    if (end == bin_bytes) return absl::OkStatus();
    return Bad(absl::StrCat("describes ", end, " bytes, the .bin has ", bin_bytes));
  }

  // The first sequence of each document, and the number of sequences.
  absl::Status CheckDocuments(int64_t at, int64_t n, int64_t sequences) const {
    Numbers<int64_t> firsts(index_, at, n);
    int64_t last = 0;
    for (int64_t i = 0; i < n; ++i) {
      ASSIGN_OR_RETURN(const int64_t first, firsts.Next());
      if (first < last || first > sequences || (i == 0 && first != 0)) {
        return Bad(absl::StrCat("document ", i, " begins at sequence ", first, " of ", sequences));
      }
      last = first;
    }
    if (last == sequences) return absl::OkStatus();
    return Bad(absl::StrCat("its documents end at sequence ", last, " of ", sequences));
  }

  // Megatron's codes.
  static std::string TypeText(uint8_t code) {
    static constexpr const char* kNames[] = {nullptr, "uint8",   "int8",    "int16", "int32",
                                             "int64", "float64", "float32", "uint16"};
    if (code == 0 || code >= std::size(kNames)) return absl::StrCat("of type ", code);
    return absl::StrCat(kNames[code], " (", code, ")");
  }

  // Not without the .idx: nothing else says how wide the ids are.
  absl::Status Bad(const std::string& what) const {
    return InputError(index_.path(), what,
                      "make the pair again, with Megatron's tools or --token_format=megatron");
  }

  const DataFile& index_;
  int token_bytes_ = 2;
};

absl::StatusOr<TokenFile> OpenMegatron(DataFile file, const std::string& index_path) {
  ASSIGN_OR_RETURN(const DataFile index_file, DataFile::Open(index_path));
  const int64_t bytes = file.size();
  MegatronIndex index(index_file);
  if (absl::Status checked = index.Check(bytes); !checked.ok()) {
    RETURN_IF_ERROR(CheckIsIds(index_file));
    RETURN_IF_ERROR(CheckIsIds(file));
    return checked;
  }
  return TokenFile{std::move(file), 0, bytes / index.token_bytes(), index.token_bytes()};
}

absl::StatusOr<TokenFile> OpenBin(DataFile file, std::span<const std::byte> head, int id_bytes) {
  std::error_code ignored;
  const std::string index = file.path().substr(0, file.path().size() - 4) + ".idx";
  if (std::filesystem::exists(index, ignored)) return OpenMegatron(std::move(file), index);
  if (const LlmcKind* kind = FindLlmcKind(head)) return OpenLlmc(std::move(file), *kind, head);
  return OpenHeaderless(std::move(file), head, id_bytes);
}

absl::Status CheckNoTokenFormat(const DataFile& file, std::span<const std::byte> head) {
  const std::string_view text = Text(head);
  if (text.starts_with(kPlanMagic)) return RefuseOtherKind(text, file.path(), "training data");
  if (text.starts_with(kNpyMagic)) {
    return InputError(file.path(), "is an array of NumPy, and no text",
                      "give an array of token ids as --data of `oneflow train`");
  }
  if (IsMegatronIndex(head)) {
    return InputError(file.path(), "is an index of Megatron's, which holds no tokens",
                      "give the .bin beside it");
  }
  if (const LlmcKind* kind = FindLlmcKind(head)) {
    return InputError(file.path(),
                      absl::StrCat("is a file of llm.c that holds ", kind->name, ", not text"),
                      "give a token file a name that ends in .bin");
  }
  return absl::OkStatus();
}

absl::StatusOr<TokenFile> OpenPlainText(DataFile file, std::span<const std::byte> head) {
  RETURN_IF_ERROR(CheckNoTokenFormat(file, head));
  RETURN_IF_ERROR(CheckIsText(file));
  const int64_t bytes = file.size();
  return TokenFile{std::move(file), 0, bytes, 1, BytesTokenizerId()};
}

}  // namespace

absl::Status TokenFile::Read(int64_t first, std::span<int32_t> out) const {
  CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= tokens) << file.path();
  std::array<std::byte, kBlock> block;
  int64_t at = offset + first * token_bytes;
  while (!out.empty()) {
    const size_t n = std::min(out.size(), block.size() / token_bytes);
    const std::span<std::byte> bytes = std::span(block).first(n * token_bytes);
    RETURN_IF_ERROR(file.Read(at, bytes));
    const std::span<int32_t> to = out.first(n);
    if (token_bytes == 1) Widen<uint8_t>(bytes.data(), to);
    if (token_bytes == 2) Widen<uint16_t>(bytes.data(), to);
    if (token_bytes == 4) Widen<int32_t>(bytes.data(), to);
    out = out.subspan(n);
    at += std::ssize(bytes);
  }
  return absl::OkStatus();
}

absl::Status CheckHoldsNoTokens(const DataFile& file) {
  std::array<std::byte, kBlock> block;
  ASSIGN_OR_RETURN(const std::span<const std::byte> head, ReadHead(file, block));
  return CheckNoTokenFormat(file, head);
}

absl::StatusOr<TokenFile> OpenTextFile(const std::string& path) {
  ASSIGN_OR_RETURN(DataFile file, DataFile::Open(path));
  std::array<std::byte, kBlock> block;
  ASSIGN_OR_RETURN(const std::span<const std::byte> head, ReadHead(file, block));
  return OpenPlainText(std::move(file), head);
}

absl::StatusOr<TokenFile> OpenTokenFile(const std::string& path, int id_bytes) {
  std::error_code ignored;
  // Megatron names a pair of files by what both names begin with.
  if (!std::filesystem::exists(path, ignored) && std::filesystem::exists(path + ".bin", ignored)) {
    return InputError(path, "no such file", "give " + path + ".bin");
  }
  ASSIGN_OR_RETURN(DataFile file, DataFile::Open(path));
  std::array<std::byte, kBlock> block;
  ASSIGN_OR_RETURN(const std::span<const std::byte> head, ReadHead(file, block));
  if (Text(head).starts_with(kNpyMagic)) return OpenNpy(std::move(file), Text(head));
  if (path.ends_with(".npy")) return OpenHeaderless(std::move(file), head, id_bytes);
  if (!path.ends_with(".bin")) return OpenPlainText(std::move(file), head);
  ASSIGN_OR_RETURN(TokenFile tokens, OpenBin(std::move(file), head, id_bytes));
  ASSIGN_OR_RETURN(std::optional<ChatTable> chats, ReadChats(path, tokens.tokens));
  if (chats) tokens.chats = std::make_shared<const ChatTable>(*std::move(chats));
  ASSIGN_OR_RETURN(const std::optional<TokenFileMeta> meta, ReadTokenFileMeta(path));
  if (!meta) return tokens;
  if (meta->tokens != tokens.tokens) {
    return InputError(
        MetaPath(path),
        absl::StrCat("says ", meta->tokens, " tokens, the .bin holds ", tokens.tokens),
        "the .bin is truncated, or another one replaced it: make both again with "
        "`oneflow data`");
  }
  tokens.tokenizer = meta->tokenizer;
  return tokens;
}

}  // namespace oneflow
