#include "cache/page_pool.h"

#include <cassert>

namespace martlet {

PagePool::PagePool(int32_t pages) : references_(static_cast<size_t>(pages)), in_tree_(static_cast<size_t>(pages)) {
  free_.reserve(references_.size());
  for (Page page = pages - 1; page >= 0; --page) free_.push_back(page);
}

std::optional<Page> PagePool::allocate() {
  if (free_.empty()) return std::nullopt;
  const Page page = free_.back();
  free_.pop_back();
  references_[static_cast<size_t>(page)] = 1;
  return page;
}

void PagePool::retain(Page page) {
  assert(references(page) > 0);
  if (only_in_tree(page)) --reclaimable_;
  ++references_[static_cast<size_t>(page)];
}

void PagePool::release(Page page) {
  assert(references(page) > 0);
  if (--references_[static_cast<size_t>(page)] == 0) free_.push_back(page);
  if (only_in_tree(page)) ++reclaimable_;
}

void PagePool::retain_for_tree(Page page) {
  assert(!in_tree_[static_cast<size_t>(page)]);
  retain(page);
  in_tree_[static_cast<size_t>(page)] = true;
}

void PagePool::release_for_tree(Page page) {
  assert(in_tree_[static_cast<size_t>(page)]);
  if (only_in_tree(page)) --reclaimable_;
  in_tree_[static_cast<size_t>(page)] = false;
  release(page);
}

}  // namespace martlet
