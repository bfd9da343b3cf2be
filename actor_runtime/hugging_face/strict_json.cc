#include "actor_runtime/hugging_face/strict_json.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/utf8.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostShownBytes = 100;

// What the parser does not refuse itself.
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
  std::vector<std::set<std::string>> names_;  // of the open objects, by depth
  std::string what_;
};

}  // namespace

std::string Quoted(std::string_view name) {
  std::string text = Utf8(name.substr(0, kMostShownBytes));
  if (name.size() > kMostShownBytes) text += "...";
  return '"' + text + '"';
}

absl::StatusOr<Json> ParseStrictJson(std::string_view text, const std::string& where) {
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
