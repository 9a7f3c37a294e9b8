#include "model/architectures.h"

#include "model/model.h"

namespace martlet {

#define MARTLET_MODEL(name) std::unique_ptr<Model> build_##name(Loader& load);
#include "model/models.def"
#undef MARTLET_MODEL

namespace {

struct Row {
  std::string_view name;
  Build build;
};
constexpr Row kRows[] = {
#define MARTLET_MODEL(name) {#name, build_##name},
#include "model/models.def"
#undef MARTLET_MODEL
};

}  // namespace

Build find_architecture(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.build;
  return nullptr;
}

std::string architecture_names() {
  std::string names;
  for (const Row& row : kRows) names += (names.empty() ? "" : ", ") + std::string(row.name);
  return names;
}

}  // namespace martlet
