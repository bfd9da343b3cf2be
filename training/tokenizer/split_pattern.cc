#define PCRE2_CODE_UNIT_WIDTH 8
#include "training/tokenizer/split_pattern.h"

#include <pcre2.h>

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "training/tokenizer/regex_class.h"

namespace oneflow {
namespace {

// Steps of one match, after which RegexProgram takes over; and PCRE2's memory for one.
constexpr uint32_t kMostSteps = 1 << 17;
constexpr uint32_t kMostHeap = 64 << 10;  // KiB
constexpr size_t kLeastStack = 32 << 10, kMostStack = 1 << 20;

// The class of PCRE2 with the bytes of `kinds`.
std::string KindsText(const KindSet& kinds) {
  if (kinds.none()) return "(?!)";
  std::string text = "[";
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    if (!kinds.test(kind)) continue;
    size_t last = kind;
    while (last + 1 < kinds.size() && kinds.test(last + 1)) ++last;
    absl::StrAppendFormat(&text, "\\x%02x", kind);
    if (last > kind) absl::StrAppendFormat(&text, "-\\x%02x", last);
    kind = last;
  }
  return text + "]";
}

// The regex in PCRE2's syntax, of kinds.
void AppendNode(const SplitRegex::Node& node, const CharacterKinds& kinds, std::string* text) {
  using Node = SplitRegex::Node;
  switch (node.kind) {
    case Node::Kind::kSet: absl::StrAppend(text, KindsText(kinds.sets()[node.set])); return;
    case Node::Kind::kSequence:
      for (const Node& part : node.parts) AppendNode(part, kinds, text);
      return;
    case Node::Kind::kChoice: {
      const char* separator = "(?:";
      for (const Node& part : node.parts) {
        absl::StrAppend(text, std::exchange(separator, "|"));
        AppendNode(part, kinds, text);
      }
      absl::StrAppend(text, ")");
      return;
    }
    case Node::Kind::kRepeat: {
      const bool one = node.parts[0].kind == Node::Kind::kSet;
      absl::StrAppend(text, one ? "" : "(?:");
      AppendNode(node.parts[0], kinds, text);
      absl::StrAppend(text, one ? "{" : "){", node.least, ",");
      if (node.most >= 0) absl::StrAppend(text, node.most);
      constexpr const char* kGreeds[] = {"", "?", "+"};
      absl::StrAppend(text, "}", kGreeds[static_cast<int>(node.greed)]);
      return;
    }
    case Node::Kind::kAtomic:
    case Node::Kind::kLook: {
      const bool atomic = node.kind == Node::Kind::kAtomic;
      const char* sign = node.negative ? "!" : "=";
      absl::StrAppend(text, "(?", node.behind > 0 ? "<" : "", atomic ? ">" : sign);
      AppendNode(node.parts[0], kinds, text);
      absl::StrAppend(text, ")");
      return;
    }
  }
}

}  // namespace

struct SplitPattern::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_data* data = nullptr;
  pcre2_match_context* context = nullptr;
  pcre2_jit_stack* stack = nullptr;
  bool jit = false;

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
    pcre2_code_free(code);
  }

  absl::Status Compile(const std::string& pattern) {
    int error = 0;
    PCRE2_SIZE at = 0;
    code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                         PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_DOLLAR_ENDONLY, &error, &at,
                         nullptr);
    if (code == nullptr) {
      std::array<PCRE2_UCHAR, 200> message{};
      pcre2_get_error_message(error, message.data(), message.size());
      return RegexError(
          absl::StrCat("PCRE2 does not take it: ", reinterpret_cast<const char*>(message.data())));
    }
    jit = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
    data = pcre2_match_data_create(1, nullptr);
    context = pcre2_match_context_create(nullptr);
    pcre2_set_match_limit(context, kMostSteps);
    pcre2_set_heap_limit(context, kMostHeap);
    if (jit) {
      stack = pcre2_jit_stack_create(kLeastStack, kMostStack, nullptr);
      pcre2_jit_stack_assign(context, nullptr, stack);
    }
    return absl::OkStatus();
  }
};

