#pragma once

// Server-sent events from bytes, however the network cuts them, within a bound.

#include <optional>
#include <string>
#include <string_view>

namespace martlet::net {

struct Event {
  std::string name;  // of an "event:" line; mostly empty
  std::string data;  // of all "data:" lines, joined by line breaks
};

class EventReader {
 public:
  explicit EventReader(size_t limit = 1u << 20) : limit_(limit) {}

  // False when what belongs to one event exceeds the limit: nothing more can be read then.
  bool add(std::string_view bytes);
  // The next whole event that has data. Comments are dropped. The second replaces what `event` holds and uses its
  // memory; false when there is none.
  std::optional<Event> next();
  bool next(Event& event);
  bool inside() const { return !buffer_.empty() || !event_.data.empty(); }  // of an event that has not ended

 private:
  const size_t limit_;
  std::string buffer_;  // bytes after the last line that was taken
  size_t scanned_ = 0;  // of the buffer's beginning, without a line break
  Event event_;         // lines so far
  bool has_data_ = false;
};

}  // namespace martlet::net
