#include "oneflow_core/print/boxing_text.h"

#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/fold.h"
#include "oneflow_core/print/plan_text.h"

namespace oneflow {
namespace {

// The boxing actors, in the program's order, between one tensor and one reader.
struct Conversion {
  std::string why, primitives;
  double bytes = 0, seconds = 0;
};

std::vector<Conversion> CollectConversions(const proto::Program& program,
                                           const proto::ProgramFacts& facts) {
  std::vector<Conversion> conversions;
  std::string last;
  for (const proto::Actor& actor : program.actor()) {
    if (!actor.has_boxing()) continue;
    const proto::ActorFacts& known = FindFacts(facts, actor.id());
    const std::string& why = known.why();
    if (conversions.empty() || why != last) conversions.push_back({why, "", 0, 0});
    last = why;
    Conversion& conversion = conversions.back();
    absl::StrAppend(&conversion.primitives, conversion.primitives.empty() ? "" : " + ",
                    actor.kernel());
    conversion.bytes += known.bytes_moved();
    conversion.seconds += known.seconds();
  }
  return conversions;
}

std::string ThreeDigits(double seconds) {
  char text[32];
  const bool micro = seconds < 1e-3;
  std::snprintf(text, sizeof(text), "%.3g %s", seconds * (micro ? 1e6 : 1e3), micro ? "us" : "ms");
  return text;
}

}  // namespace

std::string BoxingTable(const proto::Plan& plan, const proto::Program& program) {
  std::vector<NumberedText> reasons;
  for (const Conversion& conversion : CollectConversions(program, FindFacts(plan, program))) {
    std::string cost = absl::StrCat(": ", conversion.primitives, ", ",
                                    BytesText(static_cast<int64_t>(conversion.bytes)));
    if (conversion.seconds > 0) absl::StrAppend(&cost, ", ", ThreeDigits(conversion.seconds));
    reasons.push_back({conversion.why, std::move(cost)});
  }
  if (reasons.empty()) return "";
  std::string text = absl::StrCat("boxing of program ", program.name(), ", each time it fires:\n");
  for (const std::string& line : FoldedLines(reasons)) absl::StrAppend(&text, "    ", line, "\n");
  return text;
}

}  // namespace oneflow
