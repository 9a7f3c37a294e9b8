#include "text/pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <cassert>

namespace martlet {
namespace {

// Bounds on one match. The expressions need no backtracking stack; the steps allow for one pass back over a megabyte of
// one class of characters.
constexpr uint32_t kMatchLimit = 1u << 28, kDepthLimit = 1000, kHeapLimitKib = 4096;

// PCRE2's own \s counts U+180E, which Unicode does not.
std::string with_unicode_spaces(std::string_view expression) {
  std::string out;
  for (size_t i = 0; i < expression.size(); ++i) {
    out += expression[i];
    if (expression[i] != '\\' || i + 1 == expression.size()) continue;
    const char escaped = expression[++i];
    if (escaped == 's')
      out += "p{White_Space}";
    else if (escaped == 'S')
      out += "P{White_Space}";
    else
      out += escaped;
  }
  return out;
}

}  // namespace

Pattern::Pattern(std::string_view expression) {
  const std::string source = with_unicode_spaces(expression);
  int error = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(source.data()), source.size(), PCRE2_UTF | PCRE2_UCP,
                                   &error, &at, nullptr);
  assert(code);
  // Where the machine cannot run generated code, the interpreter does the same within the same bounds.
  pcre2_jit_compile(code, PCRE2_JIT_COMPLETE);
  code_ = std::shared_ptr<const void>(code, [code](const void*) { pcre2_code_free(code); });
}

Pattern::Match::Match()
    : data_(pcre2_match_data_create(1, nullptr),
            [](void* data) { pcre2_match_data_free(static_cast<pcre2_match_data*>(data)); }),
      context_(pcre2_match_context_create(nullptr),
               [](void* context) { pcre2_match_context_free(static_cast<pcre2_match_context*>(context)); }) {
  if (!data_ || !context_) throw std::bad_alloc();
  auto* context = static_cast<pcre2_match_context*>(context_.get());
  pcre2_set_match_limit(context, kMatchLimit);
  pcre2_set_depth_limit(context, kDepthLimit);
  pcre2_set_heap_limit(context, kHeapLimitKib);
}

Span Pattern::find(std::string_view text, size_t from, Match& match) const {
  auto* data = static_cast<pcre2_match_data*>(match.data_.get());
  const int found = pcre2_match(static_cast<const pcre2_code*>(code_.get()), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                text.size(), from, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, data,
                                static_cast<pcre2_match_context*>(match.context_.get()));
  if (found < 0) return {text.size(), text.size()};
  const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data);
  return {ends[0], ends[1]};
}

}  // namespace martlet
