#include "actor_runtime/job/job.h"

#include <unistd.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"

namespace oneflow {

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

std::string DescribeProcess(const std::string& host, int process, const std::string& ranks) {
  return absl::StrCat("host ", host, " (process ", process, ranks.empty() ? "" : ", ", ranks, ")");
}

absl::Status NameProcess(const absl::Status& why, const std::string& name) {
  const std::string_view sentence = ToStd(why.message());
  const bool is_named =
      sentence.starts_with("host ") && sentence.find(" (process ") < sentence.find(": ");
  return is_named ? why : Annotate(why, name);
}

std::string CleanText(const std::string& text) {
  constexpr size_t kLongest = 200;
  return absl::Utf8SafeCHexEscape(text.substr(0, kLongest));
}

void WriteError(const absl::Status& status, proto::JobError* error) {
  error->set_code(static_cast<int>(status.code()));
  error->set_message(std::string(ToStd(status.message())));
}

absl::Status ReadError(const proto::JobError& error) {
  const bool known = error.code() > 0 && error.code() <= 16;
  return absl::Status(
      known ? static_cast<absl::StatusCode>(error.code()) : absl::StatusCode::kUnknown,
      error.message());
}

}  // namespace oneflow
