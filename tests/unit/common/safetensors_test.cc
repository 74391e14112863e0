// The files that checkpoints and snapshots are: what is written, and what is refused.
#include "common/tensors/safetensors.h"

#include <fcntl.h>
#include <sys/file.h>

#include <catch2/catch.hpp>
#include <limits>

#include "tests/support/temporary_directory.h"

namespace phub {
namespace {

std::string with_length(std::uint64_t length, const std::string& rest) {
  std::string bytes;
  for (unsigned i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i));
  return bytes + rest;
}

std::string with_header(const std::string& header, const std::string& data = {}) {
  return with_length(header.size(), header + data);
}

TensorFile example() {
  TensorFile file;
  file.tensors.push_back({"b.weight", {2, 3}, {1.0F, -2.0F, 0.5F, 1e-30F, 0.1F, 3e38F}});
  file.tensors.push_back({"a.bias", {1}, {-0.0F}});
  file.tensors.push_back({"empty", {0, 4}, {}});
  file.tensors.push_back({"scalar", {}, {7.0F}});
  file.metadata = {{"format", "pt"}, {"note", "quotes \" and \n lines"}};
  return file;
}

TEST_CASE("A safetensors file comes back as it was written") {
  const TemporaryDirectory directory;
  const TensorFile file = example();
  REQUIRE(write_safetensors(directory.path / "m", file).ok());
  const auto read = read_safetensors(directory.path / "m");
  REQUIRE(read);
  REQUIRE(read->metadata == file.metadata);
  REQUIRE(read->tensors.size() == file.tensors.size());
  for (const NamedTensor& tensor : file.tensors) {
    const NamedTensor* found = read->find(tensor.name);
    REQUIRE(found != nullptr);
    REQUIRE(found->shape == tensor.shape);
    REQUIRE(found->values.size() == tensor.values.size());
    REQUIRE(std::equal(found->values.begin(), found->values.end(), tensor.values.begin()));
  }
}

TEST_CASE("A safetensors file has the bytes of its specification") {
  const TemporaryDirectory directory;
  TensorFile file;
  file.tensors.push_back({"w", {1}, {1.0F}});
  REQUIRE(write_safetensors(directory.path / "m", file).ok());
  std::string header = R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  header.resize(56, ' ');
  REQUIRE(directory.read("m") == with_header(header, std::string("\0\0\x80\x3f", 4)));
}

TEST_CASE("Writing replaces a file at once and leaves nothing else behind") {
  const TemporaryDirectory directory;
  directory.write("m", "old");
  REQUIRE(write_safetensors(directory.path / "m", example()).ok());
  REQUIRE(read_safetensors(directory.path / "m"));
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(directory.path)) {
    ++files;
  }
  REQUIRE(files == 1);
}

