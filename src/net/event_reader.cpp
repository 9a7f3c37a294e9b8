#include "net/event_reader.h"

#include <algorithm>
#include <utility>

namespace martlet::net {
namespace {

// The value of a line "name: value" when it has that name.
std::optional<std::string_view> value_of(std::string_view line, std::string_view name) {
  if (!line.starts_with(name)) return std::nullopt;
  line.remove_prefix(name.size());
  if (line.empty()) return line;
  if (line[0] != ':') return std::nullopt;
  line.remove_prefix(line.starts_with(": ") ? 2 : 1);
  return line;
}

}  // namespace

bool EventReader::add(std::string_view bytes) {
  buffer_ += bytes;
  // What next() has not taken yet counts too: whoever adds takes all events first.
  return buffer_.size() + event_.data.size() <= limit_;
}

std::optional<Event> EventReader::next() {
  Event event;
  if (!next(event)) return std::nullopt;
  return event;
}

bool EventReader::next(Event& out) {
  size_t begin = 0;
  bool found = false;
  while (!found) {
    const size_t end = buffer_.find('\n', std::max(begin, scanned_));
    if (end == buffer_.npos) break;
    std::string_view line(buffer_.data() + begin, end - begin);
    begin = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) {
      found = std::exchange(has_data_, false);
      if (found) std::swap(out, event_);
      event_.name.clear();
      event_.data.clear();
    } else if (const auto data = value_of(line, "data")) {
      if (std::exchange(has_data_, true)) event_.data += '\n';
      event_.data += *data;
    } else if (const auto name = value_of(line, "event")) {
      event_.name = *name;
    }
  }
  buffer_.erase(0, begin);
  scanned_ = found ? 0 : buffer_.size();
  return found;
}

}  // namespace martlet::net
