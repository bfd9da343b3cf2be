#include "training/tokenizer/split_regex.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"
#include "training/tokenizer/regex_class.h"
#include "training/tokenizer/unicode_sets.h"

namespace oneflow {
namespace {

using Node = SplitRegex::Node;
using NodeKind = Node::Kind;
using Greed = Node::Greed;

constexpr int kMostRepeats = 1000;
constexpr int kDeepest = 200;  // groups in groups

// The characters that a node takes; none: not always as many.
std::optional<int> FindWidth(const Node& node) {
  switch (node.kind) {
    case NodeKind::kSet: return 1;
    case NodeKind::kLook: return 0;
    case NodeKind::kAtomic: return FindWidth(node.parts[0]);
    case NodeKind::kRepeat: {
      const std::optional<int> one = FindWidth(node.parts[0]);
      if (!one || node.least != node.most) return std::nullopt;
      return *one * node.least;
    }
    case NodeKind::kSequence: {
      int sum = 0;
      for (const Node& part : node.parts) {
        const std::optional<int> one = FindWidth(part);
        if (!one) return std::nullopt;
        sum += *one;
      }
      return sum;
    }
    case NodeKind::kChoice: break;
  }
  const std::optional<int> first = FindWidth(node.parts[0]);
  for (const Node& part : node.parts) {
    if (FindWidth(part) != first) return std::nullopt;
  }
  return first;
}

class RegexParser {
 public:
  explicit RegexParser(std::string_view pattern) : text_(pattern), reader_(pattern) {}

  absl::StatusOr<SplitRegex> Parse() {
    ASSIGN_OR_RETURN(made_.root, ParseChoice());
    if (!reader_.AtEnd()) return RegexError("a \")\" has no \"(\"");
    return std::move(made_);
  }

 private:
  struct Flags {
    bool any_case = false, dot_all = false;
  };

  Node MakeSet(CodeSet set) {
    const auto it = std::find(made_.sets.begin(), made_.sets.end(), set);
    const size_t index = it - made_.sets.begin();
    if (it == made_.sets.end()) made_.sets.push_back(std::move(set));
    return {.kind = NodeKind::kSet, .set = index};
  }

  static Node MakeLook(Node node, bool negative, int behind) {
    return {.kind = NodeKind::kLook,
            .parts = {std::move(node)},
            .negative = negative,
            .behind = behind};
  }
  static Node MakeChoice(Node a, Node b) {
    return {.kind = NodeKind::kChoice, .parts = {std::move(a), std::move(b)}};
  }
  static Node MakeSequence(Node a, Node b) {
    return {.kind = NodeKind::kSequence, .parts = {std::move(a), std::move(b)}};
  }

  Node AtBegin() { return MakeLook(MakeSet(CodeSet::All()), true, 1); }
  Node AtEndOfText() { return MakeLook(MakeSet(CodeSet::All()), true, 0); }
  Node LineEnd() { return MakeSet(CodeSet::One('\n')); }

  Node WordBoundary(bool negative) {
    const auto look = [&](bool absent, int behind) {
      return MakeLook(MakeSet(WordSet()), absent, behind);
    };
    return MakeChoice(MakeSequence(look(negative, 1), look(true, 0)),
                      MakeSequence(look(!negative, 1), look(false, 0)));
  }

  absl::StatusOr<Node> ParseChoice() {
    if (++depth_ > kDeepest) return RegexError("its groups are too deep");
    const Flags flags = flags_;
    Node choice{.kind = NodeKind::kChoice};
    do {
      ASSIGN_OR_RETURN(Node sequence, ParseSequence());
      choice.parts.push_back(std::move(sequence));
    } while (reader_.Take('|'));
    flags_ = flags;
    --depth_;
    return choice.parts.size() == 1 ? std::move(choice.parts[0]) : std::move(choice);
  }

  absl::StatusOr<Node> ParseSequence() {
    Node sequence;
    literal_ = 0;
    while (!reader_.AtEnd() && reader_.Peek() != '|' && reader_.Peek() != ')') {
      const std::string_view before = reader_.rest();
      const std::optional<bool> flags = TakeFlags();
      if (flags == false) return RegexError("it sets a flag that is not supported");
      if (flags) {
        if (before.starts_with("(?#")) continue;
        // a(?i)b|c is a(?i:b|c).
        ASSIGN_OR_RETURN(Node rest, ParseChoice());
        sequence.parts.push_back(std::move(rest));
        return sequence;
      }
      ASSIGN_OR_RETURN(Node atom, ParseAtom());
      RETURN_IF_ERROR(ParseQuantifiers(&atom));
      sequence.parts.push_back(std::move(atom));
    }
    return sequence;
  }

