#include "linear_checks.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>

#include "backend/cpu/kernels/activations.h"
#include "tensor/dequantize.h"

namespace martlet::cpu {
namespace {

// Where a block's half-precision scales stand.
struct ScaleFields {
  Format format;
  std::vector<int> offsets;
};

const std::vector<ScaleFields>& scale_fields() {
  static const std::vector<ScaleFields> fields = {
      {Format::Q4_0, {0}},   {Format::Q4_1, {0, 2}}, {Format::Q5_0, {0}},    {Format::Q5_1, {0, 2}},
      {Format::Q8_0, {0}},   {Format::IQ4_NL, {0}},  {Format::MXFP4, {}},    {Format::Q2_K, {80, 82}},
      {Format::Q3_K, {108}}, {Format::Q4_K, {0, 2}}, {Format::Q5_K, {0, 2}}, {Format::Q6_K, {208}},
      {Format::IQ4_XS, {0}},
  };
  return fields;
}

struct Random {
  uint32_t state;

  uint32_t next() {
    state ^= state << 13, state ^= state >> 17, state ^= state << 5;
    return state;
  }
  float uniform() { return static_cast<float>(next() >> 8) / static_cast<float>(1 << 24) * 2 - 1; }
};

struct AlignedFree {
  void operator()(std::byte* p) const { std::free(p); }
};
using Buffer = std::unique_ptr<std::byte, AlignedFree>;

Buffer buffer(int64_t bytes) {
  return Buffer(static_cast<std::byte*>(std::aligned_alloc(64, static_cast<size_t>((bytes + 127) / 64 * 64))));
}

uint16_t half_scale(Values values, Random& random) {
  switch (values) {
    case Values::denormal:
      return static_cast<uint16_t>(random.next() & 0x83ff);
    case Values::zero:
      return 0;
    default:
      return float_to_half(random.uniform() * 0.02f);
  }
}

void fill_float(Format format, Values values, Random& random, std::byte* p) {
  float v = values == Values::zero ? 0.0f : random.uniform() * (values == Values::denormal ? 0x1p-130f : 1.0f);
  auto bits = std::bit_cast<uint32_t>(v);
  auto bfloat = static_cast<uint16_t>(bits >> 16);
  uint16_t half = float_to_half(values == Values::denormal ? random.uniform() * 0x1p-16f : v);
  if (format == Format::F32) std::memcpy(p, &bits, 4);
  if (format == Format::F16) std::memcpy(p, &half, 2);
  if (format == Format::BF16) std::memcpy(p, &bfloat, 2);
}

bool same_bits(float a, float b) {
  return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(b) || (a != a && b != b);
}

}  // namespace

std::string LinearCase::name() const {
  return std::string(info(format).name) + " outputs " + std::to_string(outputs) + " columns " +
         std::to_string(columns) + " rows " + std::to_string(rows) + " values " +
         std::to_string(static_cast<int>(values));
}

std::vector<Format> computing_formats() {
  std::vector<Format> formats;
#define MARTLET_FORMAT(name, id, elements, bytes, computes) \
  if (computes) formats.push_back(Format::name);
#include "tensor/formats.def"
#undef MARTLET_FORMAT
  return formats;
}

int64_t block_columns(Format format) {
  return info(format).block_elements;
}

LinearData::LinearData(const LinearCase& c) : case_(c) {
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto bytes = static_cast<size_t>(row_bytes() * c.outputs);
  size_t data = (bytes + page - 1) / page * page;
  mapped_ = data + page;
  void* mapping = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) std::abort();
  mapping_ = static_cast<std::byte*>(mapping);
  if (mprotect(mapping_ + data, page, PROT_NONE) != 0) std::abort();
  weights_ = mapping_ + (data - bytes);
  fill_weights();
  fill_activations();
}

LinearData::~LinearData() {
  munmap(mapping_, mapped_);
}

int64_t LinearData::row_bytes() const {
  return bytes_of(case_.format, case_.columns);
}

void LinearData::fill_weights() {
  Random random{case_.seed * 2654435761u | 1};
  const FormatInfo& f = info(case_.format);
  auto fields = std::find_if(scale_fields().begin(), scale_fields().end(),
                             [&](const ScaleFields& s) { return s.format == case_.format; });
  for (std::byte* block = weights_; block < weights_ + row_bytes() * case_.outputs; block += f.block_bytes) {
    if (fields == scale_fields().end()) {
      fill_float(case_.format, case_.values, random, block);
      continue;
    }
    for (uint32_t i = 0; i < f.block_bytes; ++i) {
      uint32_t r = random.next() >> 13;
      block[i] = static_cast<std::byte>(case_.values == Values::extreme ? (r & 1 ? 0xff : 0) : r & 0xff);
    }
    for (int offset : fields->offsets) {
      uint16_t half = half_scale(case_.values, random);
      std::memcpy(block + offset, &half, 2);
    }
    if (case_.format == Format::MXFP4) {  // the exponent; two smallest ones are subnormal
      block[0] = static_cast<std::byte>(case_.values == Values::denormal ? random.next() % 4 : 118 + random.next() % 8);
    }
  }
}

