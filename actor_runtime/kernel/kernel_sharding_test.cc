// Kernels on pieces: for each kind and each row of its SBP table, the pieces that the devices of a
// mesh compute form together the result of one device on full tensors. Even, ragged and empty
// pieces are covered. This connects the two halves of an op: its definition and its kernel.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/kernel/kernel_samples.h"
#include "oneflow_core/op/op_def.h"

namespace oneflow {
namespace {

Mesh Line(int devices) { return Mesh{{{"x", devices}}}; }

Port PiecePort(const Tensor& tensor, Sbp sbp, const Mesh& mesh, int device) {
  const Layout layout = MakeLayout(tensor.shape.dims, {sbp});
  Port port = SlicePort(tensor.shape.dims, LocalSlice(layout, mesh, {device}), tensor.dtype);
  port.coordinate = {device};
  return port;
}

// The piece of device `device` of a full tensor with layout `sbp`. Parts of a sum are multiples of
// the full tensor that add up to it; parts of a maximum are at most it.
Values DevicePiece(const Values& full, const Port& port, Sbp sbp, int devices, int device) {
  Values piece = ExtractSlice(full, port.dims, port.slice);
  for (size_t i = 0; i < piece.size(); ++i) {
    if (sbp.kind == Sbp::kPartialSum) piece[i] *= device == 0 ? 1.0 - 0.25 * (devices - 1) : 0.25;
    if (sbp.kind == Sbp::kPartialMax && static_cast<int>(i) % devices != device) piece[i] -= 1;
  }
  return piece;
}

// Puts a device's output into the full tensor.
void Join(const Values& piece, const Port& port, Sbp sbp, int device, Values* full) {
  if (sbp.split()) return Paste(piece, port.dims, port.slice, full);
  for (size_t i = 0; i < piece.size(); ++i) {
    double& to = (*full)[i];
    if (device == 0) {
      to = piece[i];
    } else if (sbp.kind == Sbp::kPartialSum) {
      to += piece[i];
    } else if (sbp.kind == Sbp::kPartialMax) {
      to = std::max(to, piece[i]);
    } else {
      REQUIRE(to == piece[i]);  // replicas
    }
  }
}

void CheckRow(const KernelSample& sample, const Graph& graph, const Signature& row, int devices,
              const std::vector<Values>& expected) {
  const Op& op = graph.ops.back();
  const Mesh mesh = Line(devices);
  const std::vector<Values> inputs = InputValues(sample);
  std::vector<Values> joined;
  for (const Values& e : expected)
    joined.emplace_back(e.size(), std::numeric_limits<double>::quiet_NaN());
  for (int device = 0; device < devices; ++device) {
    std::vector<std::vector<Port>> in;
    std::vector<Port> out;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      in.push_back({PiecePort(graph.tensors[op.inputs[i]], row.in[i], mesh, device)});
    }
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      out.push_back(PiecePort(graph.tensors[op.outputs[i]], row.out[i], mesh, device));
    }
    const std::vector<std::vector<Port>> ports = in;
    in.erase(in.begin(), in.begin() + UpdateInputs(sample.kind));
    KernelHarness h(sample.kind, sample.attrs, in, out);
    h.setup().mesh = mesh;
    h.setup().coordinate = {device};
    h.run().optimizer = TestStepNumbers;
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      SetOpInput(h, static_cast<int>(i),
                 DevicePiece(inputs[i], ports[i][0], row.in[i], devices, device));
    }
    REQUIRE(h.MakeAndCall() == absl::OkStatus());
    for (size_t i = 0; i < out.size(); ++i) {
      Join(h.Output(static_cast<int>(i)), out[i], row.out[i], device, &joined[i]);
    }
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    INFO("output " << i);
    REQUIRE(Distance(joined[i], expected[i]) < 1e-12);
  }
}

std::string RowText(const Signature& row) {
  std::string text;
  for (Sbp s : row.in) text += ToString(s) + ' ';
  text += "->";
  for (Sbp s : row.out) text += ' ' + ToString(s);
  return text;
}

TEST_CASE("every row of every SBP table holds for the kernel") {
  int rows = 0;
  for (const KernelSample& sample : SmallSamples()) {
    const Graph graph = MakeSampleGraph(sample, DType::kF64);
    KernelHarness full = MakeHarness(sample, DType::kF64);
    REQUIRE(full.MakeAndCall() == absl::OkStatus());
    std::vector<Values> expected;
    for (size_t i = 0; i < graph.ops.back().outputs.size(); ++i) {
      expected.push_back(full.Output(static_cast<int>(i)));
    }
    for (const Signature& row : FindDef(sample).signatures({graph, graph.ops.back()})) {
      for (int devices : {2, 3}) {
        if (row.divided % devices != 0) continue;
        INFO(ToString(sample) << ": " << RowText(row) << " on " << devices);
        CheckRow(sample, graph, row, devices, expected);
        ++rows;
      }
    }
  }
  CHECK(rows > 200);
}

}  // namespace
}  // namespace oneflow
