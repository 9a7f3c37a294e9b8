// gpu_checks [copies] [brief] [linear] [attention] [draws] [golden FOLDER] [reference MODEL FILE] [model MODEL]
// [invariant MODEL] [memory MODEL]: runs the checks that are named, those behind `copies` with memory for copies of
// weights; `brief`: fewer of attention, for tools that make it slow.

#include <cstdlib>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa/level.h"
#include "backend/cuda/cuda_backend.h"
#include "checks.h"

namespace {

template <class T>
T value_of(martlet::Result<T> result) {
  if (!result) std::printf("%s\n", result.error().line().c_str()), std::exit(1);
  return std::move(*result);
}

}  // namespace

int main(int count, char** arguments) {
  using namespace martlet;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto scalar = value_of(make_cpu_backend({.level = cpu::levels().front(), .f32_activations = true}));
  const auto fast = value_of(make_cpu_backend());
  gpu::Tally tally;
  bool copies = false, brief = false;
  for (int i = 1; i < count; ++i) {
    const std::string what = arguments[i];
    if (what == "copies") {
      copies = true;
      continue;
    }
    if (what == "brief") {
      brief = true;
      continue;
    }
    const auto next = [&]() -> std::string { return ++i < count ? arguments[i] : ""; };
    if (what == "memory") {  // with backends of its own
      gpu::check_memory(next(), tally);
      continue;
    }
    const auto cuda = value_of(make_cuda_backend({.invariant = what == "invariant"}));
    if (copies) cuda->spare(cuda->device_memory()->free / 2);
    if (what == "linear") {
      gpu::check_linear(*scalar, *cuda, copies, tally);
    } else if (what == "attention") {
      gpu::check_attention(*scalar, *cuda, brief, tally);
    } else if (what == "draws") {
      gpu::check_draws(*cuda, tally);
    } else if (what == "golden") {
      gpu::check_golden(next(), *cuda, tally);
    } else if (what == "reference") {
      const std::string model = next();
      const std::string reference = next();
      for (const CacheType type : {CacheType::f16, CacheType::bf16, CacheType::q8, CacheType::fp8})
        gpu::check_reference(model, reference, type, *cuda, tally);
    } else if (what == "model") {
      gpu::check_model(next(), *fast, *cuda, tally);
    } else if (what == "invariant") {
      gpu::check_invariance(next(), *cuda, tally);
    } else {
      std::printf("unknown check\n");
      return 2;
    }
    std::printf("%s: %d checks so far, %d failed\n", what.c_str(), tally.checks, tally.failed);
  }
  return tally.failed == 0 ? 0 : 1;
}