  // "(?i)", and comments. False: another flag.
  std::optional<bool> TakeFlags() {
    const std::string_view rest = reader_.rest();
    if (!rest.starts_with("(?")) return std::nullopt;
    if (rest.starts_with("(?#")) {
      const size_t end = rest.find(')');
      if (end == std::string_view::npos) return false;
      reader_.Skip(end + 1);
      return true;
    }
    const size_t end = rest.find_first_not_of("imx-", 2);
    if (end == 2 || end == std::string_view::npos || rest[end] != ')') return std::nullopt;
    if (!SetFlags(rest.substr(2, end - 2))) return false;
    reader_.Skip(end + 1);
    return true;
  }

  bool SetFlags(std::string_view letters) {
    bool on = true;
    for (const char c : letters) {
      if (c == '-') {
        on = false;
      } else if (c == 'i') {
        flags_.any_case = on;
      } else if (c == 'm') {
        flags_.dot_all = on;
      } else {
        return false;
      }
    }
    return true;
  }

  absl::StatusOr<Node> ParseAtom() {
    const int32_t last = std::exchange(literal_, 0);
    const int32_t c = reader_.Peek();
    switch (c) {
      case '(': return ParseGroup();
      case '[': {
        ASSIGN_OR_RETURN(CodeSet set, ParseRegexClass(&reader_, flags_.any_case));
        return MakeSet(std::move(set));
      }
      case '.':
        reader_.Next();
        return MakeSet(flags_.dot_all ? CodeSet::All() : CodeSet::One('\n').Complement());
      case '^':  // at the begin of each line
        reader_.Next();
        return MakeLook(MakeSet(CodeSet::One('\n').Complement()), true, 1);
      case '$':  // at the end of each line
        reader_.Next();
        return MakeLook(MakeSet(CodeSet::One('\n').Complement()), true, 0);
      case '*':
      case '+':
      case '?': return RegexError("a quantifier has nothing before it");
      case '\\': {
        std::optional<Node> anchor = TakeAnchor();
        if (anchor) return *std::move(anchor);
        break;
      }
      default: break;
    }
    ASSIGN_OR_RETURN(RegexItem item, ParseRegexItem(&reader_));
    if (!item.literal) return MakeSet(flags_.any_case ? WithOtherCases(item.set) : item.set);
    if (flags_.any_case) {
      RETURN_IF_ERROR(CheckFolds(last, *item.literal));
      literal_ = *item.literal;
      return MakeSet(WithOtherCases(item.set));
    }
    return MakeSet(std::move(item.set));
  }

  // Two characters that one character is in another case: they would match it.
  static absl::Status CheckFolds(int32_t last, int32_t next) {
    const auto lower = [](int32_t c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; };
    for (const std::string_view pair : {"ss", "st", "ff", "fi", "fl"}) {
      if (lower(last) == pair[0] && lower(next) == pair[1]) {
        return RegexError(absl::StrCat("it finds \"", ToAbsl(pair), "\" in any case"));
      }
    }
    constexpr int32_t kSharpS = 0xdf, kCapitalSharpS = 0x1e9e;
    const bool ligature = next >= 0xfb00 && next <= 0xfb17;
    if (next != kSharpS && next != kCapitalSharpS && !ligature) return absl::OkStatus();
    return RegexError("it finds a character in any case that has several letters in another");
  }

  std::optional<Node> TakeAnchor() {
    const std::string_view rest = reader_.rest();
    if (rest.size() < 2) return std::nullopt;
    const auto take = [&](Node node) {
      reader_.Skip(2);
      return std::optional(std::move(node));
    };
    switch (rest[1]) {
      case 'A': return take(AtBegin());
      case 'z': return take(AtEndOfText());
      case 'Z':
        return take(
            MakeChoice(AtEndOfText(), MakeLook(MakeSequence(LineEnd(), AtEndOfText()), false, 0)));
      case 'b': return take(WordBoundary(false));
      case 'B': return take(WordBoundary(true));
      case 'R':
        return take(
            {.kind = NodeKind::kAtomic,
             .parts = {MakeChoice(MakeSequence(MakeSet(CodeSet::One('\r')), LineEnd()),
                                  MakeSet({{0x0a, 0x0d}, {0x85, 0x85}, {0x2028, 0x2029}}))}});
      default: return std::nullopt;
    }
  }

