#include "training/hugging_face/strict_json.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/utf8.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostShownBytes = 100;

// Refuses what the parser does not refuse itself.
class Strictness {
 public:
  bool Look(int depth, Json::parse_event_t event, const Json& value) {
    using Event = Json::parse_event_t;
    if (depth > kMostJsonDepth && what_.empty()) {
      what_ = absl::StrCat("values are nested more than ", kMostJsonDepth, " levels deep");
    }
    if (!what_.empty()) return false;  // leaves the value out
    if (event == Event::object_start || event == Event::array_start) {
      names_.resize(depth + 1);
      names_.back().clear();
    } else if (event == Event::key) {
      const auto& name = value.get_ref<const std::string&>();
      if (!names_[depth - 1].insert(name).second) {
        what_ = Quoted(name) + " has two values in one object";
      }
    }
    return true;
  }
  const std::string& what() const { return what_; }

 private:
  std::vector<std::set<std::string>> names_;  // the open objects', by depth
  std::string what_;
};

// The position behind the string that begins at `begin`.
size_t EndOfString(std::string_view text, size_t begin) {
  size_t end = begin + 1;
  while (end < text.size() && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
  return std::min(end + 1, text.size());
}

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(kBlanks)));
  return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

// Python writes numbers that are not finite as words, which are no JSON: here they become strings,
// so that a value which is read is refused, and one which is not does no harm.
std::string QuoteWords(std::string_view text) {
  std::string quoted;
  for (size_t i = 0; i < text.size();) {
    size_t end = i + 1;
    if (text[i] == '"') {
      end = EndOfString(text, i);
    } else {
      for (const std::string_view word : {"NaN", "Infinity", "-Infinity"}) {
        if (text.substr(i).starts_with(word)) end = i + word.size();
      }
    }
    const std::string_view token = text.substr(i, end - i);
    const bool is_word = token.size() > 1 && text[i] != '"';
    absl::StrAppend(&quoted, is_word ? "\"" : "", ToAbsl(token), is_word ? "\"" : "");
    i = end;
  }
  return quoted;
}

}  // namespace

std::string Quoted(std::string_view name) {
  std::string text = Utf8(name.substr(0, kMostShownBytes));
  if (name.size() > kMostShownBytes) text += "...";
  return '"' + text + '"';
}

std::vector<JsonMember> ListMembers(std::string_view text) {
  std::vector<JsonMember> members;
  const auto add = [&](std::string_view member) {
    const size_t begin = member.find('"');
    if (begin == member.npos) return;  // the object is empty
    const size_t end = EndOfString(member, begin);
    const std::string_view value = member.substr(member.find(':', end) + 1);
    members.push_back({member.substr(begin + 1, end - begin - 2), Trimmed(value)});
  };
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size();) {
    const char c = text[i];
    if (c == '"') {
      i = EndOfString(text, i);
      continue;
    }
    const bool closes = c == '}' || c == ']';
    if (depth == 1 && (c == ',' || closes)) {
      add(text.substr(begin, i - begin));
      begin = i + 1;
    }
    if (closes) --depth;
    if ((c == '{' || c == '[') && ++depth == 1) begin = i + 1;
    ++i;
  }
  return members;
}

absl::StatusOr<Json> ParseStrictJson(std::string_view text, const std::string& where) {
  std::string quoted;
  if (text.find("NaN") != text.npos || text.find("Infinity") != text.npos) {
    quoted = QuoteWords(text);
    text = quoted;
  }
  Strictness strictness;
  Json json;
  try {
    json = Json::parse(text, [&](int depth, Json::parse_event_t event, Json& value) {
      return strictness.Look(depth, event, value);
    });
  } catch (const Json::exception& error) {
    std::string what = error.what();  // "[json.exception.parse_error.101] parse error at line ..."
    what = what.substr(std::min(what.size(), what.find("] ") + 2));
    return InputError(where, absl::StrCat("is no JSON: ", Utf8(what)), "get the file again");
  }
  if (!strictness.what().empty()) return InputError(where, strictness.what(), "correct the file");
  if (!json.is_object()) return InputError(where, "is no JSON object", "get the file again");
  return json;
}

}  // namespace oneflow
