#include "training/tokenizer/regex_class.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "training/tokenizer/unicode_sets.h"

namespace oneflow {
namespace {

int HexDigit(int32_t c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Hexadecimal digits, `most` at most.
absl::StatusOr<int32_t> ReadHex(RegexReader* reader, int most) {
  int32_t code = 0;
  int digits = 0;
  for (; digits < most && HexDigit(reader->Peek()) >= 0; ++digits) {
    code = code * 16 + HexDigit(reader->Next());
    if (code >= kNoCharacter) return RegexError("a character is out of range");
  }
  if (digits == 0) return RegexError("an escape has no digits");
  return code;
}

RegexItem Literal(int32_t c) { return {CodeSet::One(c), c}; }

RegexItem Class(const CodeSet& set, bool negative) {
  return {negative ? set.Complement() : set, std::nullopt};
}

absl::StatusOr<RegexItem> ReadProperty(RegexReader* reader, bool negative) {
  std::string_view name;
  if (reader->Take('{')) {
    if (reader->Take('^')) negative = !negative;
    const size_t end = reader->rest().find('}');
    if (end == std::string_view::npos) return RegexError("a property has no name");
    name = reader->rest().substr(0, end);
    reader->Skip(end + 1);
  }
  const CodeSet* set = FindUnicodeSet(name);
  if (set != nullptr) return Class(*set, negative);
  return RegexError(absl::StrCat("the property \"", ToAbsl(name), "\" is not known"));
}

absl::StatusOr<RegexItem> ReadEscape(RegexReader* reader) {
  if (reader->AtEnd()) return RegexError("it ends in \"\\\"");
  static const CodeSet kDecimal = *FindUnicodeSet("Nd");
  static const CodeSet kHex = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}};
  const int32_t c = reader->Next();
  switch (c) {
    case 's': return Class(WhiteSpaceSet(), false);
    case 'S': return Class(WhiteSpaceSet(), true);
    case 'd': return Class(kDecimal, false);
    case 'D': return Class(kDecimal, true);
    case 'w': return Class(WordSet(), false);
    case 'W': return Class(WordSet(), true);
    case 'h': return Class(kHex, false);
    case 'H': return Class(kHex, true);
    case 'N': return Class(CodeSet::One('\n'), true);
    case 'O': return Class(CodeSet::All(), false);
    case 'p': return ReadProperty(reader, false);
    case 'P': return ReadProperty(reader, true);
    case 'n': return Literal('\n');
    case 'r': return Literal('\r');
    case 't': return Literal('\t');
    case 'f': return Literal('\f');
    case 'v': return Literal('\v');
    case 'a': return Literal('\a');
    case 'e': return Literal(0x1b);
    case 'u': {
      ASSIGN_OR_RETURN(const int32_t code, ReadHex(reader, 4));
      return Literal(code);
    }
    case 'x': {
      const bool braces = reader->Take('{');
      ASSIGN_OR_RETURN(const int32_t code, ReadHex(reader, braces ? 8 : 2));
      if (braces && !reader->Take('}')) return RegexError("an escape has no \"}\"");
      if (!braces && code >= 0x80) return RegexError("it escapes a byte that is no character");
      return Literal(code);
    }
    case '0': {
      int32_t code = 0;
      for (int i = 0; i < 2 && reader->Peek() >= '0' && reader->Peek() <= '7'; ++i) {
        code = code * 8 + (reader->Next() - '0');
      }
      return Literal(code);
    }
    default: break;
  }
  const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '1' && c <= '9');
  if (!letter) return Literal(c);
  return RegexError(
      absl::StrCat("\"\\", std::string(1, static_cast<char>(c)), "\" is not supported"));
}

