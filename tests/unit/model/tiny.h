#pragma once

// The smallest llama model that opens, as metadata and tensors that a test may change before it is written.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "file/gguf_bytes.h"
#include "file/model_file.h"

namespace martlet {

struct Tiny {
  std::string architecture = "llama";
  std::map<std::string, uint32_t> integers = {{"block_count", 1},          {"context_length", 64},
                                              {"embedding_length", 32},    {"feed_forward_length", 64},
                                              {"attention.head_count", 4}, {"attention.head_count_kv", 2}};
  std::map<std::string, float> numbers = {{"attention.layer_norm_rms_epsilon", 1e-5f}};
  std::map<std::string, std::string> strings;
  std::map<std::string, uint64_t> wide_integers;
  std::map<std::string, std::vector<uint32_t>> arrays;
  std::map<std::string, std::vector<int64_t>> tensors = {
      {"token_embd.weight", {32, 50}},        {"output_norm.weight", {32}},       {"blk.0.attn_norm.weight", {32}},
      {"blk.0.attn_q.weight", {32, 32}},      {"blk.0.attn_k.weight", {32, 16}},  {"blk.0.attn_v.weight", {32, 16}},
      {"blk.0.attn_output.weight", {32, 32}}, {"blk.0.ffn_norm.weight", {32}},    {"blk.0.ffn_gate.weight", {32, 64}},
      {"blk.0.ffn_up.weight", {32, 64}},      {"blk.0.ffn_down.weight", {64, 32}}};

  std::shared_ptr<const ModelFile> open() const {
    gguf::Writer writer;
    writer.add("general.architecture", architecture);
    const std::string prefix = architecture + ".";
    for (const auto& [key, value] : integers) writer.add(prefix + key, value);
    for (const auto& [key, value] : wide_integers) writer.add(prefix + key, value);
    for (const auto& [key, value] : numbers) writer.add(prefix + key, value);
    for (const auto& [key, value] : strings) writer.add(prefix + key, value);
    for (const auto& [key, value] : arrays) writer.add_array<uint32_t>(prefix + key, value);
    std::vector<std::string> data;
    for (const auto& [name, shape] : tensors) {
      writer.add_tensor(name, Format::F32, shape);
      size_t bytes = sizeof(float);
      for (const int64_t dimension : shape) bytes *= static_cast<size_t>(dimension);
      data.emplace_back(bytes, '\0');
    }
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("martlet-tiny-" + std::to_string(getpid()) + ".gguf");
    std::ofstream(path, std::ios::binary) << written(writer, data);
    auto file = ModelFile::open(path.string());
    std::filesystem::remove(path);  // the mapping stays
    EXPECT_TRUE(file) << (file ? "" : file.error().line());
    return file ? *file : nullptr;
  }
};

}  // namespace martlet
