#pragma once

#include <cstdint>

namespace martlet {

// Bytes of this process in memory now, mapped files included; 0 where the system does not say.
int64_t resident_bytes();

}  // namespace martlet
