#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/ids.h"
#include "cache/page_pool.h"

namespace martlet {

// Remembers which pages hold the keys and values of which token sequences, so that a prompt can start where an earlier
// one already was: a tree whose nodes are whole pages, each found from its parent by the page's tokens (compared, not
// hashed: no two prefixes are ever confused). Prefixes of different scopes (model, adapter, tenant) never meet.
//
// The tree holds one reference to each of its pages. Whoever holds a node's page through a prefix holds those of all
// its ancestors too, so pages that only the tree holds can always be taken back from the leaves.
class PrefixTree {
 public:
  PrefixTree(PagePool& pool, int32_t page_tokens) : pool_(pool), page_tokens_(page_tokens) {}
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  // Pages of the longest known prefix of `tokens` in whole pages, each retained for the caller.
  std::vector<Page> adopt(int64_t scope, std::span<const Token> tokens);

  // Makes full pages known: page i holds tokens [i * page_tokens, (i + 1) * page_tokens). Where the tree already has a
  // page for the same tokens, the caller's page is released and replaced in `pages` by the tree's, which holds the same
  // values.
  void publish(int64_t scope, std::span<const Token> tokens, std::span<Page> pages);

  // Gives the least recently used page that nobody else holds back to the pool; false when there is none.
  bool evict();

  int32_t pages() const { return static_cast<int32_t>(recent_.size()); }

 private:
  struct Node;
  using Key = std::span<const Token>;
  struct Less {
    bool operator()(Key a, Key b) const;
  };
  // A node owns the tokens that its key in the parent's map points to.
  struct Node {
    std::vector<Token> tokens;
    Node* parent = nullptr;
    Page page = -1;
    std::map<Key, std::unique_ptr<Node>, Less> children;
    std::list<Node*>::iterator place;  // in recent_
  };

  Node* find(Node& parent, Key key);
  Node* add(Node& parent, Key key, Page page);
  void touch(Node* deepest);
  void remove(Node* leaf);

  PagePool& pool_;
  const int32_t page_tokens_;
  std::map<int64_t, Node> roots_;  // by scope
  std::list<Node*> recent_;        // most recently used first; a node always before its descendants
};

}  // namespace martlet
