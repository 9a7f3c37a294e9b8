#include "gateway/on_worker.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace martlet::gateway {
namespace {

TEST(GatewayFaults, G5_WhatAWorkerThrowsIsTheErrorOfItsRequest) {
  EXPECT_EQ(*caught([] { return Result<int>(7); }), 7);
  const auto short_of_memory = caught([]() -> Result<int> { throw std::bad_alloc(); });
  ASSERT_FALSE(short_of_memory);
  EXPECT_EQ(short_of_memory.error().kind, ErrorKind::memory);
  EXPECT_EQ(short_of_memory.error().code, "out_of_memory");
  const auto broken = caught([]() -> Result<int> { throw std::length_error("too long"); });
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, "internal_error");
}

}  // namespace
}  // namespace martlet::gateway
