#include "oneflow_core/print/plan_text.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/runs.h"
#include "oneflow_core/base/time_text.h"
#include "oneflow_core/base/wrap.h"
#include "oneflow_core/plan/address_period.h"
#include "oneflow_core/plan/arenas.h"
#include "oneflow_core/plan/buffers.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/fold.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

// What is edited may be anything: what does not fit is as large as can be.
int64_t Product(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? std::numeric_limits<int64_t>::max() : product;
}

int64_t Sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

int64_t Devices(const proto::Mesh& mesh) {
  int64_t devices = 1;
  for (const auto& axis : mesh.axis()) devices = Product(devices, axis.size());
  return devices;
}

const char* DeviceWord(const proto::Plan& plan) {
  return plan.device_kind() == proto::CUDA ? "GPU" : "device";
}

// "f32[4,256,768]", then what the mesh splits: "/data:0/tensor:2".
std::string LayoutText(const proto::Plan& plan, const proto::Layout& layout,
                       proto::DataType dtype) {
  std::string text = absl::StrCat(DataTypeText(dtype), "[", absl::StrJoin(layout.dim(), ","), "]");
  for (const auto& split : layout.split()) {
    absl::StrAppend(&text, "/", AxisText(plan, split.axis()), ":", split.dim());
  }
  return text;
}

std::string AttrText(const proto::AttrValue& value) {
  switch (value.value_case()) {
    case proto::AttrValue::kI: return absl::StrCat(value.i());
    case proto::AttrValue::kF: return absl::StrFormat("%.9g", value.f());
    case proto::AttrValue::kB: return value.b() ? "true" : "false";
    case proto::AttrValue::kS: return value.s();
    case proto::AttrValue::kInts:
      return absl::StrCat("[", absl::StrJoin(value.ints().value(), ","), "]");
    default: return "?";
  }
}

std::string RegisterLine(const proto::Plan& plan, const proto::Register& r) {
  std::string text = absl::StrCat("  r", r.id(), " ", r.name(), " stage=", r.stage(), " ",
                                  LayoutText(plan, r.layout(), r.dtype()), " slots=", r.slots(),
                                  " x ", r.slot_bytes(), " at ", r.offset());
  if (HasInterleavedBuffers(r))
    absl::StrAppend(&text, " buffers=", BufferCount(r), " every ", BufferStride(r));
  if (r.first_buffer() != 0) absl::StrAppend(&text, " first_buffer=", r.first_buffer());
  if (r.fill_mode() == proto::Register::ACCUMULATE) absl::StrAppend(&text, " accumulate");
  if (r.fill_mode() == proto::Register::UPDATE) absl::StrAppend(&text, " update");
  if (r.fires_per_fill() != 1) absl::StrAppend(&text, " fires_per_fill=", r.fires_per_fill());
  return text + "\n";
}

std::string InputText(const proto::Input& input) {
  std::string text = absl::StrCat("r", input.register_());
  if (input.fires_per_read() != 1) absl::StrAppend(&text, "/", input.fires_per_read());
  if (input.initial_fills() != 0) absl::StrAppend(&text, "+", input.initial_fills());
  return text;
}

std::string ActorLine(const proto::Plan& plan, const proto::Actor& actor) {
  std::string text = absl::StrCat("  a", actor.id(), " ", actor.name(), " ", actor.kernel(),
                                  " stage=", actor.stage());
  for (const proto::Input& input : actor.input()) absl::StrAppend(&text, " ", InputText(input));
  absl::StrAppend(&text, " ->");
  for (int id : actor.output()) absl::StrAppend(&text, " r", id);
  std::map<std::string, std::string> attrs;
  for (const auto& [key, value] : actor.attr()) attrs[key] = AttrText(value);
  for (const auto& [key, value] : attrs) absl::StrAppend(&text, " ", key, "=", value);
  if (actor.has_workspace()) absl::StrAppend(&text, " workspace=r", actor.workspace());
  if (actor.has_exchange()) absl::StrAppend(&text, " group=", GroupText(plan, actor));
  if (actor.exchange().has_partner()) {
    absl::StrAppend(&text, " partner=a", actor.exchange().partner());
  }
  if (actor.boxing().reduce() == proto::Boxing::SUM) absl::StrAppend(&text, " reduce=sum");
  if (actor.boxing().reduce() == proto::Boxing::MAX) absl::StrAppend(&text, " reduce=max");
  return text + "\n";
}

