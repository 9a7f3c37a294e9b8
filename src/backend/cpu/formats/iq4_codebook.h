#pragma once

#include <cstdint>

namespace martlet::cpu {
namespace {

// The sixteen values of IQ4_NL and IQ4_XS.
constexpr int8_t kIq4Codebook[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

}  // namespace
}  // namespace martlet::cpu
