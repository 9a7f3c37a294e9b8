#pragma once

#include <string>
#include <string_view>

namespace martlet {

// `text` as a terminal or a log may show it: one line, invalid UTF-8 as U+FFFD, control characters (C0, DEL and C1,
// which some terminals obey too) as '?', but for those in `kept`.
std::string printable(std::string_view text, std::string_view kept = {});

}  // namespace martlet
