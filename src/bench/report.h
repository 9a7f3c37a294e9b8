#pragma once

// The report of one or more runs: one self-contained HTML page, tables and SVG plots, without script or network.

#include <string>
#include <vector>

#include "base/error.h"
#include "bench/result.h"

namespace martlet::bench {

// All rounds of one engine under one load, pooled.
struct Cell {
  std::string engine;
  Kind kind = Kind::single;
  int concurrency = 1, instances = 1;
  std::vector<Measurement> requests;          // of all rounds
  std::vector<double> aggregate_rates;        // one a round
  std::vector<double> cold_ttfts;             // likewise, where a first request was measured apart
  std::vector<double> of_bandwidth, of_peak;  // likewise, where known
  double peak_memory_mib = 0;                 // the largest
  double energy_j = 0;                        // summed; 0: not known
  Quality quality;                            // summed
  std::vector<std::string> noise;             // of all rounds, each reason once
};

// In the order in which they first appear.
std::vector<Cell> pool(const std::vector<Run>& runs);

// One result. Errors: ErrorKind::io, and ErrorKind::usage `bad_result`.
Result<RunFile> read_result(const std::string& path);

// Loads whose rounds differ so much that the machine must have changed meanwhile: a line each.
std::vector<std::string> unsteady(const std::vector<Run>& runs);

// Every result file (*.json) of a folder, oldest first. Errors: ErrorKind::io, and bad_result for a file that is none.
Result<std::vector<RunFile>> read_results(const std::string& folder);

// Errors: ErrorKind::usage `contract_mismatch`, for results of different contract versions are never mixed.
Result<std::string> html_report(const std::vector<RunFile>& files);

}  // namespace martlet::bench
