#include <cassert>

#include "backend/cuda/operators.h"

namespace martlet::cuda {
namespace {

// Blocks of attend_rows() that a multiprocessor runs at once.
constexpr int32_t kBlocksEach = 2;

}  // namespace

// What the spans of a step may leave behind. Grows outside captures only: prepare() runs a step before it captures any.
bool CudaBackend::reserve_partials(int32_t heads, int32_t value_size) {
  const int64_t bytes = input_.max_spans() * partial_floats(heads, value_size) * static_cast<int64_t>(sizeof(float));
  if (bytes <= partials_.size()) return true;
  drop_graphs();
  partials_ = Memory();
  Result<Memory> memory = Memory::allocate(Place::device, bytes);
  if (memory) {
    partials_ = std::move(*memory);
  } else {
    status_ = memory.error();
  }
  return static_cast<bool>(memory);
}

const float2* CudaBackend::turns(const Attention& attention) {
  if (!attention.rope_frequencies) return nullptr;
  for (const Turns& t : turns_) {
    if (t.frequencies.id == attention.rope_frequencies.id && t.magnitude == attention.rope_magnitude)
      return t.table.as<float2>();
  }
  const auto pairs = static_cast<int32_t>(stored(attention.rope_frequencies).columns);
  Turns& made = turns_.emplace_back(attention.rope_frequencies, attention.rope_magnitude, pairs,
                                    memory_.take(int64_t{rows_} * pairs * static_cast<int64_t>(sizeof(float2))));
  rotations(stream_, input_.rows().positions, vector(attention.rope_frequencies), pairs, attention.rope_magnitude,
            rows_, made.table.as<float2>());
  return made.table.as<float2>();
}

Tensor CudaBackend::attend(const Tensor& qkv, const Attention& attention) {
  const CacheGroup& group = model_->group;
  assert(attention.group == 0 && qkv.rows == rows_ && attention.heads % attention.kv_heads == 0);
  assert(group.key_size == attention.key_size && group.value_size == attention.value_size);
  AttentionArguments a;
  a.step = input_.rows();
  a.rows = rows_;
  a.heads = attention.heads;
  a.kv_heads = attention.kv_heads;
  a.key_size = attention.key_size;
  a.value_size = attention.value_size;
  a.scale = attention.scale;
  a.qkv = values(qkv);
  a.q_norm = vector(attention.q_norm.weight);
  a.k_norm = vector(attention.k_norm.weight);
  a.q_epsilon = attention.q_norm.epsilon;
  a.k_epsilon = attention.k_norm.epsilon;
  a.turns = turns(attention);
  a.pairs = a.turns ? static_cast<int32_t>(stored(attention.rope_frequencies).columns) : 0;
  a.interleaved = attention.rope_interleaved;
  a.type = group.type;
  a.page_bytes = model_->page_bytes;
  a.cache = model_->cache.data() + attention.layer * (a.page_bytes / group.layers);
  Tensor out = memory_.halves(rows_, int64_t{a.heads} * a.value_size, 1);
  a.out = buffer_of(out).halves.as<__half>();
  a.stride = buffer_of(out).stride;
  if (!reserve_partials(a.heads, a.value_size)) return out;
  const int64_t units = int64_t{a.kv_heads} * ((a.heads / a.kv_heads + kRowQueries - 1) / kRowQueries);
  if (units > kMergeUnits) {
    status_ = Error{ErrorKind::model, "unsupported_heads", "more than 1024 groups of query heads share key heads", ""};
    return out;
  }
  a.partials = partials_.as<float>();
  a.finished = finished_.as<unsigned>();
  a.keys_apart = invariant_;
  if (a.keys_apart) write_rows(stream_, a);
  const int32_t ranges = capturing_ ? 1 : input_.ranges();
  for (int32_t range = 0; range < ranges; ++range) {
    a.step = input_.rows(range);
    attend_rows(stream_, a, kBlocksEach * multiprocessors_);
  }
  if (capturing_ || !input_.shares_keys()) return out;
  if (const Status sent = input_.send_tiles(a.heads / a.kv_heads, stream_.handle); !sent) {
    status_ = sent;
    return out;
  }
  const Block queries = memory_.take(int64_t{rows_} * a.heads * a.key_size * static_cast<int64_t>(sizeof(__half)));
  a.queries = queries.as<__half>();
  a.tiles = input_.tiles();
  write_rows(stream_, a);
  attend_tiles(stream_, a, input_.tile_count());
  return out;
}

}  // namespace martlet::cuda
