#include "planning/search/pareto_page.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "oneflow_core/base/time_text.h"
#include "planning/search/pareto_text.h"

namespace oneflow {
namespace {

constexpr char kHead[] = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta name="color-scheme" content="light dark"/>
<title>oneflow search</title>
<style>
:root { --page: #fff; --text: #1c2026; --quiet: #5a6370; --rule: #dfe3e8; --chart: #f8f9fb; --grid: #dde1e6; --front: #0072b2; --other: #9aa3ad; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171b; --text: #e6e9ed; --quiet: #a3acb8; --rule: #333a43; --chart: #1b1f25; --grid: #2f363f; --front: #3b9be0; --other: #7c8692; }
}
body { font: 14px/1.5 system-ui, sans-serif; margin: 1.5em auto; max-width: 1200px; padding: 0 1em; color: var(--text); background: var(--page); }
h1 { font-size: 1.4em; margin: 0 0 0.3em; }
p { color: var(--quiet); margin: 0.3em 0; white-space: pre-line; overflow-wrap: anywhere; }
h1 { overflow-wrap: anywhere; }
a { color: var(--front); }
svg { background: var(--chart); border: 1px solid var(--rule); display: block; width: 100%; margin: 1em 0; }
svg text { font: 11px system-ui, sans-serif; fill: var(--text); }
.grid { stroke: var(--grid); }
.line { stroke: var(--front); fill: none; }
.front { fill: var(--front); }
.other { fill: var(--other); }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: right; padding: 4px 0 2px 6px; font-variant-numeric: tabular-nums; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tr.plan td { border-top: 1px solid var(--rule); font-weight: 600; }
td.flags { overflow-wrap: anywhere; color: var(--quiet); padding-bottom: 0.6em; }
button { font: inherit; color: inherit; background: var(--chart); border: 1px solid var(--rule); border-radius: 4px; padding: 0 0.6em; margin-right: 0.6em; cursor: pointer; }
</style>
</head>
<body>
)";

std::string Escape(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::string MeasureText(double measure, ParetoAxis axis) {
  switch (axis) {
    case ParetoAxis::kBytes: return ShortBytesText(static_cast<int64_t>(measure));
    case ParetoAxis::kDevices: return DigitsText(std::llround(measure));
    case ParetoAxis::kCost: return absl::StrFormat("%.2f", measure);
  }
  return "";
}

// The axis of a figure, from what its points have: logarithmic where these are far apart.
struct Axis {
  bool logarithmic = false;
  double from = 0, to = 1;
  std::vector<double> ticks;

  // 0 to 1 along the axis.
  double operator()(double value) const {
    return logarithmic ? std::log(value / from) / std::log(to / from)
                       : (value - from) / (to - from);
  }
};

constexpr double kFarApart = 4;  // the largest over the least
constexpr double kRoom = 0.08;   // beside the outermost points, of what is between them
constexpr int kTicks = 5;

// 1, 2 or 5 times a power of ten: the least that is not below.
double RoundStep(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= least * (1 - 1e-9)) return step * power;
  }
  return 10 * power;
}

// `unit`: of round numbers, 2^30 of bytes. `binary`: they are powers of two on a logarithmic axis.
Axis MakeAxis(const std::vector<double>& values, double unit, bool binary) {
  const auto [low, high] = std::ranges::minmax(values);
  Axis axis;
  axis.logarithmic = low > 0 && high > kFarApart * low;
  if (axis.logarithmic) {
    const double room = std::pow(high / low, kRoom);
    axis.from = low / room, axis.to = high * room;
    const double base = binary ? 2 : 10;
    double power = std::pow(base, std::floor(std::log(axis.from) / std::log(base)));
    for (; power <= axis.to; power *= base) {
      for (const double times : binary ? std::vector<double>{1} : std::vector<double>{1, 2, 5}) {
        const double tick = times * power;
        if (tick >= axis.from && tick <= axis.to) axis.ticks.push_back(tick);
      }
    }
    return axis;
  }
  const double room = high > low ? kRoom * (high - low) : std::max(kRoom * high, 1e-12);
  axis.from = std::max(0.0, low - room), axis.to = high + room;
  const double step = unit * RoundStep((axis.to - axis.from) / unit / kTicks);
  for (double i = std::ceil(axis.from / step); i * step <= axis.to; ++i) {
    axis.ticks.push_back(i * step);
  }
  return axis;
}

constexpr double kWidth = 900, kHeight = 420, kLeft = 80, kRight = 20, kTop = 30, kBottom = 45;
double X(const Axis& axis, double value) { return kLeft + axis(value) * (kWidth - kLeft - kRight); }
double Y(const Axis& axis, double value) {
  return kHeight - kBottom - axis(value) * (kHeight - kBottom - kTop);
}

std::string AxesText(const Axis& x, const Axis& y, ParetoAxis axis) {
  std::string svg;
  std::string before;
  for (const double tick : x.ticks) {
    const std::string text = MeasureText(tick, axis);
    if (text == before) continue;  // fractions of a device
    before = text;
    absl::StrAppendFormat(&svg,
                          "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
                          X(x, tick), X(x, tick), kHeight - kBottom, kTop, X(x, tick),
                          kHeight - kBottom + 16, text);
  }
  for (const double tick : y.ticks) {
    absl::StrAppendFormat(&svg,
                          "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                          kLeft, kWidth - kRight, Y(y, tick), Y(y, tick), kLeft - 6, Y(y, tick) + 4,
                          TimeText(tick));
  }
  absl::StrAppendFormat(
      &svg,
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n<text x=\"%.1f\" "
      "y=\"%.1f\">time of a step</text>\n",
      (kLeft + kWidth - kRight) / 2, kHeight - 8, AxisTitle(axis), 6.0, kTop - 14);
  return svg;
}