TEST_CASE("What a writer that died left is removed, and nothing else") {
  const TemporaryDirectory directory;
  const auto exists = [&](const char* name) {
    return std::filesystem::exists(directory.path / name);
  };
  for (const char* const name : {"m.tmp.1.0", "m.optimizer-9.tmp.1.1", "m.tmp.x", "m.tmp.", "m",
                                 "other.tmp.1.0", "m.tmp.2.0"}) {
    directory.write(name, "x");
  }
  const UniqueFd living(::open((directory.path / "m.tmp.2.0").c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::flock(living.get(), LOCK_EX) == 0);
  remove_abandoned_safetensors(directory.path, "m");
  CHECK_FALSE(exists("m.tmp.1.0"));
  CHECK_FALSE(exists("m.optimizer-9.tmp.1.1"));
  for (const char* const name : {"m.tmp.x", "m.tmp.", "m", "other.tmp.1.0", "m.tmp.2.0"}) {
    CHECK(exists(name));
  }
}

TEST_CASE("A failed write leaves the old file and names the path") {
  const TemporaryDirectory directory;
  const Status missing = write_safetensors(directory.path / "none" / "m", example());
  REQUIRE_FALSE(missing.ok());
  REQUIRE(missing.message().find("none/m") != std::string::npos);

  directory.write("m", "old");
  std::filesystem::create_directory(directory.path / "d");
  REQUIRE_FALSE(write_safetensors(directory.path / "d", example()).ok());  // no file can replace it
  REQUIRE(std::filesystem::is_empty(directory.path / "d"));
  REQUIRE(directory.read("m") == "old");
  const std::filesystem::directory_iterator left(directory.path);
  REQUIRE(std::distance(begin(left), end(left)) == 2);  // and no temporary file
}

TEST_CASE("A file that is no safetensors file is refused with the reason") {
  struct Case {
    std::string bytes, reason;
  };
  const std::string tensor = R"("dtype":"F32","shape":[1],"data_offsets":[0,4])";
  const std::string four(4, '\0');
  const std::string eight(8, '\0');
  const std::vector<Case> cases = {
      {"", "shorter than 8"},
      {"1234567", "shorter than 8"},
      {with_length(std::numeric_limits<std::uint64_t>::max(), "{}"), "header claims"},
      {with_length(std::numeric_limits<std::uint64_t>::max() - 7, "{}"), "header claims"},
      {with_length(3, "{}"), "header claims"},
      {with_length(0, ""), "no JSON object"},
      {with_header("{"), "no JSON object"},
      {with_header("[]"), "no JSON object"},
      {with_header("null"), "no JSON object"},
      {with_header(std::string(100'000, '[')), "no JSON object"},
      {with_header("{}", "x"), "no tensor owns"},
      {with_header(R"({"w":1})"), "no object"},
      {with_header(R"({"__metadata__":{"a":1}})"), "metadata"},
      {with_header(R"({"w":{}})"), "data_offsets"},
      {with_header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4,8]}})", four),
       "two numbers"},
      {with_header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}})", four),
       "two numbers"},
      {with_header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,1e3]}})", four),
       "two numbers"},
      {with_header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", four), "outside"},
      {with_header(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", four), "outside"},
      {with_header(R"({"w":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}})", four), "F32"},
      {with_header(R"({"w":{"shape":[1],"data_offsets":[0,4]}})", four), "F32"},
      {with_header(R"({"w":{"dtype":"F32","shape":1,"data_offsets":[0,4]}})", four), "no list"},
      {with_header(R"({"w":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", four), "numbers"},
      {with_header(R"({"w":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", four), "larger"},
      {with_header(R"({"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})",
                   four),
       "larger"},
      {with_header(R"({"w":{"dtype":"F32","shape":[18446744073709551615,0],"data_offsets":[0,4]}})",
                   four),
       "shape"},
      {with_header(R"({"w":{"dtype":"F32","shape":[0],"data_offsets":[0,4]}})", four), "differ"},
      {with_header(R"({"w":{"dtype":"F32","shape":[0],"data_offsets":[0,3]}})", four), "differ"},
      {with_header(R"({"a":{)" + tensor + R"(},"b":{)" + tensor + "}}", four), "does not follow"},
      {with_header(R"({"a":{)" + tensor + "}}", eight), "no tensor owns"},
      {with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", eight),
       "does not follow"},
  };
  const TemporaryDirectory directory;
  for (const Case& broken : cases) {
    directory.write("m", broken.bytes);
    const auto read = read_safetensors(directory.path / "m");
    INFO(broken.bytes.substr(0, 200));
    REQUIRE_FALSE(read);
    INFO(read.error().to_string());
    REQUIRE(read.error().code() == Code::kDataLoss);
    REQUIRE(read.error().message().find(broken.reason) != std::string::npos);
    REQUIRE(read.error().message().find((directory.path / "m").string()) != std::string::npos);
  }
  REQUIRE(read_safetensors(directory.path / "none").error().code() == Code::kNotFound);
}

}  // namespace
}  // namespace phub
