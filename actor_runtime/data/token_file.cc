#include "actor_runtime/data/token_file.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "actor_runtime/data/token_file_meta.h"
#include "glog/logging.h"
#include "oneflow_core/base/file_kind.h"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

static_assert(std::endian::native == std::endian::little);

template <typename T>
T At(std::span<const std::byte> bytes, int64_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
void Copy(const std::byte* base, std::span<int32_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    T token;
    std::memcpy(&token, base + i * sizeof token, sizeof token);
    out[i] = static_cast<int32_t>(token);
  }
}

// True where two bytes of four hold what is left of ids below 2^18, for many ids: no text has such
// ids of two bytes.
bool LooksLikeFourBytes(std::span<const std::byte> bytes) {
  constexpr int64_t kFewest = 64, kMost = 4096;
  const auto pairs = std::min<int64_t>(static_cast<int64_t>(bytes.size()) / 4, kMost);
  bool low = false;
  for (int64_t i = 0; i < pairs; ++i) {
    if (At<uint16_t>(bytes, 4 * i + 2) > 3) return false;
    low = low || At<uint16_t>(bytes, 4 * i) > 3;
  }
  return low && pairs >= kFewest && bytes.size() % 4 == 0;
}

absl::StatusOr<TokenFile> OpenRaw(MappedFile file) {
  const auto bytes = static_cast<int64_t>(file.bytes().size());
  if (bytes % 2 != 0) {
    return InputError(file.path(), absl::StrCat("odd size of ", bytes, " bytes: not uint16 tokens"),
                      "a .bin file holds uint16 (docs/data.md); rename a text file");
  }
  if (LooksLikeFourBytes(file.bytes())) {
    return InputError(
        file.path(), "every other uint16 is below 4: these are ids of four bytes without a header",
        "give Megatron's .bin with its .idx beside it, or a file of llm.c (docs/data.md)");
  }
  return TokenFile{std::move(file), 0, bytes / 2, 2};
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

absl::StatusOr<TokenFile> OpenLlmc(MappedFile file, const LlmcKind& kind) {
  const auto size = static_cast<int64_t>(file.bytes().size());
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
  const auto version = At<int32_t>(file.bytes(), 4);
  const int64_t count = At<int32_t>(file.bytes(), 8);
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
  return TokenFile{std::move(file), kLlmcHeaderBytes, count, kind.token_bytes};
}

bool IsMegatronIndex(std::span<const std::byte> bytes) {
  return bytes.size() >= sizeof kMegatronMagic &&
         std::memcmp(bytes.data(), kMegatronMagic, sizeof kMegatronMagic) == 0;
}

// A Megatron .idx, after its head: i32 size of each sequence, i64 byte offset of each, i64 first
// sequence of each document.
class MegatronIndex {
 public:
  explicit MegatronIndex(const MappedFile& index) : index_(index), bytes_(index.bytes()) {}

  // The tokens' width and number; the .bin holds `bin_bytes`.
  absl::Status Check(int64_t bin_bytes) {
    constexpr int64_t kMagic = sizeof kMegatronMagic, kHead = kMagic + 8 + 1 + 8 + 8;
    if (static_cast<int64_t>(bytes_.size()) < kHead || !IsMegatronIndex(bytes_)) {
      return Bad("is no Megatron index (MMIDIDX), but stands beside a .bin");
    }
    const auto version = At<uint64_t>(bytes_, kMagic);
    if (version != kMegatronVersion) return Bad(absl::StrCat("has version ", version));
    const auto type = At<uint8_t>(bytes_, kMagic + 8);
    if (type != kMegatronUint16 && type != kMegatronInt32) {
      return Bad(absl::StrCat("its ids are ", TypeText(type), ", not uint16 (8) or int32 (4)"));
    }
    token_bytes_ = type == kMegatronUint16 ? 2 : 4;
    const auto sequences = At<uint64_t>(bytes_, kMagic + 9);
    const auto documents = At<uint64_t>(bytes_, kMagic + 17);
    const uint64_t rest = bytes_.size() - kHead;
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
  // One after the other, without gaps.
  absl::Status CheckSequences(int64_t sizes, int64_t n, int64_t bin_bytes) const {
    const int64_t offsets = sizes + 4 * n;
    int64_t end = 0;
    for (int64_t i = 0; i < n; ++i) {
      const auto size = At<int32_t>(bytes_, sizes + 4 * i);
      if (size < 0 || At<int64_t>(bytes_, offsets + 8 * i) != end) {
        return Bad(absl::StrCat("sequence ", i, " does not follow on the one before"));
      }
      end += int64_t{size} * token_bytes_;
    }
    if (end == bin_bytes) return absl::OkStatus();
    return Bad(absl::StrCat("describes ", end, " bytes, the .bin has ", bin_bytes));
  }

  // The first sequence of each document, and the number of sequences.
  absl::Status CheckDocuments(int64_t at, int64_t n, int64_t sequences) const {
    int64_t last = 0;
    for (int64_t i = 0; i < n; ++i) {
      const auto first = At<int64_t>(bytes_, at + 8 * i);
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

  const MappedFile& index_;
  const std::span<const std::byte> bytes_;
  int token_bytes_ = 2;
};

absl::StatusOr<TokenFile> OpenMegatron(MappedFile file, const std::string& index_path) {
  ASSIGN_OR_RETURN(const MappedFile index_file, MappedFile::Open(index_path));
  const auto bytes = static_cast<int64_t>(file.bytes().size());
  MegatronIndex index(index_file);
  RETURN_IF_ERROR(index.Check(bytes));
  return TokenFile{std::move(file), 0, bytes / index.token_bytes(), index.token_bytes()};
}

absl::StatusOr<TokenFile> OpenBin(MappedFile file) {
  std::error_code ignored;
  const std::string index = file.path().substr(0, file.path().size() - 4) + ".idx";
  if (std::filesystem::exists(index, ignored)) return OpenMegatron(std::move(file), index);
  if (const LlmcKind* kind = FindLlmcKind(file.bytes())) return OpenLlmc(std::move(file), *kind);
  return OpenRaw(std::move(file));
}

absl::StatusOr<TokenFile> OpenText(MappedFile file) {
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  if (text.starts_with(kPlanMagic)) return RefuseOtherKind(text, file.path(), "training data");
  if (IsMegatronIndex(file.bytes())) {
    return InputError(file.path(), "is an index of Megatron's, which holds no tokens",
                      "give the .bin beside it");
  }
  if (const LlmcKind* kind = FindLlmcKind(file.bytes())) {
    return InputError(file.path(),
                      absl::StrCat("is a file of llm.c that holds ", kind->name, ", not text"),
                      "give a token file a name that ends in .bin");
  }
  const auto bytes = static_cast<int64_t>(file.bytes().size());
  return TokenFile{std::move(file), 0, bytes, 1, BytesTokenizerId()};
}

}  // namespace

void TokenFile::Read(int64_t first, std::span<int32_t> out) const {
  CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= tokens) << file.path();
  const std::byte* base = file.bytes().data() + offset + first * token_bytes;
  if (token_bytes == 1) return Copy<uint8_t>(base, out);
  if (token_bytes == 2) return Copy<uint16_t>(base, out);
  Copy<int32_t>(base, out);
}

absl::StatusOr<TokenFile> OpenTokenFile(const std::string& path) {
  std::error_code ignored;
  // Megatron names a pair of files by what both names begin with.
  if (!std::filesystem::exists(path, ignored) && std::filesystem::exists(path + ".bin", ignored)) {
    return InputError(path, "no such file", "give " + path + ".bin");
  }
  ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
  if (!path.ends_with(".bin")) return OpenText(std::move(file));
  ASSIGN_OR_RETURN(TokenFile tokens, OpenBin(std::move(file)));
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
