#pragma once

// What a process and all that it started use.

#include <cstdint>
#include <optional>
#include <vector>

namespace martlet::bench {

// `root` and its descendants, root first. Empty when it is gone.
std::vector<int> process_tree(int root);

// Bytes of memory summed over the trees. Linux: proportional set size, so that pages which several processes map, such
// as weights, count once among those that share them. macOS: physical footprint, which leaves mapped files out.
// Nothing when the system does not tell.
std::optional<int64_t> memory_of(const std::vector<int>& roots);

// Seconds of processor time that the trees have used, ended children that were waited for included.
double cpu_seconds_of(const std::vector<int>& roots);

}  // namespace martlet::bench
