// Copies of a set have one content number, and sets with other samples or labels have another one.
#include <functional>

#include "tests/unit/data/formats/sample_files.h"
#include "tests/unit/data/formats/tar_bytes.h"
#include "worker/data/formats/open.h"
#include "worker/data/formats/packed/pack.h"
#include "worker/data/formats/packed/packed_set.h"

namespace phub::data {
namespace {

namespace fs = std::filesystem;

using Files = std::vector<std::pair<std::string, std::string>>;  // names and bytes

void write(const fs::path& folder, const Files& files) {
  for (const auto& [name, bytes] : files) write_file(folder / name, bytes);
}

std::uint64_t of_folder(const Files& files) {
  const TemporaryDirectory directory;
  write(directory.path, files);
  const auto set = open_folder(directory.path, Split::kTrain);
  REQUIRE(set);
  return (*set)->content_number();
}

void pack_folder(const TemporaryDirectory& directory, const Files& files) {
  write(directory.path, files);
  const auto set = open_folder(directory.path, Split::kTrain);
  REQUIRE(set);
  REQUIRE(pack(**set, directory.path / "train.phub"));
}

std::uint64_t of_packed(const fs::path& path) {
  const auto packed = open_packed(path, Split::kTrain);
  REQUIRE(packed);
  return (*packed)->content_number();
}

const Files kFiles = {
    {"train/cat/1.png", png("1")}, {"train/cat/2.png", png("2")}, {"train/dog/3.png", png("3")}};

TEST_CASE("A folder's number is that of its copies, and changes with a name or a class") {
  const std::uint64_t number = of_folder(kFiles);
  CHECK(of_folder(kFiles) == number);
  Files files = kFiles;
  files[1].first = "train/cat/4.png";
  CHECK(of_folder(files) != number);
  files[1].first = "train/dog/2.png";
  CHECK(of_folder(files) != number);
  files = kFiles;
  files[2].first = "train/fox/3.png";
  CHECK(of_folder(files) != number);
}

TEST_CASE("A packed set's number is that of its copies, and changes with a byte of an image") {
  const TemporaryDirectory directory, other;
  pack_folder(directory, kFiles);
  const std::uint64_t number = of_packed(directory.path);
  fs::copy_file(directory.path / "train.phub", other.path / "train.phub");
  CHECK(of_packed(other.path) == number);
  Files files = kFiles;
  files[1].second = png("4");
  pack_folder(directory, files);
  CHECK(of_packed(directory.path) != number);
}

TEST_CASE("Shards' number is that of their copies, and changes with a size or a label") {
  const auto of_shard = [](const std::string& image, const std::string& label) {
    const TemporaryDirectory directory;
    directory.write("train-0.tar",
                    tar_member("a.jpg", image) + tar_member("a.cls", label) + tar_end());
    const auto set = open_webdataset(directory.path, Split::kTrain);
    REQUIRE(set);
    return (*set)->content_number();
  };
  const std::uint64_t number = of_shard(jpeg("1"), "5");
  CHECK(of_shard(jpeg("1"), "5") == number);
  CHECK(of_shard(jpeg("12"), "5") != number);
  CHECK(of_shard(jpeg("1"), "6") != number);
}

}  // namespace
}  // namespace phub::data
