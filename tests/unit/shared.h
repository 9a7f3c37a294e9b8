#pragma once

// Where the tests find the reference vectors: MARTLET_SHARED, or ../shared beside the checkout. Absent on a user's
// machine: a test that needs them skips and says so.

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

inline std::string shared_path(const std::string& relative) {
  const char* base = std::getenv("MARTLET_SHARED");
  return std::string(base ? base : "../shared") + "/" + relative;
}

#define MARTLET_NEEDS_SHARED(relative) \
  if (!std::filesystem::exists(shared_path(relative))) GTEST_SKIP() << "reference data not present: " << relative
