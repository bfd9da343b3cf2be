#include "actor_runtime/kernel/host/init_variable.h"

#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include "actor_runtime/kernel/attributes.h"
#include "actor_runtime/kernel/run_context.h"
#include "actor_runtime/random/random.h"
#include "oneflow_core/base/status.h"
#include "oneflow_core/tensor/bf16.h"

namespace oneflow {
namespace {

constexpr int64_t kTile = 1 << 16;  // elements a task
constexpr int64_t kNormals = 256;   // made at a time, on the stack

// A bf16 number is what an f32 one is rounded to: the same as a cast of the variable in f32 gives.
template <typename T>
T Rounded(double value) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return ToBf16(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
void FillNormal(const RandomStream& stream, double sigma, int64_t index, T* out, int64_t count) {
  std::array<double, kNormals> normals;
  for (int64_t done = 0; done < count; done += kNormals) {
    const int64_t n = std::min(kNormals, count - done);
    stream.Normals(index + done, std::span(normals.data(), n));
    for (int64_t i = 0; i < n; ++i) out[done + i] = Rounded<T>(sigma * normals[i]);
  }
}

// Within [-bound, bound).
template <typename T>
void FillUniform(const RandomStream& stream, double bound, int64_t index, T* out, int64_t count) {
  for (int64_t k = 0; k < count; ++k) {
    out[k] = Rounded<T>(bound * (2 * stream.Uniform(index + k) - 1));
  }
}

// Calls fn(begin, end) for tiles of [0, elements), in parallel where there is a pool.
template <typename Fn>
void ForTiles(ThreadPool* pool, int64_t elements, const Fn& fn) {
  const int tiles = static_cast<int>((elements + kTile - 1) / kTile);
  auto tile = [&](int task, int) {
    fn(task * kTile, std::min<int64_t>(elements, (task + 1) * kTile));
  };
  if (pool != nullptr) return pool->ParallelFor(tiles, tile);
  for (int task = 0; task < tiles; ++task) tile(task, 0);
}

// Draws each element by its index in the full tensor: fill(stream, scale, index, out, count).
template <typename T, typename Fill>
Kernel DrawKernel(std::string name, double scale, Port port, Fill fill) {
  return [name = std::move(name), scale, port = std::move(port), fill](const KernelCall& call) {
    const RandomStream stream(call.run->seed, name);
    T* out = call.output<T>(0);
    ForTiles(call.pool, port.slice.elements(), [&](int64_t begin, int64_t end) {
      ForRuns(port.dims, port.slice, begin, end, [&](int64_t i, int64_t index, int64_t count) {
        fill(stream, scale, index, out + i, count);
      });
    });
    return absl::OkStatus();
  };
}

template <typename T>
Kernel ConstantKernel(double value, int64_t elements) {
  return [value, elements](const KernelCall& call) {
    std::fill_n(call.output<T>(0), elements, Rounded<T>(value));
    return absl::OkStatus();
  };
}

template <typename T>
absl::StatusOr<Kernel> MakeFor(const KernelSetup& setup, const std::string& name) {
  const Port& port = setup.out[0];
  const std::string init = StringAttr(setup, "init");
  const double value = DoubleAttr(setup, "init_value");
  if (init == "normal") return DrawKernel<T>(name, value, port, FillNormal<T>);
  if (init == "uniform") return DrawKernel<T>(name, value, port, FillUniform<T>);
  if (init == "zeros") return ConstantKernel<T>(0, port.slice.elements());
  if (init == "ones") return ConstantKernel<T>(1, port.slice.elements());
  if (init == "constant") return ConstantKernel<T>(value, port.slice.elements());
  return InputError(name, "unknown init \"" + init + "\"",
                    "use normal, uniform, zeros, ones or constant");
}

}  // namespace

absl::StatusOr<Kernel> MakeInitVariable(const KernelSetup& setup) {
  const std::string name = StringAttr(setup, "name");
  if (name.empty()) return absl::InternalError(setup.name + ": init_variable has no name");
  if (setup.out.size() != 1) return absl::InternalError(name + ": init_variable needs one output");
  switch (setup.out[0].dtype) {
    case DType::kF32: return MakeFor<float>(setup, name);
    case DType::kF64: return MakeFor<double>(setup, name);
    case DType::kBF16: return MakeFor<Bf16>(setup, name);
    default:
      return InputError(
          name, "cannot initialise a variable of dtype " + std::string(Name(setup.out[0].dtype)),
          "use f32, bf16 or f64");
  }
}

KernelTable InitVariableTable() { return {{"init_variable", MakeInitVariable}}; }

}  // namespace oneflow
