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
// one already was: a radix tree whose edges are the tokens of one page each (compared, not hashed: no two prefixes are
// ever confused). Prefixes of different scopes (model, adapter, tenant) never meet.
//
// A page that is not full may stand at the end of a path: its owner may go on writing behind the tokens that the tree
// knows. Full pages are shared; part of a page is copied by whoever adopts it.
//
// Where std::bad_alloc leaves a call, tree and pool are sound and the caller holds what it held before.
//
// The tree holds one reference to each of its pages. Whoever holds a node's page through a prefix holds those of all
// its ancestors too, so pages that only the tree holds can always be taken back from the leaves. What was taken back is
// remembered without its page, as many nodes as the pool has pages, so that a miss can be told from an eviction.
class PrefixTree {
 public:
  PrefixTree(PagePool& pool, int32_t page_tokens) : pool_(pool), page_tokens_(page_tokens) {}
  ~PrefixTree();
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  struct Match {
    std::vector<Page> pages;     // whole pages of the longest known prefix, each retained for the caller
    Page partial = -1;           // retained too: its first `partial_tokens` slots go on with the prefix; to be copied
    int32_t partial_tokens = 0;  // below page_tokens; 0: no such page
    bool evicted = false;        // a longer prefix was known once
  };
  Match adopt(int64_t scope, std::span<const Token> tokens);

  // Makes pages known: page i holds tokens [i * page_tokens, (i + 1) * page_tokens), the last one perhaps fewer. Where
  // the tree already has a full page for the same tokens, the caller's page is released and replaced in `pages` by the
  // tree's, which holds the same values.
  void publish(int64_t scope, std::span<const Token> tokens, std::span<Page> pages);

  // Gives the least recently used page that nobody else holds back to the pool; false when there is none.
  bool evict();

  int32_t pages() const { return static_cast<int32_t>(recent_.size()); }

  // A page of a scope as it can be written down: which other page of the list it goes on from.
  struct Listed {
    int32_t parent = -1;            // its place in the list, below this one's; -1: it begins a prompt
    std::span<const Token> tokens;  // 1 to page_tokens of them; those of a parent fill its page
    Page page = -1;
  };
  // Most recently used first; borrowed until the tree changes.
  std::vector<Listed> list(int64_t scope) const;
  // Puts such a list into a scope that is empty, as far as there is memory: how many of its first entries. The pages'
  // references pass to the tree, those of the others are released.
  int32_t restore(int64_t scope, std::span<const Listed> listed);

 private:
  struct Node;
  using Key = std::span<const Token>;
  struct Less {
    bool operator()(Key a, Key b) const;
  };
  using Nodes = std::map<Key, std::unique_ptr<Node>, Less>;
  // A node owns the tokens that its key in the parent's map points to. No child's tokens begin another child's.
  struct Node {
    std::vector<Token> tokens;
    Node* parent = nullptr;
    Page page = -1;
    Nodes children;
    Nodes evicted;                     // remembered children without pages; all below them are such too
    std::list<Node*>::iterator place;  // in recent_ or remembered_
  };
  struct Closest {
    Node* node;
    size_t common;  // leading tokens
  };

  static Closest closest(const Nodes& nodes, Key key);
  Node* find(Node& parent, Key key);
  Node* add(Node& parent, Key key, Page page);
  void add_partial(Node& parent, Key key, Page page);
  void absorb_partial(Node& parent, Key key);
  void touch(Node* deepest);
  void remember(Node* leaf);

  PagePool& pool_;
  const int32_t page_tokens_;
  std::map<int64_t, Node> roots_;  // by scope
  std::list<Node*> recent_;        // most recently used first; a node always before its descendants
  std::list<Node*> remembered_;    // last evicted first; a node always before its descendants
};

}  // namespace martlet
