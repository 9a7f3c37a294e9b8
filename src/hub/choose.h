#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace martlet {

// One model among the files of a repository: one GGUF file, or all parts of a split one in order.
using ModelFiles = std::vector<std::string>;

// The models among `names` (paths in a repository, any order), sorted by name. A split model whose parts are not all
// there is left out; so are image projectors (mmproj), which are no models by themselves.
std::vector<ModelFiles> list_models(std::span<const std::string> names);

// Chooses one model. `wanted` is a path in the repository (any part of a split model), or a quantization name (the only
// model whose file name holds it, in any case). When empty: the only model, else the only one of Q4_K_M.
// Errors: "no_such_file" (ErrorKind::model) and "ambiguous_file" (ErrorKind::usage): the caller lists the choices.
Result<ModelFiles> choose_model(const std::vector<ModelFiles>& models, std::string_view wanted);

}  // namespace martlet
