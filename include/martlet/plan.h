#pragma once

// What a model needs, what fits, and how fast memory lets it be.

#include <cstdint>
#include <string>
#include <vector>

namespace martlet {

struct PlanPart {
  std::string name;  // "weights", "cache", "workspace" ...
  int64_t bytes = 0;
  std::string note;         // for people: "mapped from the file, shared"
  bool of_process = false;  // counts once however many models are loaded
  bool on_host = false;     // in the machine's memory where the rest is a device's: counts towards no sum
};

struct Plan {
  std::vector<PlanPart> parts;
  int64_t ceiling = 0;         // bytes
  std::string ceiling_source;  // "--memory", "cgroup", "machine less reserve", "free on the device"
  int64_t copies = 0;          // the part of that name: what only speed takes, in what the others leave
  int32_t context = 0;         // tokens a sequence may hold
  int32_t wanted_context = 0;  // what it would be with memory enough
  int32_t model_context = 0;   // what the model was trained for
  int32_t sequences = 0;       // sequences of full context that fit at once, at least 1
  int64_t cache_tokens = 0;    // tokens the page pool holds
  int64_t cache_bytes_per_token = 0;
  int64_t bytes_per_token_read = 0;  // weights that decoding one token reads
  double bandwidth_gb_s = 0;         // measured, or 0 when it was not
  double roofline_tokens_per_s = 0;  // of one stream whose context is empty

  int64_t total() const {
    int64_t sum = 0;
    for (const PlanPart& part : parts) sum += part.on_host ? 0 : part.bytes;
    return sum;
  }
  // What another model beside this one cannot have.
  int64_t model_bytes() const {
    int64_t sum = 0;
    for (const PlanPart& part : parts) sum += part.of_process || part.on_host ? 0 : part.bytes;
    return sum;
  }
  bool fitted() const { return context < wanted_context; }
  // Tokens a second of one stream that already holds `tokens` tokens: their keys and values are read too.
  double roofline_at(int64_t tokens) const {
    const auto bytes = static_cast<double>(bytes_per_token_read + tokens * cache_bytes_per_token);
    return bytes > 0 ? bandwidth_gb_s * 1e9 / bytes : 0;
  }
};

}  // namespace martlet
