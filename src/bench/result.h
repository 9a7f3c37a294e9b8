#pragma once

// What a run of the benchmark leaves behind: everything that is needed to repeat it and to draw it. One JSON file a
// run, described by docs/bench/result.schema.json; readers check it as strictly as any other input.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "bench/measurement.h"

namespace martlet::bench {

struct Machine {
  std::string processor, system;  // "AMD EPYC ...", "Linux 6.1"
  int cores = 0;
  double memory_gib = 0;
  double bandwidth_gb_s = 0;        // read bandwidth, measured just before
  double bandwidth_after_gb_s = 0;  // and after
  double int8_peak_gops = 0;        // multiplications and additions of 8-bit values in registers, 10^9 a second
};

// Values of the model's matrices that a token is multiplied with: in the layers, and in the head where its logits are
// wanted.
struct Matrices {
  double layers = 0, head = 0;
};

struct EngineInfo {
  std::string name;                   // "martlet", "llama-cpp-python" ...: what tables call it
  std::string version;                // as it tells; empty when it does not
  std::string command;                // how it was started, or its address
  double weight_bytes_per_token = 0;  // for the roofline; 0: not known
  std::string request = {};           // what its requests say beyond what all are asked, as JSON; empty: nothing
  bool on_processor = false;          // known to compute on this machine's processor alone: only such have a roofline
};

// The answers' quality, by teacher forcing through the float32 path of the same model.
struct Quality {
  int tokens = 0, good = 0;  // good: the most likely token, or within 0.7 nat of it
  double share() const { return tokens > 0 ? static_cast<double>(good) / tokens : 0; }
  bool passed() const { return share() >= 0.97; }
};

enum class Kind { single, sweep, dispatch };
std::string_view kind_name(Kind kind);

// One engine under one load.
struct Run {
  std::string engine;
  Kind kind = Kind::single;
  int concurrency = 1, instances = 1, round = 0;
  std::optional<Measurement> cold;  // the first request after the (first) process's start, apart from the others
  std::vector<Measurement> requests;
  double peak_memory_mib = 0;      // proportional set size, summed over the process tree; 0: not known
  std::optional<double> energy_j;  // of the processor's package, where the machine tells
  double harness_cores = 0;        // that the benchmark itself used meanwhile
  double of_bandwidth = 0;         // share of the memory's bandwidth that reading weights took in decode; 0: not known
  double of_peak = 0;              // share of int8_peak_gops over the whole time, prompts included; 0: not known
  std::optional<Quality> quality;  // once all of its answers are judged
  std::vector<std::string> noise;  // reasons not to trust this run: a busy machine, a throttled processor
};

struct RunFile {
  int contract_version = 0;
  std::string contract_sha256, date, martlet_version, model;
  bool quick = false;  // fewer and shorter requests: for trying out, not for comparing
  int max_tokens = 0;
  std::string command;
  int context = 0, threads = 0;  // as every engine was told, where it takes such
  bool interrupted = false;      // not all that was wanted was measured
  Machine machine;
  Matrices matrices;
  std::vector<int>
      prompt_tokens;  // of each of the contract's prompts as a chat of the model, for engines that tell none
  std::vector<std::string> noise;  // reasons not to trust any of it
  std::vector<EngineInfo> engines;
  std::vector<Run> runs;
};

std::string to_json(const RunFile& file);
// Errors: ErrorKind::usage `bad_result` naming the member that is missing or wrong.
Result<RunFile> from_json(std::string_view text, const std::string& where);

}  // namespace martlet::bench
