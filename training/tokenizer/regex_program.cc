#include "training/tokenizer/regex_program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "oneflow_core/base/status.h"
#include "training/tokenizer/regex_class.h"

namespace oneflow {

absl::StatusOr<CharacterKinds> CharacterKinds::Make(const std::vector<CodeSet>& sets) {
  std::vector<int32_t> begins = {0, kNoCharacter};
  for (const CodeSet& set : sets) {
    for (const CodeSet::Range& range : set.ranges()) {
      begins.push_back(range.first);
      begins.push_back(range.last + 1);
    }
  }
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  CharacterKinds made;
  made.sets_.resize(sets.size());
  std::map<std::vector<bool>, uint8_t> kinds;  // by the sets that a character is in
  std::vector<uint8_t> kind_of(kNoCharacter + 256, 0);
  for (size_t i = 0; i < begins.size() && begins[i] <= kNoCharacter; ++i) {
    std::vector<bool> in(sets.size());
    for (size_t set = 0; set < sets.size(); ++set) in[set] = sets[set].Contains(begins[i]);
    if (kinds.size() == 256 && !kinds.contains(in)) {
      return RegexError("it tells more than 256 kinds of characters apart");
    }
    const uint8_t kind = kinds.try_emplace(in, kinds.size()).first->second;
    for (size_t set = 0; set < sets.size(); ++set) {
      if (in[set]) made.sets_[set].set(kind);
    }
    const int32_t end =
        i + 1 < begins.size() ? std::min(begins[i + 1], kNoCharacter + 1) : kNoCharacter + 1;
    std::fill(kind_of.begin() + begins[i], kind_of.begin() + end, kind);
  }
  std::copy_n(kind_of.begin(), made.ascii_.size(), made.ascii_.begin());
  std::map<std::array<uint8_t, 256>, uint16_t> pages;
  for (size_t begin = 0; begin < kind_of.size(); begin += 256) {
    std::array<uint8_t, 256> page;
    std::copy_n(kind_of.begin() + static_cast<ptrdiff_t>(begin), 256, page.begin());
    const auto [it, is_new] = pages.try_emplace(page, made.pages_.size());
    if (is_new) made.pages_.push_back(page);
    made.page_of_.push_back(it->second);
  }
  return made;
}

void CharacterKinds::Translate(std::string_view text, std::string* kinds,
                               std::vector<size_t>* offsets) const {
  offsets->clear();
  kinds->resize(text.size());
  char* to = kinds->data();
  size_t at = 0;
  for (; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte >= 128) break;
    to[at] = static_cast<char>(ascii_[byte]);
  }
  if (at == text.size()) return;
  offsets->resize(text.size() + 1);
  for (size_t i = 0; i < at; ++i) (*offsets)[i] = i;
  size_t count = at;
  while (at < text.size()) {
    const DecodedCharacter c = DecodeCharacter(text.substr(at));
    to[count] = static_cast<char>(Find(c.code));
    (*offsets)[count++] = at;
    at += c.bytes;
  }
  kinds->resize(count);
  (*offsets)[count] = text.size();
  offsets->resize(count + 1);
}

RegexProgram::RegexProgram(const SplitRegex& regex, const CharacterKinds& kinds)
    : sets_(kinds.sets()) {
  Compile(regex.root);
  Add({.op = Op::kAccept});
  if (!fits()) return;
  after_.resize(code_.size());
  for (size_t i = 0; i < code_.size(); ++i) {
    if (code_[i].op == Op::kSet) after_[i] = Reach(i + 1);
  }
  first_ = Reach(0);
}

size_t RegexProgram::Add(const Instruction& instruction) {
  code_.push_back(instruction);
  return code_.size() - 1;
}

