// For tests: the types of elements by which CUDA's libraries are told what matrices hold, with the
// values of the toolkit's header of this name. Only those that the twins know.
#pragma once

typedef enum cudaDataType_t {
  CUDA_R_32F = 0,
  CUDA_R_64F = 1,
  CUDA_R_16F = 2,
  CUDA_R_16BF = 14,
} cudaDataType;
