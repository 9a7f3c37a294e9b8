#include "cli/chat/interrupts.h"

#include <signal.h>

#include <atomic>

namespace martlet::cli {
namespace {

std::atomic<bool> flag{false};
static_assert(std::atomic<bool>::is_always_lock_free);  // a signal handler may touch it

void handle(void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, nullptr);
}

}  // namespace

Interrupts::Interrupts() {
  flag = false;
  handle([](int) { flag = true; });
}

Interrupts::~Interrupts() {
  handle(SIG_DFL);
}

bool Interrupts::raised() const {
  return flag;
}

}  // namespace martlet::cli
