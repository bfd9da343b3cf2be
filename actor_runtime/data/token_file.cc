#include "actor_runtime/data/token_file.h"

#include <bit>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "glog/logging.h"
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

absl::StatusOr<TokenFile> OpenRaw(MappedFile file) {
  const auto bytes = static_cast<int64_t>(file.bytes().size());
  if (bytes % 2 != 0) {
    return InputError(file.path(), absl::StrCat("odd size of ", bytes, " bytes: not uint16 tokens"),
                      "a .bin file holds uint16 (docs/data.md); rename a text file");
  }
  return TokenFile{std::move(file), 0, bytes / 2, 2};
}

absl::StatusOr<TokenFile> OpenLlmc(MappedFile file) {
  const auto size = static_cast<int64_t>(file.bytes().size());
  const auto version = At<int32_t>(file.bytes(), 4);
  const int64_t count = At<int32_t>(file.bytes(), 8), held = (size - kLlmcHeaderBytes) / 2;
  if (version != kLlmcVersion) {
    return InputError(file.path(), absl::StrCat("llm.c tokens of version ", version),
                      "only version 1 (GPT-2, uint16) is supported");
  }
  if (count < 0 || size != kLlmcHeaderBytes + 2 * count) {
    return InputError(file.path(),
                      absl::StrCat("its header says ", count, " tokens, the file holds ", held),
                      "it was cut short or damaged; make it again");
  }
  return TokenFile{std::move(file), kLlmcHeaderBytes, count, 2};
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
      return Bad("is no Megatron index, but stands beside a .bin");
    }
    const auto version = At<uint64_t>(bytes_, kMagic);
    if (version != kMegatronVersion) return Bad(absl::StrCat("has version ", version));
    const auto type = At<uint8_t>(bytes_, kMagic + 8);
    if (type != kMegatronUint16 && type != kMegatronInt32) {
      return Bad(absl::StrCat("its ids are of type ", type, ", not uint16 (8) or int32 (4)"));
    }
    token_bytes_ = type == kMegatronUint16 ? 2 : 4;
    const auto sequences = At<uint64_t>(bytes_, kMagic + 9);
    const auto documents = At<uint64_t>(bytes_, kMagic + 17);
    const uint64_t rest = bytes_.size() - kHead;
    if (sequences > rest / 12 || documents > rest / 8 || sequences * 12 + documents * 8 != rest) {
      return Bad(absl::StrCat("lists ", sequences, " sequences and ", documents,
                              " documents, which its size does not fit"));
    }
    return CheckSequences(kHead, static_cast<int64_t>(sequences), bin_bytes);
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

  absl::Status Bad(const std::string& what) const {
    return InputError(index_.path(), what, "make the pair again, or take the .idx away");
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
  const auto bytes = static_cast<int64_t>(file.bytes().size());
  if (!path.ends_with(".bin")) {
    if (!IsMegatronIndex(file.bytes())) return TokenFile{std::move(file), 0, bytes, 1};
    return InputError(path, "is an index of Megatron's, which holds no tokens",
                      "give the .bin beside it");
  }
  const std::string index = path.substr(0, path.size() - 4) + ".idx";
  if (std::filesystem::exists(index, ignored)) return OpenMegatron(std::move(file), index);
  if (bytes >= kLlmcHeaderBytes && At<int32_t>(file.bytes(), 0) == kLlmcMagic) {
    return OpenLlmc(std::move(file));
  }
  return OpenRaw(std::move(file));
}

}  // namespace oneflow
