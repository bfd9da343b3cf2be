// For tests: the element types of matrices in CUDA's libraries, with the values of the toolkit's
// header of this name. Only those that the emulation knows.
#pragma once

typedef enum cudaDataType_t {
  CUDA_R_32F = 0,
  CUDA_R_64F = 1,
  CUDA_R_16F = 2,
  CUDA_R_16BF = 14,
} cudaDataType;
