#pragma once

#include <cstdint>

namespace martlet {

// Read bandwidth of this machine's memory in GB/s (10^9 bytes): the best of ten passes of `threads` threads, each over
// its own part of a buffer too large for the caches. Takes about a quarter of a second and 256 MiB, given back at the
// end.
double measure_read_bandwidth(int32_t threads);

}  // namespace martlet
