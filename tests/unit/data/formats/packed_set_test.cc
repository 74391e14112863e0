#include "worker/data/formats/packed/packed_set.h"

#include "tests/unit/data/formats/range_server.h"
#include "tests/unit/data/formats/sample_files.h"
#include "worker/data/formats/detect/detect.h"
#include "worker/data/formats/packed/pack_format.h"
#include "worker/data/formats/packed/pack_writer.h"

namespace phub::data {
namespace {

namespace fs = std::filesystem;

std::string small_pack(const TemporaryDirectory& directory) {
  const auto writer = PackWriter::create(directory.path / "train.phub", {.classes = {"a", "\xFF"}});
  REQUIRE(writer.has_value());
  for (const Sample& sample : {Sample{1, jpeg("first")}, Sample{0, jpeg("2")}}) {
    const std::vector<std::uint8_t> bytes(sample.bytes.begin(), sample.bytes.end());
    REQUIRE((*writer)->append(bytes, sample.label, "x/\xFF.jpg").ok());
  }
  REQUIRE((*writer)->finish().ok());
  return directory.read("train.phub");
}

Result<std::unique_ptr<SampleSet>> open_bytes(const TemporaryDirectory& directory,
                                              const std::string& bytes) {
  directory.write("train.phub", bytes);
  return open_packed(directory.path, Split::kTrain);
}

std::string refused_pack(const TemporaryDirectory& directory, const std::string& bytes) {
  const auto set = open_bytes(directory, bytes);
  REQUIRE_FALSE(set.has_value());
  CHECK_THAT(set.error().message(), Catch::Contains("train.phub"));
  return set.error().message();
}

// The pack with other fields in its header, whose checksum is right.
template <typename Change>
std::string with_header(std::string bytes, const Change& change) {
  PackHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  change(header);
  header.header_crc = crc_of(header);
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

// The pack with another first entry of its index, whose checksums are right.
template <typename Change>
std::string with_entry(std::string bytes, const Change& change) {
  PackHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  std::vector<PackEntry> index(header.samples);
  const std::size_t index_bytes = index.size() * sizeof(PackEntry);
  std::memcpy(index.data(), bytes.data() + header.index_offset, index_bytes);
  change(index[0]);
  std::memcpy(bytes.data() + header.index_offset, index.data(), index_bytes);
  const std::uint32_t crc = crc32c(std::as_bytes(std::span<const PackEntry>(index)));
  return with_header(bytes, [&](PackHeader& changed) { changed.index_crc = crc; });
}

TEST_CASE("A packed file has the samples, the classes and the names") {
  const TemporaryDirectory directory;
  small_pack(directory);
  const fs::path path = GENERATE(false, true) ? directory.path : directory.path / "train.phub";
  const auto set = open_packed(path, Split::kTrain);
  INFO(set.error().message());
  REQUIRE(set.has_value());
  CHECK(samples_of(**set) == std::vector<Sample>{{1, jpeg("first")}, {0, jpeg("2")}});
  CHECK((*set)->classes() == std::vector<std::string>{"a", "\xFF"});
  CHECK_THAT((*set)->name(1), Catch::EndsWith("train.phub at offset 80 (x/\\xff.jpg)"));
  CHECK((*set)->index_bytes() <= 2 * 32 + 2 * (sizeof(std::string) + 1));
}

TEST_CASE("A packed file of another version is refused by name") {
  const TemporaryDirectory directory;
  const std::string other =
      with_header(small_pack(directory), [](PackHeader& header) { header.version = 7; });
  CHECK_THAT(refused_pack(directory, other),
             Catch::Contains("has version 7, and this program reads version 1"));
  CHECK_THAT(refused_pack(directory, std::string(100, 'x')), Catch::Contains("no packed data set"));
}

TEST_CASE("Each byte of a packed file counts, but for the zeros between samples") {
  const TemporaryDirectory directory;
  const std::string whole = small_pack(directory);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    const auto set = open_bytes(directory, damaged);
    const bool is_noticed = !set.has_value() || !reads_all(**set);
    INFO(i);
    // 64 + 8 + 7 bytes of image and name, then one zero; 80 + 4 + 7, then five.
    const bool is_zero = i == 79 || (i >= 91 && i < 96);
    CHECK(is_noticed != is_zero);
  }
}

TEST_CASE("A packed file that was cut or made longer is refused") {
  const TemporaryDirectory directory;
  const std::string whole = small_pack(directory);
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    CHECK_FALSE(refused_pack(directory, whole.substr(0, bytes)).empty());
  }
  CHECK_THAT(refused_pack(directory, whole + 'x'), Catch::Contains("bytes and should have"));
}

TEST_CASE("Figures of a packed header that are out of bounds are refused") {
  const TemporaryDirectory directory;
  const std::string whole = small_pack(directory);
  const auto said = [&](const std::function<void(PackHeader&)>& change) {
    return refused_pack(directory, with_header(whole, change));
  };
  CHECK_THAT(said([](PackHeader& h) { h.samples = 0; }), Catch::Contains("0 samples"));
  CHECK_THAT(said([](PackHeader& h) { h.samples = kMaxSamples + 1; }),
             Catch::Contains("67108865 samples"));
  CHECK_THAT(said([](PackHeader& h) { h.samples = kMaxSamples; }), Catch::Contains("offsets"));
  CHECK_THAT(said([](PackHeader& h) { h.samples = 1; }), Catch::Contains("offsets"));
  CHECK_THAT(said([](PackHeader& h) { h.classes = 0; }), Catch::Contains("of 0 classes"));
  CHECK_THAT(said([](PackHeader& h) { h.classes = ~0U; }),
             Catch::Contains("of 4294967295 classes"));
  CHECK_THAT(said([](PackHeader& h) { h.classes = 3; }), Catch::Contains("names of 3 classes"));
  CHECK_THAT(said([](PackHeader& h) { h.index_offset = 8; }), Catch::Contains("offsets"));
  CHECK_THAT(said([](PackHeader& h) { h.index_offset = ~0ULL; }), Catch::Contains("offsets"));
  CHECK_THAT(said([](PackHeader& h) { h.names_offset += 1; }), Catch::Contains("offsets"));
  CHECK_THAT(said([](PackHeader& h) { h.file_bytes += 1; }), Catch::Contains("should have"));
}

TEST_CASE("Entries of a packed index that cannot be are refused") {
  const TemporaryDirectory directory;
  const std::string whole = small_pack(directory);
  const auto said = [&](const std::function<void(PackEntry&)>& change) {
    return refused_pack(directory, with_entry(whole, change));
  };
  const auto impossible = Catch::Contains("sample 0 of the index is impossible");
  CHECK_THAT(said([](PackEntry& e) { e.offset += 8; }), impossible);
  CHECK_THAT(said([](PackEntry& e) { e.offset = 0; }), impossible);
  CHECK_THAT(said([](PackEntry& e) { e.bytes = 0; }), impossible);
  CHECK_THAT(said([](PackEntry& e) { e.bytes = ~0U; }), impossible);
  CHECK_THAT(said([](PackEntry& e) { e.bytes = 1000; }), impossible);
  CHECK_THAT(said([](PackEntry& e) { e.label = 2; }), impossible);
  CHECK_THAT(said([](PackEntry& e) { e.name_bytes = 1025; }), impossible);
  CHECK_THAT(said([](PackEntry& e) { e.reserved = 1; }), impossible);
  CHECK_THAT(said([](PackEntry& e) { e.bytes = 25; }), Catch::Contains("sample 1 of the index"));
}

TEST_CASE("A packed file that is cut or changed while it is used is an error, not a fault") {
  const TemporaryDirectory directory;
  const std::string whole = small_pack(directory);
  const auto set = open_packed(directory.path, Split::kTrain);
  std::vector<std::uint8_t> buffer;
  std::string changed = whole;
  changed[64] = 'x';
  directory.write("train.phub", changed);
  CHECK_THAT((*set)->read(0, buffer).error().message(),
             Catch::Contains("offset 64: sample 0 (x/\\xff.jpg) has a wrong checksum"));
  fs::resize_file(directory.path / "train.phub", 70);
  CHECK((*set)->read(1, buffer).error().code() == Code::kDataLoss);
  CHECK_THAT((*set)->name(1), Catch::Contains("its name cannot be read"));
}

TEST_CASE("A packed file on a server is found below its folder, or by its own URL") {
  const TemporaryDirectory directory;
  const std::string whole = small_pack(directory);
  const RangeServer server([&](const Asked& asked) {
    const bool is_there = asked.target == "/a/train.phub" ||
                          asked.target == "/a/train.phub?t=1/2" || asked.target == "/other.phub";
    return Reply{is_there ? right_part(whole, asked) : status_only(404)};
  });
  for (const char* const path : {"/a", "/a/", "/a?t=1/2", "/a/train.phub", "/other.phub"}) {
    const auto set = open_sample_set(server.url(path), Split::kTrain);
    INFO(path << ": " << set.error().message());
    REQUIRE(set.has_value());
    CHECK(samples_of(**set) == std::vector<Sample>{{1, jpeg("first")}, {0, jpeg("2")}});
  }
  const auto set = open_packed(server.url("/a?t=1/2"), Split::kTrain);
  CHECK((*set)->name(1) == server.url("/a/train.phub?... at offset 80 (x/\\xff.jpg)"));
  CHECK_THAT(open_packed(server.url("/a"), Split::kTest).error().message(),
             Catch::StartsWith(server.url("/a/test.phub, bytes 0-0")));
}

TEST_CASE("A check ends where the server cannot be asked, and counts no damage") {
  const TemporaryDirectory directory;
  const std::string whole = small_pack(directory);
  std::atomic<bool> is_gone = false;
  const RangeServer server([&](const Asked& asked) {
    return Reply{is_gone ? status_only(404) : right_part(whole, asked)};
  });
  const auto set = open_packed(server.url("/x.phub"), Split::kTrain);
  REQUIRE(set.has_value());
  CHECK(check(**set)->damaged == 0);
  is_gone = true;
  CHECK(check(**set).error().code() == Code::kUnavailable);
}

TEST_CASE("A server's bytes are checked as a file's are") {
  const TemporaryDirectory directory;
  std::string whole = small_pack(directory);
  const RangeServer server([&](const Asked& asked) { return Reply{right_part(whole, asked)}; });
  whole[64] = 'x';
  const auto set = open_packed(server.url("/x.phub"), Split::kTrain);
  REQUIRE(set.has_value());
  std::vector<std::uint8_t> buffer;
  CHECK_THAT((*set)->read(0, buffer).error().message(), Catch::Contains("has a wrong checksum"));
  whole[0] = 'x';
  CHECK_THAT(open_packed(server.url("/x.phub"), Split::kTrain).error().message(),
             Catch::Contains("/x.phub, offset 0: this is no packed data set"));
  whole.clear();
  CHECK_FALSE(open_packed(server.url("/x.phub"), Split::kTrain).has_value());
}

}  // namespace
}  // namespace phub::data
