#include "actor_runtime/kernel/kernel_test_util.h"

#include <cmath>
#include <limits>

#include <glog/logging.h>

#include "oneflow_core/op/op_def.h"
#include "oneflow_core/op/workspace.h"
#include "oneflow_core/tensor/bf16.h"

namespace oneflow {
namespace {

int64_t PortBytes(const Port& port) {
  return port.slice.elements() * static_cast<int64_t>(ElementBytes(port.dtype));
}

// splitmix64: enough for tests.
uint64_t Next(uint64_t& state) {
  uint64_t z = (state += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

// Calls fn(index in the piece, index in the full tensor) for each element of the slice.
template <typename Fn>
void ForSlice(const Dims& dims, const Slice& slice, Fn fn) {
  const int64_t n = slice.elements();
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, at = 0, stride = 1;
    for (int d = static_cast<int>(dims.size()) - 1; d >= 0; --d) {
      at += (slice.begin[d] + rest % slice.size[d]) * stride;
      rest /= slice.size[d];
      stride *= dims[d];
    }
    fn(i, at);
  }
}

}  // namespace

void WriteValues(const Values& values, DType dtype, std::byte* to) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kF32) reinterpret_cast<float*>(to)[i] = static_cast<float>(values[i]);
    if (dtype == DType::kF64) reinterpret_cast<double*>(to)[i] = values[i];
    if (dtype == DType::kI32) reinterpret_cast<int32_t*>(to)[i] = static_cast<int32_t>(values[i]);
    if (dtype == DType::kU8) to[i] = static_cast<std::byte>(values[i]);
    if (dtype == DType::kBF16) {
      reinterpret_cast<Bf16*>(to)[i] = ToBf16(static_cast<float>(values[i]));
    }
  }
}

Values ReadValues(const std::byte* from, DType dtype, int64_t n) {
  Values values(n);
  for (int64_t i = 0; i < n; ++i) {
    if (dtype == DType::kF32) values[i] = reinterpret_cast<const float*>(from)[i];
    if (dtype == DType::kF64) values[i] = reinterpret_cast<const double*>(from)[i];
    if (dtype == DType::kI32) values[i] = reinterpret_cast<const int32_t*>(from)[i];
    if (dtype == DType::kU8) values[i] = static_cast<double>(from[i]);
    if (dtype == DType::kBF16) values[i] = ToFloat(reinterpret_cast<const Bf16*>(from)[i]);
  }
  return values;
}

Port FullPort(const Dims& dims, DType dtype) {
  return SlicePort(dims, {Dims(dims.size(), 0), dims}, dtype);
}

Port SlicePort(const Dims& dims, const Slice& slice, DType dtype) {
  Port port;
  port.dtype = dtype;
  port.dims = dims;
  port.slice = slice;
  return port;
}

KernelHarness::Buffer::Buffer(int64_t size) : bytes(size) {
  memory = std::make_unique<std::byte[]>(size + 64);
  data = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.get()) + 63) / 64 * 64);
}

KernelHarness::KernelHarness(std::string kind, AttrMap attrs, std::vector<std::vector<Port>> in,
                             std::vector<Port> out, int threads)
    : pool_(std::make_unique<ThreadPool>(threads)), workspace_(0) {
  setup_.kind = kind;
  setup_.name = "test";
  setup_.attrs = std::move(attrs);
  setup_.in = std::move(in);
  setup_.out = std::move(out);
  setup_.threads = threads;
  LocalOp local{setup_.attrs, {}, {}};
  for (const std::vector<Port>& sources : setup_.in) {
    std::vector<Buffer>& buffers = in_.emplace_back();
    std::vector<const std::byte*>& bases = in_bases_.emplace_back();
    for (const Port& port : sources) {
      buffers.emplace_back(PortBytes(port));
      bases.push_back(buffers.back().data);
    }
    local.in.push_back(sources[0].local());
  }
  for (const std::vector<const std::byte*>& bases : in_bases_) in_spans_.push_back(bases);
  for (const Port& port : setup_.out) {
    out_.emplace_back(PortBytes(port));
    out_bases_.push_back(out_.back().data);
    local.out.push_back(port.local());
  }
  if (!setup_.in.empty()) local.dtype = setup_.in[0][0].dtype;
  const OpDef* def = FindOpDef(kind);
  if (def != nullptr) {
    // In the op's definition, tensors that the kernel updates in place are inputs, too.
    local.in.insert(local.in.begin(), local.out.begin(), local.out.begin() + def->updates);
    setup_.workspace_bytes = WorkspaceBytes(proto::CPU, kind, local, threads);
  }
  workspace_ = Buffer(setup_.workspace_bytes);
}

void KernelHarness::SetInput(int i, const Values& values, int source) {
  const Port& port = setup_.in[i][source];
  CHECK_EQ(static_cast<int64_t>(values.size()), port.slice.elements());
  WriteValues(values, port.dtype, in_[i][source].data);
}

void KernelHarness::SetOutput(int i, const Values& values) {
  CHECK_EQ(static_cast<int64_t>(values.size()), setup_.out[i].slice.elements());
  WriteValues(values, setup_.out[i].dtype, out_[i].data);
}

absl::Status KernelHarness::Make() {
  absl::StatusOr<Kernel> kernel = MakeKernel(setup_);
  if (!kernel.ok()) return kernel.status();
  kernel_ = *std::move(kernel);
  return absl::OkStatus();
}

absl::Status KernelHarness::Call(bool accumulate, int64_t firing) {
  KernelCall call;
  call.in = in_spans_;
  call.out = out_bases_;
  call.workspace = {workspace_.data, static_cast<size_t>(workspace_.bytes)};
  call.pool = pool_.get();
  call.firing = firing;
  call.accumulate = accumulate;
  call.run = &run_;
  return kernel_(call);
}

Values KernelHarness::Output(int i) const {
  return ReadValues(out_[i].data, setup_.out[i].dtype, setup_.out[i].slice.elements());
}

std::vector<std::byte> KernelHarness::OutputBytes(int i) const {
  return {out_[i].data, out_[i].data + out_[i].bytes};
}

Values RandomValues(int64_t n, uint64_t seed, double low, double high) {
  Values values(n);
  for (double& v : values) {
    const double unit = static_cast<double>(Next(seed) >> 40) * 0x1p-24;  // exact in f32
    v = static_cast<float>(low + (high - low) * unit);
  }
  return values;
}

Values RandomIds(int64_t n, uint64_t seed, int64_t vocabulary) {
  Values values(n);
  for (double& v : values) v = static_cast<double>(Next(seed) % static_cast<uint64_t>(vocabulary));
  return values;
}

Values ExtractSlice(const Values& full, const Dims& dims, const Slice& slice) {
  Values piece(slice.elements());
  ForSlice(dims, slice, [&](int64_t i, int64_t at) { piece[i] = full[at]; });
  return piece;
}

void Paste(const Values& piece, const Dims& dims, const Slice& slice, Values* full) {
  ForSlice(dims, slice, [&](int64_t i, int64_t at) { (*full)[at] = piece[i]; });
}

double Distance(const Values& a, const Values& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = a[i] == b[i] ? 0 : std::fabs(a[i] - b[i]) / (1 + std::fabs(b[i]));
    worst = d > worst || std::isnan(d) ? d : worst;
    if (std::isnan(d)) return std::numeric_limits<double>::infinity();
  }
  return worst;
}

}  // namespace oneflow
