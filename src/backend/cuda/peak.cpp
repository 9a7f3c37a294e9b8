#include "backend/cuda/peak.h"

#include <cublas_v2.h>

#include <algorithm>

#include "backend/cuda/device.h"
#include "backend/cuda/kernels/probe.h"
#include "base/function_ref.h"

namespace martlet {
namespace cuda {
namespace {

constexpr int64_t kBufferBytes = int64_t{1} << 30;  // far more than a device's L2 cache
constexpr int kMatrix = 8192;                       // rows and columns; three of them lie in the buffer
constexpr int kPasses = 10;

class Probe {
 public:
  ~Probe() {
    if (blas_) cublasDestroy(blas_);
    for (cudaEvent_t event : {begin_, end_}) {
      if (event) cudaEventDestroy(event);
    }
    if (stream_.handle) cudaStreamDestroy(stream_.handle);
  }

  Status start() {
    MARTLET_TRY(check_device());
    MARTLET_TRY(check(cudaStreamCreateWithFlags(&stream_.handle, cudaStreamNonBlocking), "creating a stream"));
    for (cudaEvent_t* event : {&begin_, &end_}) MARTLET_TRY(check(cudaEventCreate(event), "creating an event"));
    if (cublasCreate(&blas_) != CUBLAS_STATUS_SUCCESS ||
        cublasSetStream(blas_, stream_.handle) != CUBLAS_STATUS_SUCCESS)
      return Error{ErrorKind::io, "device_error", "the matrix library of CUDA does not start on this device", "cuda"};
    return {};
  }

  Result<CudaPeak> measure() {
    size_t free = 0, total = 0;
    MARTLET_TRY(check(cudaMemGetInfo(&free, &total), "asking for free memory"));
    if (static_cast<int64_t>(free) < 2 * kBufferBytes) return CudaPeak();
    MARTLET_ASSIGN(buffer_, Memory::allocate(Place::device, kBufferBytes));
    fill_with_halves(stream_, buffer_.as<uint32_t>(), kBufferBytes);
    MARTLET_ASSIGN(const double reading, best_seconds([&] { read_all(stream_, buffer_.data(), kBufferBytes); }));
    MARTLET_ASSIGN(const double product, best_seconds([&] { multiply(); }));
    const double operations = 2.0 * kMatrix * kMatrix * kMatrix;
    return CudaPeak{static_cast<double>(kBufferBytes) / 1e9 / reading, operations / 1e9 / product};
  }

 private:
  void multiply() {
    const float one = 1, zero = 0;
    __half* matrices = buffer_.as<__half>();
    constexpr int64_t kValues = int64_t{kMatrix} * kMatrix;
    const cublasStatus_t result =
        cublasGemmEx(blas_, CUBLAS_OP_T, CUBLAS_OP_N, kMatrix, kMatrix, kMatrix, &one, matrices, CUDA_R_16F, kMatrix,
                     matrices + kValues, CUDA_R_16F, kMatrix, &zero, matrices + 2 * kValues, CUDA_R_16F, kMatrix,
                     CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    if (result != CUBLAS_STATUS_SUCCESS) stream_.check(cudaErrorUnknown);
  }

  // A first pass is not timed.
  Result<double> best_seconds(FunctionRef<void()> work) {
    float best = 0;
    for (int pass = 0; pass <= kPasses; ++pass) {
      stream_.check(cudaEventRecord(begin_, stream_.handle));
      work();
      stream_.check(cudaEventRecord(end_, stream_.handle));
      stream_.check(cudaEventSynchronize(end_));
      float milliseconds = 0;
      if (stream_.error == cudaSuccess) stream_.check(cudaEventElapsedTime(&milliseconds, begin_, end_));
      MARTLET_TRY(check(stream_.error, "measuring the device"));
      best = pass <= 1 ? milliseconds : std::min(best, milliseconds);
    }
    return double{best} / 1000;
  }

  Stream stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  cublasHandle_t blas_ = nullptr;
  Memory buffer_;
};

}  // namespace
}  // namespace cuda

Result<CudaPeak> measure_cuda_peak() {
  cuda::Probe probe;
  MARTLET_TRY(probe.start());
  return probe.measure();
}

}  // namespace martlet
