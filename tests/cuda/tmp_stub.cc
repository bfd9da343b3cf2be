#include <cuda_runtime.h>
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t f, void* a) {
  f(a);
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  p->major = 9;
  return cudaSuccess;
}
