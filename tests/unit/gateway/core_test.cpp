#include "gateway/core.h"

#include <gtest/gtest.h>

namespace martlet::gateway {
namespace {

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr Machine kMac{Platform::macos, Accelerator::metal, 16 * kGiB};
constexpr Machine kOldMac{Platform::macos, Accelerator::none, 8 * kGiB};
constexpr Machine kServer{Platform::linux_, Accelerator::cuda, 64 * kGiB};
constexpr Machine kPlain{Platform::linux_, Accelerator::none, 4 * kGiB};

TEST(Machine, MlxSuitsMetalAndTheOthersSuitTheRest) {
  for (const Machine& machine : {kMac, kOldMac, kServer, kPlain}) {
    const bool metal = machine.accelerator == Accelerator::metal;
    EXPECT_EQ(favours(machine, UpstreamKind::mlx_lm), metal);
    for (const UpstreamKind kind : {UpstreamKind::martlet, UpstreamKind::llama_server, UpstreamKind::openai}) {
      EXPECT_EQ(favours(machine, kind), !metal);
    }
  }
}

TEST(Machine, MeetsWhatIsAskedOfItAndOnlyThat) {
  const auto met_by = [](const Conditions& conditions) {
    std::string out;
    for (const Machine& machine : {kMac, kOldMac, kServer, kPlain}) out += meets(machine, conditions) ? '1' : '0';
    return out;
  };
  EXPECT_EQ(met_by({}), "1111");
  EXPECT_EQ(met_by({.platform = Platform::macos}), "1100");
  EXPECT_EQ(met_by({.platform = Platform::linux_}), "0011");
  EXPECT_EQ(met_by({.accelerator = Accelerator::metal}), "1000");
  EXPECT_EQ(met_by({.accelerator = Accelerator::cuda}), "0010");
  EXPECT_EQ(met_by({.accelerator = Accelerator::none}), "0101");
  EXPECT_EQ(met_by({.memory = 8 * kGiB}), "1110");
  EXPECT_EQ(met_by({.memory = 8 * kGiB + 1}), "1010");
  EXPECT_EQ(met_by({.platform = Platform::macos, .accelerator = Accelerator::metal, .memory = 17 * kGiB}), "0000");
}

TEST(Machine, ThisOneIsTheOneItWasBuiltFor) {
#ifdef __APPLE__
  EXPECT_EQ(this_machine().platform, Platform::macos);
#else
  EXPECT_EQ(this_machine().platform, Platform::linux_);
  EXPECT_NE(this_machine().accelerator, Accelerator::metal);
#endif
  EXPECT_GT(this_machine().memory, int64_t{256} << 20);
}

}  // namespace
}  // namespace martlet::gateway
