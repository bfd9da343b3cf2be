#include "training/job/job.h"

#include <unistd.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "oneflow_core/base/cause.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/base/strings.h"

namespace oneflow {

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

std::string DescribeProcess(const ProcessName& name) {
  std::string text = absl::StrCat("host ", name.host, " (process ", name.process);
  const auto& [first, count] = name.ranks;
  if (count == 1) absl::StrAppend(&text, ", rank ", first);
  if (count > 1) absl::StrAppend(&text, ", ranks ", first, " to ", int64_t{first} + count - 1);
  return text + ")";
}

absl::Status MakeFailure(const ProcessName& name, absl::StatusCode code, std::string_view rest) {
  return WithCause(absl::Status(code, absl::StrCat(DescribeProcess(name), ToAbsl(rest))),
                   {.process = name.process,
                    .rank = name.ranks.count > 0 ? name.ranks.first : -1,
                    .host = name.host});
}

absl::Status MakeFailure(const ProcessName& name, const absl::Status& why) {
  if (!FindCause(why).host.empty()) return why;
  return MakeFailure(name, why.code(), absl::StrCat(": ", why.message()));
}

std::string WithPort(const std::string& address, int port) {
  return absl::StrCat(address.substr(0, address.rfind(':') + 1), port);
}

std::string CleanText(const std::string& text) {
  constexpr size_t kLongest = 200;
  return absl::Utf8SafeCHexEscape(text.substr(0, kLongest));
}

void WriteRanks(const JobRanks& ranks, proto::JobRanks* message) {
  message->set_first(ranks.first);
  message->set_count(ranks.count);
}

JobRanks ReadRanks(const proto::JobRanks& message) { return {message.first(), message.count()}; }

void WriteError(const absl::Status& status, proto::JobError* error) {
  error->set_code(static_cast<int>(status.code()));
  error->set_message(std::string(ToStd(status.message())));
  const Cause cause = FindCause(status);
  error->mutable_cause()->set_process(cause.process);
  error->mutable_cause()->set_rank(cause.rank);
  error->mutable_cause()->set_is_consequence(cause.is_consequence);
  error->mutable_cause()->set_host(cause.host);
}

absl::Status ReadError(const proto::JobError& error) {
  const bool known = error.code() > 0 && error.code() <= 16;
  const absl::Status status(
      known ? static_cast<absl::StatusCode>(error.code()) : absl::StatusCode::kUnknown,
      error.message());
  if (!error.has_cause()) return status;
  return WithCause(status, {.process = error.cause().process(),
                            .rank = error.cause().rank(),
                            .is_consequence = error.cause().is_consequence(),
                            .host = CleanText(error.cause().host())});
}

}  // namespace oneflow
