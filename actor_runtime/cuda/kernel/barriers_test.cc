// Each barrier of each kernel is needed, and tests would find it missing: without it some order of
// warps and lanes changes what some sample puts out. ThreadSanitizer is not asked: the orders find
// them all.
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "actor_runtime/cuda/emulated/emulated_gpu.h"
#include "actor_runtime/cuda/emulated/grid.h"
#include "actor_runtime/cuda/kernel/cuda_kernel_test_util.h"
#include "actor_runtime/kernel/kernel_samples.h"

namespace oneflow::cuda {
namespace {

namespace fs = std::filesystem;
using emulated::Barrier;
using Bytes = std::vector<std::vector<std::byte>>;

// The bytes of all outputs; nothing if threads wait for ever.
Bytes RunOutputs(const KernelSample& sample) {
  auto harness = std::make_unique<CudaHarness>(sample);
  REQUIRE(harness->Make() == absl::OkStatus());
  if (!harness->Call().ok()) {
    harness.release();  // The device is lost, and gives nothing back; the next Reset forgets it.
    return {};
  }
  Bytes bytes;
  for (int i = 0; i < harness->outputs(); ++i) bytes.push_back(harness->OutputBytes(i));
  return bytes;
}

// Name of a file and line of each barrier in the sources of kernels.
std::set<std::pair<std::string, int>> BarriersInSources() {
  std::set<std::pair<std::string, int>> barriers;
  for (const fs::directory_entry& entry : fs::directory_iterator("actor_runtime/cuda/kernel")) {
    const std::string suffix = entry.path().extension();
    if (suffix != ".cu" && suffix != ".cuh") continue;
    std::ifstream lines(entry.path());
    int number = 0;
    for (std::string line; std::getline(lines, line);) {
      ++number;
      const std::string code = line.substr(0, line.find("//"));
      if (code.find("__sync") != std::string::npos) {
        barriers.emplace(entry.path().filename(), number);
      }
    }
  }
  return barriers;
}

// True if some order shows that the barrier is missing.
bool IsFound(const Barrier& barrier, const KernelSample& sample, const Bytes& right) {
  bool found = false;
  emulated::RemoveBarrier(&barrier);
  ForKernelOrders([&] { found = found || RunOutputs(sample) != right; });
  emulated::RemoveBarrier(nullptr);
  return found;
}

// In one of the kernels that have it, in the full tier in each.
TEST_CASE("each barrier of each kernel, removed, is found by an order of warps and lanes") {
  const bool full = std::getenv("ONEFLOW_TEST_FULL") != nullptr;
  const std::vector<KernelSample> samples = CudaSamples();
  std::vector<Bytes> right;
  std::map<Barrier, std::vector<size_t>> samples_of;
  std::set<std::pair<std::string, int>> reached;
  for (size_t i = 0; i < samples.size(); ++i) {
    emulated::NoteBarriers();
    right.push_back(RunOutputs(samples[i]));
    REQUIRE(!right[i].empty());
    for (const Barrier& barrier : emulated::TakeNotedBarriers()) {
      samples_of[barrier].push_back(i);
      reached.emplace(fs::path(barrier.file).filename(), barrier.line);
    }
  }
  CHECK(reached == BarriersInSources());
  CHECK(samples_of.size() > 20);
  std::set<std::pair<std::string, int>> removed;
  for (auto& [barrier, those] : samples_of) {
    if (!removed.emplace(barrier.file, barrier.line).second && !full) continue;
    INFO(barrier.kernel << " without the barrier of " << barrier.file << ":" << barrier.line);
    // Small outputs first: they take less time.
    std::stable_sort(those.begin(), those.end(),
                     [&](size_t a, size_t b) { return right[a][0].size() < right[b][0].size(); });
    CHECK(std::any_of(those.begin(), those.end(), [&, &barrier = barrier](size_t i) {
      return IsFound(barrier, samples[i], right[i]);
    }));
  }
}

}  // namespace
}  // namespace oneflow::cuda
