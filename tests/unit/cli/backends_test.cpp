#include <gtest/gtest.h>

#include "cli/backends.h"

namespace martlet::cli {
namespace {

TEST(Backends, TheCpuIsThere) {
  const auto backend = make_backend({.name = "cpu", .threads = 1, .max_rows = 8});
  ASSERT_TRUE(backend);
  EXPECT_EQ((*backend)->name(), "cpu");
  EXPECT_FALSE((*backend)->device_memory());
}

TEST(Backends, AnUnknownNameIsRefused) {
  const auto backend = make_backend({.name = "vulkan", .max_rows = 8});
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code, "unknown_backend");
  EXPECT_EQ(backend.error().kind, ErrorKind::usage);
  EXPECT_EQ(measure_limits({.name = "vulkan"}).error().code, "unknown_backend");
}

TEST(Backends, TheProcessorSaysWhatItCanDo) {
  const auto limits = measure_limits({.name = "cpu", .threads = 1});
  ASSERT_TRUE(limits);
  EXPECT_EQ(limits->threads, 1);
  EXPECT_FALSE(limits->isa.empty());
  EXPECT_GT(limits->read_gb_s, 0);
  EXPECT_GT(limits->int8_gops, 0);
  EXPECT_EQ(limits->half_gops, 0);
}

#ifndef MARTLET_CUDA
TEST(Backends, WhatIsNotBuiltSaysHowToBuildIt) {
  const auto backend = make_backend({.name = "cuda", .max_rows = 8});
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code, "backend_not_built");
  EXPECT_NE(backend.error().text.find("release-cuda"), std::string::npos);
  EXPECT_EQ(measure_limits({.name = "cuda"}).error().text, backend.error().text);
}
#endif

}  // namespace
}  // namespace martlet::cli
