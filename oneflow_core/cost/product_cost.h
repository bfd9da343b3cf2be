// The time of a product of matrices on processors that each compute one tile of a result at a time,
// as GPUs do.
//
//   seconds = start + waves x 2 x rows x columns x (k + depth)
//                     / (peak / processors x share x (rows x columns / largest) ^ small_tiles)
//   waves   = ceil(products x ceil(m / rows) x ceil(n / columns) / processors)
//
// with the fastest of the tiles 256 x 128, 128 x 256, 128 x 128, 128 x 64, 64 x 128 and 64 x 64. A
// last wave with few tiles, and tiles that stand out, cost as much as full ones (NVIDIA, Matrix
// Multiplication Background User's Guide, "Dimension Quantization Effects"). A small tile loads
// more operands for each product. `depth` is the cost of filling and draining a tile's pipeline, in
// terms of a sum. The four figures are a device's (proto::Products). By the 375 shapes of 1 to 4
// products of 256 to 4,096 that OpenXLA measured, the mean error is 3.9 % on an H100 and 3.0 % on a
// B200.
//
// If rows of an operand or of the result are no multiples of 16 bytes in memory (a vocabulary of
// 50,257 in bf16), a product has `unaligned` of its rate.
#pragma once

#include "oneflow_core/op/product_spec.h"
#include "oneflow_core/tensor/dtype.h"
#include "proto/cluster.pb.h"

namespace oneflow {

// Seconds of one call without memory traffic, on a device whose peak for the type is `peak`,
// FLOP/s. Requires: the product is not empty, processors > 0.
double ProductSeconds(const proto::Products& device, double peak, const ProductSpec& product,
                      DType dtype);

// A share of a peak that a device states; 1 where it states none.
inline double OrOne(double share) { return share > 0 ? share : 1; }

}  // namespace oneflow
