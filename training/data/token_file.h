// Files of token ids, read where they are needed. The name and the first bytes tell the kind:
//
//   *.bin with a *.idx beside it    Megatron's pair: ids as uint16 or int32, one document after the
//                                   other; its parts are described in the .idx
//   *.bin that begins with          llm.c: a header of 256 int32 (magic, version, count), then
//     20240520 or 20240801          uint16 (GPT-2) or uint32 (Llama 3)
//   begins with "\x93NUMPY"          numpy.save: uint16, uint32 or int32, whatever its name
//   any other *.bin, *.npy          ids without a header: nanoGPT's uint16, or of four bytes
//   anything else                   plain text: each byte is a token (text_reader.h reads others)
//
// All are little-endian; docs/data.md shows the bytes. Files of other kinds are refused by name
// (recognize_data.h), and so are llm.c's evaluation, model and tokenizer files, token files under
// another name than *.bin, and ids without a header that look as if they had four bytes or eight.
//
// Beside a .bin that `oneflow data` wrote, FILE.meta.json names its tokenizer (token_file_meta.h);
// beside one of chats, FILE.chats says where they end, and which tokens count (chat_file.h).
// Document boundaries are checked, not kept: training reads one long sequence. Files may have more
// tokens than fit in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "training/data/chat_file.h"
#include "training/data/data_file.h"
#include "training/tokenizer/tokenizer_id.h"

namespace oneflow {

inline constexpr int32_t kLlmcMagic = 20240520, kLlmcVersion = 1;            // GPT-2: uint16
inline constexpr int32_t kLlmcLlamaMagic = 20240801, kLlmcLlamaVersion = 7;  // Llama 3: uint32
inline constexpr int kLlmcHeaderBytes = 256 * 4;

// The head of a Megatron .idx: 9 bytes of magic, then version, type of the ids, number of
// sequences, number of document boundaries.
inline constexpr char kMegatronMagic[] = "MMIDIDX\0";  // with the 0 that C++ adds: 9 bytes
inline constexpr uint64_t kMegatronVersion = 1;
inline constexpr uint8_t kMegatronInt32 = 4, kMegatronUint16 = 8;

struct TokenFile {
  DataFile file;
  int64_t offset = 0;  // the first token's, in bytes
  int64_t tokens = 0;
  int token_bytes = 1;         // 1 or 2: unsigned; 4: int32, for ids are below 2^31
  TokenizerId tokenizer = {};  // the ids', if it is known; for text: bytes
  bool is_uint32 = false;      // ids of four bytes that read as negative are 2^31 and more
  std::shared_ptr<const ChatTable> chats = nullptr;  // null: the file is no file of chats

  // Tokens [first, first + out.size()), which must exist. Errors are those of DataFile::Read.
  // Allocates nothing.
  absl::Status Read(int64_t first, std::span<int32_t> out) const;
};

// `id_bytes`: of an id in a file without a header, 2 or 4; 0: not said, and then two unless the ids
// look wider, which is an error. Errors: no such file, a kind not listed above, a size that does
// not match its header, a broken or foreign .idx, a FILE.meta.json or a FILE.chats of another .bin.
absl::StatusOr<TokenFile> OpenTokenFile(const std::string& path, int id_bytes = 0);

// An input error if `file` begins as a plan, a NumPy array, an index of Megatron's or a file of
// llm.c.
absl::Status CheckHoldsNoTokens(const DataFile& file);

// A file of plain text, whatever its name: its bytes are the tokens. Errors: no such file, a file
// that is recognised as anything else.
absl::StatusOr<TokenFile> OpenTextFile(const std::string& path);

}  // namespace oneflow