// "1,024 bytes (1.0 KiB) a step to a GPU of stage 2, the most"; `bytes`, not empty, are by stage.
std::string ReceivedText(const proto::Plan& plan, const std::map<int, double>& bytes) {
  const auto less = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto [least, most] = std::minmax_element(bytes.begin(), bytes.end(), less);
  std::string text = absl::StrCat(BytesText(static_cast<int64_t>(most->second)), " a step to a ",
                                  DeviceWord(plan));
  if (StageCount(plan) <= 1) return text;
  const bool alike =
      std::cmp_equal(bytes.size(), StageCount(plan)) && least->second == most->second;
  if (alike) return text + " of each stage";
  return absl::StrCat(text, " of stage ", most->first, ", the most");
}

// Communication of one step, by kernel: actors of all stages, and bytes that one device receives.
std::string BoxingText(const proto::Plan& plan, const proto::Program& program) {
  const proto::ProgramFacts& facts = FindFacts(plan, program);
  const std::vector<double> firings = FiringsPerStep(program);
  std::map<std::string, std::pair<int, std::map<int, double>>> sums;
  for (int a = 0; a < program.actor_size(); ++a) {
    if (!program.actor(a).has_boxing()) continue;
    auto& [count, bytes] = sums[FormName(program.actor(a))];
    ++count;
    bytes[program.actor(a).stage()] += FindFacts(facts, a).bytes_moved() * firings[a];
  }
  std::string text;
  for (const auto& [kernel, sum] : sums) {
    const auto& [count, bytes] = sum;
    absl::StrAppend(&text, "    ", kernel, ": ", count, count == 1 ? " actor, " : " actors, ",
                    ReceivedText(plan, bytes), "\n");
  }
  return text;
}

// "    addresses repeat every 3 steps, those of a micro-batch every 4 micro-batches".
std::string PeriodText(const proto::Plan& plan, const proto::Program& program) {
  const auto every = [](int64_t n, const char* one, const char* many) {
    if (n == 0) return absl::StrCat("after more ", many, " than can be counted");
    return n == 1 ? absl::StrCat("every ", one) : absl::StrCat("every ", n, " ", many);
  };
  const AddressPeriod period = FindAddressPeriod(plan, program);
  std::string text = "    addresses repeat " + every(period.steps, "step", "steps");
  if (program.micro_batches() > 1) {
    absl::StrAppend(&text, ", those of a micro-batch ",
                    every(period.micro_batches, "micro-batch", "micro-batches"));
  }
  return text + "\n";
}

std::string ProgramSummary(const proto::Plan& plan, const proto::Program& program) {
  std::string text = absl::StrCat("program ", program.name(), ": ", program.actor_size(),
                                  " actors, ", program.register__size(), " registers");
  if (program.micro_batches() > 1)
    absl::StrAppend(&text, ", ", program.micro_batches(), " micro-batches");
  if (program.micro_batch_size() > 1)
    absl::StrAppend(&text, " of ", program.micro_batch_size(), " sequences");
  if (program.steps_a_round() > 1)
    absl::StrAppend(&text, ", ", program.steps_a_round(), " steps a round");
  text += "\n";
  for (int s = 0; s < StageCount(plan); ++s) {
    for (const proto::Stream& stream : program.stream()) {
      if (stream.stage() != s || stream.kind() != proto::Stream::COMPUTE) continue;
      absl::StrAppend(&text, "    stage ", s, ": ", OrderText(program, stream), "\n");
    }
  }
  return text + PeriodText(plan, program) + BoxingText(plan, program);
}

std::string Header(const proto::Plan& plan) {
  const int64_t devices = Devices(plan.mesh());
  return absl::StrCat(
      "plan of ", plan.model(), ", version ", plan.version(), ", fingerprint ", plan.fingerprint(),
      "\nmesh ", MeshText(plan.mesh()), ": ", devices, " ", DeviceWord(plan),
      devices == 1 ? ", " : "s, ", StageCount(plan), StageCount(plan) == 1 ? " stage" : " stages",
      "; batch ", plan.recipe().batch(), " in ", plan.recipe().micro_batches(),
      plan.recipe().micro_batches() == 1 ? " micro-batch" : " micro-batches", ", schedule ",
      ScheduleName(plan), plan.recipe().precision() == proto::BF16 ? ", precision bf16" : "",
      plan.recipe().residual() == proto::BF16 ? ", residual bf16" : "", "\n");
}