void RegexProgram::Compile(const SplitRegex::Node& node) {
  using Kind = SplitRegex::Node::Kind;
  if (!fits()) return;
  switch (node.kind) {
    case Kind::kSet: Add({.op = Op::kSet, .set = node.set}); return;
    case Kind::kSequence:
      for (const SplitRegex::Node& part : node.parts) Compile(part);
      return;
    case Kind::kChoice: {
      std::vector<size_t> ends;
      for (size_t i = 0; i + 1 < node.parts.size(); ++i) {
        const size_t split = Add({.op = Op::kSplit});
        code_[split].next = code_.size();
        Compile(node.parts[i]);
        ends.push_back(Add({.op = Op::kJump}));
        code_[split].other = code_.size();
      }
      Compile(node.parts.back());
      for (const size_t end : ends) code_[end].next = code_.size();
      return;
    }
    case Kind::kRepeat:
      if (node.greed == SplitRegex::Node::Greed::kPossessive) {
        const size_t atomic = Add({.op = Op::kAtomic});
        code_[atomic].other = code_.size();
        CompileRepeat(node);
        Add({.op = Op::kAtomicEnd, .next = code_.size() + 1});
        code_[atomic].next = code_.size();
        return;
      }
      return CompileRepeat(node);
    case Kind::kAtomic: {
      const size_t atomic = Add({.op = Op::kAtomic});
      code_[atomic].other = code_.size();
      Compile(node.parts[0]);
      Add({.op = Op::kAtomicEnd, .next = code_.size() + 1});
      code_[atomic].next = code_.size();
      return;
    }
    case Kind::kLook: {
      const size_t look = Add({.op = Op::kLook, .negative = node.negative, .behind = node.behind});
      code_[look].other = code_.size();
      Compile(node.parts[0]);
      Add({.op = Op::kAccept});
      code_[look].next = code_.size();
      return;
    }
  }
}

void RegexProgram::CompileRepeat(const SplitRegex::Node& node) {
  const bool lazy = node.greed == SplitRegex::Node::Greed::kLazy;
  const auto prefer = [&](size_t split, size_t more, size_t end) {
    code_[split].next = lazy ? end : more;
    code_[split].other = lazy ? more : end;
  };
  for (int i = 0; i < node.least && fits(); ++i) Compile(node.parts[0]);
  if (node.most < 0) {
    const size_t split = Add({.op = Op::kSplit});
    Compile(node.parts[0]);
    Add({.op = Op::kJump, .next = split});
    prefer(split, split + 1, code_.size());
    return;
  }
  std::vector<size_t> splits;
  for (int i = node.least; i < node.most && fits(); ++i) {
    splits.push_back(Add({.op = Op::kSplit}));
    Compile(node.parts[0]);
  }
  for (const size_t split : splits) prefer(split, split + 1, code_.size());
}

RegexProgram::Reached RegexProgram::Reach(size_t from) const {
  Reached made;
  std::vector<size_t> open = {from};
  absl::flat_hash_set<size_t> seen = {from};
  const auto visit = [&](size_t at) {
    if (seen.insert(at).second) open.push_back(at);
  };
  while (!open.empty()) {
    const size_t at = open.back();
    open.pop_back();
    const Instruction& one = code_[at];
    switch (one.op) {
      case Op::kSet: made.sets.push_back(at); break;
      case Op::kAccept: made.accepts = true; break;
      case Op::kJump:
      case Op::kAtomicEnd: visit(one.next); break;
      case Op::kSplit: visit(one.next), visit(one.other); break;
      case Op::kAtomic: visit(one.other); break;  // its end leads on
      case Op::kLook:
        made.looks.push_back(at);
        visit(one.next);
        break;
    }
  }
  return made;
}

// One search. A state that was visited has failed: it is not tried again.
struct RegexProgram::Run {
  const RegexProgram& program;
  std::string_view text;
  // By body and position: the end that it found; npos: none.
  absl::flat_hash_map<std::pair<size_t, size_t>, size_t> bodies;

  size_t Body(size_t from, size_t at) {
    const auto known = bodies.find({from, at});
    if (known != bodies.end()) return known->second;
    absl::flat_hash_set<std::pair<size_t, size_t>> visited;
    const size_t end = Match(from, at, visited);
    bodies[{from, at}] = end;
    return end;
  }

