#pragma once

// One request being answered. Handlers answer from any thread; the connection writes what they say and tells them when
// the peer has gone.

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "net/http_message.h"

namespace martlet::net {

class Exchange {
 public:
  // `wake` tells the connection that there is something to write; it may be called from any thread.
  // `buffer_limit`: bytes that may wait while the peer takes none (stalled()); beyond it the exchange counts as closed.
  // One piece is taken whatever its size: it is there already, and its end is no fault of the peer's.
  Exchange(HttpRequest request, size_t buffer_limit, std::function<void()> wake);

  HttpRequest& request() { return request_; }

  // The whole answer, at once. Nothing may follow.
  void reply(HttpResponse response);
  // The head of an answer whose body comes in pieces. `filler` is sent whenever nothing else was for a while, so that
  // neither peer nor proxies give up during a long prefill (for SSE: a comment); it may be empty.
  void begin_stream(HttpResponse head, std::string filler);
  void write(std::string_view piece);
  // Ends a stream; `close` also ends the connection (after an error event).
  void end(bool close = false);

  // `callback` runs once, on the I/O thread, if the peer goes away before the answer is complete; at once when it has.
  void on_close(std::function<void()> callback);
  bool closed() const;
  bool ended() const;  // nothing follows what waits
  // Bytes of a stream that the connection has not taken yet. A producer that can wait holds this down: `callback` runs,
  // on the I/O thread, whenever some were taken.
  size_t waiting() const;
  void on_taken(std::function<void()> callback);
  bool overflowed() const;  // more waits than the limit: what follows is lost, so the answer is

  // The connection's side: what became ready since the last call.
  struct Output {
    std::optional<HttpResponse> head;
    bool stream = false;  // `head` begins a stream
    std::string bytes;    // of the stream
    bool done = false;
    bool close = false;
  };
  Output take();
  // Whether a write waits for the peer at this moment. Only then does what is written count against the limit: while
  // the connection is merely busy, a burst of pieces must not look like a peer that does not read.
  void stalled(bool waits);
  const std::string& filler() const { return filler_; }
  // The peer is gone, or too slow: runs the callback unless the answer is complete.
  void close();
  int status() const;  // of the answer, 0 while there is none

 private:
  HttpRequest request_;
  const size_t buffer_limit_;
  std::function<void()> wake_;
  mutable std::mutex mutex_;
  Output pending_;
  std::string filler_;
  std::function<void()> callback_, taken_;
  int status_ = 0;
  bool answered_ = false, finished_ = false, closed_ = false, overflowed_ = false, stalled_ = false;
};

}  // namespace martlet::net
