#include "file/gguf_bytes.h"

namespace martlet {

std::string small_model(uint64_t alignment) {
  gguf::Writer writer(alignment);
  writer.add("general.architecture", "llama");
  writer.add("a.u8", uint8_t{200});
  writer.add("a.i8", int8_t{-100});
  writer.add("a.u16", uint16_t{60000});
  writer.add("a.i16", int16_t{-30000});
  writer.add("a.u32", uint32_t{4000000000});
  writer.add("a.i32", int32_t{-2000000000});
  writer.add("a.f32", 0.5f);
  writer.add("a.bool", true);
  writer.add("a.u64", uint64_t{0xffffffffffffffff});
  writer.add("a.i64", int64_t{-5000000000});
  writer.add("a.f64", 1e-300);
  const std::string_view words[] = {"one", "", "three", "\xf0\x9f\x90\xa6"};
  writer.add_array("a.words", words);
  const int32_t numbers[] = {1, -2, 3};
  writer.add_array<int32_t>("a.numbers", numbers);
  const bool flags[] = {true, false};
  writer.add_array<bool>("a.flags", flags);
  const double reals[] = {1.5, -1e300, 2.9};
  writer.add_array<double>("a.reals", reals);
  writer.add_array("a.nothing", std::span<const std::string_view>());
  const int64_t plain[] = {5}, matrix[] = {32, 3}, cube[] = {4, 2, 3};
  writer.add_tensor("plain", Format::F32, plain);
  writer.add_tensor("matrix", Format::Q8_0, matrix);
  writer.add_tensor("cube", Format::F16, cube);
  return written(writer, {std::string(20, '\1'), std::string(3 * 34, '\2'), std::string(48, '\3')});
}

}  // namespace martlet
