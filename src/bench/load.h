#pragma once

// Offers requests to one or more instances and measures each: one after another, many at once, or all at once to
// several processes that pull from one queue.

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/target.h"

namespace martlet::bench {

struct Load {
  std::vector<std::string> prompts;  // request i asks prompts[i % size]
  int first_prompt = 0;              // where in them this load begins
  int requests = 0;
  int max_tokens = 0;
  int streams = 1;               // at once to each instance
  bool offered_at_once = false;  // all are there at the beginning and wait; else each is offered when it is sent
};

// Runs the load to its end, or until `stop` answers true: then what was answered until then is returned. `progress` is
// called after each answer, `stop` ten times a second and before each request, both on the calling thread.
std::vector<Measurement> run_load(std::span<const std::unique_ptr<Instance>> instances, const Load& load,
                                  const std::function<void(const Measurement&)>& progress, const StopAsked& stop);

}  // namespace martlet::bench
