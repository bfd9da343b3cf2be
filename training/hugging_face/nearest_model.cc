#include "training/hugging_face/nearest_model.h"

#include <glog/logging.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/model/model.h"

namespace oneflow {
namespace {

using Norm = Architecture::Norm;
using Positions = Architecture::Positions;
using QkNorm = Architecture::QkNorm;

constexpr int64_t kWidthMultiple = 64;   // of the MLP that replaces one without a gate
constexpr int64_t kMostExpertGroup = 8;  // experts stay a multiple of it, to be split
// A part of the layers without experts up to which the number of experts stays.
constexpr double kFewDenseLayers = 0.1;

// Changes an architecture into one that can be built, a difference at a time: each has the
// parameters and FLOPs by which its change changes the whole, so that they add up.
class Approach {
 public:
  explicit Approach(const Architecture& architecture)
      : a(architecture), size_(CountArchitecture(a)) {}

  void Change(bool differs, const std::string& what, const std::function<void()>& change) {
    if (!differs) return;
    change();
    const ArchitectureSize size = CountArchitecture(a);
    differences.push_back(
        {what, size_.parameters - size.parameters, size_.flops_a_token - size.flops_a_token});
    size_ = size;
  }

  Architecture a;
  std::vector<ModelDifference> differences;

 private:
  ArchitectureSize size_;
};

std::string PartText(int64_t part, int64_t all) { return absl::StrCat(part, " of ", all); }

std::string NormText(Norm norm) {
  switch (norm) {
    case Norm::kRms: return "RMS norms";
    case Norm::kLayer: return "layer norms";
    case Norm::kLayerWithoutBias: return "layer norms without biases";
    case Norm::kWithoutWeights: return "layer norms without weights";
  }
  return "";
}

std::string PositionsText(Positions positions) {
  switch (positions) {
    case Positions::kRotary: return "rotary positions";
    case Positions::kLearned: return "learned positions";
    case Positions::kAlibi: return "ALiBi";
    case Positions::kNone: return "no positions";
  }
  return "";
}

bool IsMixture(const Architecture& a) { return a.experts > 0 && a.dense_layers < a.layers; }

// True of a model that is nearer to GPT than to Llama.
bool IsLikeGpt(const Architecture& a) {
  return !a.gated && !IsMixture(a) && a.latent_rank == 0 && a.linear_layers == 0 &&
         a.groups == a.heads && a.heads * a.head_dim == a.hidden &&
         (a.value_dim == 0 || a.value_dim == a.head_dim) && a.inner == 4 * a.hidden &&
         a.norm != Norm::kRms;
}

// The number of groups, a divisor of the heads, with which attention has about as many parameters
// as before.
int64_t NearestGroups(const Architecture& latent, Architecture grouped) {
  const int64_t wanted = CountArchitecture(latent).parameters;
  int64_t best = 1, least = INT64_MAX;
  for (int64_t groups = 1; groups <= grouped.heads; ++groups) {
    if (grouped.heads % groups != 0) continue;
    grouped.groups = groups;
    const int64_t off = std::abs(CountArchitecture(grouped).parameters - wanted);
    if (off < least) least = off, best = groups;
  }
  return best;
}

int64_t Even(int64_t size) { return size + size % 2; }

void ChangeAttention(Approach& s) {
  Architecture& a = s.a;
  const bool mixed = a.linear_layers > 0;
  s.Change(mixed,
           absl::StrCat("linear attention in ", PartText(a.linear_layers, a.layers),
                        " layers, here softmax attention in all"),
           [&] { a.linear_layers = 0; });
  const int64_t values = a.value_dim > 0 ? a.value_dim : a.head_dim;
  Architecture grouped = a;
  grouped.latent_rank = grouped.query_rank = grouped.rotary_dim = grouped.value_dim = 0;
  grouped.head_dim = Even((a.head_dim + values) / 2);
  if (a.latent_rank > 0) {
    grouped.groups = NearestGroups(a, grouped);
    grouped.rotary_share = 1;
  }
  s.Change(a.latent_rank > 0,
           absl::StrCat("latent attention of rank ", a.latent_rank, ", heads of ", a.head_dim,
                        " for scores and ", values, " for values, here ", a.heads, " heads of ",
                        grouped.head_dim, " in ", grouped.groups, " groups"),
           [&] { a = grouped; });
  s.Change(values != a.head_dim && a.value_dim > 0,
           absl::StrCat("heads of ", a.head_dim, " for scores and ", values, " for values, here ",
                        grouped.head_dim, " for both"),
           [&] { a = grouped; });
  s.Change(a.head_dim % 2 != 0,
           absl::StrCat("heads of ", a.head_dim, " elements, here ", Even(a.head_dim)),
           [&] { a.head_dim = Even(a.head_dim); });
  s.Change(a.gated_attention, "gates of what attention gives, here none",
           [&] { a.gated_attention = false; });
  if (a.windowed_layers >= a.layers) a.windowed_layers = -1;
  if (a.windowed_layers == 0 || a.window == 0) a.window = 0, a.windowed_layers = -1;
  s.Change(a.windowed_layers > 0 && !IsOnePattern(a),
           absl::StrCat("a window of ", a.window, " in ", PartText(a.windowed_layers, a.layers),
                        " layers, here no windows"),
           [&] { a.window = 0, a.windowed_layers = -1; });
}

void ChangeRotary(Approach& s) {
  Architecture& a = s.a;
  s.Change(a.positions != Positions::kRotary, PositionsText(a.positions) + ", here rotary ones",
           [&] { a.positions = Positions::kRotary, a.learned_rows = 0; });
  s.Change(static_cast<int64_t>(a.rotary_share * static_cast<double>(a.head_dim)) == 0,
           absl::StrFormat("rotary positions of %g %% of a head, here of all of it",
                           100 * a.rotary_share),
           [&] { a.rotary_share = 1; });
  s.Change(a.unrotated_layers > 0 && (a.unrotated_layers >= a.layers || !IsOnePattern(a)),
           absl::StrCat("no positions in ", PartText(a.unrotated_layers, a.layers),
                        " layers, here in none"),
           [&] { a.unrotated_layers = 0; });
  s.Change(!a.other_scaling.empty(),
           absl::StrCat("rotary frequencies scaled by ", a.other_scaling, ", here not scaled"),
           [&] { a.other_scaling.clear(); });
}

std::string MlpText(const std::string& activation, bool gated, int64_t width) {
  return absl::StrCat(activation, gated ? " with a gate" : " without a gate", ", width ", width);
}

// 2/3 of a width: a gated MLP of it has about as many parameters.
int64_t GatedWidth(int64_t width) {
  const int64_t two_thirds = (2 * width + 1) / 3;
  if (two_thirds < kWidthMultiple) return std::max<int64_t>(two_thirds, 1);
  return (two_thirds + kWidthMultiple / 2) / kWidthMultiple * kWidthMultiple;
}

void ChangeMlp(Approach& s) {
  Architecture& a = s.a;
  const int64_t width = IsMixture(a) ? a.expert_inner : a.inner;
  const std::string name = IsMixture(a) ? "experts of " : "an MLP of ";
  s.Change(!a.gated,
           absl::StrCat(name, MlpText(a.activation, false, width), ", here ",
                        MlpText(kLlamaActivation, true, GatedWidth(width))),
           [&] {
             a.gated = true, a.activation = kLlamaActivation;
             a.inner = GatedWidth(a.inner), a.expert_inner = GatedWidth(a.expert_inner);
             if (a.shared_inner > 0) a.shared_inner = GatedWidth(a.shared_inner);
           });
  s.Change(a.activation != kLlamaActivation && a.activation != kGptActivation &&
               a.activation != kClampedActivation,
           absl::StrCat("the activation ", a.activation, ", here ", kLlamaActivation),
           [&] { a.activation = kLlamaActivation; });
}

// The number of experts of all layers that have about as many parameters as those of some.
int64_t NearestExperts(const Architecture& a) {
  const double part =
      static_cast<double>(a.layers - a.dense_layers) / static_cast<double>(a.layers);
  if (part >= 1 - kFewDenseLayers) return a.experts;
  const int64_t unit = std::gcd(a.experts, kMostExpertGroup);
  const auto units = static_cast<int64_t>(part * static_cast<double>(a.experts / unit) + 0.5);
  return std::max({unit * units, unit, a.experts_per_token});
}

void ChangeExperts(Approach& s) {
  Architecture& a = s.a;
  const int64_t experts = NearestExperts(a);
  s.Change(a.dense_layers > 0 && !IsOnePattern(a),
           absl::StrCat("an MLP of width ", a.inner, " in place of experts in ",
                        PartText(a.dense_layers, a.layers), " layers, here ", experts,
                        " experts in all"),
           [&] { a.dense_layers = 0, a.experts = experts; });
  if (a.dense_layers == 0) a.inner = 0;
  s.Change(a.shared_gate, "a gate of the MLP beside the experts, here none",
           [&] { a.shared_gate = false; });
  s.Change(a.scores != "softmax" && a.scores != "sigmoid",
           absl::StrCat("scores of experts by ", a.scores, ", here softmax"),
           [&] { a.scores = "softmax"; });
}

void ChangeNorms(Approach& s, Norm norm) {
  Architecture& a = s.a;
  const bool is_gpt = norm != Norm::kRms;
  s.Change(a.norm != norm, absl::StrCat(NormText(a.norm), ", here ", NormText(norm)),
           [&] { a.norm = norm; });
  s.Change(a.parallel, "attention and MLP in parallel, here one after the other",
           [&] { a.parallel = false; });
  s.Change(a.norms_after && is_gpt, "norms of what a branch adds, here of what it reads",
           [&] { a.norms_after = false; });
  s.Change(a.block_norms != 2 && (is_gpt || a.block_norms != 4 || a.norms_after),
           absl::StrCat(a.block_norms, " norms in a block, here 2"), [&] { a.block_norms = 2; });
  s.Change(!a.final_norm, "no norm before the head, here one", [&] { a.final_norm = true; });
  s.Change(a.embedding_norm, "a norm of the embedding, here none",
           [&] { a.embedding_norm = false; });
}

void ChangeEnds(Approach& s) {
  Architecture& a = s.a;
  s.Change(a.embedding_width > 0,
           absl::StrCat("embeddings of width ", a.embedding_width,
                        " and projections to the stream and back, here of ", a.hidden),
           [&] { a.embedding_width = 0; });
  s.Change(a.head_bias, "biases of the head, here none", [&] { a.head_bias = false; });
}

void ChangeToGpt(Approach& s) {
  Architecture& a = s.a;
  ChangeAttention(s);
  s.Change(a.window > 0, absl::StrCat("a window of ", a.window, ", here none"),
           [&] { a.window = 0, a.windowed_layers = -1; });
  s.Change(a.sinks, "a learned sink for each head of attention, here none",
           [&] { a.sinks = false; });
  s.Change(a.qk_norm != QkNorm::kNone, "norms of queries and keys, here none",
           [&] { a.qk_norm = QkNorm::kNone; });
  const bool learned = a.positions == Positions::kLearned;
  s.Change(!learned,
           absl::StrCat(
               a.positions == Positions::kRotary && a.rotary_share != 1
                   ? absl::StrFormat("rotary positions of %g %% of a head", 100 * a.rotary_share)
                   : PositionsText(a.positions),
               ", here ", a.sequence, " learned ones"),
           [&] {
             a.positions = Positions::kLearned;
             a.learned_rows = 0;
             a.rotary_share = 1;
             a.unrotated_layers = 0;
             a.other_scaling.clear();
           });
  s.Change(a.learned_rows > 0 && a.learned_rows != a.sequence,
           absl::StrCat(a.learned_rows, " learned positions, here ", a.sequence),
           [&] { a.learned_rows = a.sequence; });
  a.learned_rows = 0;
  s.Change(a.activation != kGptActivation,
           absl::StrCat("the activation ", a.activation, ", here ", kGptActivation),
           [&] { a.activation = kGptActivation; });
  const bool biased = a.mlp_bias;
  s.Change(a.qkv_bias != biased,
           absl::StrCat("queries, keys and values ", biased ? "without" : "with", " biases, here ",
                        biased ? "with" : "without"),
           [&] { a.qkv_bias = biased; });
  s.Change(a.proj_bias != biased,
           absl::StrCat("the output of attention ", biased ? "without" : "with", " a bias, here ",
                        biased ? "with" : "without"),
           [&] { a.proj_bias = biased; });
  ChangeNorms(s, biased ? Norm::kLayer : Norm::kLayerWithoutBias);
  ChangeEnds(s);
}

void ChangeToLlama(Approach& s) {
  Architecture& a = s.a;
  ChangeAttention(s);
  ChangeRotary(s);
  s.Change(a.norm_offset != 0 && a.qk_norm == QkNorm::kOfAllHeads,
           "weights of the norms of queries and keys for each head, here the same for all",
           [&] { a.qk_norm = QkNorm::kOfHead; });
  ChangeMlp(s);
  s.Change(a.mlp_bias, "biases of the MLP, here none", [&] { a.mlp_bias = false; });
  if (IsMixture(a)) {
    ChangeExperts(s);
  } else {
    a.experts = a.experts_per_token = a.expert_inner = a.shared_inner = a.dense_layers = 0;
  }
  ChangeNorms(s, Norm::kRms);
  ChangeEnds(s);
}

// Above all elements of an architecture, roughly; a count of as many would not fit.
constexpr double kMostElements = 1e17;
double BoundElements(const Architecture& a) {
  double width = 0;
  for (const int64_t size :
       {a.hidden, a.vocab / std::max<int64_t>(a.layers, 1), a.inner, a.expert_inner, a.shared_inner,
        a.query_rank, a.latent_rank, a.rotary_dim, a.embedding_width, a.linear_kernel,
        a.learned_rows / std::max<int64_t>(a.layers, 1)}) {
    width += static_cast<double>(size);
  }
  width += 2 * static_cast<double>(a.heads) * static_cast<double>(a.head_dim + a.value_dim);
  width += static_cast<double>(a.linear_key_heads) * static_cast<double>(a.linear_key_dim);
  width += static_cast<double>(a.linear_value_heads) * static_cast<double>(a.linear_value_dim);
  const double blocks = static_cast<double>(a.layers) * static_cast<double>(1 + a.experts);
  return blocks * width * width;
}

absl::Status CheckSizes(const Architecture& a, const std::string& where) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"layers", a.layers},         {"hidden size", a.hidden}, {"vocabulary", a.vocab},
      {"heads", a.heads},           {"positions", a.sequence}, {"size of a head", a.head_dim},
      {"groups of heads", a.groups}};
  for (const auto& [what, size] : sizes) {
    if (size > 0) continue;
    return InputError(where, absl::StrCat("says no ", what, ", which each decoder has"),
                      "give the configuration of a decoder");
  }
  if (a.heads % a.groups != 0) {
    return InputError(where, absl::StrCat("has ", a.groups, " groups, which do not divide its ",
                                          a.heads, " heads"));
  }
  if (BoundElements(a) > kMostElements) {
    return InputError(where, "has more parameters than can be counted", "correct its sizes");
  }
  const bool mixture = IsMixture(a);
  if ((mixture ? a.expert_inner : a.inner) < 1) {
    return InputError(where, absl::StrCat("says no width of its ", mixture ? "experts" : "MLP"),
                      "give the configuration of a decoder");
  }
  return absl::OkStatus();
}

