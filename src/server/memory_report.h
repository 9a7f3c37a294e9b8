#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "martlet/plan.h"

namespace martlet::server {

// What the loaded models were planned to take, and what the process really has.
struct MemoryReport {
  int32_t models_served = 0, models_loaded = 0;
  std::map<std::string, int64_t> parts;  // planned bytes by the plan's names
  int64_t ceiling = 0, resident = 0;
  int32_t pressure = 0;  // 0 none, 1 some, 2 critical
  bool refusing = false;

  void add(const Plan& plan) {
    for (const PlanPart& part : plan.parts) {
      if (part.on_host) continue;  // the ceiling is a device's
      int64_t& sum = parts[part.name];
      sum = part.of_process ? std::max(sum, part.bytes) : sum + part.bytes;
    }
  }
  int64_t planned() const {
    int64_t sum = 0;
    for (const auto& [name, bytes] : parts) sum += bytes;
    return sum;
  }
};

}  // namespace martlet::server