  absl::StatusOr<Node> ParseGroup() {
    reader_.Next();  // (
    const Flags flags = flags_;
    enum class Type { kPlain, kAtomic, kLook } type = Type::kPlain;
    bool negative = false, behind = false;
    if (reader_.Take('?')) {
      if (reader_.Take(':')) {
      } else if (reader_.Take('>')) {
        type = Type::kAtomic;
      } else if (reader_.Take('=')) {
        type = Type::kLook;
      } else if (reader_.Take('!')) {
        type = Type::kLook, negative = true;
      } else if (reader_.rest().starts_with("<=") || reader_.rest().starts_with("<!")) {
        negative = reader_.rest()[1] == '!';
        reader_.Skip(2);
        type = Type::kLook, behind = true;
      } else if (const size_t colon = reader_.rest().find_first_not_of("im-");
                 colon != std::string_view::npos && reader_.rest()[colon] == ':' &&
                 SetFlags(reader_.rest().substr(0, colon))) {
        reader_.Skip(colon + 1);
      } else if (reader_.rest().starts_with('<') &&
                 reader_.rest().find('>') != std::string_view::npos) {
        reader_.Skip(reader_.rest().find('>') + 1);  // a name
      } else {
        return RegexError(absl::StrCat("the group \"(?", ToAbsl(reader_.rest().substr(0, 2)),
                                       "\" is not supported"));
      }
    }
    ASSIGN_OR_RETURN(Node inner, ParseChoice());
    flags_ = flags;
    literal_ = 0;
    if (!reader_.Take(')')) return RegexError("a \"(\" has no \")\"");
    if (type == Type::kAtomic) return Node{.kind = NodeKind::kAtomic, .parts = {std::move(inner)}};
    if (type == Type::kPlain) return inner;
    return behind ? MakeBehind(std::move(inner), negative)
                  : MakeLook(std::move(inner), negative, 0);
  }

  // Each choice looks behind by a width of its own.
  static absl::StatusOr<Node> MakeBehind(Node inner, bool negative) {
    Node made{.kind = negative ? NodeKind::kSequence : NodeKind::kChoice};
    std::vector<Node> choices;
    inner.kind == NodeKind::kChoice ? choices.swap(inner.parts)
                                    : choices.push_back(std::move(inner));
    for (Node& choice : choices) {
      const std::optional<int> width = FindWidth(choice);
      if (!width || *width == 0) {
        return RegexError("it looks behind by characters whose number varies");
      }
      made.parts.push_back(MakeLook(std::move(choice), negative, *width));
    }
    return made;
  }

  static Node MakeRepeat(Node part, int least, int most, Greed greed) {
    return {.kind = NodeKind::kRepeat,
            .parts = {std::move(part)},
            .least = least,
            .most = most,
            .greed = greed};
  }

  absl::Status ParseQuantifiers(Node* atom) {
    while (!reader_.AtEnd()) {
      int least = 0, most = -1;
      const int32_t c = reader_.Peek();
      const bool interval = c == '{';
      if (interval) {
        if (!TakeInterval(&least, &most)) return absl::OkStatus();
        if (least > kMostRepeats || most > kMostRepeats || (most >= 0 && most < least)) {
          return RegexError("an interval is out of range");
        }
      } else if (c == '*' || c == '+' || c == '?') {
        reader_.Next();
        least = c == '+' ? 1 : 0;
        most = c == '?' ? 1 : -1;
      } else {
        return absl::OkStatus();
      }
      literal_ = 0;
      Greed greed = Greed::kGreedy;
      // {n}? is ({n})?, and {n,m}+ is ({n,m})+.
      if (!(interval && least == most) && reader_.Take('?')) {
        greed = Greed::kLazy;
      } else if (!interval && reader_.Take('+')) {
        greed = Greed::kPossessive;
      }
      *atom = MakeRepeat(std::move(*atom), least, most, greed);
    }
    return absl::OkStatus();
  }

  // "{2}", "{2,}", "{,3}", "{2,3}"; others are text.
  bool TakeInterval(int* least, int* most) {
    const std::string_view rest = reader_.rest();
    size_t at = 1;
    const auto number = [&](int absent) {
      int value = absent;
      while (at < rest.size() && rest[at] >= '0' && rest[at] <= '9') {
        value = std::min((value == absent ? 0 : value) * 10 + (rest[at++] - '0'), kMostRepeats + 1);
      }
      return value;
    };
    *least = number(-1);
    *most = *least;
    const bool comma = at < rest.size() && rest[at] == ',';
    if (comma) ++at, *most = number(-1);
    if (at >= rest.size() || rest[at] != '}' || (*least < 0 && *most < 0)) return false;
    *least = std::max(*least, 0);
    reader_.Skip(at + 1);
    return true;
  }

  std::string_view text_;
  RegexReader reader_;
  SplitRegex made_;
  Flags flags_;
  int32_t literal_ = 0;  // the character before, where it is to be found in any case
  int depth_ = 0;
};

}  // namespace

absl::StatusOr<SplitRegex> ParseSplitRegex(std::string_view pattern) {
  return RegexParser(pattern).Parse();
}

SplitRegex RegexOfText(std::string_view text) {
  SplitRegex made;
  while (!text.empty()) {
    const DecodedCharacter c = DecodeCharacter(text);
    made.root.parts.push_back({.kind = NodeKind::kSet, .set = made.sets.size()});
    made.sets.push_back(CodeSet::One(c.code));
    text.remove_prefix(c.bytes);
  }
  return made;
}

SplitRegex RegexOfSet(CodeSet set) {
  SplitRegex made;
  made.root = {.kind = NodeKind::kSet, .set = 0};
  made.sets.push_back(std::move(set));
  return made;
}

}  // namespace oneflow