// "dropout: 25 ops, rate 0.1; in program train only"; nothing where the graph has none.
std::string DropoutText(const proto::Graph& graph) {
  std::set<double> rates;
  int ops = 0;
  for (const proto::Op& op : graph.op()) {
    const auto rate = op.attr().find("rate");
    if (rate == op.attr().end()) continue;
    rates.insert(rate->second.f());
    ++ops;
  }
  if (ops == 0) return "";
  return absl::StrCat("dropout: ", ops, ops == 1 ? " op" : " ops", ", rate ",
                      absl::StrJoin(rates, ", "), "; in program train only\n");
}

std::string MemoryText(const proto::Plan& plan) {
  std::string text;
  for (int arena = 0; arena < plan.memory_size(); ++arena) {
    const proto::StageMemory& m = plan.memory(arena);
    if (m.kind() == proto::HOST) {
      const bool cpu = plan.device_kind() == proto::CPU;
      absl::StrAppend(&text, cpu ? "memory" : "pinned memory", " of the host for a ",
                      DeviceWord(plan), " of stage ", m.stage(), ": ", BytesText(m.arena_bytes()),
                      " = weights and optimizer ", BytesText(m.persistent_bytes()), " + registers ",
                      BytesText(m.register_bytes()), "\n");
      continue;
    }
    absl::StrAppend(&text, "memory of a ", DeviceWord(plan), " of stage ", m.stage(), ": ",
                    BytesText(m.arena_bytes()), " = weights and optimizer ",
                    BytesText(m.persistent_bytes()), " + registers and workspaces ",
                    BytesText(m.register_bytes()), "; lower bound ",
                    BytesText(LowerBoundBytes(plan, arena)), "\n");
  }
  return text;
}

// "F", "F×2", "(B F)×3".
std::string TimesText(const std::vector<std::string>& names, int64_t times) {
  std::string text = absl::StrJoin(names, " ");
  if (times == 1) return text;
  const bool single = names.size() == 1 && !absl::StrContains(text, "×");
  return single ? absl::StrCat(text, "×", times) : absl::StrCat("(", text, ")×", times);
}

// Facts that hold for all layers share a line: "h.*.attn.add is S(0) on data: ...; 12 times".
std::string NotesText(const proto::Plan& plan) {
  std::vector<NumberedText> notes;
  for (const std::string& note : plan.facts().note()) {
    const size_t name = std::min(note.find(' '), note.size());
    notes.push_back({note.substr(0, name), note.substr(name)});
  }
  std::string text;
  for (const std::string& line : FoldedLines(notes)) absl::StrAppend(&text, "    ", line, "\n");
  return text;
}

}  // namespace

std::string DataTypeText(proto::DataType type) {
  switch (type) {
    case proto::F32: return "f32";
    case proto::F64: return "f64";
    case proto::I32: return "i32";
    case proto::BF16: return "bf16";
    case proto::U8: return "u8";
    default: return "?";
  }
}

std::string KindText(proto::Stream::Kind kind) {
  switch (kind) {
    case proto::Stream::COMPUTE: return "compute";
    case proto::Stream::EXCHANGE: return "exchange";
    case proto::Stream::HOST: return "host";
    case proto::Stream::COPY: return "copy";
    case proto::Stream::HOST_COMPUTE: return "host compute";
    default: return "?";
  }
}

std::string GroupText(const proto::Plan& plan, const proto::Actor& actor) {
  if (!actor.has_exchange()) return "";
  const int group = actor.exchange().group();
  return group >= 0 && group < plan.group_size() ? plan.group(group).name() : "?";
}

std::string MeshText(const proto::Mesh& mesh) {
  const auto add = [](std::string* text, const proto::Mesh::Axis& axis) {
    absl::StrAppend(text, axis.name(), "=", axis.size());
  };
  return mesh.axis().empty() ? "1" : absl::StrJoin(mesh.axis(), ",", add);
}

std::string AxisText(const proto::Plan& plan, int axis) {
  const bool known = axis >= 0 && axis < plan.mesh().axis_size();
  return known ? plan.mesh().axis(axis).name() : "?";
}

