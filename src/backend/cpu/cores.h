#pragma once

#include <string>
#include <vector>

namespace martlet::cpu {

// Processor numbers that this process may run on (affinity mask); empty where the system does not say.
std::vector<int> allowed_processors();

// Physical cores worth one thread each: of the `allowed` processors, hyper-threads counted once, on hybrid processors
// the fast kind only, and no more than the CPU quota of the process's cgroup (v1 and v2, all levels). At least 1.
// `root` is where /sys and /proc are found.
int usable_cores(const std::vector<int>& allowed = allowed_processors(), const std::string& root = "");

}  // namespace martlet::cpu
