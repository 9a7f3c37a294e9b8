#pragma once

// What a model needs, what fits, and how fast memory lets it be.

#include <cstdint>
#include <string>
#include <vector>

namespace martlet {

struct PlanPart {
  std::string name;      // "weights", "cache", "workspace" ...
  int64_t bytes = 0;
  std::string note;      // for people: "mapped from the file, shared"
};

struct Plan {
  std::vector<PlanPart> parts;
  int64_t ceiling = 0;             // bytes
  std::string ceiling_source;      // "--memory", "cgroup", "machine less reserve"
  int32_t context = 0;             // tokens a sequence may hold
  int32_t model_context = 0;       // what the model was trained for
  int32_t sequences = 0;           // sequences of full context that fit at once, at least 1
  int64_t cache_tokens = 0;        // tokens the page pool holds
  int64_t bytes_per_token_read = 0;// weights that decoding one token reads
  double bandwidth_gb_s = 0;       // measured, or 0 when it was not
  double roofline_tokens_per_s = 0;

  int64_t total() const {
    int64_t sum = 0;
    for (const PlanPart& part : parts) sum += part.bytes;
    return sum;
  }
};

}  // namespace martlet
