#include "bench/roofline.h"

#include <algorithm>

namespace martlet::bench {
namespace {

// A step reads the weights once, however many streams it serves; each process makes steps of its own.
double bytes_per_second(const EngineInfo& engine, const Run& run) {
  const double step = figures(run.requests).tpot.p50;
  return step <= 0 ? 0 : run.instances * engine.weight_bytes_per_token / step;
}

// As the engine counts them, else as this program does; 0: not known.
int prompt_tokens(const RunFile& file, const Measurement& m) {
  if (m.prompt_tokens > 0) return m.prompt_tokens;
  const auto prompt = static_cast<size_t>(m.prompt);
  return prompt < file.prompt_tokens.size() ? file.prompt_tokens[prompt] : 0;
}

// Every token but the last of an answer goes through the layers, prompts included; each one of the answer through the
// head. A multiplication and an addition are two operations. 0 where the length of a prompt is not known.
double operations(const RunFile& file, const std::vector<Measurement>& requests) {
  double sum = 0;
  for (const Measurement& m : requests) {
    if (!m.ok()) continue;
    const int prompt = prompt_tokens(file, m);
    if (prompt == 0) return 0;
    const int computed = std::max(0, prompt - m.cached_tokens) + m.output_tokens - 1;
    sum += 2 * (file.matrices.layers * computed + file.matrices.head * m.output_tokens);
  }
  return sum;
}

}  // namespace

void note_shares(const RunFile& file, Run& run) {
  const Machine& machine = file.machine;
  const auto engine =
      std::find_if(file.engines.begin(), file.engines.end(), [&](const EngineInfo& e) { return e.name == run.engine; });
  if (engine == file.engines.end() || !engine->on_processor) return;
  const double time = wall_time(run.requests);
  if (machine.bandwidth_gb_s > 0) run.of_bandwidth = bytes_per_second(*engine, run) / (machine.bandwidth_gb_s * 1e9);
  if (machine.int8_peak_gops > 0 && time > 0)
    run.of_peak = operations(file, run.requests) / time / (machine.int8_peak_gops * 1e9);
}

}  // namespace martlet::bench
