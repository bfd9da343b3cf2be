#include "actor_runtime/cuda/kernel/cuda_kernel_test_util.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "actor_runtime/cuda/kernel/make_kernel.h"
#include "actor_runtime/cuda/status.h"
#include "actor_runtime/kernel/kernel_test_util.h"
#include "glog/logging.h"
#include "oneflow_core/op/op_def.h"
#include "oneflow_core/op/workspace.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#ifdef ONEFLOW_EMULATED_GPU
#include "absl/strings/str_join.h"
#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#endif

namespace oneflow::cuda {
namespace {

constexpr int64_t kGuard = 256;
constexpr std::byte kGuardByte{0x5a};
constexpr std::byte kUnset{0xff};  // NaN, as f32, f64 and bf16
// So much of each end of a buffer is unset: the workspace of a product is large.
constexpr int64_t kMostUnset = 1 << 20;

void CheckOk(cudaError_t error) {
  const absl::Status status = ToStatus(error, "test");
  CHECK(status.ok()) << status.ToString();
}

int64_t PortBytes(const Port& port) {
  return port.slice.elements() * static_cast<int64_t>(ElementBytes(port.dtype));
}

std::vector<std::byte> PortBytes(const Values& values, const Port& port) {
  CHECK_EQ(static_cast<int64_t>(values.size()), port.slice.elements());
  std::vector<std::byte> bytes(PortBytes(port));
  WriteValues(values, port.dtype, bytes.data());
  return bytes;
}

int64_t CudaWorkspace(const KernelSetup& s) {
  LocalOp local{s.attrs, {}, {}};
  for (const Port& port : s.out) local.out.push_back(port.local());
  // Tensors that the kernel updates in place are inputs, too.
  const OpDef* def = FindOpDef(s.kind);
  const int updates = def == nullptr ? 0 : def->updates;
  local.in.assign(local.out.begin(), local.out.begin() + updates);
  for (const std::vector<Port>& sources : s.in) local.in.push_back(sources[0].local());
  if (!s.in.empty()) local.dtype = s.in[0][0].dtype;
  return WorkspaceBytes(proto::CUDA, s.kind, local, /*threads=*/1);
}

#ifdef ONEFLOW_EMULATED_GPU

// A call as in a step.
absl::Status Issue(const Kernel& kernel, const KernelCall& call) {
  emulated::BeginStep();
  const absl::Status status = kernel(call);
  const emulated::Step step = emulated::EndStep();
  if (step.forbidden.empty()) return status;
  return absl::InternalError("in a step: " + absl::StrJoin(step.forbidden, ", "));
}

absl::Status Complaints() {
  const std::vector<std::string> complaints = emulated::Diagnostics();
  return complaints.empty() ? absl::OkStatus()
                            : absl::InternalError(absl::StrJoin(complaints, "; "));
}

#else

absl::Status Issue(const Kernel& kernel, const KernelCall& call) { return kernel(call); }
absl::Status Complaints() { return absl::OkStatus(); }

#endif

}  // namespace

bool RunsOnCuda(const KernelSample& sample) { return FindDef(sample).on_cuda; }

std::vector<KernelSample> CudaSamples() {
#ifdef ONEFLOW_EMULATED_GPU
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
#else
  const bool full = true;
#endif
  std::vector<KernelSample> samples;
  for (const auto* all : {&SmallSamples(), full ? &LargeSamples() : &MediumSamples()}) {
    for (const KernelSample& sample : *all) {
      if (RunsOnCuda(sample)) samples.push_back(sample);
    }
  }
  return samples;
}

const Libraries& TestLibraries() {
  // Never destroyed: the runtime may be gone before.
  static const auto* const opened = [] {
    const char* folder = std::getenv("ONEFLOW_CUDA_LIBS");
    auto made = DeviceLibraries::Open(FindLibraryPaths(folder == nullptr ? "" : folder));
    CHECK(made.ok()) << made.status().ToString();
    return new DeviceLibraries(*std::move(made));
  }();
  static const Libraries libraries = opened->libraries();
  return libraries;
}

CudaHarness::Buffer::Buffer(int64_t size) : bytes(size) {
  std::byte* base = nullptr;
  CheckOk(cudaMalloc(&base, size + 2 * kGuard));
  memory = std::shared_ptr<std::byte>(base, [](std::byte* p) { CheckOk(cudaFree(p)); });
  const auto fill = [&](int64_t begin, int64_t n, std::byte value) {
    CheckOk(cudaMemset(base + begin, static_cast<int>(value), n));
  };
  fill(0, kGuard, kGuardByte);
  fill(kGuard + size, kGuard, kGuardByte);
  const int64_t filled = std::min(size, kMostUnset);
  fill(kGuard, filled, kUnset);
  fill(kGuard + size - filled, filled, kUnset);
}

std::byte* CudaHarness::Buffer::data() const { return memory.get() + kGuard; }

void CudaHarness::Buffer::Write(std::span<const std::byte> values) {
  CheckOk(cudaMemcpy(data(), values.data(), values.size(), cudaMemcpyHostToDevice));
}

std::vector<std::byte> CudaHarness::Buffer::Read() const {
  std::vector<std::byte> values(bytes);
  CheckOk(cudaMemcpy(values.data(), data(), values.size(), cudaMemcpyDeviceToHost));
  return values;
}

void CudaHarness::Buffer::ForbidGuards(bool forbid) const {
#if defined(ONEFLOW_EMULATED_GPU) && defined(__SANITIZE_ADDRESS__)
  for (const std::byte* guard : {memory.get(), data() + bytes}) {
    forbid ? __asan_poison_memory_region(guard, kGuard)
           : __asan_unpoison_memory_region(guard, kGuard);
  }
#else
  static_cast<void>(forbid);
#endif
}

bool CudaHarness::Buffer::GuardsHold() const {
  const auto holds = [&](int64_t begin) {
    std::byte guard[kGuard];
    CheckOk(cudaMemcpy(guard, memory.get() + begin, kGuard, cudaMemcpyDeviceToHost));
    return std::count(guard, guard + kGuard, kGuardByte) == kGuard;
  };
  return holds(0) && holds(kGuard + bytes);
}

CudaHarness::CudaHarness(KernelSetup setup) : setup_(std::move(setup)), workspace_(0) {
  for (const std::vector<Port>& sources : setup_.in) {
    std::vector<Buffer>& buffers = in_.emplace_back();
    for (const Port& port : sources) buffers.emplace_back(PortBytes(port));
  }
  for (const Port& port : setup_.out) out_.emplace_back(PortBytes(port));
  setup_.workspace_bytes = CudaWorkspace(setup_);
}

CudaHarness::CudaHarness(const KernelSample& sample)
    : CudaHarness(MakeHarness(sample, DType::kF32).setup()) {
  run_.optimizer = TestStepNumbers;
  const std::vector<Values> values = InputValues(sample);
  for (size_t i = 0; i < values.size(); ++i) SetOpInput(static_cast<int>(i), values[i]);
}

void CudaHarness::SetInput(int i, const Values& values, int source) {
  Buffer& buffer = in_[i][source];
  buffer.set = PortBytes(values, setup_.in[i][source]);
  buffer.Write(buffer.set);
}

void CudaHarness::SetOutput(int i, const Values& values) {
  out_[i].Write(PortBytes(values, setup_.out[i]));
}

void CudaHarness::SetOpInput(int i, const Values& values) {
  const int updates = UpdateInputs(setup_.kind);
  i < updates ? SetOutput(i, values) : SetInput(i - updates, values);
}

absl::Status CudaHarness::Make() {
  absl::StatusOr<Kernel> kernel = MakeCudaKernel(setup_, TestLibraries());
  if (!kernel.ok()) return kernel.status();
  kernel_ = *std::move(kernel);
  return absl::OkStatus();
}

absl::Status CudaHarness::Call(bool accumulate, int64_t firing) {
  workspace_ = Buffer(setup_.workspace_bytes);
  std::vector<std::vector<const std::byte*>> in;
  std::vector<std::span<const std::byte* const>> spans;
  std::vector<std::byte*> out;
  for (const std::vector<Buffer>& sources : in_) {
    std::vector<const std::byte*>& bases = in.emplace_back();
    for (const Buffer& buffer : sources) bases.push_back(buffer.data());
  }
  for (const std::vector<const std::byte*>& bases : in) spans.push_back(bases);
  for (const Buffer& buffer : out_) out.push_back(buffer.data());
  KernelCall call;
  call.in = spans;
  call.out = out;
  call.workspace = {workspace_.data(), static_cast<size_t>(workspace_.bytes)};
  call.firing = firing;
  call.accumulate = accumulate;
  call.run = &run_;
  ForbidGuards(true);
  absl::Status status = Issue(kernel_, call);
  const absl::Status done = ToStatus(cudaDeviceSynchronize(), setup_.kind);
  ForbidGuards(false);
  status.Update(done);
  return status.ok() ? Complaints() : status;
}

void CudaHarness::ForbidGuards(bool forbid) const {
  for (const std::vector<Buffer>& sources : in_) {
    for (const Buffer& buffer : sources) buffer.ForbidGuards(forbid);
  }
  for (const Buffer& buffer : out_) buffer.ForbidGuards(forbid);
  workspace_.ForbidGuards(forbid);
}

Values CudaHarness::Output(int i) const {
  const std::vector<std::byte> bytes = OutputBytes(i);
  return ReadValues(bytes.data(), setup_.out[i].dtype, setup_.out[i].slice.elements());
}

std::vector<std::byte> CudaHarness::OutputBytes(int i) const { return out_[i].Read(); }

bool CudaHarness::IsTidy() const {
  const auto is_unchanged = [](const Buffer& b) { return b.set.empty() || b.set == b.Read(); };
  for (const std::vector<Buffer>& sources : in_) {
    for (const Buffer& b : sources) {
      if (!b.GuardsHold() || !is_unchanged(b)) return false;
    }
  }
  return std::all_of(out_.begin(), out_.end(), [](const Buffer& b) { return b.GuardsHold(); }) &&
         workspace_.GuardsHold();
}

#ifdef ONEFLOW_EMULATED_GPU

void ForKernelOrders(const std::function<void()>& body, uint64_t drawn) {
  using emulated::KernelOrder;
  for (const auto order : {KernelOrder::kAscending, KernelOrder::kDescending}) {
    emulated::Reset({.order = order});
    body();
  }
  for (uint64_t seed = 1; seed <= drawn; ++seed) {
    emulated::Reset({.seed = seed, .order = KernelOrder::kDrawn});
    body();
  }
  emulated::Reset();
}

void WithGuardedMemory(const std::function<void()>& body) {
  emulated::Reset({.guard_memory = true});
  body();
  emulated::Reset();
}

#else

void ForKernelOrders(const std::function<void()>& body, uint64_t) { body(); }
void WithGuardedMemory(const std::function<void()>& body) { body(); }

#endif

}  // namespace oneflow::cuda