SplitPattern::SplitPattern(CharacterKinds kinds, RegexProgram program)
    : kinds_of_(std::move(kinds)),
      program_(std::move(program)),
      compiled_(std::make_unique<Compiled>()) {}
SplitPattern::SplitPattern(SplitPattern&&) noexcept = default;
SplitPattern& SplitPattern::operator=(SplitPattern&&) noexcept = default;
SplitPattern::~SplitPattern() = default;

absl::StatusOr<SplitPattern> SplitPattern::Parse(std::string_view regex, bool by_hand) {
  ASSIGN_OR_RETURN(const SplitRegex parsed, ParseSplitRegex(regex));
  ASSIGN_OR_RETURN(SplitPattern made, Make(parsed));
  if (by_hand) made.words_ = FindWordPattern(regex);
  return made;
}

absl::StatusOr<SplitPattern> SplitPattern::Make(const SplitRegex& regex) {
  ASSIGN_OR_RETURN(CharacterKinds kinds, CharacterKinds::Make(regex.sets));
  RegexProgram program(regex, kinds);
  if (!program.fits()) return RegexError("its repetitions are too many");
  std::string pattern;
  AppendNode(regex.root, kinds, &pattern);
  SplitPattern made(std::move(kinds), std::move(program));
  made.is_single_ = regex.root.kind == SplitRegex::Node::Kind::kSet;
  if (made.is_single_) made.single_ = made.kinds_of_.sets()[regex.root.set];
  RETURN_IF_ERROR(made.compiled_->Compile(pattern));
  return made;
}

void SplitPattern::Translate(std::string_view text) const {
  kinds_of_.Translate(text, &kinds_, &offsets_);
  is_hard_ = false;
}

bool SplitPattern::Find(size_t from, size_t* begin, size_t* end) const {
  if (is_single_) {
    for (size_t at = from; at < kinds_.size(); ++at) {
      if (!single_.test(static_cast<unsigned char>(kinds_[at]))) continue;
      *begin = at;
      *end = at + 1;
      return true;
    }
    return false;
  }
  const auto by_program = [&] {
    *begin = program_.Find(kinds_, from, end);
    return *begin != kNone;
  };
  if (is_hard_) return by_program();
  const auto* text = reinterpret_cast<PCRE2_SPTR>(kinds_.data());
  const Compiled& c = *compiled_;
  const int found = c.jit ? pcre2_jit_match(c.code, text, kinds_.size(), from, 0, c.data, c.context)
                          : pcre2_match(c.code, text, kinds_.size(), from, 0, c.data, c.context);
  if (found == PCRE2_ERROR_NOMATCH) return false;
  if (found < 0) {  // a limit
    is_hard_ = true;
    return by_program();
  }
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(c.data);
  *begin = ends[0];
  *end = ends[1];
  return true;
}

bool SplitPattern::MayNeedBoth(int32_t left, int32_t right) const {
  const uint8_t a = kinds_of_.Find(left), b = kinds_of_.Find(right);
  const auto [it, is_new] = needs_.try_emplace(a << 8 | b, false);
  if (is_new) it->second = program_.MayNeedBoth(a, b);
  return it->second;
}

bool SplitPattern::AlwaysMatches(int32_t code) const {
  const uint8_t kind = kinds_of_.Find(code);
  const auto [it, is_new] = matches_.try_emplace(kind, false);
  if (is_new) it->second = program_.AlwaysMatches(kind);
  return it->second;
}

bool SplitPattern::MayContain(int32_t code) const {
  const uint8_t kind = kinds_of_.Find(code);
  for (const KindSet& set : kinds_of_.sets()) {
    if (set.test(kind)) return true;
  }
  return false;
}

}  // namespace oneflow
