#pragma once

// What every reader of JSON here leaves to Boost.JSON's parser: no limits of its own (readers count values and depth,
// and inputs are bounded), pieces of numbers and comments of no interest. Readers derive from it and add the events
// that they build from.

#include <cstddef>

#include <boost/json/error.hpp>
#include <boost/json/string_view.hpp>

namespace martlet::server {

struct JsonEvents {
  static constexpr size_t max_object_size = size_t(-1);
  static constexpr size_t max_array_size = size_t(-1);
  static constexpr size_t max_key_size = size_t(-1);
  static constexpr size_t max_string_size = size_t(-1);
  using error_code = boost::json::error_code;
  using string_view = boost::json::string_view;

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_number_part(string_view, error_code&) { return true; }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }
};

}  // namespace martlet::server
