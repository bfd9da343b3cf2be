#include "tools/python/bindings/arrays.h"

#include <cstring>
#include <vector>

#include "oneflow_core/tensor/bf16.h"

namespace oneflow {
namespace {

const char* NumpyType(DType dtype) {
  switch (dtype) {
    case DType::kF64: return "float64";
    case DType::kI32: return "int32";
    case DType::kU8: return "uint8";
    default: return "float32";
  }
}

}  // namespace

pybind11::array ToNumpy(const NpyArray& array) {
  const std::vector<pybind11::ssize_t> sizes(array.dims.begin(), array.dims.end());
  pybind11::array result(pybind11::dtype(NumpyType(array.dtype)), sizes);
  if (array.dtype == DType::kBF16) {
    float* to = static_cast<float*>(result.mutable_data());
    for (const Bf16 value : array.as<Bf16>()) *to++ = ToFloat(value);
  } else {
    std::memcpy(result.mutable_data(), array.bytes.data(), array.bytes.size());
  }
  return result;
}

}  // namespace oneflow
