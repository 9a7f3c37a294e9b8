#pragma once

// Backends, and how they run a step.

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/isa/level.h"
#include "rows.h"

namespace martlet::cpu {

inline std::unique_ptr<Backend> make_backend(const Level* level, int threads, bool f32_activations = false) {
  auto backend = make_cpu_backend({.threads = threads, .level = level, .f32_activations = f32_activations});
  EXPECT_TRUE(backend);
  return std::move(*backend);
}

inline std::vector<const Level*> available_levels() {
  std::vector<const Level*> out;
  for (const Level* level : levels()) {
    if (level->available()) out.push_back(level);
  }
  return out;
}

inline std::vector<float> random_values(size_t count, uint32_t seed, float spread = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> out(count);
  for (float& x : out) x = normal(random);
  return out;
}

inline TensorView view_of(const std::vector<float>& values, int64_t columns) {
  return {reinterpret_cast<const std::byte*>(values.data()),
          Format::F32,
          {columns, static_cast<int64_t>(values.size()) / columns, 1, 1}};
}

// Runs a step; fails the test when the step does.
inline std::vector<Chosen> run_step(Backend& backend, ModelId model, const Rows& rows, FunctionRef<Outputs()> forward,
                                    std::vector<Choice> choices = {}) {
  if (choices.empty()) choices.assign(rows.outputs.size(), {.sampling = {.temperature = 0}});
  const PageTable table = rows.page_table();
  const Batch batch = rows.batch(table);
  std::vector<Chosen> chosen(rows.outputs.size());
  std::vector<TokenLogprob> top;
  size_t tops = 0;
  for (const Choice& choice : choices) tops += static_cast<size_t>(std::max(0, choice.top));
  top.resize(tops);
  const Status status = backend.wait(backend.submit(model, batch, choices, forward), chosen, top);
  EXPECT_TRUE(status);
  return chosen;
}

}  // namespace martlet::cpu
