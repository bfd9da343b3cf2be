#include "oneflow_core/base/file_kind.h"

#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/text_format.h>

#include <string>

#include "oneflow_core/base/status.h"
#include "proto/cluster.pb.h"
#include "proto/graph.pb.h"
#include "proto/order.pb.h"
#include "proto/plan.pb.h"
#include "proto/recipe.pb.h"
#include "proto/train.pb.h"

namespace oneflow {
namespace {

// `takes`: who reads files of this kind; `source`: where they come from.
struct Kind {
  std::string_view noun, takes, source;
};

constexpr Kind kKinds[] = {
    {"graph", "--graph takes it", "what `oneflow model` writes"},
    {"plan", "--plan takes it", "what `oneflow compile` writes"},
    {"cluster", "--cluster takes it", "what `oneflow calibrate` writes, or a name such as h100"},
    {"pipeline order", "--order takes it", "the tasks of each stage, as docs/schedules.md shows"},
    {"training configuration", "a checkpoint holds it", ""},
    {"training data", "", "text, or tokens that `oneflow data` writes"},
};

const Kind* FindKind(std::string_view noun) {
  for (const Kind& kind : kKinds) {
    if (kind.noun == noun) return &kind;
  }
  return nullptr;
}

class Silent : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int, google::protobuf::io::ColumnNumber, const std::string&) override {}
};

template <typename Message>
bool Is(const std::string& text) {
  Silent silent;
  Message message;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  return parser.ParseFromString(text, &message) && message.ByteSizeLong() > 0;
}

}  // namespace

std::string_view FileKind(std::string_view bytes) {
  if (bytes.starts_with(kPlanMagic)) return "plan";
  if (bytes.find('\0') != bytes.npos) return "";  // the parser logs what is binary
  const std::string text(bytes);
  return Is<proto::Graph>(text)           ? "graph"
         : Is<proto::Cluster>(text)       ? "cluster"
         : Is<proto::PipelineOrder>(text) ? "pipeline order"
         : Is<proto::Trained>(text) ? "training configuration"  // its fields are a plan's, too
         : Is<proto::Plan>(text)    ? "plan"
         : Is<proto::Train>(text)   ? "training configuration"
                                    : "";
}

absl::Status RefuseOtherKind(std::string_view bytes, std::string_view file, std::string_view noun) {
  const Kind* given = FindKind(FileKind(bytes));
  if (given == nullptr || given->noun == noun) return absl::OkStatus();
  const Kind* asked = FindKind(noun);
  const std::string source(asked == nullptr ? "" : asked->source);
  return InputError(file, "is a " + std::string(given->noun) + ", and no " + std::string(noun),
                    std::string(given->takes) + (source.empty() ? "" : ", here give " + source));
}

}  // namespace oneflow
