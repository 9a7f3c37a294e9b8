#pragma once

#include <cstdint>

namespace martlet {

using Token = int32_t;  // an index into the vocabulary; negative values have meanings of their own where documented
using Page = int32_t;   // a page of the cache pool

}  // namespace martlet
