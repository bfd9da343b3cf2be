#include "training/tokenizer/sentencepiece_model.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/status.h"
#include "xxhash.h"

namespace oneflow {
namespace {

using Proto = proto::SentencePieceModel;

constexpr char kPieceSpace[] = "\xe2\x96\x81";        // U+2581, as spaces are written in pieces
constexpr char kUnknownSurface[] = " \xe2\x81\x87 ";  // U+2047, unless the model says otherwise

absl::Status Bad(const std::string& path, const std::string& what) {
  return InputError(path, what, "give the .model of a unigram or BPE sentencepiece model");
}

// Lines of a token in base64 and its rank: "IQ== 0".
bool IsTiktoken(std::string_view bytes) {
  const std::string_view line = bytes.substr(0, bytes.find('\n'));
  const size_t space = line.find(' ');
  if (space == line.npos || space == 0 || space % 4 != 0 || space + 1 == line.size()) return false;
  const auto is_code = [](char c) {
    return absl::ascii_isalnum(c) || c == '+' || c == '/' || c == '=';
  };
  return std::all_of(line.begin(), line.begin() + static_cast<ptrdiff_t>(space), is_code) &&
         std::all_of(line.begin() + static_cast<ptrdiff_t>(space) + 1, line.end(),
                     [](char c) { return absl::ascii_isdigit(c) || c == '\r'; });
}

// The byte of "<0x41>"; -1 for other pieces.
int FindByteOfPiece(const std::string& piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  int byte = -1;
  const auto [end, error] = std::from_chars(piece.data() + 3, piece.data() + 5, byte, 16);
  return error == std::errc() && end == piece.data() + 5 ? byte : -1;
}

std::string BytesOfPiece(const Proto::Piece& piece, const Proto::Trainer& trainer) {
  switch (piece.type()) {
    case Proto::Piece::CONTROL: return "";
    case Proto::Piece::UNKNOWN:
      return trainer.has_unk_surface() ? trainer.unk_surface() : kUnknownSurface;
    case Proto::Piece::BYTE:
      return std::string(1, static_cast<char>(FindByteOfPiece(piece.piece())));
    default: return absl::StrReplaceAll(piece.piece(), {{kPieceSpace, " "}});
  }
}

// Files one piece under its id, `made.pieces.size()`.
absl::Status AddPiece(const std::string& path, Proto::Piece piece, const Proto::Trainer& trainer,
                      SentencePieceModel* made) {
  const auto id = static_cast<int32_t>(made->pieces.size());
  if (piece.type() == Proto::Piece::UNSET) piece.set_type(Proto::Piece::NORMAL);
  const std::string& text = piece.piece();
  if (text.empty()) return Bad(path, "piece " + std::to_string(id) + " is empty");
  switch (piece.type()) {
    case Proto::Piece::UNKNOWN: made->unknown = id; break;
    case Proto::Piece::CONTROL:
      if (text == (trainer.has_eos_piece() ? trainer.eos_piece() : "</s>")) made->end_of_text = id;
      break;
    case Proto::Piece::BYTE:
      if (FindByteOfPiece(text) < 0) return Bad(path, "piece \"" + text + "\" is no byte");
      made->id_of_byte[FindByteOfPiece(text)] = id;
      break;
    case Proto::Piece::USER_DEFINED: made->user_defined.Add(text, id); [[fallthrough]];
    default:
      if (!made->ids.emplace(text, id).second) {
        return Bad(path, "piece \"" + text + "\" is there twice");
      }
      made->trie.Add(text, id);
  }
  made->bytes.push_back(BytesOfPiece(piece, trainer));
  made->pieces.push_back(std::move(piece));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SentencePieceModel> ReadSentencePieceModel(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, "a tokenizer may be a FILE.model"));
  Proto proto;
  if (IsTiktoken(bytes)) {
    return InputError(path, "is a tokenizer of tiktoken, as Llama 3's, and no sentencepiece model",
                      "give the tokenizer.json of the same model, as transformers has it");
  }
  if (!proto.ParseFromString(bytes) || proto.pieces_size() == 0) {
    return Bad(path, "is no sentencepiece model");
  }
  const Proto::Trainer& trainer = proto.trainer_spec();
  if (trainer.model_type() > Proto::Trainer::BPE)
    return Bad(path, "is a model of words or characters");
  SentencePieceModel made;
  made.hash = absl::StrCat(absl::Hex(XXH3_64bits(bytes.data(), bytes.size()), absl::kZeroPad16));
  made.bpe = trainer.model_type() == Proto::Trainer::BPE;
  made.byte_fallback = trainer.byte_fallback();
  made.whitespace_as_suffix = trainer.treat_whitespace_as_suffix();
  made.normalizer = proto.normalizer_spec();
  made.unknown = -1;
  made.id_of_byte.assign(256, -1);
  for (const Proto::Piece& piece : proto.pieces()) {
    RETURN_IF_ERROR(AddPiece(path, piece, trainer, &made));
  }
  if (made.unknown < 0) return Bad(path, "has no unknown piece");
  const auto missing = std::find(made.id_of_byte.begin(), made.id_of_byte.end(), -1);
  if (made.byte_fallback && missing != made.id_of_byte.end()) {
    return Bad(path, "falls back to bytes, but has not got a piece for each");
  }
  return made;
}

}  // namespace oneflow
