#pragma once

// What takes longer than a moment runs beside the I/O thread.

#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/error.h"
#include "base/out_of_memory.h"
#include "gateway/core.h"

namespace martlet::gateway {

// What `work` returns, a Result; or the error for what it throws, which would end the program on a worker's thread: a
// body of megabytes may need more memory than there is.
template <class Work>
std::invoke_result_t<Work&> caught(Work&& work) {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return insist([] { return out_of_memory(); });
  } catch (const std::exception&) {
    return Error{ErrorKind::internal, "internal_error", "", ""};
  }
}

// Runs `work`, whose result is a Result, on a worker of the server and returns what it returned. It must own all that
// it touches: whoever waits may be gone before it is done.
template <class Work>
boost::asio::awaitable<std::invoke_result_t<Work&>> on_worker(Core& core, Work work) {
  struct State {
    explicit State(boost::asio::io_context& io) : done(io, boost::asio::steady_timer::time_point::max()) {}
    boost::asio::steady_timer done;  // cancelled when `result` is there
    std::optional<std::invoke_result_t<Work&>> result;
  };
  const auto state = std::make_shared<State>(*core.io);
  core.http->work([http = core.http, state, work = std::move(work)]() mutable {
    state->result = caught(work);
    insist([&] { http->post([state] { state->done.cancel(); }); });
  });
  co_await state->done.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  co_return std::move(*state->result);
}

}  // namespace martlet::gateway
