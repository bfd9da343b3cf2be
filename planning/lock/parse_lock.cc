// The text of a lock, which anybody may have edited or merged, back to the lock.
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/status.h"
#include "planning/lock/plan_lock.h"

namespace oneflow {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kWriteAnew[] = "write it anew with `oneflow compile --lock`";
constexpr int64_t kMostStages = 1 << 20;

// Values of one object. The first that is wrong is the error; those after it are passed over.
class LockReader {
 public:
  LockReader(const Json& json, std::string where, absl::Status* status)
      : json_(json), where_(std::move(where)), status_(*status) {}

  // Null, and an error, where it is missing.
  const Json* Find(const std::string& name) {
    const auto found = json_.find(name);
    if (found != json_.end()) return &*found;
    Refuse(name, "is missing");
    return nullptr;
  }

  std::string Text(const std::string& name) {
    const Json* value = Find(name);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
    if (value != nullptr) Refuse(name, "is no text");
    return "";
  }

  std::string HexText(const std::string& name) {
    std::string text = Text(name);
    if (text.size() != 32 || text.find_first_not_of("0123456789abcdef") != text.npos) {
      Refuse(name, "is no fingerprint of 32 hex digits");
    }
    return text;
  }

  int64_t Count(const std::string& name) {
    const Json* value = Find(name);
    return value == nullptr ? 0 : ReadCount(name, *value);
  }

  int64_t ReadCount(const std::string& name, const Json& value) {
    // A number above the largest int64 is unsigned, and becomes a negative one.
    if (value.is_number_integer() && value.get<int64_t>() >= 0) return value.get<int64_t>();
    Refuse(name, "is no whole number, 0 or more");
    return 0;
  }

  double Number(const std::string& name) {
    const Json* value = Find(name);
    const double number = value != nullptr && value->is_number() ? value->get<double>() : -1;
    if (!(number >= 0) || !std::isfinite(number)) Refuse(name, "is no number, 0 or more");
    return number;
  }

  // An object: empty, and an error, if it is none.
  const Json& Object(const std::string& name) {
    static const Json& kNone = *new Json(Json::object());
    const Json* value = Find(name);
    if (value != nullptr && value->is_object()) return *value;
    if (value != nullptr) Refuse(name, "is no object");
    return kNone;
  }

  LockReader Inside(const std::string& name) {
    return {Object(name), absl::StrCat(where_, ": ", name), &status_};
  }

  // The inverse of StagesJson.
  std::vector<int64_t> Stages(const std::string& name) {
    std::vector<int64_t> bytes;
    for (const auto& [stages, value] : Object(name).items()) {
      const std::vector<std::string> ends = absl::StrSplit(stages, '-');
      int64_t first = -1, last = -1;
      const bool read = ends.size() <= 2 && absl::SimpleAtoi(ends[0], &first) &&
                        absl::SimpleAtoi(ends.back(), &last);
      if (!read || first != static_cast<int64_t>(bytes.size()) || last < first ||
          last >= kMostStages) {
        Refuse(absl::StrCat(name, ", stages ", stages), "do not go on from those before them");
        return bytes;
      }
      bytes.resize(last + 1, ReadCount(absl::StrCat(name, ", stages ", stages), value));
    }
    return bytes;
  }

  void Refuse(const std::string& name, const char* what) {
    if (status_.ok()) status_ = InputError(absl::StrCat(where_, ": ", name), what, kWriteAnew);
  }

 private:
  const Json& json_;
  std::string where_;
  absl::Status& status_;
};

// A version that this program does not know may mean anything: nothing else is read.
absl::Status CheckVersion(const Json& json, const std::string& where) {
  const auto found = json.is_object() ? json.find("lock") : json.end();
  if (found == json.end() || !found->is_number_integer()) {
    return InputError(where, "is no lock of a plan", kWriteAnew);
  }
  if (*found == kLockVersion) return absl::OkStatus();
  return InputError(where,
                    absl::StrCat("is a lock of version ", found->dump(),
                                 ", and this program reads ", kLockVersion),
                    absl::StrCat("use the release that wrote it, or ", kWriteAnew));
}

}  // namespace

absl::StatusOr<PlanLock> ParseLock(std::string_view text, const std::string& where) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return InputError(where, "is no JSON: it is truncated, or was not merged", kWriteAnew);
  }
  RETURN_IF_ERROR(CheckVersion(json, where));
  absl::Status status;
  LockReader reader(json, where, &status);
  PlanLock lock{.model = reader.Text("model"), .graph = reader.HexText("graph")};
  const std::string choices_fingerprint = reader.HexText("recipe");
  lock.bits = reader.Inside("bits").HexText("fingerprint");
  lock.devices = reader.Count("devices");
  if (json.contains("imbalance")) lock.imbalance = reader.Number("imbalance");
  lock.bytes = reader.Stages("bytes");
  if (lock.bytes.empty()) reader.Refuse("bytes", "has no stage");
  if (json.contains("host_bytes")) lock.host_bytes = reader.Stages("host_bytes");
  if (const Json* step = reader.Find("step"); step != nullptr && !step->is_null()) {
    LockReader inside = reader.Inside("step");
    lock.step_seconds = inside.Number("seconds");
    if (const Json* compared = inside.Find("compared"); compared != nullptr) {
      lock.compared = *compared;
    }
  }
  for (const auto& [name, value] : reader.Object("exchanges").items()) {
    lock.exchanges[name] = reader.ReadCount("exchanges, " + name, value);
  }
  LockReader costs = reader.Inside("costs");
  const int64_t version = costs.Count("version");
  if (version > 1 << 30) costs.Refuse("version", "is out of range");
  lock.costs = {.version = static_cast<int>(version),
                .cluster = costs.Text("cluster"),
                .fingerprint = costs.HexText("fingerprint")};
  LockReader choices = reader.Inside("choices");
  for (const auto& [name, value] : reader.Object("choices").items()) {
    lock.choices[name] = choices.Text(name);
  }
  if (ChoicesFingerprint(lock.choices) != choices_fingerprint) {
    reader.Refuse("choices", "are not those of the fingerprint `recipe`: they were edited");
  }
  RETURN_IF_ERROR(status);
  return lock;
}

}  // namespace oneflow
