#include "tools/oneflow/explain_page.h"

#include <string_view>

namespace oneflow {
namespace {

constexpr std::string_view kPage =
#include "tools/oneflow/page_html.inc"
    ;
constexpr std::string_view kPlace = "@SIMULATION@";

// JSON that no name in it can end the script element with.
std::string InScript(const std::string& json) {
  std::string text;
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else if (c != '\n') {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::string ExplainPage(const SimulationSummary& summary) {
  const size_t place = kPage.find(kPlace);
  return std::string(kPage.substr(0, place)) + InScript(SummaryJson(summary)) +
         std::string(kPage.substr(place + kPlace.size()));
}

}  // namespace oneflow
