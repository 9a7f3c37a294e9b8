#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "checks.h"
#include "tensor/dequantize.h"

namespace martlet::gpu {

void Tally::expect(bool good, const std::string& name, const std::string& detail) {
  ++checks;
  failed += good ? 0 : 1;
  if (!good || !detail.empty()) std::printf("%s  %s  %s\n", good ? "ok    " : "FAILED", name.c_str(), detail.c_str());
}

Open::Open(Backend& backend, const CacheGroup& group, std::span<const Upload> uploads) : backend_(backend) {
  const auto model = backend.open({&group, 1});
  if (!model) std::printf("%s\n", model.error().line().c_str()), std::exit(1);
  model_ = *model;
  for (const Upload& upload : uploads) {
    const auto weight = backend.upload(model_, upload.views, {upload.bias});
    if (!weight) std::printf("%s\n", weight.error().line().c_str()), std::exit(1);
    weights_.push_back(*weight);
  }
}

bool Open::prepare(const Forward& forward) {
  const Status status = backend_.prepare(model_, [&] {
    Tensor out = forward(backend_, weights_);
    return Outputs{out, out};
  });
  if (!status) std::printf("%s\n", status.error().line().c_str());
  return static_cast<bool>(status);
}

std::vector<float> logits_of(Backend& backend, Ticket ticket) {
  const Tensor logits = backend.outputs(ticket).logits;
  std::vector<float> out(static_cast<size_t>(logits.rows * logits.columns));
  backend.read(logits, out);
  return out;
}

std::vector<float> Open::run(const Rows& rows, const Forward& forward) {
  const std::vector<Choice> choices(rows.outputs.size(), {.sampling = {.temperature = 0}});
  std::vector<Chosen> chosen(choices.size());
  return run(rows, forward, choices, chosen);
}

std::vector<float> Open::run(const Rows& rows, const Forward& forward, std::span<const Choice> choices,
                             std::span<Chosen> chosen) {
  const PageTable table = rows.page_table();
  const Batch batch = rows.batch(table);
  const Ticket ticket = backend_.submit(model_, batch, choices, [&] {
    Tensor out = forward(backend_, weights_);
    return Outputs{out, out};
  });
  if (const Status status = backend_.wait(ticket, chosen, {}); !status) {
    std::printf("%s\n", status.error().line().c_str());
    return {};
  }
  return logits_of(backend_, ticket);
}

double relative_error(std::span<const float> a, std::span<const float> b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::quiet_NaN();
  double error = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error += (double{a[i]} - b[i]) * (double{a[i]} - b[i]);
    size += double{b[i]} * b[i];
  }
  return std::sqrt(error / size);
}

std::vector<float> random_floats(size_t count, uint32_t seed, float spread) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> out(count);
  for (float& x : out) x = normal(random);
  return out;
}

TensorView view_of(const std::vector<float>& values, int64_t columns) {
  return {reinterpret_cast<const std::byte*>(values.data()),
          Format::F32,
          {columns, static_cast<int64_t>(values.size()) / columns, 1, 1}};
}

Matrix random_matrix(Format format, int64_t columns, int64_t rows, uint32_t seed) {
  // Where halves that scale lie in a block, and about how large they are.
  struct Scale {
    int64_t at;
    float value;
  };
  static const std::map<Format, std::vector<Scale>> scales = {{Format::Q4_0, {{0, 0.2f}}},
                                                              {Format::Q4_1, {{0, 0.2f}, {2, -1.5f}}},
                                                              {Format::Q5_0, {{0, 0.1f}}},
                                                              {Format::Q5_1, {{0, 0.1f}, {2, -1.5f}}},
                                                              {Format::Q8_0, {{0, 0.01f}}},
                                                              {Format::Q2_K, {{80, 0.1f}, {82, 0.1f}}},
                                                              {Format::Q3_K, {{108, 0.02f}}},
                                                              {Format::Q4_K, {{0, 0.005f}, {2, 0.03f}}},
                                                              {Format::Q5_K, {{0, 0.003f}, {2, 0.03f}}},
                                                              {Format::Q6_K, {{208, 0.0005f}}},
                                                              {Format::IQ4_NL, {{0, 0.015f}}},
                                                              {Format::IQ4_XS, {{0, 0.0007f}}}};
  std::mt19937 random(seed);
  const FormatInfo& f = info(format);
  Matrix out;
  out.bytes.resize(static_cast<size_t>(bytes_of(format, columns) * rows));
  out.view = {out.bytes.data(), format, {columns, rows, 1, 1}};
  if (f.block_elements == 1) {
    const std::vector<float> values = random_floats(static_cast<size_t>(columns * rows), seed);
    for (size_t i = 0; i < values.size(); ++i) {
      const auto bits = __builtin_bit_cast(uint32_t, values[i]);
      const uint16_t half = format == Format::F16 ? float_to_half(values[i]) : static_cast<uint16_t>(bits >> 16);
      format == Format::F32 ? std::memcpy(&out.bytes[4 * i], &bits, 4) : std::memcpy(&out.bytes[2 * i], &half, 2);
    }
    return out;
  }
  for (std::byte& b : out.bytes) b = static_cast<std::byte>(random());
  for (size_t block = 0; block < out.bytes.size(); block += f.block_bytes) {
    if (format == Format::MXFP4) {
      out.bytes[block] = static_cast<std::byte>(123 + random() % 5);
      continue;
    }
    for (const Scale& scale : scales.at(format)) {
      const uint16_t half = float_to_half(scale.value * (0.5f + static_cast<float>(random() % 100) / 100));
      std::memcpy(&out.bytes[block + static_cast<size_t>(scale.at)], &half, 2);
    }
  }
  return out;
}

}  // namespace martlet::gpu
