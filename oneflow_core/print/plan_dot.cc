#include "oneflow_core/print/plan_dot.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/plan/plan_lookup.h"
#include "oneflow_core/print/fold.h"

namespace oneflow {
namespace {

constexpr int kNoLayer = -1;

std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '\n') {
      quoted += "\\n";
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

// The equal layers of a stage from `first` to `last`; kNoLayer: actors of no layer.
struct Box {
  int stage = 0, first = kNoLayer, last = kNoLayer;
};

class Drawing {
 public:
  Drawing(const proto::Plan& plan, const proto::Program& program, bool full)
      : plan_(plan), program_(program), facts_(FindFacts(plan, program)) {
    MakeBoxes(full);
    ChooseActors();
    FindHostActors();
  }

  std::string Text() const {
    return absl::StrCat("digraph ", Quoted(plan_.model() + "." + program_.name()),
                        " {\n  rankdir=TB; node [shape=box, fontname=Helvetica];\n", Stages(),
                        Edges(), "}\n");
  }

 private:
  int FindLayer(const proto::Actor& actor) const {
    const proto::ActorFacts& facts = FindFacts(facts_, actor.id());
    return facts.has_block() ? facts.block() : kNoLayer;
  }

  // Neighbours of a stage with the same actors, but for numbers, share a box.
  void MakeBoxes(bool full) {
    std::map<std::pair<int, int>, std::multiset<std::string>> content;  // by stage and layer
    for (const proto::Actor& actor : program_.actor()) {
      content[{actor.stage(), FindLayer(actor)}].insert(
          absl::StrCat(WithoutNumbers(actor.name()), " ", FormName(actor)));
    }
    const std::multiset<std::string>* before = nullptr;
    for (const auto& [at, actors] : content) {
      const auto [stage, layer] = at;
      const bool joins = !full && before != nullptr && layer != kNoLayer &&
                         boxes_.back().stage == stage && boxes_.back().last != kNoLayer &&
                         boxes_.back().last == layer - 1 && *before == actors;
      if (joins) {
        boxes_.back().last = layer;
      } else {
        boxes_.push_back({stage, layer, layer});
      }
      box_of_[at] = boxes_.size() - 1;
      before = &actors;
    }
  }

  // Each actor is drawn as the first equal one of its box.
  void ChooseActors() {
    std::map<std::tuple<size_t, std::string, std::string, int>, int> known;
    std::map<std::tuple<size_t, int, std::string, std::string>, int> times;  // by layer, too
    for (const proto::Actor& actor : program_.actor()) {
      const int layer = FindLayer(actor);
      const size_t box = box_of_.at({actor.stage(), layer});
      const bool alone = boxes_[box].first == boxes_[box].last;
      std::string plain = alone ? actor.name() : WithoutNumbers(actor.name());
      const int nth = alone ? actor.id() : times[{box, layer, plain, FormName(actor)}]++;
      const int drawn = static_cast<int>(drawn_as_.size());
      const auto [at, is_new] =
          known.emplace(std::tuple(box, std::move(plain), FormName(actor), nth), drawn);
      drawn_as_.push_back(at->second);
      names_[at->second].push_back(actor.name());
    }
  }

  void FindHostActors() {
    for (const proto::Stream& stream : program_.stream()) {
      if (stream.kind() != proto::Stream::HOST_COMPUTE) continue;
      for (const proto::OrderRun& run : stream.order()) {
        for (const int segment : run.segment()) {
          const auto& actors = program_.segment(segment).actor();
          on_host_.insert(actors.begin(), actors.end());
        }
      }
    }
  }

  // True of what the host's processors compute for a device.
  bool ComputesOnHost(int a) const { return on_host_.contains(a); }

  std::string Node(int a) const {
    const proto::Actor& actor = program_.actor(a);
    std::string line = absl::StrCat(
        "      a", a, " [label=", Quoted(Folded(names_.at(a)) + "\n" + FormName(actor)));
    const bool copies = actor.kernel() == "copy_in" || actor.kernel() == "copy_out";
    if (actor.has_boxing()) line += ", style=filled, fillcolor=lightyellow";
    if (copies) line += ", style=filled, fillcolor=lightblue";
    if (ComputesOnHost(a)) line += ", shape=ellipse";
    if (actor.has_exchange()) line += ", color=red";
    return line + "];\n";
  }

  static std::string BoxTitle(const Box& box) {
    if (box.first == box.last) return absl::StrCat("layer ", box.first);
    return absl::StrCat("layers ", box.first, "-", box.last, " x ", box.last - box.first + 1);
  }

  std::string Stages() const {
    std::vector<std::string> nodes(boxes_.size());
    for (const auto& [a, names] : names_) nodes[FindBox(a)] += Node(a);
    std::map<int, std::string> stages;
    for (size_t b = 0; b < boxes_.size(); ++b) {
      std::string& text = stages[boxes_[b].stage];
      if (boxes_[b].first == kNoLayer) {
        text += nodes[b];
        continue;
      }
      absl::StrAppend(&text, "    subgraph cluster_", boxes_[b].stage, "_", boxes_[b].first,
                      " {\n      label=", Quoted(BoxTitle(boxes_[b])), ";\n", nodes[b], "    }\n");
    }
    std::string text;
    for (const auto& [stage, content] : stages) {
      absl::StrAppend(&text, "  subgraph cluster_", stage, " {\n    label=\"stage ", stage, "\";\n",
                      content, "  }\n");
    }
    return text;
  }

  size_t FindBox(int a) const {
    const proto::Actor& actor = program_.actor(a);
    return box_of_.at({actor.stage(), FindLayer(actor)});
  }

  // What leads from one box to itself but between two of its layers.
  bool BetweenLayers(int from, int to) const {
    return FindBox(from) == FindBox(to) &&
           FindLayer(program_.actor(from)) != FindLayer(program_.actor(to));
  }

  std::string Edges() const {
    std::map<int, int> writer;
    for (int a = 0; a < program_.actor_size(); ++a) {
      for (const int r : program_.actor(a).output()) writer[r] = a;
    }
    // By ends, dashed or not, slots, and name without numbers: the names.
    std::map<std::tuple<int, int, bool, int, std::string>, std::vector<std::string>> edges;
    std::set<std::pair<int, int>> sends;
    for (int a = 0; a < program_.actor_size(); ++a) {
      const proto::Actor& actor = program_.actor(a);
      for (const proto::Input& input : actor.input()) {
        const auto from = writer.find(input.register_());
        if (from == writer.end()) continue;  // a variable that nobody writes here
        const proto::Register* reg = FindRegister(plan_, program_, input.register_());
        edges[{drawn_as_[from->second], drawn_as_[a], BetweenLayers(from->second, a), reg->slots(),
               WithoutNumbers(reg->name())}]
            .push_back(reg->name());
      }
      const int partner = actor.exchange().partner();
      const bool sends_to = actor.exchange().has_partner() && actor.kernel() == "send" &&
                            partner >= 0 && partner < program_.actor_size();
      if (sends_to) sends.emplace(drawn_as_[a], drawn_as_[partner]);
    }
    std::string text;
    for (const auto& [edge, names] : edges) {
      const auto& [from, to, dashed, slots, plain] = edge;
      absl::StrAppend(&text, "  a", from, " -> a", to,
                      " [label=", Quoted(absl::StrCat(Folded(names), " x", slots)),
                      dashed ? ", style=dashed" : "", from > to ? ", constraint=false" : "",
                      "];\n");
    }
    for (const auto& [from, to] : sends) {
      absl::StrAppend(&text, "  a", from, " -> a", to, " [color=red];\n");
    }
    return text;
  }

  const proto::Plan& plan_;
  const proto::Program& program_;
  const proto::ProgramFacts& facts_;
  std::vector<Box> boxes_;
  std::map<std::pair<int, int>, size_t> box_of_;   // by stage and layer
  std::vector<int> drawn_as_;                      // by actor
  std::set<int> on_host_;                          // actors that the host's processors compute
  std::map<int, std::vector<std::string>> names_;  // of the actors that are drawn as one
};

}  // namespace

absl::StatusOr<std::string> PlanDot(const proto::Plan& plan, std::string_view name, bool full) {
  ASSIGN_OR_RETURN(const proto::Program* program, FindProgramByFlag(plan, name));
  return Drawing(plan, *program, full).Text();
}

}  // namespace oneflow
