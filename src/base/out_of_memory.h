#pragma once

// Where the system has no memory for a moment, std::bad_alloc ends what one request was doing and not the process. One
// limit is Asio's: where an allocation inside it fails, and then the one with which it would unwind the coroutine that
// waited, it ends the process.

#include <chrono>
#include <new>
#include <thread>

#include "base/error.h"

namespace martlet {

inline Error out_of_memory() {
  return {ErrorKind::memory, "out_of_memory", "no memory left for this request", ""};
}

// Calls again, a millisecond later, what finds no memory: for what somebody else would wait for in vain, such as the
// news that a request has ended. What `call` did before it threw it must bear to do again.
template <class Call>
auto insist(Call call) {
  for (;;) {
    try {
      return call();
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

// Calls what can be left out when there is no memory for it.
template <class Call>
void if_memory_allows(Call call) {
  try {
    call();
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace martlet
