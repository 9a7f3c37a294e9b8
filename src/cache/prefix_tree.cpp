#include "cache/prefix_tree.h"

#include <algorithm>
#include <new>

namespace martlet {

bool PrefixTree::Less::operator()(Key a, Key b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

PrefixTree::~PrefixTree() {
  for (const Node* node : recent_) pool_.release_for_tree(node->page);
}

// In lexicographic order, whatever shares the most leading tokens with `key` stands beside its place.
PrefixTree::Closest PrefixTree::closest(const Nodes& nodes, Key key) {
  Closest best{nullptr, 0};
  const auto consider = [&](const Nodes::value_type& entry) {
    const Key other = entry.first;
    const auto end = std::mismatch(key.begin(), key.end(), other.begin(), other.end()).first;
    const auto common = static_cast<size_t>(end - key.begin());
    if (common > best.common) best = {entry.second.get(), common};
  };
  const auto after = nodes.lower_bound(key);
  if (after != nodes.end()) consider(*after);
  if (after != nodes.begin()) consider(*std::prev(after));
  return best;
}

PrefixTree::Node* PrefixTree::find(Node& parent, Key key) {
  const auto found = parent.children.find(key);
  return found == parent.children.end() ? nullptr : found->second.get();
}

// Whatever may find no memory comes before anything that would have to be taken back.
PrefixTree::Node* PrefixTree::add(Node& parent, Key key, Page page) {
  if (auto known = parent.evicted.extract(key)) {
    pool_.retain_for_tree(page);
    Node* node = known.mapped().get();
    node->page = page;
    recent_.splice(recent_.end(), remembered_, node->place);
    parent.children.insert(std::move(known));
    return node;
  }
  auto node = std::make_unique<Node>();
  Node* added = node.get();
  added->tokens.assign(key.begin(), key.end());
  added->parent = &parent;
  added->page = page;
  std::list<Node*> place{added};
  added->place = place.begin();
  parent.children.emplace(Key(added->tokens), std::move(node));
  recent_.splice(recent_.end(), place);
  pool_.retain_for_tree(page);
  return added;
}

// A part of a page that begins `key` says nothing that `key` will not say.
void PrefixTree::absorb_partial(Node& parent, Key key) {
  const Closest before = closest(parent.children, key);
  if (!before.node || before.common < before.node->tokens.size()) return;
  pool_.release_for_tree(before.node->page);
  recent_.erase(before.node->place);
  parent.children.erase(Key(before.node->tokens));
}

void PrefixTree::add_partial(Node& parent, Key key, Page page) {
  const Closest known = closest(parent.children, key);
  if (known.common == key.size()) return touch(known.node ? known.node : &parent);
  absorb_partial(parent, key);
  touch(add(parent, key, page));
}

// From the deepest node up, so that each ends before its descendants.
void PrefixTree::touch(Node* deepest) {
  for (Node* node = deepest; node->parent; node = node->parent) recent_.splice(recent_.begin(), recent_, node->place);
}

PrefixTree::Match PrefixTree::adopt(int64_t scope, std::span<const Token> tokens) {
  Match match;
  const auto root = roots_.find(scope);
  if (root == roots_.end()) return match;
  Node* node = &root->second;
  const auto size = static_cast<size_t>(page_tokens_);
  match.pages.reserve(tokens.size() / size);  // before any is retained
  for (;;) {
    const Key key = tokens.first(std::min(size, tokens.size()));
    const Closest next = closest(node->children, key);
    if (next.common < size) {
      match.evicted = closest(node->evicted, key).common > next.common;
      match.partial_tokens = static_cast<int32_t>(next.common);
      if (next.node) node = next.node;
      break;
    }
    node = next.node;
    pool_.retain(node->page);
    match.pages.push_back(node->page);
    tokens = tokens.subspan(size);
  }
  if (match.partial_tokens > 0) {
    match.partial = node->page;
    pool_.retain(match.partial);
  }
  touch(node);
  return match;
}

void PrefixTree::publish(int64_t scope, std::span<const Token> tokens, std::span<Page> pages) {
  Node* node = &roots_[scope];
  for (Page& page : pages) {
    const Key key = tokens.first(std::min(static_cast<size_t>(page_tokens_), tokens.size()));
    tokens = tokens.subspan(key.size());
    if (key.size() < static_cast<size_t>(page_tokens_)) return add_partial(*node, key, page);
    Node* next = find(*node, key);
    if (!next) {
      absorb_partial(*node, key);
      next = add(*node, key, page);
    }
    if (next->page != page) {
      pool_.retain(next->page);
      pool_.release(page);
      page = next->page;
    }
    node = next;
  }
  touch(node);
}

void PrefixTree::remember(Node* leaf) {
  pool_.release_for_tree(leaf->page);
  leaf->page = -1;
  Node& parent = *leaf->parent;
  parent.evicted.insert(parent.children.extract(Key(leaf->tokens)));
  remembered_.splice(remembered_.begin(), recent_, leaf->place);
  if (remembered_.size() <= static_cast<size_t>(pool_.total())) return;
  const Node* oldest = remembered_.back();
  remembered_.pop_back();
  oldest->parent->evicted.erase(Key(oldest->tokens));
}

std::vector<PrefixTree::Listed> PrefixTree::list(int64_t scope) const {
  std::vector<Listed> out;
  const auto root = roots_.find(scope);
  if (root == roots_.end()) return out;
  std::map<const Node*, int32_t> places{{&root->second, -1}};
  for (const Node* node : recent_) {
    const auto parent = places.find(node->parent);
    if (parent == places.end()) continue;  // of another scope: parents come first
    places.emplace(node, static_cast<int32_t>(out.size()));
    out.push_back({parent->second, node->tokens, node->page});
  }
  return out;
}

int32_t PrefixTree::restore(int64_t scope, std::span<const Listed> listed) {
  std::vector<Node*> nodes;
  size_t passed = 0;
  try {
    nodes.reserve(listed.size());
    for (; passed < listed.size(); ++passed) {
      const Listed& each = listed[passed];
      Node& parent = each.parent < 0 ? roots_[scope] : *nodes[static_cast<size_t>(each.parent)];
      nodes.push_back(add(parent, each.tokens, each.page));
      pool_.release(each.page);
    }
  } catch (const std::bad_alloc&) {  // it began with the most recently used, and whole paths: what there is serves
    for (const Listed& each : listed.subspan(passed)) pool_.release(each.page);
  }
  return static_cast<int32_t>(passed);
}

bool PrefixTree::evict() {
  if (pool_.reclaimable() == 0) return false;
  for (auto place = recent_.rbegin(); place != recent_.rend(); ++place) {
    Node* node = *place;
    if (!node->children.empty() || !pool_.only_in_tree(node->page)) continue;
    remember(node);
    return true;
  }
  return false;
}

}  // namespace martlet
