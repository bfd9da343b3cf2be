#include "training/data/json_lines.h"

#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "oneflow_core/base/status.h"

namespace oneflow {
namespace {

// `line` with zeros for Python's names of numbers.
std::string WithoutNames(std::string_view line) {
  std::string plain;
  bool quoted = false;
  for (size_t at = 0; at < line.size(); ++at) {
    const std::string_view rest = line.substr(at);
    if (line[at] == '"') quoted = !quoted;
    if (quoted && line[at] == '\\' && rest.size() > 1) plain += line[at++];
    const size_t name = quoted                         ? 0
                        : rest.starts_with("NaN")      ? 3
                        : rest.starts_with("Infinity") ? 8
                                                       : 0;
    plain += name > 0 ? '0' : line[at];
    at += name > 0 ? name - 1 : 0;
  }
  return plain;
}

// Keeps the value under one key, and the keys of the object, for a message.
class TextFinder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit TextFinder(std::string_view key) : wanted_(key) {}

  bool null() override { return Value("null"); }
  bool boolean(bool /*value*/) override { return Value("a boolean"); }
  bool number_integer(number_integer_t /*value*/) override { return Value("a number"); }
  bool number_unsigned(number_unsigned_t /*value*/) override { return Value("a number"); }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override {
    return Value("a number");
  }
  bool binary(binary_t& /*value*/) override { return Value("bytes"); }
  bool string(string_t& value) override {
    if (here()) {
      text = std::move(value);
      found = "a string";
    }
    return Value("");
  }
  bool start_object(size_t /*size*/) override {
    if (depth_ > 0) Value("an object");
    is_object |= depth_ == 0;
    Push();
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1 && keys.size() < kMostKeys) keys.push_back(name);
    // Below an array there is no key that could be asked for.
    if (arrays_ == 0) {
      path_.resize(ends_.back());
      if (!path_.empty()) path_ += '.';
      path_ += name;
      named_ = true;
    }
    return true;
  }
  bool end_object() override { return Pop(); }
  bool start_array(size_t /*size*/) override {
    if (depth_ > 0) Value("an array");
    ++arrays_;
    ++depth_;
    return true;
  }
  bool end_array() override {
    --arrays_;
    --depth_;
    named_ = false;
    return true;
  }
  bool parse_error(size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    error_at = static_cast<int64_t>(position);
    return false;
  }

  static constexpr size_t kMostKeys = 20;
  std::string text;
  std::string found;  // what stands under the key; empty: no such key
  std::vector<std::string> keys;
  bool is_object = false;
  int64_t error_at = -1;

 private:
  bool here() const { return arrays_ == 0 && named_ && path_ == wanted_; }
  // A value that is `what`; empty: it is seen to.
  bool Value(const char* what) {
    if (here() && *what != '\0') found = what;
    named_ = false;
    return true;
  }
  void Push() {
    ++depth_;
    ends_.push_back(path_.size());
  }
  bool Pop() {
    --depth_;
    path_.resize(ends_.back());
    ends_.pop_back();
    named_ = false;
    return true;
  }

  std::string_view wanted_;
  std::string path_;          // keys of the objects around, with dots between
  std::vector<size_t> ends_;  // sizes of path_ at the begin of each of these objects
  int depth_ = 0, arrays_ = 0;
  bool named_ = false;  // path_ ends with the key of the value that comes next
};

}  // namespace

bool IsJson(std::string_view line) { return nlohmann::json::accept(WithoutNames(line)); }

absl::StatusOr<std::string> TextInJson(std::string_view line, std::string_view key) {
  TextFinder finder(key);
  if (!nlohmann::json::sax_parse(line, &finder)) {
    const int64_t error_at = finder.error_at;
    const std::string plain = WithoutNames(line);
    finder = TextFinder(key);
    if (plain.size() == line.size() || !nlohmann::json::sax_parse(plain, &finder)) {
      return absl::InvalidArgumentError(
          absl::StrCat("is no JSON (byte ", error_at, " of the line)"));
    }
  }
  if (!finder.is_object) return absl::InvalidArgumentError("is no object of JSON");
  if (finder.found == "a string") return std::move(finder.text);
  if (!finder.found.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", ToAbsl(key), "\" is ", finder.found, ", and no string"));
  }
  std::string keys;
  for (const std::string& name : finder.keys) {
    absl::StrAppend(&keys, keys.empty() ? "" : ", ", name);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("has no key \"", ToAbsl(key), "\", but ", keys.empty() ? "none at all" : keys));
}

}  // namespace oneflow
