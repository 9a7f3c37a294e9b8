// Any bytes either open as a model, all of which can then be read, or are refused as a bad model.

#include <cstdlib>
#include <vector>

#include "file/model_file.h"
#include "tensor/dequantize.h"

namespace martlet {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void read_metadata(const ModelFile& model) {
  for (const auto& [key, value] : model.metadata()) {
    require(model.find(key) == &value);
    (void)model.integer(key);
    (void)model.number(key);
    const auto* numbers = std::get_if<NumberArray>(&value);
    for (size_t i = 0; numbers && i < numbers->size; ++i) (void)numbers->integer(i), (void)numbers->number(i);
    size_t bytes = 0;
    if (const auto* texts = std::get_if<StringArray>(&value)) {
      for (const std::string_view text : *texts) bytes += text.empty() ? 0 : static_cast<size_t>(text.back() != 0);
    }
    require(bytes <= size_t{1} << 32);
  }
}

void read_tensors(const ModelFile& model) {
  std::vector<float> row;
  for (const NamedTensor& tensor : model.tensors()) {
    require(model.tensor(tensor.name) == &tensor.view);
    if (!info(tensor.view.format).computes) continue;
    row.resize(static_cast<size_t>(tensor.view.columns()));
    dequantize_row(tensor.view, 0, row);
    dequantize_row(tensor.view, tensor.view.rows() - 1, row);
  }
}

}  // namespace
}  // namespace martlet

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto model = martlet::ModelFile::from_memory(std::as_bytes(std::span(data, size)), "fuzz.gguf");
  if (!model) {
    martlet::require(model.error().kind == martlet::ErrorKind::model);
    return 0;
  }
  martlet::read_metadata(**model);
  martlet::read_tensors(**model);
  return 0;
}