// "1,234,567", with a sign.
std::string SignedText(int64_t number) {
  std::string digits = absl::StrCat(number < 0 ? -number : number);
  for (auto i = static_cast<int64_t>(digits.size()) - 3; i > 0; i -= 3) digits.insert(i, ",");
  return (number < 0 ? "-" : "+") + digits;
}

}  // namespace

absl::StatusOr<NearestModel> FindNearestModel(const Architecture& architecture,
                                              const std::string& where) {
  RETURN_IF_ERROR(CheckSizes(architecture, where));
  Approach steps(architecture);
  const bool is_gpt = IsLikeGpt(architecture);
  is_gpt ? ChangeToGpt(steps) : ChangeToLlama(steps);
  const absl::StatusOr<proto::Model> model = CompleteModel(SayModel(steps.a, is_gpt));
  RETURN_IF_ERROR(Annotate(model.status(), where + ", in the words of `oneflow model`"));
  NearestModel nearest{.model = *model,
                       .differences = std::move(steps.differences),
                       .theirs = CountArchitecture(architecture),
                       .of_model = CountArchitecture(DescribeModel(*model))};
  CHECK_EQ(nearest.of_model.parameters, CountArchitecture(steps.a).parameters) << where;
  for (const ModelDifference& other : architecture.others) {
    nearest.differences.push_back(other);
    nearest.theirs.parameters += other.parameters;
    nearest.theirs.flops_a_token += other.flops_a_token;
  }
  return nearest;
}

std::vector<std::string> DifferenceLines(std::span<const ModelDifference> differences) {
  std::vector<std::string> lines;
  for (const ModelDifference& difference : differences) {
    std::string line = difference.what;
    if (difference.parameters == 0 && difference.flops_a_token == 0) {
      absl::StrAppend(&line, ": no parameters, no FLOPs");
    } else {
      absl::StrAppend(&line, ": ", SignedText(difference.parameters), " parameters, ",
                      SignedText(4 * difference.parameters), " bytes of them in f32, ",
                      SignedText(static_cast<int64_t>(difference.flops_a_token)), " FLOPs a token");
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

proto::Graph BuildNearestGraph(const NearestModel& nearest, const std::string& name) {
  if (nearest.differences.empty()) return BuildModel(nearest.model, name);
  proto::Graph graph = BuildModel(nearest.model, name + " (approximate)");
  for (const ModelDifference& difference : nearest.differences) {
    graph.add_approximates(difference.what);
  }
  return graph;
}

}  // namespace oneflow
