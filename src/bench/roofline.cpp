#include "bench/roofline.h"

#include <algorithm>

namespace martlet::bench {
namespace {

// A step reads the weights once, however many streams it serves; each process makes steps of its own.
double bytes_per_second(const RunFile& file, const Run& run) {
  const auto engine =
      std::find_if(file.engines.begin(), file.engines.end(), [&](const EngineInfo& e) { return e.name == run.engine; });
  const double step = figures(run.requests).tpot.p50;
  return engine == file.engines.end() || step <= 0 ? 0 : run.instances * engine->weight_bytes_per_token / step;
}

// Every token but the last of an answer goes through the layers, prompts included; each one of the answer through the
// head. A multiplication and an addition are two operations.
double operations(const Matrices& matrices, const std::vector<Measurement>& requests) {
  double sum = 0;
  for (const Measurement& m : requests) {
    if (!m.ok()) continue;
    const int computed = std::max(0, m.prompt_tokens - m.cached_tokens) + m.output_tokens - 1;
    sum += 2 * (matrices.layers * computed + matrices.head * m.output_tokens);
  }
  return sum;
}

}  // namespace

void note_shares(const RunFile& file, Run& run) {
  const Machine& machine = file.machine;
  const double time = wall_time(run.requests);
  if (machine.bandwidth_gb_s > 0) run.of_bandwidth = bytes_per_second(file, run) / (machine.bandwidth_gb_s * 1e9);
  if (machine.int8_peak_gops > 0 && time > 0)
    run.of_peak = operations(file.matrices, run.requests) / time / (machine.int8_peak_gops * 1e9);
}

}  // namespace martlet::bench
