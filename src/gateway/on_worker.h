#pragma once

// What takes longer than a moment runs beside the I/O thread.

#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "gateway/core.h"

namespace martlet::gateway {

// Runs `work` on a worker of the server and returns what it returned. It must own all that it touches: whoever waits
// may be gone before it is done.
template <class Work>
boost::asio::awaitable<std::invoke_result_t<Work>> on_worker(Core& core, Work work) {
  struct State {
    explicit State(boost::asio::io_context& io) : done(io, boost::asio::steady_timer::time_point::max()) {}
    boost::asio::steady_timer done;  // cancelled when `result` is there
    std::optional<std::invoke_result_t<Work>> result;
  };
  const auto state = std::make_shared<State>(*core.io);
  core.http->work([http = core.http, state, work = std::move(work)]() mutable {
    state->result = work();
    http->post([state = std::move(state)] { state->done.cancel(); });
  });
  co_await state->done.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  co_return std::move(*state->result);
}

}  // namespace martlet::gateway
