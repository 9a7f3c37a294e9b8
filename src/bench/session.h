#pragma once

// Runs the turns of a schedule: starts an engine, warms it up, measures, stops it.

#include <functional>
#include <memory>
#include <vector>

#include "bench/schedule.h"
#include "bench/target.h"

namespace martlet::bench {

// What a session tells while it runs. All on its thread.
struct Listener {
  std::function<void(const Turn& turn, const char* doing)> doing;  // "starts", "warms up", "measures"
  std::function<void(const Turn& turn, const Measurement& answer)> answered;
  std::function<void(Run run)> measured;  // a turn that went to its end, or what there is of one that was stopped
  StopAsked stop;
};

// Goes through all turns, or until `stop`. A turn whose engine does not start ends the session with that error; what
// was measured before has been told.
Status run_session(const std::vector<std::unique_ptr<Target>>& targets, const Amounts& amounts,
                   const std::vector<Turn>& turns, const Listener& listener);

}  // namespace martlet::bench
