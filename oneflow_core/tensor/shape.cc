#include "oneflow_core/tensor/shape.h"

namespace oneflow {

int64_t Product(const Dims& dims) {
  int64_t product = 1;
  for (const int64_t d : dims) product *= d;
  return product;
}

bool Countable(const Dims& dims) {
  int64_t most = int64_t{1} << 48;
  for (const int64_t d : dims) {
    if (d > 0) most /= d;
  }
  return most > 0;
}

int64_t Shape::elements() const { return Product(dims); }

std::string ToString(const Dims& dims) { return ToString(Shape(dims)); }

std::string ToString(const Shape& shape) {
  std::string text = "[";
  for (int i = 0; i < shape.rank(); ++i) {
    if (i > 0) text += ',';
    const bool bound = shape.dims[i] != 0 || shape.names.empty() || shape.names[i].empty();
    text += bound ? std::to_string(shape.dims[i]) : shape.names[i];
  }
  return text + ']';
}

}  // namespace oneflow
