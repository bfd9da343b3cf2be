// For tests: control of the emulated cuBLASLt beside its interface (emulated/include/cublasLt.h).
//
// It multiplies on the processor, in f32, with sums in the order of k: the same bits every time. It
// accepts only the combinations that NVIDIA's table of cublasLtMatmul lists, so that a program that
// works with it does not ask the real library for more: all others are CUBLAS_STATUS_NOT_SUPPORTED.
// It does not model speed, nor the real library's last bits. Products wait in their stream like
// kernels; emulated::Fail("cublasLtMatmul", n) makes a call fail.
#pragma once

#include "cublasLt.h"

namespace oneflow::emulated {

// Sets if the heuristic finds algorithms for epilogues other than the default; at first it does.
// The real library lacks some for some types and devices.
void AllowCublasLtEpilogues(bool allow);

}  // namespace oneflow::emulated
