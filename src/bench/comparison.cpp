#include "bench/comparison.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "bench/report.h"

namespace martlet::bench {
namespace {

using Figure = double (*)(const Measurement&);
constexpr std::pair<const char*, Figure> kCompared[] = {{"TTFT", ttft}, {"TPOT", tpot}, {"tokens/s", effective_rate}};

struct Trait {
  const char* name;
  std::string (*value)(const RunFile& file);
};
constexpr Trait kTraits[] = {
    {"benchmark", [](const RunFile& f) { return f.martlet_version; }},
    {"model", [](const RunFile& f) { return f.model; }},
    {"context", [](const RunFile& f) { return std::to_string(f.context); }},
    {"threads", [](const RunFile& f) { return std::to_string(f.threads); }},
    {"processor", [](const RunFile& f) { return f.machine.processor; }},
    {"cores", [](const RunFile& f) { return std::to_string(f.machine.cores); }},
    {"memory in GiB", [](const RunFile& f) { return fmt::format("{:.1f}", f.machine.memory_gib); }},
    {"system", [](const RunFile& f) { return f.machine.system; }},
};
constexpr std::pair<const char*, std::string EngineInfo::*> kEngineTraits[] = {
    {"version", &EngineInfo::version}, {"command", &EngineInfo::command}, {"request", &EngineInfo::request}};

constexpr double kBandwidthChange = 0.1;  // that one machine may have between two runs

void tell(std::string& out, const std::string& name, const std::string& before, const std::string& after) {
  const auto known = [](const std::string& value) { return value.empty() ? "not told" : value; };
  if (before != after) out += fmt::format("  {}: {}, then {}\n", name, known(before), known(after));
}

std::string differences(const RunFile& before, const RunFile& after) {
  std::string out;
  for (const Trait& trait : kTraits) tell(out, trait.name, trait.value(before), trait.value(after));
  const double a = before.machine.bandwidth_gb_s, b = after.machine.bandwidth_gb_s;
  if (std::abs(b - a) > kBandwidthChange * a)
    tell(out, "memory bandwidth in GB/s", fmt::format("{:.1f}", a), fmt::format("{:.1f}", b));
  for (const EngineInfo& engine : before.engines) {
    for (const EngineInfo& other : after.engines) {
      if (other.name != engine.name) continue;
      for (const auto& [name, member] : kEngineTraits)
        tell(out, engine.name + " " + name, engine.*member, other.*member);
    }
  }
  if (!out.empty()) out = "not the same in both, so a change may be due to that:\n" + out;
  if (before.quick) out += "quick runs, for trying out: a change here says little\n";
  for (const auto& [file, which] : {std::pair{&before, "first"}, std::pair{&after, "second"}})
    for (const std::string& reason : file->noise) out += fmt::format("the {} run is noisy: {}\n", which, reason);
  return out;
}

std::vector<double> values(const Cell& cell, Figure figure) {
  std::vector<double> out;
  for (const Measurement& m : cell.requests)
    if (m.ok()) out.push_back(figure(m));
  return out;
}

std::string change(const Cell& a, const Cell& b) {
  const bool noisy = !a.noise.empty() || !b.noise.empty();
  std::string out = fmt::format("{} {} (streams {}, processes {}{})\n", a.engine, kind_name(a.kind), a.concurrency,
                                a.instances, noisy ? "; marked as noisy" : "");
  for (const auto& [name, figure] : kCompared) {
    const Change c = compare(values(a, figure), values(b, figure));
    if (c.ratio > 0) {
      out += fmt::format("  {:9} x {:.3f} (95 %: {:.3f} to {:.3f}){}\n", name, c.ratio, c.low, c.high,
                         c.certain() ? "" : ", no certain change");
    }
  }
  const double together = median(a.aggregate_rates);
  if (together > 0)
    out += fmt::format("  {:9} x {:.3f} (medians of {} and {} rounds)\n", "together",
                       median(b.aggregate_rates) / together, a.aggregate_rates.size(), b.aggregate_rates.size());
  return out;
}

}  // namespace

Status same_contract(const RunFile& a, const RunFile& b) {
  if (a.contract_version == b.contract_version && a.contract_sha256 == b.contract_sha256) return {};
  return Error{ErrorKind::usage, "contract_mismatch", "the results follow different contracts and cannot be compared",
               ""};
}

Result<std::string> text_comparison(const RunFile& before, const RunFile& after) {
  MARTLET_TRY(same_contract(before, after));
  if (before.quick != after.quick || before.max_tokens != after.max_tokens)
    return Error{ErrorKind::usage, "work_mismatch",
                 "one result is of a quick run, or of longer answers: figures of different work cannot be compared",
                 "--compare"};
  const std::vector<Cell> old_cells = pool(before.runs), new_cells = pool(after.runs);
  std::string changes;
  for (const Cell& a : old_cells) {
    const auto b = std::find_if(new_cells.begin(), new_cells.end(), [&](const Cell& c) {
      return c.engine == a.engine && c.kind == a.kind && c.concurrency == a.concurrency && c.instances == a.instances;
    });
    if (b != new_cells.end()) changes += change(a, *b);
  }
  if (changes.empty())
    return Error{ErrorKind::usage, "nothing_in_common", "the two results measured no load in common", "--compare"};
  return differences(before, after) + changes;
}

}  // namespace martlet::bench
