// Files of token ids, mapped into memory. What a file is, its name and its first bytes say:
//
//   *.bin with a *.idx beside it    Megatron's pair: ids as uint16 or int32, one document after the
//                                   other; its parts stand in the .idx
//   *.bin that begins with 20240520 llm.c: a header of 256 int32 (magic, version 1, count), uint16
//   any other *.bin                 nanoGPT: raw uint16
//   anything else                   text: each byte is a token
//
// All little-endian; docs/data.md shows the bytes. Document boundaries are not kept: training reads
// one long sequence. Files of more tokens than memory holds are fine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "actor_runtime/data/mapped_file.h"

namespace oneflow {

inline constexpr int32_t kLlmcMagic = 20240520;
inline constexpr int32_t kLlmcVersion = 1;
inline constexpr int kLlmcHeaderBytes = 256 * 4;

// The head of a Megatron .idx: 9 bytes of magic, then version, type of the ids, number of
// sequences, number of document boundaries.
inline constexpr char kMegatronMagic[] = "MMIDIDX\0";  // with the 0 that C++ adds: 9 bytes
inline constexpr uint64_t kMegatronVersion = 1;
inline constexpr uint8_t kMegatronInt32 = 4, kMegatronUint16 = 8;

struct TokenFile {
  MappedFile file;
  int64_t offset = 0;  // of the first token, bytes
  int64_t tokens = 0;
  int token_bytes = 1;  // 1 or 2: unsigned; 4: int32

  // Tokens [first, first + out.size()), which must exist. Allocates nothing.
  void Read(int64_t first, std::span<int32_t> out) const;
};

// Errors: no such file, a size that does not fit its header, a broken or foreign .idx.
absl::StatusOr<TokenFile> OpenTokenFile(const std::string& path);

}  // namespace oneflow
