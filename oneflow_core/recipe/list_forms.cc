// Forms that are lists of numbers or tasks: the mesh, the layers and warm-ups of stages, an order.
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "oneflow_core/base/file.h"
#include "oneflow_core/base/parse_text.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/recipe/forms.h"
#include "oneflow_core/recipe/message_form.h"
#include "oneflow_core/tensor/tensor_proto.h"

namespace oneflow {
namespace {

absl::Status ParseAxes(std::string_view where, std::string_view text, proto::Mesh* mesh) {
  const absl::StatusOr<Mesh> parsed = ParseMesh(text);
  if (parsed.ok()) {
    *mesh = ToProto(*parsed);
    return absl::OkStatus();
  }
  const size_t begin = std::string_view("--mesh=").size() + text.size();
  return WithMessage(parsed.status(),
                     absl::StrCat(ToAbsl(where), parsed.status().message().substr(begin)));
}

std::string PrintAxes(const proto::Mesh& mesh) {
  Mesh plain;
  for (const proto::Mesh::Axis& axis : mesh.axis())
    plain.axes.push_back({axis.name(), axis.size()});
  return ToString(plain);
}

absl::Status ParseStageLayers(std::string_view where, std::string_view text,
                              proto::StageLayers* layers) {
  for (const absl::string_view part : absl::StrSplit(ToAbsl(text), ',')) {
    int number = 0;
    if (!absl::SimpleAtoi(part, &number) || number < 0) {
      return InputError(where, absl::StrCat("\"", part, "\" is no number of layers"),
                        "write e.g. 2,3,3,2");
    }
    layers->add_layers(number);
  }
  return absl::OkStatus();
}

std::string PrintStageLayers(const proto::StageLayers& layers) {
  return absl::StrJoin(layers.layers(), ",");
}

absl::Status ParseWarmUps(std::string_view where, std::string_view text, proto::WarmUps* warm_ups) {
  for (const absl::string_view part : absl::StrSplit(ToAbsl(text), ',')) {
    const std::vector<absl::string_view> numbers = absl::StrSplit(part, '+');
    int64_t forwards = 0, backwards = 0;
    if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &forwards) ||
        !absl::SimpleAtoi(numbers[1], &backwards)) {
      return InputError(where, absl::StrCat("\"", part, "\" is no warm-up"),
                        "write forwards and backwards of each stage, e.g. 3+1,2+0");
    }
    proto::WarmUps::Depth* const depth = warm_ups->add_stage();
    depth->set_forwards(forwards);
    depth->set_backwards(backwards);
  }
  return absl::OkStatus();
}

std::string PrintWarmUps(const proto::WarmUps& warm_ups) {
  return absl::StrJoin(warm_ups.stage(), ",", [](std::string* text, const auto& depth) {
    absl::StrAppend(text, depth.forwards(), "+", depth.backwards());
  });
}

absl::Status ReadOrder(std::string_view, std::string_view file, proto::PipelineOrder* order) {
  ASSIGN_OR_RETURN(const std::string text,
                   ReadFile(std::string(file), "--order wants a textproto"));
  return ParseText(text, file, "pipeline order", order);
}

// "F0 F1 B0 B1; F0 B0 F1 B1".
std::string PrintOrder(const proto::PipelineOrder& order) {
  return absl::StrJoin(order.stage(), "; ", [](std::string* text, const auto& stage) {
    absl::StrAppend(text, absl::StrJoin(stage.task(), " "));
  });
}

}  // namespace

const Form kMeshForm = MessageForm<proto::Mesh, ParseAxes, PrintAxes>();
const Form kStageLayersForm = MessageForm<proto::StageLayers, ParseStageLayers, PrintStageLayers>();
const Form kWarmUpsForm = MessageForm<proto::WarmUps, ParseWarmUps, PrintWarmUps>();
const Form kOrderForm = [] {
  Form form = MessageForm<proto::PipelineOrder, ReadOrder, PrintOrder>();
  form.is_file = true;
  return form;
}();

}  // namespace oneflow
