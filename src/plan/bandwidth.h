#pragma once

#include <cstdint>

namespace martlet {

// Read bandwidth of this machine's memory in GB/s (10^9 bytes): the best of ten passes of `threads` threads, each over
// its own part of a buffer too large for the caches. Takes about a quarter of a second and 256 MiB, given back at the
// end.
double measure_read_bandwidth(int32_t threads);

// Processors that the process may run on.
int32_t usable_processors();

}  // namespace martlet
