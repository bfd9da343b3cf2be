#include "planning/search/pareto_page.h"

#include <algorithm>
#include <cmath>

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
p { color: var(--quiet); margin: 0.3em 0; white-space: pre-line; }
a { color: var(--front); }
svg { background: var(--chart); border: 1px solid var(--rule); display: block; width: 100%; margin: 1em 0; }
svg text { font: 11px system-ui, sans-serif; fill: var(--text); }
.grid { stroke: var(--grid); }
.line { stroke: var(--front); fill: none; }
.front { fill: var(--front); }
.other { fill: var(--other); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: 2px 12px 2px 0; border-bottom: 1px solid var(--rule); white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
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

// Numbers from `from` to `to` of an axis to `first` to `last` of the figure.
struct Scale {
  double from, to, first, last;
  double operator()(double value) const {
    return first + (value - from) / (to - from) * (last - first);
  }
};

// From 0 on, with some room behind the largest.
Scale MakeScale(double most, double first, double last) {
  return {0, most > 0 ? 1.05 * most : 1, first, last};
}

constexpr double kWidth = 900, kHeight = 420, kLeft = 80, kRight = 20, kTop = 20, kBottom = 45;
constexpr int kTicks = 5;

std::string AxesText(const Scale& x, const Scale& y, ParetoAxis axis) {
  std::string svg;
  for (int i = 0; i <= kTicks; ++i) {
    const double at_x = x.to * i / kTicks, at_y = y.to * i / kTicks;
    absl::StrAppendFormat(&svg,
                          "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n",
                          x(at_x), x(at_x), y.first, y.last, x(at_x), kHeight - kBottom + 16,
                          MeasureText(at_x, axis));
    absl::StrAppendFormat(&svg,
                          "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
                          "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n",
                          x.first, x.last, y(at_y), y(at_y), kLeft - 6, y(at_y) + 4,
                          TimeText(at_y));
  }
  absl::StrAppendFormat(
      &svg,
      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>\n<text x=\"%.1f\" "
      "y=\"%.1f\">time of a step</text>\n",
      (kLeft + kWidth - kRight) / 2, kHeight - 8, AxisTitle(axis), 6.0, kTop - 6);
  return svg;
}

std::string FigureText(const ParetoResult& result, const std::vector<PointPage>& pages) {
  double most_x = 0, most_y = 0;
  for (const ParetoPoint& point : result.points) {
    most_x = std::max(most_x, FindMeasure(point, result.axis));
    most_y = std::max(most_y, point.plan.step_seconds);
  }
  const Scale x = MakeScale(most_x, kLeft, kWidth - kRight);
  const Scale y = MakeScale(most_y, kHeight - kBottom, kTop);
  std::string line, dots;
  for (size_t i = 0; i < result.points.size(); ++i) {
    const ParetoPoint& point = result.points[i];
    const double measure = FindMeasure(point, result.axis);
    const double at_x = x(measure), at_y = y(point.plan.step_seconds);
    const std::string title =
        absl::StrCat(TimeText(point.plan.step_seconds), ", ", MeasureText(measure, result.axis),
                     ": ", CandidateFlags(point.plan.candidate));
    const std::string dot = absl::StrFormat(
        "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%d\"><title>%s</title></circle>",
        point.on_front ? "front" : "other", at_x, at_y, point.on_front ? 5 : 3, Escape(title));
    absl::StrAppend(
        &dots,
        pages[i].link.empty() ? dot : absl::StrCat("<a href=\"", pages[i].link, "\">", dot, "</a>"),
        "\n");
    if (point.on_front) absl::StrAppendFormat(&line, "%.1f,%.1f ", at_x, at_y);
  }
  return absl::StrFormat("<svg viewBox=\"0 0 %.0f %.0f\" role=\"img\" aria-label=\"plans\">\n",
                         kWidth, kHeight) +
         AxesText(x, y, result.axis) + "<polyline class=\"line\" points=\"" + line + "\"/>\n" +
         dots + "</svg>\n";
}

std::string PageTable(const ResultFrame& frame, const ParetoResult& result,
                      const std::vector<PointPage>& pages) {
  std::string text =
      "<div class=\"wide\"><table>\n<tr><th></th><th class=\"number\">devices</th><th "
      "class=\"number\">step</th><th class=\"number\">tokens/s</th><th "
      "class=\"number\">memory</th><th class=\"number\">cost</th><th>flags of oneflow "
      "compile</th></tr>\n";
  int number = 0;
  for (size_t i = 0; i < result.points.size(); ++i) {
    const ParetoPoint& point = result.points[i];
    if (!point.on_front) continue;
    const std::string name = absl::StrCat("plan ", ++number);
    absl::StrAppend(
        &text, "<tr><td>",
        pages[i].link.empty() ? name
                              : absl::StrCat("<a href=\"", pages[i].link, "\">", name, "</a>"),
        "</td><td class=\"number\">", DigitsText(point.devices), "</td><td class=\"number\">",
        TimeText(point.plan.step_seconds), "</td><td class=\"number\">");
    absl::StrAppend(&text, DigitsText(static_cast<int64_t>(point.plan.tokens_a_second)),
                    "</td><td class=\"number\">", ShortBytesText(point.plan.bytes),
                    "</td><td class=\"number\">",
                    point.cost > 0 ? absl::StrFormat("%.2f", point.cost) : "-", "</td><td><code>",
                    Escape(PointFlags(frame, point)), "</code></td></tr>\n");
    if (!pages[i].why_no_plan.empty()) {
      absl::StrAppend(&text, "<tr><td></td><td colspan=\"6\">no plan is written: ",
                      Escape(pages[i].why_no_plan), "</td></tr>\n");
    }
  }
  return text + "</table></div>\n";
}

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
      FigureText(result, pages), PageTable(frame, result, pages), "</body>\n</html>\n");
}

}  // namespace oneflow