void LinearData::fill_activations() {
  Random random{case_.seed * 40503u | 1};
  auto value = [&](int64_t row) {
    if (case_.values == Values::extreme) return random.next() & 64 ? 127.0f : -127.0f;
    if (case_.values == Values::zero && row % 2 == 0) return 0.0f;
    return random.uniform() * (row % 3 == 1 ? 30.0f : 1.0f);
  };
  x_.resize(static_cast<size_t>(case_.rows * case_.columns));
  for (int64_t r = 0; r < case_.rows; ++r) {
    for (int64_t k = 0; k < case_.columns; ++k) x_[static_cast<size_t>(r * case_.columns + k)] = value(r);
  }
  if (case_.bias) bias_.resize(static_cast<size_t>(case_.outputs));
  for (float& v : bias_) v = random.uniform();
  if (case_.residual) residual_.resize(static_cast<size_t>(case_.rows * case_.outputs));
  for (float& v : residual_) v = random.uniform();
}

std::vector<float> LinearData::run(const Level& level, int64_t chunk, int64_t batch) const {
  const LinearCase& c = case_;
  ActivationKind kind = activation_kind(c.format);
  int64_t activation_row = activation_bytes(kind, c.columns);
  Buffer activations = buffer(activation_row * c.rows);
  for (int64_t r = 0; r < c.rows; ++r) {
    level.linear->quantize(kind, x_.data() + r * c.columns, c.columns, activations.get() + r * activation_row);
  }
  Buffer scratch = buffer(level.linear->scratch_bytes(c.columns));
  std::vector<float> y(static_cast<size_t>(c.rows * c.outputs), -12345.0f);
  for (int64_t r = 0; r < c.rows; r += batch) {
    LinearJob job{};
    job.format = c.format;
    job.weights = weights_;
    job.weight_row_bytes = row_bytes();
    job.columns = c.columns;
    job.activations = activations.get() + r * activation_row;
    job.activation_row_bytes = activation_row;
    job.rows = std::min(batch, c.rows - r);
    job.y = y.data() + r * c.outputs;
    job.y_stride = c.outputs;
    job.bias = c.bias ? bias_.data() : nullptr;
    job.residual = c.residual ? residual_.data() + r * c.outputs : nullptr;
    job.residual_stride = c.outputs;
    job.weights_end = weights_ + row_bytes() * c.outputs;
    for (int64_t n = 0; n < c.outputs; n += chunk) {
      level.linear->run(job, n, std::min(n + chunk, c.outputs), scratch.get());
    }
  }
  return y;
}

std::vector<double> LinearData::activation_row(int64_t row) const {
  ActivationKind kind = activation_kind(case_.format);
  const float* x = x_.data() + row * case_.columns;
  std::vector<double> out(x, x + case_.columns);
  if (kind == ActivationKind::f32) return out;
  Buffer codes = buffer(activation_bytes(kind, case_.columns));
  levels()[0]->linear->quantize(kind, x, case_.columns, codes.get());
  for (int64_t k = 0; k < case_.columns; ++k) {
    if (kind == ActivationKind::q8_32) {
      const auto& block = reinterpret_cast<const Activation32*>(codes.get())[k / 32];
      out[static_cast<size_t>(k)] = double{block.scale} * block.codes[k % 32];
    } else {
      const auto& block = reinterpret_cast<const Activation256*>(codes.get())[k / 256];
      out[static_cast<size_t>(k)] = double{block.scale} * block.codes[k % 256];
    }
  }
  return out;
}

std::vector<double> LinearData::reference(std::vector<double>& magnitude) const {
  const LinearCase& c = case_;
  TensorView view{weights_, c.format, {c.columns, c.outputs, 1, 1}};
  std::vector<float> w(static_cast<size_t>(c.columns));
  std::vector<std::vector<double>> x;
  for (int64_t r = 0; r < c.rows; ++r) x.push_back(activation_row(r));
  std::vector<double> y(static_cast<size_t>(c.rows * c.outputs));
  magnitude.assign(y.size(), 0);
  for (int64_t n = 0; n < c.outputs; ++n) {
    dequantize_row(view, n, w);
    for (int64_t r = 0; r < c.rows; ++r) {
      auto at = static_cast<size_t>(r * c.outputs + n);
      for (size_t k = 0; k < w.size(); ++k) {
        double product = double{w[k]} * x[static_cast<size_t>(r)][k];
        y[at] += product;
        magnitude[at] += std::abs(product);
      }
      if (c.bias) y[at] += bias_[static_cast<size_t>(n)], magnitude[at] += 1;
      if (c.residual) y[at] += residual_[at], magnitude[at] += 1;
    }
  }
  return y;
}

