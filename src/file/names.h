#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "file/model_file.h"

namespace martlet {

inline std::string_view name_of(const NamedTensor& tensor) {
  return tensor.name;
}
inline std::string_view name_of(const std::pair<std::string_view, Metadata>& entry) {
  return entry.first;
}

// Indices of `rows`, sorted by name; rows of the same name in their own order.
template <class Row>
std::vector<uint32_t> sorted_by_name(const std::vector<Row>& rows) {
  std::vector<uint32_t> index(rows.size());
  std::iota(index.begin(), index.end(), 0);
  std::sort(index.begin(), index.end(), [&](uint32_t a, uint32_t b) {
    const int order = name_of(rows[a]).compare(name_of(rows[b]));
    return order != 0 ? order < 0 : a < b;
  });
  return index;
}

// A row whose name an earlier row has too, or null. `index`: of sorted_by_name.
template <class Row>
const Row* find_duplicate(const std::vector<Row>& rows, const std::vector<uint32_t>& index) {
  const auto same = [&](uint32_t a, uint32_t b) { return name_of(rows[a]) == name_of(rows[b]); };
  const auto found = std::adjacent_find(index.begin(), index.end(), same);
  return found == index.end() ? nullptr : &rows[found[1]];
}

template <class Row>
const Row* find_by_name(const std::vector<Row>& rows, const std::vector<uint32_t>& index, std::string_view name) {
  const auto before = [&](uint32_t row, std::string_view wanted) { return name_of(rows[row]) < wanted; };
  const auto found = std::lower_bound(index.begin(), index.end(), name, before);
  return found == index.end() || name_of(rows[*found]) != name ? nullptr : &rows[*found];
}

}  // namespace martlet