// "[:alpha:]" and "[:^alpha:]"; nothing where there is none.
absl::StatusOr<std::optional<CodeSet>> TakePosixClass(RegexReader* reader) {
  const std::string_view rest = reader->rest();
  if (!rest.starts_with("[:")) return std::nullopt;
  const bool negative = rest.substr(2).starts_with('^');
  const size_t begin = negative ? 3 : 2,
               end = rest.find_first_not_of("abcdefghijklmnopqrstuvwxyz", begin);
  if (end == std::string_view::npos || !rest.substr(end).starts_with(":]")) return std::nullopt;
  const std::string_view name = rest.substr(begin, end - begin);
  const CodeSet* set = FindUnicodeSet(name);
  if (set == nullptr) {
    return RegexError(absl::StrCat("the class [:", ToAbsl(name), ":] is not known"));
  }
  reader->Skip(end + 2);
  return negative ? set->Complement() : *set;
}

// A class in brackets: its "[" has been read.
class ClassParser {
 public:
  ClassParser(RegexReader* reader, int depth) : reader_(reader), depth_(depth) {}

  absl::StatusOr<CodeSet> Parse(bool any_case) {
    if (depth_ > 50) return RegexError("its classes are too deep");
    const bool negative = reader_->Take('^');
    // A "]" that comes first is a character.
    if (reader_->rest().starts_with(']') &&
        reader_->rest().find(']', 1) != std::string_view::npos) {
      RETURN_IF_ERROR(ParseOne());
    }
    while (!reader_->Take(']')) {
      if (reader_->AtEnd()) return RegexError("a \"[\" has no \"]\"");
      if (reader_->rest().starts_with("&&")) {
        reader_->Skip(2);
        Intersect();
        continue;
      }
      RETURN_IF_ERROR(ParseOne());
    }
    if (both_) Intersect();
    CodeSet made = both_ ? *both_ : std::move(set_);
    if (any_case) made = WithOtherCases(made);
    return negative ? made.Complement() : made;
  }

 private:
  void Intersect() {
    both_ = both_ ? both_->And(set_) : set_;
    set_ = {};
  }

  absl::Status ParseOne() {
    ASSIGN_OR_RETURN(const std::optional<CodeSet> posix, TakePosixClass(reader_));
    if (posix) {
      set_ = set_.Or(*posix);
      return absl::OkStatus();
    }
    if (reader_->Take('[')) {
      ASSIGN_OR_RETURN(const CodeSet inner, ClassParser(reader_, depth_ + 1).Parse(false));
      set_ = set_.Or(inner);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(RegexItem item, ReadItem());
    const std::string_view rest = reader_->rest();
    if (rest.size() < 2 || rest[0] != '-' || rest[1] == ']') {
      set_ = set_.Or(item.set);
      return absl::OkStatus();
    }
    if (!item.literal) return RegexError("a class has a range that does not begin");
    reader_->Skip(1);
    ASSIGN_OR_RETURN(const RegexItem last, ReadItem());
    if (!last.literal || *last.literal < *item.literal) {
      return RegexError("a class has a range that does not end");
    }
    set_ = set_.Or({{*item.literal, *last.literal}});
    return absl::OkStatus();
  }

  absl::StatusOr<RegexItem> ReadItem() {
    if (reader_->rest().starts_with("\\b")) {  // a backspace
      reader_->Skip(2);
      return Literal('\b');
    }
    return ParseRegexItem(reader_);
  }

  RegexReader* const reader_;
  const int depth_;
  CodeSet set_;                  // since the last "&&"
  std::optional<CodeSet> both_;  // before it
};

}  // namespace

absl::Status RegexError(std::string_view what) { return absl::InvalidArgumentError(ToAbsl(what)); }

absl::StatusOr<RegexItem> ParseRegexItem(RegexReader* reader) {
  if (reader->Take('\\')) return ReadEscape(reader);
  const int32_t c = reader->Next();
  if (c == kNoCharacter) return RegexError("it is not UTF-8");
  return Literal(c);
}

absl::StatusOr<CodeSet> ParseRegexClass(RegexReader* reader, bool any_case) {
  reader->Skip(1);  // [
  return ClassParser(reader, 0).Parse(any_case);
}

}  // namespace oneflow
