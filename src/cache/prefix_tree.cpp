#include "cache/prefix_tree.h"

#include <algorithm>

namespace martlet {

bool PrefixTree::Less::operator()(Key a, Key b) const {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

PrefixTree::~PrefixTree() {
  while (!recent_.empty()) remove(recent_.back());
}

PrefixTree::Node* PrefixTree::find(Node& parent, Key key) {
  const auto found = parent.children.find(key);
  return found == parent.children.end() ? nullptr : found->second.get();
}

PrefixTree::Node* PrefixTree::add(Node& parent, Key key, Page page) {
  auto node = std::make_unique<Node>();
  Node* added = node.get();
  added->tokens.assign(key.begin(), key.end());
  added->parent = &parent;
  added->page = page;
  added->place = recent_.insert(recent_.end(), added);
  pool_.retain_for_tree(page);
  parent.children.emplace(Key(added->tokens), std::move(node));
  return added;
}

// From the deepest node up, so that each ends before its descendants.
void PrefixTree::touch(Node* deepest) {
  for (Node* node = deepest; node->parent; node = node->parent) recent_.splice(recent_.begin(), recent_, node->place);
}

std::vector<Page> PrefixTree::adopt(int64_t scope, std::span<const Token> tokens) {
  std::vector<Page> pages;
  const auto root = roots_.find(scope);
  if (root == roots_.end()) return pages;
  Node* node = &root->second;
  for (const auto size = static_cast<size_t>(page_tokens_); tokens.size() >= size; tokens = tokens.subspan(size)) {
    Node* next = find(*node, tokens.first(size));
    if (!next) break;
    pool_.retain(next->page);
    pages.push_back(next->page);
    node = next;
  }
  touch(node);
  return pages;
}

void PrefixTree::publish(int64_t scope, std::span<const Token> tokens, std::span<Page> pages) {
  Node* node = &roots_[scope];
  for (Page& page : pages) {
    const Key key = tokens.first(static_cast<size_t>(page_tokens_));
    tokens = tokens.subspan(key.size());
    Node* next = find(*node, key);
    if (!next) next = add(*node, key, page);
    if (next->page != page) {
      pool_.retain(next->page);
      pool_.release(page);
      page = next->page;
    }
    node = next;
  }
  touch(node);
}

void PrefixTree::remove(Node* leaf) {
  pool_.release_for_tree(leaf->page);
  recent_.erase(leaf->place);
  leaf->parent->children.erase(Key(leaf->tokens));
}

bool PrefixTree::evict() {
  if (pool_.reclaimable() == 0) return false;
  for (auto place = recent_.rbegin(); place != recent_.rend(); ++place) {
    Node* node = *place;
    if (!node->children.empty() || !pool_.only_in_tree(node->page)) continue;
    remove(node);
    return true;
  }
  return false;
}

}  // namespace martlet
