#include "draft/window_rule.h"

#include <algorithm>

namespace martlet {

void WindowRule::restart() {
  window_.reset();
  known_ = 0;
  length_ = kShortest;
}

void WindowRule::verified(int32_t drafted, int32_t accepted, int32_t added) {
  if (pause_ > 0) {
    pause_ = std::max(0, pause_ - added);
    return;
  }
  if (drafted == 0) return;
  if (probing_) {
    if (accepted < kLeast * drafted) {
      pause_ = kPause;
      return;
    }
    probing_ = false;
    restart();
  }
  for (int32_t i = 0; i < drafted; ++i) {
    window_ <<= 1;
    window_[0] = i < accepted;
  }
  known_ = std::min(kWindow, known_ + drafted);
  length_ = std::clamp(length_ + (accepted == drafted ? 1 : -1), kShortest, kLongest);
  const auto most = static_cast<int32_t>(window_.count()) + kWindow - known_;
  if (most >= kLeast * kWindow) return;
  pause_ = kPause;
  probing_ = true;
  length_ = kShortest;
}

}  // namespace martlet
