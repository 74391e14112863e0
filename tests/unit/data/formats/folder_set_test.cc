#include <sys/stat.h>

#include "tests/unit/data/formats/sample_files.h"
#include "worker/data/formats/open.h"
#include "worker/data/formats/source_file.h"

namespace phub::data {
namespace {

namespace fs = std::filesystem;

// Two classes; the names are in another order than their bytes'.
void write_small(const fs::path& path) {
  write_file(path / "train/b/2.JPG", jpeg("b2"));
  write_file(path / "train/b/10.jpeg", jpeg("b10"));
  write_file(path / "train/a/x.Png", png("ax"));
  write_file(path / "val/b/1.jpg", jpeg("val"));
}

std::string refusal(const fs::path& path, Split split = Split::kTrain) {
  const auto set = open_folder(path, split);
  REQUIRE_FALSE(set.has_value());
  return set.error().message();
}

TEST_CASE("A folder's images are in the order of class and name") {
  const TemporaryDirectory directory;
  write_small(directory.path);
  const auto set = open_folder(directory.path, Split::kTrain);
  REQUIRE(set.has_value());
  CHECK((*set)->classes() == std::vector<std::string>{"a", "b"});
  CHECK(samples_of(**set) ==
        std::vector<Sample>{{0, png("ax")}, {1, jpeg("b10")}, {1, jpeg("b2")}});
  CHECK((*set)->name(2) == (directory.path / "train/b/2.JPG").string());
}

TEST_CASE("Many classes with names that begin alike are in the order of their bytes") {
  const TemporaryDirectory directory;
  const std::vector<std::string> names = {"",           "_",          "_1",         "_10",
                                          "_100",       "_2",         "_123456789", "_123456790",
                                          "_12345678",  "\xE9",       "_1\x01",     "_1\xFF",
                                          "_1\xFF\xFF", "_000000000", "A"};
  std::vector<std::string> expected;
  for (int of_all = 0; of_all < 70; ++of_all) {
    const std::string name = "n" + std::to_string(of_all * 37 % 101);
    for (const std::string& ending : names) {
      const std::string path = "train/" + name + "/" + name + ending + ".jpg";
      write_file(directory.path / path, jpeg(path));
      expected.push_back((directory.path / path).native());
    }
  }
  std::sort(expected.begin(), expected.end(), [](const std::string& a, const std::string& b) {
    const fs::path x = a, y = b;
    return std::pair(x.parent_path().filename().native(), x.filename().native()) <
           std::pair(y.parent_path().filename().native(), y.filename().native());
  });
  const auto set = open_folder(directory.path, Split::kTrain);
  REQUIRE(set.has_value());
  REQUIRE((*set)->samples() == expected.size());
  for (std::uint64_t i = 0; i < expected.size(); ++i) {
    CHECK((*set)->name(i) == printable(expected[i]));
    CHECK((*set)->classes()[(*set)->label(i)] ==
          fs::path(expected[i]).parent_path().filename().native());
  }
}

TEST_CASE("Of several classes that are refused the first one is named") {
  const TemporaryDirectory directory;
  for (int i = 0; i < 60; ++i) {
    const fs::path path = directory.path / "train" / ("n" + std::to_string(100 + i));
    write_file(path / "1.jpg", jpeg("1"));
    if (i >= 41) fs::create_directory(path / "deeper");
  }
  CHECK_THAT(refusal(directory.path), Catch::Contains("n141/deeper is a folder in a class"));
}

TEST_CASE("A class that the test lacks has no samples there") {
  const TemporaryDirectory directory;
  write_small(directory.path);
  const auto set = open_folder(directory.path, Split::kTest);
  REQUIRE(set.has_value());
  CHECK((*set)->classes().size() == 2);
  CHECK(samples_of(**set) == std::vector<Sample>{{1, jpeg("val")}});
}

TEST_CASE("A class of the test that the training lacks is refused by name") {
  const TemporaryDirectory directory;
  write_small(directory.path);
  write_file(directory.path / "val/c/1.jpg", jpeg("c"));
  CHECK_THAT(refusal(directory.path, Split::kTest),
             Catch::Contains("val/c") && Catch::Contains("train beside it lacks"));
}

TEST_CASE("Folders that both could be the test are refused") {
  const TemporaryDirectory directory;
  write_small(directory.path);
  write_file(directory.path / "test/b/1.jpg", jpeg("test"));
  CHECK_THAT(refusal(directory.path, Split::kTest), Catch::Contains("both test and val"));
}

TEST_CASE("Files that are no images and hidden ones are passed over") {
  const TemporaryDirectory directory;
  write_small(directory.path);
  write_file(directory.path / "train/a/notes.txt", "");
  write_file(directory.path / "train/a/.hidden.jpg", "");
  write_file(directory.path / "train/.cache/x.jpg", "");
  write_file(directory.path / "train/README", "");
  CHECK((*open_folder(directory.path, Split::kTrain))->samples() == 3);
}

TEST_CASE("Symbolic links below the folder are refused by name") {
  const TemporaryDirectory directory;
  const TemporaryDirectory other;
  write_small(directory.path);
  write_file(other.path / "1.jpg", jpeg("outside"));
  const fs::path link = directory.path / GENERATE("train/a/link.jpg", "train/linked", "train/a/x");
  fs::create_symlink(link.extension() == ".jpg" ? other.path / "1.jpg" : other.path, link);
  CHECK_THAT(refusal(directory.path),
             Catch::Contains(link.string()) && Catch::Contains("symbolic link"));
}

TEST_CASE("A split that is a symbolic link is refused, and the folder itself may be one") {
  const TemporaryDirectory directory;
  const TemporaryDirectory other;
  write_small(other.path);
  fs::create_symlink(other.path / "train", directory.path / "train");
  CHECK_THAT(refusal(directory.path), Catch::Contains("symbolic link"));
  fs::create_symlink(other.path, directory.path / "set");
  CHECK(open_folder(directory.path / "set", Split::kTrain).has_value());
}

TEST_CASE("An image that became a link after opening is not followed") {
  const TemporaryDirectory directory;
  write_small(directory.path);
  const auto set = open_folder(directory.path, Split::kTrain);
  fs::rename(directory.path / "train/a/x.Png", directory.path / "train/a/y");
  fs::create_symlink("y", directory.path / "train/a/x.Png");
  std::vector<std::uint8_t> buffer;
  CHECK((*set)->read(0, buffer).error().code() == Code::kDataLoss);
  fs::rename(directory.path / "train/b", directory.path / "train/c");
  fs::create_symlink("c", directory.path / "train/b");
  CHECK((*set)->read(1, buffer).error().code() == Code::kDataLoss);
}

TEST_CASE("Names that are not UTF-8 are read, and printed with escapes") {
  const TemporaryDirectory directory;
  write_file(directory.path / "train/\xE9t\xE9/\xFF\n.jpg", jpeg("latin"));
  const auto set = open_folder(directory.path, Split::kTrain);
  REQUIRE(set.has_value());
  CHECK((*set)->classes()[0] == "\xE9t\xE9");
  CHECK(samples_of(**set) == std::vector<Sample>{{0, jpeg("latin")}});
  CHECK_THAT((*set)->name(0), Catch::EndsWith("train/\\xe9t\\xe9/\\xff\\n.jpg"));
}

TEST_CASE("Folders, devices and FIFOs in place of images are refused by name") {
  const TemporaryDirectory directory;
  write_small(directory.path);
  fs::create_directory(directory.path / "train/a/deeper");
  CHECK_THAT(refusal(directory.path), Catch::Contains("train/a/deeper is a folder in a class"));
  fs::remove(directory.path / "train/a/deeper");
  REQUIRE(::mkfifo((directory.path / "train/a/fifo.jpg").c_str(), 0600) == 0);
  CHECK_THAT(refusal(directory.path), Catch::Contains("fifo.jpg is no regular file"));
}

TEST_CASE("Empty and absent images are errors when they are read") {
  const TemporaryDirectory directory;
  write_small(directory.path);
  write_file(directory.path / "train/a/x.Png", "");
  const auto set = open_folder(directory.path, Split::kTrain);
  std::vector<std::uint8_t> buffer;
  CHECK_THAT((*set)->read(0, buffer).error().message(), Catch::Contains("0 bytes"));
  fs::resize_file(directory.path / "train/a/x.Png", kMaxSampleBytes + 1);
  CHECK_THAT((*set)->read(0, buffer).error().message(), Catch::Contains("268435457 bytes"));
  fs::remove(directory.path / "train/a/x.Png");
  CHECK_THAT((*set)->read(0, buffer).error().message(), Catch::Contains("x.Png"));
}

TEST_CASE("A folder without images or without the split is not found") {
  const TemporaryDirectory directory;
  CHECK_THAT(refusal(directory.path / "absent"), Catch::Contains("absent"));
  CHECK_THAT(refusal(directory.path), Catch::Contains("train"));
  fs::create_directories(directory.path / "train/a");
  CHECK_THAT(refusal(directory.path), Catch::Contains("has no CLASS/NAME"));
}

TEST_CASE("More classes than labels are refused with the figure") {
  // In memory where there is such a folder: a disk takes long for as many.
  const fs::path memory = "/dev/shm";
  std::string path = ((fs::exists(memory) ? memory : fs::temp_directory_path()) / "phub_XXXXXX");
  REQUIRE(mkdtemp(path.data()) != nullptr);
  for (std::uint64_t i = 0; i <= kMaxClasses; ++i) {
    fs::create_directories(fs::path(path) / "train" / std::to_string(i));
  }
  const std::string message = refusal(path);
  fs::remove_all(path);
  CHECK_THAT(message, Catch::Contains("more than 65536 folders"));
}

}  // namespace
}  // namespace phub::data