std::string check_against_reference(const LinearCase& c) {
  LinearData data(c);
  std::vector<double> magnitude;
  std::vector<double> expected = data.reference(magnitude);
  std::vector<float> y = data.run(*levels()[0], c.outputs, c.rows);
  for (size_t i = 0; i < y.size(); ++i) {
    // Formats with a minimum cancel larger terms than `magnitude` shows; 2^-126 allows for underflow.
    double allowed = 1e-5 * magnitude[i] * (c.values == Values::extreme ? 4 : 1) + 0x1p-126 * double(c.columns);
    if (!(std::abs(y[i] - expected[i]) <= allowed)) {
      return c.name() + ": output " + std::to_string(i) + " is " + std::to_string(y[i]) + ", expected " +
             std::to_string(expected[i]);
    }
  }
  return {};
}

std::string check_levels_agree(const LinearCase& c) {
  LinearData data(c);
  std::vector<float> expected = data.run(*levels()[0], c.outputs, c.rows);
  for (const Level* level : levels()) {
    if (!level->available()) continue;
    for (int64_t chunk : {c.outputs, kLinearTile}) {
      for (int64_t batch : {c.rows, int64_t{1}, int64_t{3}, int64_t{11}}) {
        std::vector<float> y = data.run(*level, chunk, batch);
        for (size_t i = 0; i < y.size(); ++i) {
          if (!same_bits(y[i], expected[i])) {
            return c.name() + ": level " + std::string(level->name) + " chunk " + std::to_string(chunk) + " batch " +
                   std::to_string(batch) + ": output " + std::to_string(i) + " is " + std::to_string(y[i]) +
                   ", scalar has " + std::to_string(expected[i]);
          }
        }
      }
    }
  }
  return {};
}

std::string check_not_finite(Format format) {
  LinearCase c{format, 40, 256, 12};
  LinearData data(c);
  std::vector<float> before = data.run(*levels()[0], c.outputs, c.rows);
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  const int64_t rows[] = {1, 4, 9};
  for (int i = 0; i < 3; ++i) data.x()[static_cast<size_t>(rows[i] * c.columns + 37)] = bad[i];
  // A float format keeps infinity as it is.
  bool exact = activation_kind(format) == ActivationKind::f32;
  for (const Level* level : levels()) {
    if (!level->available()) continue;
    for (int64_t batch : {int64_t{1}, int64_t{4}, c.rows}) {
      std::vector<float> y = data.run(*level, c.outputs, batch);
      for (int64_t r = 0; r < c.rows; ++r) {
        bool hit = std::find(rows, rows + 3, r) != rows + 3;
        for (int64_t n = 0; n < c.outputs; ++n) {
          auto at = static_cast<size_t>(r * c.outputs + n);
          bool right = !hit ? same_bits(y[at], before[at]) : exact ? !std::isfinite(y[at]) : std::isnan(y[at]);
          if (!right) {
            return std::string(info(format).name) + ": level " + std::string(level->name) + " row " +
                   std::to_string(r) + " output " + std::to_string(n) + " is " + std::to_string(y[at]);
          }
        }
      }
    }
  }
  return {};
}

int64_t run_all_linear_checks(void (*report)(const std::string& text)) {
  int64_t count = 0;
  auto check = [&](const std::string& failure) {
    ++count;
    if (!failure.empty()) report(failure);
  };
  for (Format format : computing_formats()) {
    int64_t block = std::max<int64_t>(block_columns(format), 1);
    int64_t odd = block == 1 ? 37 : block;  // columns: one block, or a count that no vector divides
    for (int64_t rows : kLinearCheckRows) {
      check(check_levels_agree(
          {format, 37, rows % 2 ? odd : 3 * odd, rows, Values::ordinary, rows % 3 == 0, rows % 2 == 0}));
    }
    for (int64_t outputs : kLinearCheckOutputs) {
      LinearCase c{format,           outputs,          2 * odd,          outputs % 2 ? 2 : 10,
                   Values::ordinary, outputs % 3 == 0, outputs % 2 == 0, 7};
      check(check_levels_agree(c));
      check(check_against_reference(c));
    }
    for (Values values : {Values::extreme, Values::denormal, Values::zero}) {
      LinearCase c{format, 41, 4 * odd, 12, values, false, false, 11};
      check(check_levels_agree(c));
      check(check_against_reference(c));
    }
    check(check_not_finite(format));
  }
  return count;
}

}  // namespace martlet::cpu