// A run may be long and repeat itself inside, as rounds of interleaved chunks do; and runs may
// repeat in turn, as steps of a round do.
std::string OrderText(const proto::Program& program, const proto::Stream& stream) {
  const auto name = [&](int s) -> std::string {
    return s >= 0 && s < program.segment_size() ? program.segment(s).name() : "?";
  };
  std::vector<std::string> outer, texts;
  for (const proto::OrderRun& run : stream.order()) {
    const std::vector<int> segments(run.segment().begin(), run.segment().end());
    std::vector<std::string> inner;
    for (const Run& r : FindRuns(segments)) {
      std::vector<std::string> names;
      for (size_t i = r.begin; i < r.begin + r.length; ++i) names.push_back(name(segments[i]));
      inner.push_back(TimesText(names, r.repeat));
    }
    outer.push_back(TimesText(inner, run.repeat()));
  }
  for (const Run& r : FindRuns(outer)) {
    const auto begin = outer.begin() + static_cast<int64_t>(r.begin);
    texts.push_back(TimesText({begin, begin + static_cast<int64_t>(r.length)}, r.repeat));
  }
  return absl::StrJoin(texts, " ");
}

std::string SizeText(double bytes) {
  static constexpr const char* kUnits[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  for (; std::abs(bytes) >= 1024 && unit + 1 < std::size(kUnits); ++unit) bytes /= 1024;
  return absl::StrFormat("%.*f %s", unit == 0 ? 0 : 1, bytes, kUnits[unit]);
}

std::string BytesText(int64_t bytes) {
  const std::string text = DigitsText(bytes) + " bytes";
  if (bytes < 1024) return text;
  return absl::StrCat(text, " (", SizeText(static_cast<double>(bytes)), ")");
}

std::string KeptText(int64_t bytes) {
  if (bytes == 0) return "";
  return absl::StrCat(", ", SizeText(static_cast<double>(bytes)), " kept for libraries");
}

int64_t ParameterCount(const proto::Plan& plan, bool trained) {
  int64_t elements = 0;
  for (const proto::Variable& v : plan.variable()) {
    if (absl::EndsWith(v.name(), "/m") || absl::EndsWith(v.name(), "/v")) continue;  // of AdamW
    if (trained && v.read_only()) continue;
    int64_t n = 1;
    for (int64_t d : v.layout().dim()) n = Product(n, d);
    elements = Sum(elements, n);
  }
  return elements;
}

std::string PlanSummary(const proto::Plan& plan) {
  std::string text = Header(plan) + DropoutText(plan.graph()) + MemoryText(plan);
  for (const proto::Program& program : plan.program()) text += ProgramSummary(plan, program);
  if (plan.facts().note_size() > 0) {
    text += "inferred (S(i) splits dimension i, B is replicated, P a part of the sum):\n";
  }
  return text + NotesText(plan);
}

std::string PlanText(const proto::Plan& plan, std::string_view only) {
  std::string text = Header(plan) + MemoryText(plan);
  text += "persistent:\n";
  for (const proto::Register& r : plan.persistent()) text += RegisterLine(plan, r);
  for (const proto::Program& program : plan.program()) {
    if (!only.empty() && program.name() != only) continue;
    absl::StrAppend(&text, "program ", program.name(), ": micro_batches=", program.micro_batches(),
                    " of ", program.micro_batch_size());
    if (program.steps_a_round() > 1)
      absl::StrAppend(&text, " steps_a_round=", program.steps_a_round());
    text += "\n";
    for (const proto::Register& r : program.register_()) text += RegisterLine(plan, r);
    for (const proto::Actor& a : program.actor()) text += ActorLine(plan, a);
    for (const proto::Segment& s : program.segment()) {
      absl::StrAppend(&text, "  segment ", s.name(), " stage=", s.stage(), ":");
      for (int a : s.actor()) absl::StrAppend(&text, " a", a);
      text += "\n";
    }
    for (const proto::Stream& s : program.stream()) {
      absl::StrAppend(&text, "  stream ", s.name(), " stage=", s.stage(),
                      s.kind() == proto::Stream::COMPUTE ? "" : " " + KindText(s.kind()), ": ",
                      OrderText(program, s), "\n");
    }
    for (const proto::IssueOrder& issue : program.issue()) {
      absl::StrAppend(&text, "  issue stage=", issue.stage(), ":");
      for (const proto::ActorRun& run : issue.run()) {
        std::vector<std::string> names;
        for (int a : run.actor()) names.push_back(absl::StrCat("a", a));
        absl::StrAppend(&text, " ", TimesText(names, run.repeat()));
      }
      text += "\n";
    }
  }
  return WrapLines(text);
}

}  // namespace oneflow
