#pragma once

#include <string>

#include "base/error.h"

namespace martlet {

// The path of the model file that `model` names: a path, an alias of aliases.def, or hf:owner/repository[:file] when it
// has been pulled. Empty: the default model. For a split model, the path of its first part. Errors say how to get the
// model: ErrorKind::io, "model_not_found"; a reference that does not parse or fits several files: ErrorKind::usage,
// "bad_reference", "ambiguous_file".
Result<std::string> resolve_model(const std::string& model);

}  // namespace martlet
