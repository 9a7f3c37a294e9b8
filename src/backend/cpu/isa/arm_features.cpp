#if defined(__aarch64__)

#include "backend/cpu/isa/arm_features.h"

#if defined(__APPLE__)
#include <sys/sysctl.h>

#include <cstddef>
#else
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace martlet::cpu {
namespace {

#if defined(__APPLE__)
bool has(const char* feature) {
  int value = 0;
  size_t size = sizeof value;
  return sysctlbyname(feature, &value, &size, nullptr, 0) == 0 && value != 0;
}
#endif

}  // namespace

#if defined(__APPLE__)
bool has_dot_product() {
  return has("hw.optional.arm.FEAT_DotProd");
}
bool has_matrix_multiply() {
  return has_dot_product() && has("hw.optional.arm.FEAT_I8MM");
}
#else
bool has_dot_product() {
  return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
}
bool has_matrix_multiply() {
  return has_dot_product() && getauxval(AT_HWCAP2) & HWCAP2_I8MM;
}
#endif

}  // namespace martlet::cpu

#endif
