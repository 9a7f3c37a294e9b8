#pragma once

namespace martlet::cli {

// Escape sequences around text for people; all empty where they do not belong.
struct Style {
  const char* bold = "";
  const char* dim = "";
  const char* warning = "";
  const char* plain = "";  // ends any of the others
};

// Colours when `descriptor` is a terminal and NO_COLOR is unset or empty.
Style style_of(int descriptor);

}  // namespace martlet::cli
