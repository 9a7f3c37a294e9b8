#pragma once

// Reading the template vectors: NAME.jinja with NAME.json = {case: {"inputs": {...}, "output" | "error": "..."}}.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>

#include "chat/chat_template.h"
#include "shared.h"

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream out;
  out << file.rdbuf();
  return out.str();
}

inline boost::json::object read_json(const std::string& path) {
  return boost::json::parse(read_text(path)).as_object();
}

// Names of the template vectors; empty when the reference data is absent.
inline std::vector<std::string> template_names() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(shared_path("vectors/templates"), none)) {
    if (entry.path().extension() == ".jinja") names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Limits for renders that are no matter of time: a busy machine must not make them fail.
inline martlet::TemplateLimits patient() {
  return {.time = std::chrono::seconds(20)};
}

// 2026-07-04 12:00, when the vectors were made.
inline std::chrono::system_clock::time_point vector_time() {
  using namespace std::chrono;
  return sys_days(year(2026) / July / 4) + hours(12);
}
