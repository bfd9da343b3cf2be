#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/json_text.h"
#include "tools/foreign/bytes/bytes.h"

namespace oneflow::foreign {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

// "41.2"; of less than a tenth, two digits more: "0.013".
std::string GibText(int64_t bytes) {
  const double gib = static_cast<double>(bytes) / kGiB;
  return gib >= 0.1 || bytes == 0 ? absl::StrFormat("%.1f", gib) : absl::StrFormat("%.3f", gib);
}

std::string KindsText(const SystemBytes& theirs) {
  std::vector<std::string> kinds, texts;
  for (const ByteLine& line : theirs.lines) {
    if (std::find(kinds.begin(), kinds.end(), line.kind) != kinds.end()) continue;
    kinds.push_back(line.kind);
    texts.push_back(absl::StrCat(line.kind, " ", GibText(theirs.Sum(line.kind))));
  }
  return absl::StrJoin(texts, ", ");
}

nlohmann::ordered_json LinesJson(const std::vector<ByteLine>& lines) {
  return JsonList(lines, [](const ByteLine& line) {
    return nlohmann::ordered_json{
        {"kind", line.kind}, {"what", line.what}, {"formula", line.formula}, {"bytes", line.bytes}};
  });
}

}  // namespace

std::string BytesSentence(const SystemBytes& theirs, const OurBytes& ours) {
  std::string text = absl::StrCat("as ", theirs.system, " counts: ", GibText(theirs.total()),
                                  " GiB (", KindsText(theirs), ")");
  if (!theirs.host.empty()) {
    absl::StrAppend(&text, " and ", GibText(theirs.host_total()), " GiB of a node's host");
  }
  if (ours.bytes) {
    absl::StrAppend(&text, "; ours ", GibText(*ours.bytes), " GiB, exact and proved");
  }
  return text;
}

nlohmann::ordered_json BytesJson(const SystemBytes& theirs, const OurBytes& ours) {
  return {
      {"system", theirs.system},
      {"device", theirs.device},
      {"bytes", theirs.total()},
      {"lines", LinesJson(theirs.lines)},
      {"host_bytes", theirs.host_total()},
      {"host", LinesJson(theirs.host)},
      {"printed", LinesJson(theirs.printed)},
      {"ours", ours.bytes ? nlohmann::ordered_json(*ours.bytes) : nlohmann::ordered_json(nullptr)},
      {"sources", theirs.sources},
      {"leaves_out", theirs.leaves_out},
      {"notes", theirs.notes}};
}

}  // namespace oneflow::foreign
