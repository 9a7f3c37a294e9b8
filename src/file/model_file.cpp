#include "file/model_file.h"

#include <algorithm>

#include "file/contents.h"
#include "file/gguf_reader.h"
#include "file/names.h"

namespace martlet {
namespace {

template <class Kept>
std::optional<Kept> as(const Metadata* value) {
  const Kept* kept = value ? std::get_if<Kept>(value) : nullptr;
  return kept ? std::optional(*kept) : std::nullopt;
}

}  // namespace

const Metadata* FileContents::find(std::string_view key) const {
  const auto found =
      std::find_if(metadata.begin(), metadata.end(), [&](const auto& entry) { return entry.first == key; });
  return found == metadata.end() ? nullptr : &found->second;
}

Result<std::shared_ptr<const ModelFile>> ModelFile::open(const std::string& path) {
  MARTLET_ASSIGN(std::vector<FilePart> parts, gguf::open(path));
  return assemble(path, std::move(parts));
}

Result<std::shared_ptr<const ModelFile>> ModelFile::from_memory(std::span<const std::byte> bytes, std::string name) {
  std::vector<FilePart> parts(1);
  MARTLET_ASSIGN(parts[0].contents, gguf::parse(bytes, name));
  return assemble(std::move(name), std::move(parts));
}

Result<std::shared_ptr<const ModelFile>> ModelFile::assemble(std::string path, std::vector<FilePart> parts) {
  std::shared_ptr<ModelFile> model(new ModelFile);
  model->path_ = std::move(path);
  model->metadata_ = std::move(parts[0].contents.metadata);
  for (FilePart& part : parts) {
    if (part.file) model->files_.push_back(std::move(part.file));
    const auto& tensors = part.contents.tensors;
    model->tensors_.insert(model->tensors_.end(), tensors.begin(), tensors.end());
  }
  model->metadata_index_ = sorted_by_name(model->metadata_);
  model->tensor_index_ = sorted_by_name(model->tensors_);
  // Within one part the reader has looked; two parts may still repeat each other.
  if (find_duplicate(model->tensors_, model->tensor_index_))
    return Error{ErrorKind::model, "duplicate_name", "two parts of the model hold the same tensor", model->path_};
  return std::shared_ptr<const ModelFile>(std::move(model));
}

const Metadata* ModelFile::find(std::string_view key) const {
  const auto* entry = find_by_name(metadata_, metadata_index_, key);
  return entry ? &entry->second : nullptr;
}

const TensorView* ModelFile::tensor(std::string_view name) const {
  const NamedTensor* found = find_by_name(tensors_, tensor_index_, name);
  return found ? &found->view : nullptr;
}

std::optional<std::string_view> ModelFile::string(std::string_view key) const {
  return as<std::string_view>(find(key));
}
std::optional<bool> ModelFile::boolean(std::string_view key) const {
  return as<bool>(find(key));
}

std::optional<int64_t> ModelFile::integer(std::string_view key) const {
  const Metadata* value = find(key);
  if (const auto wide = as<uint64_t>(value))
    return *wide <= INT64_MAX ? std::optional(static_cast<int64_t>(*wide)) : std::nullopt;
  return as<int64_t>(value);
}

std::optional<double> ModelFile::number(std::string_view key) const {
  const Metadata* value = find(key);
  if (const auto unsigned_value = as<uint64_t>(value)) return static_cast<double>(*unsigned_value);
  if (const auto signed_value = as<int64_t>(value)) return static_cast<double>(*signed_value);
  return as<double>(value);
}

const StringArray* ModelFile::strings(std::string_view key) const {
  const Metadata* value = find(key);
  return value ? std::get_if<StringArray>(value) : nullptr;
}

const NumberArray* ModelFile::numbers(std::string_view key) const {
  const Metadata* value = find(key);
  return value ? std::get_if<NumberArray>(value) : nullptr;
}

bool ModelFile::unchanged() const {
  return std::all_of(files_.begin(), files_.end(), [](const auto& file) { return file->unchanged(); });
}

bool ModelFile::is_current() const {
  return std::all_of(files_.begin(), files_.end(), [](const auto& file) { return file->is_current(); });
}

}  // namespace martlet