  size_t Match(size_t from, size_t at, absl::flat_hash_set<std::pair<size_t, size_t>>& visited) {
    std::vector<std::pair<size_t, size_t>> open = {{from, at}};
    while (!open.empty()) {
      auto [pc, here] = open.back();
      open.pop_back();
      while (visited.insert({pc, here}).second) {
        const Instruction& one = program.code_[pc];
        if (one.op == Op::kAccept || one.op == Op::kAtomicEnd) return here;
        if (one.op == Op::kSet) {
          if (here == text.size() ||
              !program.sets_[one.set].test(static_cast<unsigned char>(text[here]))) {
            break;
          }
          ++pc, ++here;
        } else if (one.op == Op::kSplit) {
          open.push_back({one.other, here});
          pc = one.next;
        } else if (one.op == Op::kJump) {
          pc = one.next;
        } else if (one.op == Op::kAtomic) {
          here = Body(one.other, here);
          if (here == std::string_view::npos) break;
          pc = one.next;
        } else {
          const auto behind = static_cast<size_t>(one.behind);
          const bool found =
              here >= behind && Body(one.other, here - behind) != std::string_view::npos;
          if (found == one.negative) break;
          pc = one.next;
        }
      }
    }
    return std::string_view::npos;
  }
};

size_t RegexProgram::Find(std::string_view text, size_t from, size_t* end) const {
  Run run{*this, text, {}};
  absl::flat_hash_set<std::pair<size_t, size_t>> visited;
  for (size_t begin = from; begin <= text.size(); ++begin) {
    *end = run.Match(0, begin, visited);
    if (*end != std::string_view::npos) return begin;
  }
  return std::string_view::npos;
}

bool RegexProgram::LookNeedsBoth(const Instruction& look, uint8_t left, uint8_t right) const {
  const Reached first = Reach(look.other);
  if (first.accepts || !first.looks.empty()) return true;
  const uint8_t kind = look.behind > 0 ? left : right;
  return std::any_of(first.sets.begin(), first.sets.end(),
                     [&](size_t i) { return sets_[code_[i].set].test(kind); });
}

bool RegexProgram::MayNeedBoth(uint8_t left, uint8_t right) const {
  for (size_t i = 0; i < code_.size(); ++i) {
    const Instruction& one = code_[i];
    if (one.op == Op::kLook && one.behind > 1) return true;
    if (one.op != Op::kSet || !sets_[one.set].test(left)) continue;
    // A match, or what a look-around reads, that goes over the split.
    for (const size_t next : after_[i].sets) {
      if (sets_[code_[next].set].test(right)) return true;
    }
    // A look-ahead from the split: it would see the end of the text.
    for (const size_t look : after_[i].looks) {
      if (code_[look].behind == 0 && LookNeedsBoth(code_[look], left, right)) return true;
    }
  }
  // A look-behind from the split: it would see the begin of the text.
  return std::any_of(first_.looks.begin(), first_.looks.end(), [&](size_t look) {
    return code_[look].behind > 0 && LookNeedsBoth(code_[look], left, right);
  });
}

bool RegexProgram::AlwaysMatches(uint8_t kind) const {
  // States: an instruction, and whether the one character has been taken. Look-around is no way on,
  // because what is around is not known.
  std::vector<std::pair<size_t, bool>> open = {{0, false}};
  absl::flat_hash_set<std::pair<size_t, bool>> seen;
  const auto has_kind = [&](size_t i) { return sets_[code_[i].set].test(kind); };
  while (!open.empty()) {
    const auto [at, taken] = open.back();
    open.pop_back();
    if (!seen.insert({at, taken}).second) continue;
    const Instruction& one = code_[at];
    switch (one.op) {
      case Op::kAccept:
        if (taken) return true;
        break;
      case Op::kSet:
        if (!taken && has_kind(at)) open.push_back({at + 1, true});
        break;
      case Op::kJump: open.push_back({one.next, taken}); break;
      case Op::kSplit:
        open.push_back({one.next, taken});
        open.push_back({one.other, taken});
        break;
      case Op::kAtomicEnd: open.push_back({one.next, taken}); break;
      case Op::kAtomic: {
        // A group that can take the character takes it: no way leads past it.
        const Reached first = Reach(one.other);
        const bool takes =
            !taken && std::any_of(first.sets.begin(), first.sets.end(),
                                  [&](size_t i) { return i < one.next && has_kind(i); });
        if (!first.looks.empty()) break;
        if (!takes) {
          open.push_back({one.other, taken});
          break;
        }
        for (const size_t i : first.sets) {
          if (i < one.next && has_kind(i)) open.push_back({i + 1, true});
        }
        break;
      }
      case Op::kLook: break;
    }
  }
  return false;
}

}  // namespace oneflow
