#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "file/gguf_bytes.h"

namespace martlet {
namespace {

struct Keys {
  uint16_t number, count;
  int32_t tensors;
};

class GgufSplitTest : public testing::Test {
 protected:
  GgufSplitTest() : folder_(testing::TempDir() + "martlet_split_" + std::to_string(getpid())) {
    std::filesystem::create_directories(folder_);
  }
  ~GgufSplitTest() override { std::filesystem::remove_all(folder_); }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
  }

  // One part with one tensor of eight floats.
  void write_part(const std::string& name, const Keys& keys, const std::string& tensor) const {
    gguf::Writer writer;
    if (keys.number == 0) writer.add("general.architecture", "llama");
    writer.add("split.no", keys.number);
    writer.add("split.count", keys.count);
    writer.add("split.tensors.count", keys.tensors);
    const int64_t shape[] = {8};
    writer.add_tensor(tensor, Format::F32, shape);
    write(name, written(writer, {std::string(32, tensor[0])}));
  }

  void write_model() const {
    write_part("m-00001-of-00003.gguf", {0, 3, 3}, "a");
    write_part("m-00002-of-00003.gguf", {1, 3, 3}, "b");
    write_part("m-00003-of-00003.gguf", {2, 3, 3}, "c");
  }

  Error error_of(const std::string& name) const {
    const auto model = ModelFile::open(path(name));
    return model ? Error{ErrorKind::internal, "ok"} : model.error();
  }

  std::string folder_;
};

TEST_F(GgufSplitTest, AnyPartFindsTheOthers) {
  write_model();
  for (const char* part : {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    SCOPED_TRACE(part);
    const auto opened = ModelFile::open(path(part));
    ASSERT_TRUE(opened) << opened.error().line();
    const ModelFile& model = **opened;
    EXPECT_EQ(model.architecture(), "llama");
    EXPECT_EQ(model.files().size(), 3u);
    ASSERT_EQ(model.tensors().size(), 3u);
    EXPECT_EQ(model.tensors()[2].name, "c");
    EXPECT_EQ(model.tensor("a")->data[0], std::byte{'a'});
    EXPECT_EQ(model.tensor("b")->data[31], std::byte{'b'});
    EXPECT_EQ(model.tensor("c")->data[31], std::byte{'c'});
    EXPECT_TRUE(model.unchanged());
  }
}

TEST_F(GgufSplitTest, A16_MissingPart) {
  write_model();
  std::filesystem::remove(path("m-00002-of-00003.gguf"));
  for (const char* part : {"m-00001-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    const Error error = error_of(part);
    EXPECT_EQ(error.kind, ErrorKind::model);
    EXPECT_EQ(error.code, "missing_part");
    EXPECT_EQ(error.where, path("m-00002-of-00003.gguf"));
  }
}

TEST_F(GgufSplitTest, A16_MismatchedParts) {
  const struct {
    const char* what;
    Keys keys;
  } cases[] = {{"another place", {2, 3, 3}},
               {"another count", {1, 2, 3}},
               {"another model", {1, 3, 4}},
               {"no place", {7, 3, 3}}};
  for (const auto& test : cases) {
    SCOPED_TRACE(test.what);
    write_model();
    write_part("m-00002-of-00003.gguf", test.keys, "b");
    const Error error = error_of("m-00001-of-00003.gguf");
    EXPECT_EQ(error.kind, ErrorKind::model);
    EXPECT_EQ(error.code, "bad_split");
    EXPECT_EQ(error.where, path("m-00002-of-00003.gguf"));
  }
}

TEST_F(GgufSplitTest, A16_WholeModelAsPart) {
  write_model();
  write("m-00003-of-00003.gguf", small_model());
  EXPECT_EQ(error_of("m-00001-of-00003.gguf").where, path("m-00003-of-00003.gguf"));
}

TEST_F(GgufSplitTest, A16_DamagedPartIsNamed) {
  write_model();
  const std::string part = path("m-00003-of-00003.gguf");
  std::filesystem::resize_file(part, std::filesystem::file_size(part) - 1);
  const Error error = error_of("m-00001-of-00003.gguf");
  EXPECT_EQ(error.code, "tensor_out_of_file");
  EXPECT_EQ(error.where.rfind(part + "@", 0), 0u) << error.where;
}

TEST_F(GgufSplitTest, A16_TensorsDoNotAddUp) {
  for (const char* part : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}) {
    write_part(part, {static_cast<uint16_t>(part[6] - '1'), 2, 5}, part + 6);
  }
  EXPECT_EQ(error_of("m-00001-of-00002.gguf").code, "bad_split");
}

TEST_F(GgufSplitTest, A3_SameTensorInTwoParts) {
  write_model();
  write_part("m-00003-of-00003.gguf", {2, 3, 3}, "a");
  EXPECT_EQ(error_of("m-00001-of-00003.gguf").code, "duplicate_name");
}

TEST_F(GgufSplitTest, PartsKeepTheirNames) {
  write_model();
  std::filesystem::rename(path("m-00001-of-00003.gguf"), path("x.gguf"));
  EXPECT_EQ(error_of("x.gguf").code, "bad_split");
}

TEST_F(GgufSplitTest, OnePartIsAWholeModel) {
  write_part("m-00001-of-00001.gguf", {0, 1, 1}, "a");
  EXPECT_EQ(error_of("m-00001-of-00001.gguf").code, "ok");
}

TEST_F(GgufSplitTest, A17_NotAFile) {
  EXPECT_EQ(error_of("").code, "not_regular_file") << "a folder";
  EXPECT_EQ(error_of("absent.gguf").code, "file_not_found");
}

}  // namespace
}  // namespace martlet
