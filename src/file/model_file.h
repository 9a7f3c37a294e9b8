#pragma once

// One model, whatever its file format: metadata under one set of names (GGUF's), tensors as views into mapped files.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.h"
#include "base/mapped_file.h"
#include "tensor/tensor_view.h"

namespace martlet {

// A metadata array of numbers stays where it is in the file; its elements are read by index.
struct NumberArray {
  enum class Type : uint8_t { u8, i8, u16, i16, u32, i32, f32, boolean, u64, i64, f64 };
  Type type;
  std::span<const std::byte> bytes;
  size_t size = 0;
  int64_t integer(size_t index) const;  // floats truncated, what does not fit clamped
  double number(size_t index) const;
};

using StringArray = std::vector<std::string_view>;  // borrowed from the mapped file
using Metadata = std::variant<int64_t, uint64_t, double, bool, std::string_view, NumberArray, StringArray>;

struct NamedTensor {
  std::string_view name;
  TensorView view;
};

struct FilePart;  // of contents.h

// Immutable after opening, thread-safe. Every string and view is borrowed from the mapped files, which it owns.
class ModelFile {
 public:
  // `path`: a .gguf file; for a split model any part finds the others beside it. Errors: A1 to A12, A17 of the fault
  // list (ErrorKind::model or ::io), each with file@offset.
  static Result<std::shared_ptr<const ModelFile>> open(const std::string& path);
  // A GGUF file that lies in memory already (tests, fuzzing). `bytes` must outlive the model; `name` is for errors.
  static Result<std::shared_ptr<const ModelFile>> from_memory(std::span<const std::byte> bytes, std::string name);

  const Metadata* find(std::string_view key) const;                                                 // null when absent
  const std::vector<std::pair<std::string_view, Metadata>>& metadata() const { return metadata_; }  // in file order
  // Typed access. nullopt when absent or of another kind; integers of any width and sign convert when they fit.
  std::optional<std::string_view> string(std::string_view key) const;
  std::optional<int64_t> integer(std::string_view key) const;
  std::optional<double> number(std::string_view key) const;
  std::optional<bool> boolean(std::string_view key) const;
  const StringArray* strings(std::string_view key) const;
  const NumberArray* numbers(std::string_view key) const;

  const TensorView* tensor(std::string_view name) const;  // null when absent
  const std::vector<NamedTensor>& tensors() const { return tensors_; }
  const std::vector<std::shared_ptr<const MappedFile>>& files() const { return files_; }
  const std::string& path() const { return path_; }
  std::string_view architecture() const { return string("general.architecture").value_or(""); }
  bool unchanged() const;   // see MappedFile::unchanged
  bool is_current() const;  // see MappedFile::is_current

 private:
  ModelFile() = default;
  static Result<std::shared_ptr<const ModelFile>> assemble(std::string path, std::vector<FilePart> parts);

  std::string path_;
  std::vector<std::shared_ptr<const MappedFile>> files_;
  std::vector<std::pair<std::string_view, Metadata>> metadata_;
  std::vector<NamedTensor> tensors_;
  std::vector<uint32_t> metadata_index_, tensor_index_;  // sorted by name
};

}  // namespace martlet
