#include "backend/cuda/device.h"

#include <string>

namespace martlet::cuda {

Status check(cudaError_t result, const char* operation) {
  if (result == cudaSuccess) return {};
  const bool memory = result == cudaErrorMemoryAllocation;
  return Error{memory ? ErrorKind::memory : ErrorKind::io, memory ? "out_of_device_memory" : "device_error",
               std::string(operation) + ": " + cudaGetErrorString(result), "cuda"};
}

Status check_device() {
  const auto none = [](const char* text) { return Error{ErrorKind::io, "no_device", text, "--backend cuda"}; };
  int count = 0, major = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0)
    return none("the driver shows no CUDA device; use the CPU, or make a device visible");
  MARTLET_TRY(check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "asking for the device"));
  if (major < 8) return none("the CUDA device is older than compute capability 8.0; use the CPU");
  return {};
}

Result<Memory> Memory::allocate(Place place, int64_t bytes) {
  Memory out;
  out.place_ = place;
  void* data = nullptr;
  const auto size = static_cast<size_t>(bytes);
  const cudaError_t result = place == Place::device ? cudaMalloc(&data, size) : cudaMallocHost(&data, size);
  if (result != cudaSuccess) cudaGetLastError();  // a refused allocation breaks nothing
  MARTLET_TRY(check(result, place == Place::device ? "allocating device memory" : "allocating pinned memory"));
  out.data_ = static_cast<std::byte*>(data);
  out.size_ = bytes;
  return out;
}

// A broken device fails here too; whoever used it last has said so.
Memory::~Memory() {
  if (!data_) return;
  place_ == Place::device ? cudaFree(data_) : cudaFreeHost(data_);
}

}  // namespace martlet::cuda
