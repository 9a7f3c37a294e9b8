#pragma once

// What a stream of chat completion chunks tells, event by event, for a fraction of a microsecond each.

#include <optional>
#include <string>
#include <string_view>

#include "bench/measurement.h"

namespace martlet::bench {

class ChatStream {
 public:
  // Fills in `measurement`, which must outlive it.
  explicit ChatStream(Measurement& measurement) : m_(measurement) {}

  // The data of an event that came `arrived` seconds after the beginning. What is no JSON, an error, and a text without
  // end are told in Measurement::error.
  void take(std::string_view data, double arrived);
  // No event matters any more.
  bool ended() const { return done_ || !m_.error.empty(); }
  bool has_text() const { return pieces_ > 0; }
  // Once nothing more comes: counts tokens where the server did not.
  void finish();

 private:
  std::optional<std::string_view> plain_text(std::string_view data) const;
  void learn(std::string_view data, std::string_view text);
  void parse(std::string_view data, double arrived);
  void add_piece(std::string_view text, double arrived);

  Measurement& m_;
  std::string head_, tail_;  // around the text of an event that tells nothing else
  int pieces_ = 0;
  bool counted_ = false, done_ = false;
};

}  // namespace martlet::bench
