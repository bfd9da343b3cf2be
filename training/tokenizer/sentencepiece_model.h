// SentencePieceModel: a sentencepiece .model file, read and checked: its pieces, and how they form
// a text.
//
// The library itself is not used, because Debian's contains a separate Protocol Buffers runtime,
// 3.14, and exports its symbols; in one process with the system's 3.21, which this program uses,
// one of the two aborts. docs/data.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "proto/sentencepiece.pb.h"
#include "training/tokenizer/piece_trie.h"

namespace oneflow {

struct SentencePieceModel {
  using Piece = proto::SentencePieceModel::Piece;

  std::string hash;                 // of the file (tokenizer_id.h)
  bool bpe = false;                 // else unigram
  bool byte_fallback = false;       // then all 256 bytes have an id
  int32_t unknown = 0;              // id of the unknown piece
  int32_t end_of_text = -1;         // id of the control piece that ends a text; -1: none
  std::vector<Piece> pieces;        // by id; every type is set
  std::vector<std::string> bytes;   // by id, in a decoded text
  std::vector<int32_t> id_of_byte;  // by byte, with byte_fallback
  PieceTrie trie;                   // normal, user-defined and unused pieces -> id
  absl::flat_hash_map<std::string, int32_t> ids;  // the same
  PieceTrie user_defined;
  proto::SentencePieceModel::Normalizer normalizer;
  bool whitespace_as_suffix = false;
};

// Errors: no such file, no sentencepiece model, a model of words or of characters, pieces that are
// missing or duplicate.
absl::StatusOr<SentencePieceModel> ReadSentencePieceModel(const std::string& path);

}  // namespace oneflow
