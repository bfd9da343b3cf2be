#include "compiler/sbp/layout_key.h"

#include <cstdint>
#include <cstring>
#include <map>
#include <string_view>
#include <variant>
#include <vector>

#include <glog/logging.h>

#include "compiler/boxing/boxing_path.h"

namespace oneflow {
namespace {

// Numbers have eight bytes; texts and lists begin with their length. So no two sequences of values
// have the same bytes.
class Bytes {
 public:
  std::string Take() && { return std::move(bytes_); }

  void Add(int64_t number) { AddBytes(number); }
  void Add(int number) { AddBytes(int64_t{number}); }
  void Add(bool value) { bytes_ += value ? '\1' : '\0'; }
  void Add(double number) { AddBytes(number); }
  void Add(std::string_view text) {
    Add(static_cast<int64_t>(text.size()));
    bytes_ += text;
  }
  void Add(const std::string& text) { Add(std::string_view(text)); }
  void Add(Sbp sbp) {
    bytes_ += static_cast<char>(sbp.kind);
    bytes_ += static_cast<char>(sbp.dim);
  }
  void Add(const Attr& attr) {
    Add(static_cast<int64_t>(attr.index()));
    std::visit([this](const auto& value) { Add(value); }, attr);
  }
  template <typename T>
  void Add(const std::vector<T>& list) {
    Add(static_cast<int64_t>(list.size()));
    for (const T& value : list) Add(value);
  }
  template <typename Key, typename Value, typename Less>
  void Add(const std::map<Key, Value, Less>& map) {
    Add(static_cast<int64_t>(map.size()));
    for (const auto& [key, value] : map) {
      Add(key);
      Add(value);
    }
  }

 private:
  template <typename T>
  void AddBytes(T value) {
    char bytes[sizeof value];
    std::memcpy(bytes, &value, sizeof value);
    bytes_.append(bytes, sizeof value);
  }

  std::string bytes_;
};

void AddOptions(const SbpOptions& options, Bytes* bytes) {
  bytes->Add(options.micro_batches);
  proto::Cluster cluster = options.cluster;
  cluster.mutable_device()->clear_memory_bytes();  // a choice asks for seconds alone
  bytes->Add(cluster.SerializeAsString());
  bytes->Add(options.split_positions);
  bytes->Add(options.split_products);
  bytes->Add(options.fixed);
  bytes->Add(static_cast<int64_t>(options.mirrors.size()));
  for (const GradientMirror& mirror : options.mirrors) {
    for (const int number : {mirror.of, mirror.reader, mirror.input, mirror.grad}) {
      bytes->Add(number);
    }
  }
}

void AddTensor(const Tensor& tensor, Bytes* bytes) {
  bytes->Add(tensor.name);
  bytes->Add(tensor.shape.dims);
  bytes->Add(tensor.shape.names);
  bytes->Add(static_cast<int>(tensor.dtype));
  bytes->Add(tensor.producer);
  bytes->Add(tensor.output);
  bytes->Add(tensor.constraint);
  bytes->Add(std::vector<std::string>(tensor.usual.begin(), tensor.usual.end()));
}

void AddOp(const Op& op, Bytes* bytes) {
  bytes->Add(op.name);
  bytes->Add(op.kind);
  bytes->Add(op.inputs);
  bytes->Add(op.outputs);
  bytes->Add(op.attrs);
  bytes->Add(static_cast<int>(op.phase));
  bytes->Add(op.recomputed);
  bytes->Add(op.in_host_memory);
  bytes->Add(op.copied_once);
  bytes->Add(op.on_host);
}

}  // namespace

std::string LayoutKey(const Graph& graph, const SbpOptions& options) {
  Bytes bytes;
  AddOptions(options, &bytes);
  const Mesh mesh = OneStage(graph.mesh);
  bytes.Add(static_cast<int64_t>(mesh.axes.size()));
  for (const Mesh::Axis& axis : mesh.axes) {
    bytes.Add(axis.name);
    bytes.Add(axis.size);
  }
  bytes.Add(static_cast<int64_t>(graph.ops.size()));
  for (const Op& op : graph.ops) AddOp(op, &bytes);
  bytes.Add(static_cast<int64_t>(graph.tensors.size()));
  for (const Tensor& tensor : graph.tensors) AddTensor(tensor, &bytes);
  bytes.Add(graph.outputs);
  bytes.Add(graph.loss);
  return std::move(bytes).Take();
}

PackedLayouts Pack(const Graph& graph, const SbpChoice& choice) {
  PackedLayouts packed{.notes = choice.notes};
  const auto add = [&](const NdSbp& sbps) {
    for (const Sbp sbp : sbps) {
      packed.sbps += {static_cast<char>(sbp.kind), static_cast<char>(sbp.dim)};
    }
  };
  for (const Tensor& tensor : graph.tensors) add(tensor.sbp);
  for (const std::vector<NdSbp>& inputs : choice.op_inputs) {
    for (const NdSbp& input : inputs) add(input);
  }
  return packed;
}

SbpChoice Unpack(const PackedLayouts& layouts, Graph* graph) {
  size_t at = 0;
  const auto next = [&] {
    NdSbp sbps(graph->mesh.axes.size());
    CHECK_LE(at + 2 * sbps.size(), layouts.sbps.size()) << "layouts of another graph";
    for (Sbp& sbp : sbps) {
      sbp.kind = static_cast<Sbp::Kind>(layouts.sbps[at++]);
      sbp.dim = static_cast<int8_t>(layouts.sbps[at++]);
    }
    return sbps;
  };
  SbpChoice choice{.op_inputs = {}, .notes = layouts.notes};
  for (Tensor& tensor : graph->tensors) tensor.sbp = next();
  for (const Op& op : graph->ops) {
    std::vector<NdSbp>& inputs = choice.op_inputs.emplace_back();
    for (size_t i = 0; i < op.inputs.size(); ++i) inputs.push_back(next());
  }
  CHECK_EQ(at, layouts.sbps.size()) << "layouts of another graph";
  return choice;
}

}  // namespace oneflow
