#pragma once

// A model file in words and as JSON.

#include <boost/json/object.hpp>
#include <string>

#include "cli/model_summary.h"
#include "cli/style.h"

namespace martlet::cli {

// For people: aligned lines, each ended by a newline, nothing that could move a terminal's cursor.
std::string describe(const ModelSummary& model, const Style& style);
std::string describe_metadata(const ModelFile& file, const Style& style);  // arrays abbreviated

// For programs. Whole arrays; what is not UTF-8 has U+FFFD in its place, numbers that JSON lacks are null.
boost::json::object to_json(const ModelSummary& model);
boost::json::object metadata_to_json(const ModelFile& file);

}  // namespace martlet::cli
