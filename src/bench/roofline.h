#pragma once

// How near a run came to the two limits of its machine: how fast weights can be read, and multiplied with.

#include "bench/result.h"

namespace martlet::bench {

// Fills in Run::of_bandwidth and ::of_peak from what `file` says of machine, model and engine, which must be known to
// compute on that machine's processor.
void note_shares(const RunFile& file, Run& run);

}  // namespace martlet::bench
