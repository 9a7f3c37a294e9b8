#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace martlet {

// Reference counts of the cache pages of one model. Every operation takes constant time and nothing is allocated after
// construction. A page may also be held by the prefix tree; one that only the tree holds can be had back (reclaimable).
class PagePool {
 public:
  explicit PagePool(int32_t pages);

  std::optional<Page> allocate();  // with one reference; nothing when no page is free
  void retain(Page page);
  void release(Page page);

  // The tree's own reference, at most one a page. retain_for_tree adds it, release_for_tree takes it away.
  void retain_for_tree(Page page);
  void release_for_tree(Page page);

  int32_t total() const { return static_cast<int32_t>(references_.size()); }
  int32_t free() const { return static_cast<int32_t>(free_.size()); }
  const std::vector<Page>& free_pages() const { return free_; }
  int32_t reclaimable() const { return reclaimable_; }               // held by the tree alone
  int32_t used() const { return total() - free() - reclaimable(); }  // held by sequences
  int32_t references(Page page) const { return references_[static_cast<size_t>(page)]; }
  bool only_in_tree(Page page) const { return in_tree_[static_cast<size_t>(page)] && references(page) == 1; }

 private:
  std::vector<int32_t> references_;
  std::vector<bool> in_tree_;
  std::vector<Page> free_;
  int32_t reclaimable_ = 0;
};

}  // namespace martlet
