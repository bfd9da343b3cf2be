// For tests: what the twin of cuBLASLt can be told to do beside its interface
// (emulated/include/cublasLt.h).
//
// The twin multiplies on the processor, in f32, with sums in the order of k: the same bits every
// time. It takes only what NVIDIA's table of cublasLtMatmul lists, so that a program that works
// with it does not ask the real library for more: anything else is CUBLAS_STATUS_NOT_SUPPORTED. It
// says nothing of speed, nor of the real library's last bits.
#pragma once

#include <cstdint>

#include "cublasLt.h"

namespace oneflow::emulated {

// The n-th call of cublasLtMatmul from now on, counted from 1, returns `status` and does nothing;
// 0 takes this back.
void FailCublasLtMatmul(int64_t n, cublasStatus_t status);

// Whether the heuristic finds algorithms for epilogues other than the default; at first it does.
// The real library lacks some for some types and devices.
void AllowCublasLtEpilogues(bool allow);

}  // namespace oneflow::emulated
