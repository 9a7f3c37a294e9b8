#pragma once

#include <cstdint>

#include "base/error.h"
#include "martlet/request.h"

namespace martlet {

// Errors: ErrorKind::request, `invalid_value`, where = the field's name.
Status validate(const SamplingParameters& parameters, int32_t vocabulary);

}  // namespace martlet
