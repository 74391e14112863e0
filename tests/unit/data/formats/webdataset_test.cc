#include <cstdlib>

#include "tests/unit/data/formats/sample_files.h"
#include "tests/unit/data/formats/tar_bytes.h"
#include "worker/data/formats/open.h"

namespace phub::data {
namespace {

namespace fs = std::filesystem;

std::string sample_members(const std::string& key, const std::string& image, int label) {
  return tar_member(key + ".jpg", image) + tar_member(key + ".cls", std::to_string(label));
}

// What is said of an archive of these members and its end.
std::string refused_archive(const std::string& bytes) {
  const TemporaryDirectory directory;
  directory.write("train-0.tar", bytes);
  const auto set = open_webdataset(directory.path, Split::kTrain);
  REQUIRE_FALSE(set.has_value());
  CHECK_THAT(set.error().message(), Catch::Contains("train-0.tar"));
  return set.error().message();
}
std::string refused_members(const std::string& members) {
  return refused_archive(members + tar_end());
}

std::vector<Sample> samples_in(const std::string& members) {
  const TemporaryDirectory directory;
  directory.write("train-0.tar", members + tar_end());
  const auto set = open_webdataset(directory.path, Split::kTrain);
  INFO(set.error().message());
  REQUIRE(set.has_value());
  return samples_of(**set);
}

TEST_CASE("The samples of a WebDataset are in the order of its shards") {
  const TemporaryDirectory directory;
  directory.write("train-1.tar", sample_members("x", jpeg("3"), 2) + tar_end());
  directory.write("train-0.tar", tar_member("dir/", "", '5') + tar_member("README", "text") +
                                     sample_members("dir/a.b/1", jpeg("1"), 7) +
                                     sample_members("dir/a.b/2", jpeg("2"), 0) + tar_end());
  directory.write("val-0.tar", sample_members("v", png("v"), 1) + tar_end());
  const auto set = open_webdataset(directory.path, Split::kTrain);
  REQUIRE(set.has_value());
  CHECK(samples_of(**set) == std::vector<Sample>{{7, jpeg("1")}, {0, jpeg("2")}, {2, jpeg("3")}});
  CHECK((*set)->classes().size() == 8);
  CHECK((*set)->classes()[7] == "7");
  CHECK_THAT((*set)->name(2), Catch::EndsWith("train-1.tar at offset 512"));
  CHECK(samples_of(**open_webdataset(directory.path, Split::kTest)).size() == 1);
}

TEST_CASE("Shards may lie in a folder of the split's name") {
  const TemporaryDirectory directory;
  write_file(directory.path / "train/00.tar", sample_members("x", jpeg("x"), 0) + tar_end());
  CHECK(open_webdataset(directory.path, Split::kTrain).has_value());
  directory.write("train-0.tar", "");
  CHECK_THAT(open_webdataset(directory.path, Split::kTrain).error().message(),
             Catch::Contains("both train-* and train/*.tar"));
}

TEST_CASE("The label is that of the cls, else that of the JSON") {
  const auto image = tar_member("k.PNG", png(""));
  const auto json = tar_member("k.json", R"({"a": [1, {"label": 9}], "label": 4})");
  CHECK(samples_in(json + image) == std::vector<Sample>{{4, png("")}});
  CHECK(samples_in(image + json + tar_member("k.cls", "5\n"))[0].label == 5);
  CHECK_THAT(refused_members(image), Catch::Contains("\"k.PNG\" has no label"));
  CHECK_THAT(refused_members(image + tar_member("k.json", R"({"label": -1})")),
             Catch::Contains("has no label"));
  CHECK_THAT(refused_members(image + tar_member("k.json", "[1,")), Catch::Contains("no label"));
}

TEST_CASE("Labels that are no small decimal numbers are refused with the figure") {
  const auto image = tar_member("k.jpg", jpeg(""));
  CHECK_THAT(refused_members(image + tar_member("k.cls", "cat")),
             Catch::Contains("\"k.cls\" is no decimal number"));
  CHECK_THAT(refused_members(image + tar_member("k.cls", "")), Catch::Contains("no decimal"));
  CHECK_THAT(refused_members(image + tar_member("k.cls", "-1")), Catch::Contains("no decimal"));
  CHECK_THAT(refused_members(image + tar_member("k.cls", std::string(65, '1'))),
             Catch::Contains("no decimal"));
  CHECK_THAT(refused_members(image + tar_member("k.cls", "65536")),
             Catch::Contains("label 65536; the largest is 65535"));
}

TEST_CASE("Members that do not make one sample are refused by name") {
  const auto image = tar_member("k.jpg", jpeg(""));
  const auto label = tar_member("k.cls", "1");
  CHECK_THAT(refused_members(image + tar_member("k.png", png("")) + label),
             Catch::Contains("\"k.png\" is a second image"));
  CHECK_THAT(refused_members(image + label + label), Catch::Contains("second label"));
  CHECK_THAT(refused_members(image + label + sample_members("m", jpeg(""), 0) + label),
             Catch::Contains("\"k\" has a label, but no"));
  CHECK_THAT(refused_members(tar_member("k.jpg", "") + label),
             Catch::Contains("a sample of 0 bytes"));
  CHECK_THAT(refused_members(tar_member("README", "")), Catch::Contains("no samples"));
  CHECK(samples_in(image + tar_member("k.seg.png", png("")) + label).size() == 1);
}

TEST_CASE("Links and sparse members are refused by name") {
  const char type = GENERATE('1', '2', 'S');
  CHECK_THAT(refused_members(tar_header("k.jpg", octal(0), type)),
             Catch::Contains("\"k.jpg\" is a link or a sparse file"));
}

TEST_CASE("Python's archives are read, with long names, in each of its formats") {
  const TemporaryDirectory directory;
  const std::string format = GENERATE("USTAR_FORMAT", "GNU_FORMAT", "PAX_FORMAT");
  const std::string script =
      "import io, sys, tarfile\n"
      "with tarfile.open(sys.argv[1], 'w', format=tarfile." +
      format +
      ") as tar:\n"
      "  key = 'd' * 90 + '/' + 'n' * 60\n"
      "  for end, content in (('.jpg', bytes((0xFF, 0xD8, 0xFF)) + b'x' * 700), ('.cls', b'3')):\n"
      "    info = tarfile.TarInfo(key + end)\n"
      "    info.size = len(content)\n"
      "    tar.addfile(info, io.BytesIO(content))\n";
  directory.write("write.py", script);
  const std::string command = "python3 " + (directory.path / "write.py").string() + ' ' +
                              (directory.path / "train-0.tar").string();
  REQUIRE(std::system(command.c_str()) == 0);  // NOLINT(cert-env33-c)
  const auto set = open_webdataset(directory.path, Split::kTrain);
  INFO(set.error().message());
  REQUIRE(set.has_value());
  CHECK(samples_of(**set) == std::vector<Sample>{{3, jpeg(std::string(700, 'x'))}});
}

TEST_CASE("A pax header's name and size count instead of the member's own") {
  const std::string content = jpeg(std::string(600, 'y'));
  const std::string pax =
      pax_record("path", "k.jpg") + pax_record("size", std::to_string(content.size()));
  const std::string image = tar_header("other", octal(0)) + content + std::string(421, '\0');
  CHECK(samples_in(tar_member("pax", pax, 'x') + image + tar_member("k.cls", "1")) ==
        std::vector<Sample>{{1, content}});
}

TEST_CASE("Pax headers that nobody needs, or that lie, are refused") {
  const std::string image = tar_member("k.jpg", jpeg(""));
  const auto with = [&](const std::string& pax, char type = 'x') {
    return refused_members(tar_member("pax", pax, type) + image);
  };
  CHECK_THAT(with("5 a=\n"), Catch::Contains("has no label"));  // is right
  CHECK_THAT(with("9 a=\n"), Catch::Contains("no right length"));
  CHECK_THAT(with("0 a=\n"), Catch::Contains("no right length"));
  CHECK_THAT(with("99999999999999999999999 a=\n"), Catch::Contains("no right length"));
  CHECK_THAT(with("5"), Catch::Contains("no right length"));
  CHECK_THAT(with("4 a\n"), Catch::Contains("without a value"));
  CHECK_THAT(with(pax_record("size", "x")), Catch::Contains("no number below 2^62"));
  CHECK_THAT(with(pax_record("size", "9223372036854775807")), Catch::Contains("2^62"));
  CHECK_THAT(with(pax_record("size", "1152921504606846976")),
             Catch::Contains("has 1152921504606846976 bytes by its header"));
  CHECK_THAT(with(pax_record("GNU.sparse.map", "0,1")), Catch::Contains("sparse"));
  CHECK_THAT(with(pax_record("path", "k"), 'g'), Catch::Contains("for all members"));
  CHECK_THAT(refused_members(tar_member("pax", pax_record("path", "k"), 'x')),
             Catch::Contains("has no member behind it"));
}

TEST_CASE("Headers that would take much memory are refused with the figure") {
  const std::string four_gib = std::string("\x80\0\0\0\0\0\0\1\0\0\0\0", 12);
  CHECK_THAT(refused_members(tar_header("pax", four_gib, 'x')),
             Catch::Contains("a pax header of 4294967296 bytes"));
  CHECK_THAT(refused_members(tar_header("pax", four_gib, 'L')),
             Catch::Contains("a name of 4294967296 bytes"));
  CHECK_THAT(refused_members(tar_header("k.jpg", four_gib)),
             Catch::Contains("has 4294967296 bytes by its header"));
  CHECK_THAT(refused_members(tar_header("k.jpg", std::string("\x80\xFF", 2))),
             Catch::Contains("no number below 2^62"));
  CHECK_THAT(refused_members(tar_header("k.jpg", std::string(12, '\xFF'))),
             Catch::Contains("no number below 2^62"));
  CHECK_THAT(refused_members(tar_header("k.jpg", "12345678")), Catch::Contains("no number"));
}

TEST_CASE("A WebDataset image above the bound is refused before it is read") {
  const TemporaryDirectory directory;
  directory.write("train-0.tar", tar_header("k.jpg", octal(kMaxSampleBytes + 512)));
  const fs::path path = directory.path / "train-0.tar";
  fs::resize_file(path, 512 + kMaxSampleBytes + 512);  // sparse
  std::ofstream(path, std::ios::binary | std::ios::app) << tar_member("k.cls", "1") << tar_end();
  CHECK_THAT(open_webdataset(directory.path, Split::kTrain).error().message(),
             Catch::Contains("a sample of 268435968 bytes"));
}

TEST_CASE("An archive that was cut anywhere is refused") {
  const std::string whole = tar_member("pax", pax_record("path", "k.jpg"), 'x') +
                            sample_members("k", jpeg("abc"), 1) + tar_end();
  for (std::size_t bytes = 0; bytes < whole.size() - 1023; bytes += 61) {
    INFO(bytes);
    CHECK_FALSE(refused_archive(whole.substr(0, bytes)).empty());
  }
  CHECK_THAT(refused_archive(whole.substr(0, whole.size() - 1024)),
             Catch::Contains("a block of zeros, is missing"));
}

TEST_CASE("Archives that were joined are refused") {
  const std::string one = sample_members("k", jpeg("abc"), 1) + tar_end();
  CHECK_THAT(refused_archive(one + one), Catch::Contains("split archives that were joined"));
  CHECK_THAT(refused_archive(one + std::string(2U << 20U, '\0')), Catch::Contains("goes on for"));
}

TEST_CASE("Each byte of a header counts") {
  const std::string whole = sample_members("k", jpeg("abc"), 1) + tar_end();
  for (std::size_t i = 0; i < 512; ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    INFO(i);
    // Behind the checksum's digits are a NUL and a space, which mean nothing.
    if (i == 154 || i == 155) continue;
    CHECK_FALSE(refused_archive(damaged).empty());
  }
}

TEST_CASE("Compressed archives are refused with the cure") {
  const TemporaryDirectory directory;
  directory.write(GENERATE("train-0.tar.gz", "train-0.tgz", "train-0.tar.zst"), "");
  CHECK_THAT(open_webdataset(directory.path, Split::kTrain).error().message(),
             Catch::Contains("is compressed; decompress it"));
  CHECK_THAT(refused_archive("\x1F\x8B" + std::string(600, 'z')), Catch::Contains("gunzip"));
}

TEST_CASE("A shard that changed after opening is an error when it is read") {
  const TemporaryDirectory directory;
  const std::string bytes = sample_members("k", jpeg("abc"), 1) + tar_end();
  directory.write("train-0.tar", bytes);
  const auto set = open_webdataset(directory.path, Split::kTrain);
  fs::resize_file(directory.path / "train-0.tar", GENERATE(514U, 4096U));
  std::vector<std::uint8_t> buffer;
  const auto read = (*set)->read(0, buffer);
  CHECK(read.error().code() == Code::kDataLoss);
  CHECK_THAT(read.error().message(), Catch::Contains("has changed since the set was opened"));
}

TEST_CASE("Without shards a WebDataset is not found") {
  const TemporaryDirectory directory;
  CHECK(open_webdataset(directory.path, Split::kTrain).error().code() == Code::kNotFound);
  CHECK(open_webdataset(directory.path / "absent", Split::kTest).error().code() == Code::kNotFound);
}

}  // namespace
}  // namespace phub::data
