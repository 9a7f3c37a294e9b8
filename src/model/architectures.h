#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace martlet {

class Loader;
class Model;

// Builds one architecture's model from its tensors; what was wrong stays in the loader.
using Build = std::unique_ptr<Model> (*)(Loader& load);

// null for a name that models.def does not have.
Build find_architecture(std::string_view name);
std::string architecture_names();  // "llama, qwen2, qwen3"

}  // namespace martlet
