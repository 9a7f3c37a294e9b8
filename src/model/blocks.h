#pragma once

// Pieces that several architectures share.

#include "backend/backend.h"

namespace martlet {

// Self-attention behind a norm, added to its input.
struct SelfAttention {
  Norm norm;
  Weight qkv;  // [q heads | k heads | v heads]
  Attention attention;
  Weight output;
};

// Gated feed-forward network behind a norm, added to its input.
struct FeedForward {
  Norm norm;
  Weight gate_up;  // [gate | up]
  Weight down;
};

// A pre-norm decoder layer.
struct DecoderLayer {
  SelfAttention attention;
  FeedForward ffn;
};

inline Tensor attend(Backend& b, const Tensor& x, const SelfAttention& l) {
  return b.linear(b.attend(b.linear(b.norm(x, l.norm), l.qkv), l.attention), l.output, &x);
}

inline Tensor feed_forward(Backend& b, const Tensor& x, const FeedForward& l) {
  return b.linear(b.activate(b.linear(b.norm(x, l.norm), l.gate_up), Activation::silu_gated), l.down, &x);
}

}  // namespace martlet
