#include "training/trainer/resume.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "google/protobuf/text_format.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/graph/attr_proto.h"
#include "oneflow_core/graph/graph_text.h"
#include "oneflow_core/recipe/complete_recipe.h"
#include "oneflow_core/recipe/field_text.h"
#include "oneflow_core/tensor/mesh.h"
#include "oneflow_core/tensor/tensor_proto.h"
#include "training/checkpoint/base.h"
#include "training/checkpoint/old_train.h"
#include "training/hugging_face/adapter_config.h"
#include "training/hugging_face/find_model.h"

namespace oneflow {
namespace {

// "--batch 8, now 4; --clip 1, now 0": what differs of what is compared.
class Differences {
 public:
  void Compare(const std::string& name, const std::string& was, const std::string& now,
               const char* effect = "") {
    if (was == now) return;
    if (!text_.empty()) text_ += "; ";
    text_ += (name.empty() ? "" : name + " ") + was + ", now " + now + effect;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

std::string Text(const google::protobuf::Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(message, &text);
  if (text.ends_with(' ')) text.pop_back();
  return text;
}

std::string TypeName(proto::DataType type) {
  const absl::StatusOr<DType> dtype = DTypeFromProto(type, "");
  return dtype.ok() ? std::string(Name(*dtype)) : std::to_string(type);
}

// The part of a choice that moves bits; its default where it is not said.
std::string ValueText(const Row& row, const google::protobuf::Message& message) {
  const auto* recipe = dynamic_cast<const proto::Recipe*>(&message);
  if (recipe != nullptr && row.moves != nullptr) return row.moves(*recipe);
  if (HasField(row, message)) return FieldText(row, message);
  return row.default_text.empty() ? "none" : std::string(row.default_text);
}

// `all_known`: a choice of which `was` says nothing was not made.
void CompareChoices(std::span<const Row> rows, const google::protobuf::Message& was,
                    const google::protobuf::Message& now, bool all_known, Differences* all) {
  for (const Row& row : rows) {
    if (row.bits == Bits::kNone || !(all_known || HasField(row, was))) continue;
    all->Compare(absl::StrCat("--", ToAbsl(row.name)), ValueText(row, was), ValueText(row, now),
                 row.bits == Bits::kSums ? " (sums in another order)" : "");
  }
}

std::string Numbers(const RunFacts& was, const RunFacts& now) {
  Differences all;
  // The recipe of a plan has all defaults; that of an older checkpoint (old_train.h) has not.
  const bool complete = DifferingRows(RecipeRows(), was.recipe, WithDefaults(was.recipe)).empty();
  CompareChoices(RecipeRows(), was.recipe, now.recipe, complete, &all);
  CompareChoices(OptimizerRows(), was.optimizer, now.optimizer, false, &all);
  return all.text();
}

// The properties of an op that determine its results, by name; none if there is no such op. The
// stage, recomputation and, once there is a checkpoint, initial values of variables do not matter.
std::map<std::string, std::string> ListProperties(const proto::Op* op) {
  std::map<std::string, std::string> properties;
  if (op == nullptr) return properties;
  // Masks are the same bits, stored or made again.
  properties["kind"] = op->kind() == "stored_dropout" ? "dropout" : op->kind();
  std::string& inputs = properties["input"];
  for (const std::string& input : op->input()) inputs += (inputs.empty() ? "" : " ") + input;
  if (const absl::StatusOr<AttrMap> attrs = AttrsFromProto(op->attr(), op->name()); attrs.ok()) {
    for (const auto& [name, attr] : *attrs) properties[name] = ToString(attr);
  }
  if (op->kind() == "variable") {
    properties.erase("init");
    properties.erase("init_value");
  }
  for (const proto::NdSbp& sbp : op->sbp()) properties["sbp"] += "{" + Text(sbp) + "}";
  Dims sizes;  // names of dimensions do not matter
  for (const auto& dim : op->shape().dim()) sizes.push_back(dim.size());
  properties["shape"] = ToString(sizes);
  properties["dtype"] = TypeName(op->dtype());
  return properties;
}

// The first difference, of a kind before one of an input: "kind none, now dropout".
std::string Difference(const proto::Op* was, const proto::Op* now) {
  const auto before = ListProperties(was), after = ListProperties(now);
  if (before == after) return "";
  std::set<std::string> names = {"kind"};
  for (const auto& [name, value] : before) names.insert(name);
  for (const auto& [name, value] : after) names.insert(name);
  const auto value = [](const auto& properties, const std::string& name) {
    const auto it = properties.find(name);
    return it == properties.end() || it->second.empty() ? "none" : it->second;
  };
  Differences first;
  first.Compare("kind", value(before, "kind"), value(after, "kind"));
  for (const std::string& name : names) {
    if (first.text().empty()) first.Compare(name, value(before, name), value(after, name));
  }
  return first.text();
}

// The layouts that the graph states for its training; empty if they are inferred.
std::string Layouts(const proto::Graph& graph) {
  std::string text;
  for (const proto::OpLayout& layout : graph.layout()) {
    if (layout.program() == "train") text += "{" + Text(layout) + "}";
  }
  return text;
}

std::string Graphs(const proto::Graph& was, const proto::Graph& now) {
  std::map<std::string_view, std::pair<const proto::Op*, const proto::Op*>> ops;
  for (const proto::Op& op : was.op()) ops[op.name()].first = &op;
  for (const proto::Op& op : now.op()) ops[op.name()].second = &op;
  std::string first;
  int64_t others = 0;
  const auto look = [&](const proto::Op* before, const proto::Op* after) {
    const std::string difference = Difference(before, after);
    if (difference.empty()) return;
    if (!first.empty()) ++others;
    if (first.empty()) first = "op " + (after ? after : before)->name() + ": " + difference;
  };
  for (const proto::Op& op : now.op()) look(ops[op.name()].first, &op);
  for (const proto::Op& op : was.op()) {
    if (ops[op.name()].second == nullptr) look(&op, nullptr);
  }
  Differences loss;
  if (first.empty()) loss.Compare("loss", was.loss(), now.loss());
  const std::string before = Layouts(was), after = Layouts(now);
  if (first.empty() && before != after) {
    loss.Compare("layouts", before.empty() ? "inferred" : "stated",
                 after.empty()    ? "inferred"
                 : before.empty() ? "stated"
                                  : "stated otherwise");
  }
  if (others > 0) first += " (and " + std::to_string(others) + " more)";
  return first.empty() ? loss.text() : first;
}

constexpr char kNotComplete[] = "it has no manifest.json, so it is not complete";

// A checkpoint that is not gone on from.
struct Skipped {
  std::string folder, cause;
};

void WarnOfSkipped(const Skipped& skipped, const std::string& used, const Notice& notice) {
  Notify(notice, absl::StrCat("warning: ", skipped.folder, " is skipped: ", skipped.cause, "; ",
                              used, " is used instead"));
}

// An error without its hint if that is to use another checkpoint, because another one is used.
std::string FindCause(const absl::Status& status) {
  absl::string_view cause = status.message();
  absl::ConsumeSuffix(&cause, "; use another checkpoint");
  return std::string(cause);
}

// The sizes of its inputs become those of `from`.
void TakeInputs(const proto::Graph& from, proto::Graph* graph) {
  std::map<std::string_view, const proto::Op*> inputs;
  for (const proto::Op& op : from.op()) {
    if (op.kind() == "input") inputs[op.name()] = &op;
  }
  for (proto::Op& op : *graph->mutable_op()) {
    const auto input = inputs.find(op.name());
    if (input != inputs.end()) *op.mutable_shape() = input->second->shape();
  }
}

}  // namespace

RunFacts CollectFacts(const CheckpointReader& checkpoint) {
  return {checkpoint.recipe(), checkpoint.optimizer(), checkpoint.graph(), checkpoint.tokens()};
}

RunFacts CollectFacts(const proto::Plan& plan, const proto::Optimizer& optimizer, int64_t tokens) {
  return {plan.recipe(), optimizer, plan.graph(), tokens};
}

std::vector<std::string> ChangesOfRun(const RunFacts& was, const RunFacts& now) {
  Differences tokens;
  if (was.tokens > 0 && now.tokens > 0) {
    tokens.Compare("tokens", std::to_string(was.tokens), std::to_string(now.tokens));
  }
  std::vector<std::string> changes;
  for (const auto& [kind, difference] :
       {std::pair("with other numbers: ", Numbers(was, now)),
        std::pair("on other data: ", tokens.text()),
        std::pair("with another graph: ", Graphs(was.graph, now.graph))}) {
    if (!difference.empty()) changes.push_back(kind + difference);
  }
  return changes;
}

void WarnOfChanges(const std::string& folder, const RunFacts& was, const RunFacts& now,
                   const Notice& notice) {
  for (const std::string& change : ChangesOfRun(was, now)) {
    Notify(notice, absl::StrCat("warning: ", folder, " was trained ", change));
  }
}

void WarnOfGraph(const std::string& folder, const proto::Graph& graph, const proto::Plan& plan,
                 const Notice& notice) {
  RunFacts was, now;
  was.graph = graph;
  now.graph = plan.graph();
  if (IsModelFolder(folder)) TakeInputs(plan.graph(), &was.graph);
  WarnOfChanges(folder, was, now, notice);
}

absl::Status CheckTokenizer(const std::string& folder, const TokenizerId& was,
                            const std::string& where, const TokenizerId& now,
                            const Notice& notice) {
  if (was.known() && now.known()) {
    if (was.SameAs(now)) return absl::OkStatus();
    return InputError(where,
                      "the tokenizer is " + now.Text() + ", but " + folder +
                          " was trained on tokens of " + was.Text(),
                      "use the tokenizer that the model was trained with");
  }
  Notify(notice, absl::StrCat("the tokenizer is not checked: that of ", folder, " is ", was.Text(),
                              ", that of ", where, " is ", now.Text()));
  return absl::OkStatus();
}

absl::Status CheckMixture(const std::string& folder, const MixtureParts& was,
                          const MixtureParts& now) {
  const auto same = [](const MixturePart& a, const MixturePart& b) { return a.SameAs(b); };
  if (std::equal(was.begin(), was.end(), now.begin(), now.end(), same)) return absl::OkStatus();
  const auto text = [](const MixtureParts& parts) {
    std::string list;
    for (const MixturePart& part : parts) {
      absl::StrAppend(&list, list.empty() ? "" : ", ", part.file, ":", part.weight, " (",
                      part.tokens, " tokens)");
    }
    return list.empty() ? std::string("data without weights") : list;
  };
  return InputError("--data",
                    "is " + text(now) + ", but " + folder + " was trained on " + text(was),
                    "resume with the same files and weights, which order the data");
}

absl::Status CheckRecords(const std::string& folder, const RecordsId& was, const RecordsId& now) {
  if (was == now) return absl::OkStatus();
  const auto text = [](const RecordsId& records) {
    if (records.count == 0) return std::string("samples that begin at any position");
    return absl::StrCat(records.epochs ? "epochs of " : "draws from ", records.count, " records");
  };
  if (was.epochs != now.epochs || (was.count == 0) != (now.count == 0)) {
    return InputError(
        was.epochs != now.epochs ? "--epochs" : "--data",
        absl::StrCat("the run reads ", text(now), ", but ", folder, " was trained on ", text(was)),
        "resume as that run began, or begin a new one by --init_from=" + folder);
  }
  return InputError(
      "--data",
      absl::StrCat("has ", now.count, " records, but ", folder, " was trained on ",
                   was.count == now.count ? "others of that number" : absl::StrCat(was.count)),
      "resume with the same files, sequence, --documents, --eval_fraction and --long_chats, which "
      "order the data, or begin a new run by --init_from=" +
          folder);
}

absl::StatusOr<bool> GoesOn(std::string_view resume, const std::string& dir, const Notice& notice) {
  if (resume != "true" && resume != "auto") return false;
  const absl::StatusOr<std::string> latest = LatestCheckpoint(dir);
  if (resume == "true") {
    RETURN_IF_ERROR(latest.status());
    return true;
  }
  std::error_code error;
  if (!latest.ok() && std::filesystem::exists(dir + "/manifest.json", error)) {
    return latest.status();
  }
  if (latest.ok()) return true;
  Notify(notice,
         absl::StrCat("--resume=auto: ", dir, " holds no complete checkpoint: the run begins"));
  return false;
}

absl::StatusOr<std::string> CheckpointToUse(const std::string& dir, const Notice& notice) {
  std::string skipped;
  ASSIGN_OR_RETURN(std::string folder, LatestCheckpoint(dir, &skipped));
  if (!skipped.empty()) WarnOfSkipped({skipped, kNotComplete}, folder, notice);
  return folder;
}

absl::StatusOr<std::string> FindStepFolder(const std::string& flag, const std::string& path,
                                           const Notice& notice) {
  if (path.empty()) return InputError(flag, "is missing", "write " + flag + "=run/ckpt");
  std::error_code ignored;  // the reader of the file reports an error
  if (std::filesystem::exists(std::filesystem::path(path) / "manifest.json", ignored)) return path;
  return CheckpointToUse(path, notice);
}

absl::StatusOr<std::string> FindWeightsFolder(const std::string& flag, const std::string& path,
                                              const Notice& notice) {
  if (IsModelFolder(path)) return FindModel(path);
  if (IsAdapterFolder(path)) {
    return InputError(
        flag + "=" + path, "is an adapter of PEFT",
        "make a checkpoint of it: oneflow import --from=" + path + " --base=FOLDER --out=FOLDER");
  }
  return FindStepFolder(flag, path, notice);
}

absl::Status VerifyCheckpoint(const std::string& folder, const proto::Plan& plan, RankRange ranks,
                              const std::string& base) {
  const ReaderOptions options = {.base = base, .verifies_base = ranks.begin == 0};
  ASSIGN_OR_RETURN(const auto reader, CheckpointReader::Open(folder, options));
  const proto::Base &was = reader->graph().base(), &now = plan.graph().base();
  if (was.hash() != now.hash()) {
    const auto text = [](const proto::Base& of) {
      return of.path().empty() ? std::string("no base") : "the base " + of.path();
    };
    return InputError(folder, "was trained on " + text(was) + ", but the run has " + text(now),
                      "resume with the graph of that run, or begin a new one by --init_from");
  }
  RETURN_IF_ERROR(reader->CheckSameVariables(plan));
  return reader->VerifyPieces(plan, ranks);
}

absl::StatusOr<std::string> ChooseCheckpoint(
    const std::string& dir, const std::function<absl::Status(const std::string& folder)>& verifies,
    const Notice& notice) {
  RETURN_IF_ERROR(LatestCheckpoint(dir).status());
  ASSIGN_OR_RETURN(const std::vector<ListedCheckpoint> all, ListCheckpoints(dir));
  std::vector<Skipped> left;
  absl::Status last;
  for (const ListedCheckpoint& listed : all) {
    if (!listed.complete) {
      left.push_back({listed.folder, kNotComplete});
      continue;
    }
    const absl::Status status = verifies(listed.folder);
    if (status.ok()) {
      for (const Skipped& skipped : left) WarnOfSkipped(skipped, listed.folder, notice);
      return listed.folder;
    }
    if (!absl::IsDataLoss(status) && !absl::IsNotFound(status)) return status;
    left.push_back({listed.folder, FindCause(status)});
    last = status;
  }
  if (left.size() == 1) return last;
  std::string list = dir + ": none of its checkpoints can be used:";
  for (const Skipped& skipped : left) list += "\n  " + skipped.folder + ": " + skipped.cause;
  return absl::DataLossError(list);
}

}  // namespace oneflow