std::string FigureText(const ParetoResult& result, const std::vector<PointPage>& pages) {
  std::vector<double> measures, seconds;
  for (const ParetoPoint& point : result.points) {
    measures.push_back(FindMeasure(point, result.axis));
    seconds.push_back(point.plan.step_seconds);
  }
  const bool bytes = result.axis == ParetoAxis::kBytes;
  const double unit = bytes && std::ranges::max(measures) >= (1 << 30) ? 1 << 30
                      : bytes                                          ? 1 << 20
                                                                       : 1;
  const Axis x = MakeAxis(measures, unit, result.axis != ParetoAxis::kCost);
  const Axis y = MakeAxis(seconds, 1, /*binary=*/false);
  std::string line, dots;
  int number = 0;
  for (size_t i = 0; i < result.points.size(); ++i) {
    const ParetoPoint& point = result.points[i];
    const double at_x = X(x, measures[i]), at_y = Y(y, seconds[i]);
    const std::string title =
        absl::StrCat(TimeText(seconds[i]), ", ", MeasureText(measures[i], result.axis), ": ",
                     CandidateFlags(point.plan.candidate));
    std::string dot = absl::StrFormat(
        "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>%s</title></circle>",
        point.on_front ? "front" : "other", at_x, at_y, point.on_front ? 5 : 3, Escape(title));
    if (point.on_front) {
      absl::StrAppendFormat(&dot, "<text x=\"%.1f\" y=\"%.1f\">%d</text>", at_x + 8, at_y - 6,
                            ++number);
      absl::StrAppendFormat(&line, "%.1f,%.1f ", at_x, at_y);
    }
    absl::StrAppend(
        &dots,
        pages[i].link.empty() ? dot : absl::StrCat("<a href=\"", pages[i].link, "\">", dot, "</a>"),
        "\n");
  }
  return absl::StrFormat("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"plans\">\n",
                         kWidth, kHeight) +
         AxesText(x, y, result.axis) + "<polyline class=\"line\" points=\"" + line + "\"/>\n" +
         dots + "</svg>\n";
}

// A row of figures for each plan of the front, and below it the command that makes it.
std::string PageTable(const ResultFrame& frame, const ParetoResult& result,
                      const std::vector<PointPage>& pages) {
  const bool priced =
      std::ranges::any_of(result.points, [](const ParetoPoint& point) { return point.cost > 0; });
  const int columns = priced ? 6 : 5;
  std::string text = absl::StrCat(
      "<table>\n<tr><th></th><th>devices</th><th>step</th><th>tokens/s</th><th>memory</th>",
      priced ? "<th>cost</th>" : "", "</tr>\n");
  int number = 0;
  for (size_t i = 0; i < result.points.size(); ++i) {
    const ParetoPoint& point = result.points[i];
    if (!point.on_front) continue;
    const std::string name = absl::StrCat("plan ", ++number);
    absl::StrAppend(
        &text, "<tr class=\"plan\"><td>",
        pages[i].link.empty() ? name
                              : absl::StrCat("<a href=\"", pages[i].link, "\">", name, "</a>"),
        "</td><td>", DigitsText(point.devices), "</td><td>", TimeText(point.plan.step_seconds));
    absl::StrAppend(&text, "</td><td>",
                    DigitsText(static_cast<int64_t>(point.plan.tokens_a_second)), "</td><td>",
                    ShortBytesText(point.plan.bytes),
                    priced ? absl::StrFormat("</td><td>%.2f", point.cost) : "", "</td></tr>\n");
    absl::StrAppend(&text, "<tr><td class=\"flags\" colspan=\"", columns,
                    "\"><button type=\"button\">copy</button><code>oneflow compile ",
                    Escape(PointFlags(frame, point)), "</code></td></tr>\n");
    if (!pages[i].why_no_plan.empty()) {
      absl::StrAppend(&text, "<tr><td class=\"flags\" colspan=\"", columns,
                      "\">no plan is written: ", Escape(pages[i].why_no_plan), "</td></tr>\n");
    }
  }
  return text + "</table>\n";
}

// A page from a file may not write to the clipboard everywhere: then the text is selected.
constexpr char kScript[] = R"(<script>
"use strict";
for (const button of document.querySelectorAll("td.flags button")) {
  button.addEventListener("click", async () => {
    const code = button.nextSibling;
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "copied";
    } catch (refused) {
      getSelection().selectAllChildren(code);
      button.textContent = document.execCommand("copy") ? "copied" : "selected";
    }
  });
}
</script>
)";

}  // namespace

std::string ParetoPage(const ResultFrame& frame, const ParetoResult& result,
                       const std::vector<PointPage>& pages) {
  std::vector<PlanRow> front;
  for (const ParetoPoint& point : result.points) {
    if (point.on_front) front.push_back({{DigitsText(point.devices)}, &point.plan});
  }
  return absl::StrCat(
      kHead, "<h1>", Escape(frame.model), " on ", Escape(frame.cluster), "</h1>\n<p>",
      "Plans by time of a step and ", AxisTitle(result.axis),
      ". Of each plan of the line no other that was found is better in one and no worse in the "
      "other; its point leads to its page.\n",
      Escape(frame.space), "</p>\n<p>", Escape(BandLines(front) + PriceLines(front)), "</p>\n",
      FigureText(result, pages), PageTable(frame, result, pages), kScript, "</body>\n</html>\n");
}

}  // namespace oneflow
