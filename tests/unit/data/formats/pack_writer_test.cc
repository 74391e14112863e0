#include "worker/data/formats/packed/pack_writer.h"

#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>

#include "tests/unit/data/formats/sample_files.h"
#include "worker/data/formats/packed/packed_set.h"

namespace phub::data {
namespace {

namespace fs = std::filesystem;

// Each sample is entered into the journal at once.
PackWriterOptions three_classes() {
  return {.classes = {"a", "b", "c"}, .source = 5, .batch_bytes = 1};
}

std::string content_of(std::uint64_t sample) { return jpeg(std::string(10 + sample, 'x')); }

Status append_next(PackWriter& writer) {
  const std::uint64_t sample = writer.samples();
  const std::string content = content_of(sample);
  const std::vector<std::uint8_t> bytes(content.begin(), content.end());
  return writer.append(bytes, static_cast<std::uint16_t>(sample % 3), "s" + std::to_string(sample));
}

std::unique_ptr<PackWriter> open_writer(const fs::path& path,
                                        const PackWriterOptions& options = three_classes()) {
  auto writer = PackWriter::create(path, options);
  INFO(writer.error().message());
  REQUIRE(writer.has_value());
  return std::move(*writer);
}

std::string refused_writer(const fs::path& path, const PackWriterOptions& options) {
  const auto writer = PackWriter::create(path, options);
  REQUIRE_FALSE(writer.has_value());
  return writer.error().message();
}

// A process that appends `samples` samples and ends without finishing.
void crash_after(const fs::path& path, int samples, const PackWriterOptions& options) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto writer = PackWriter::create(path, options);
    for (int i = 0; i < samples; ++i) {
      if (!writer || !append_next(**writer).ok()) ::_exit(1);
    }
    ::_exit(0);
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
}

void finish_and_check(PackWriter& writer, const fs::path& path, std::uint64_t samples) {
  while (writer.samples() < samples) REQUIRE(append_next(writer).ok());
  REQUIRE(writer.finish().ok());
  const auto set = open_packed(path, Split::kTrain);
  INFO(set.error().message());
  REQUIRE(set.has_value());
  REQUIRE((*set)->samples() == samples);
  for (std::uint64_t i = 0; i < samples; ++i) {
    CHECK(sample_of(**set, i) == Sample{static_cast<std::uint16_t>(i % 3), content_of(i)});
    CHECK_THAT((*set)->name(i), Catch::EndsWith("(s" + std::to_string(i) + ')'));
  }
  CHECK_FALSE(fs::exists(path.string() + ".partial"));
  CHECK_FALSE(fs::exists(path.string() + ".partial.journal"));
}

TEST_CASE("A packed file appears when it is finished, and replaces the old one then") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path / "train.phub";
  directory.write("train.phub", "old");
  const auto writer = open_writer(path);
  REQUIRE(append_next(*writer).ok());
  CHECK(directory.read("train.phub") == "old");
  finish_and_check(*writer, path, 4);
}

TEST_CASE("A writer goes on after a crash with what was committed") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path / "train.phub";
  crash_after(path, 5, three_classes());
  const auto writer = open_writer(path);
  CHECK(writer->samples() == 5);
  finish_and_check(*writer, path, 8);
}

TEST_CASE("What a batch did not commit before a crash is written again") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path / "train.phub";
  PackWriterOptions options = three_classes();
  options.batch_bytes = 60;  // two samples of 24 bytes and more
  crash_after(path, 5, options);
  const auto writer = open_writer(path, options);
  CHECK(writer->samples() == 4);
  finish_and_check(*writer, path, 5);
}

TEST_CASE("A writer that is given up keeps everything that was appended") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path / "train.phub";
  PackWriterOptions options = three_classes();
  options.batch_bytes = 1U << 30U;
  {
    const auto writer = open_writer(path, options);
    for (int i = 0; i < 3; ++i) REQUIRE(append_next(*writer).ok());
  }
  const auto writer = open_writer(path, options);
  CHECK(writer->samples() == 3);
  finish_and_check(*writer, path, 3);
}

TEST_CASE("A journal that was cut or damaged keeps the entries before") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path / "train.phub";
  crash_after(path, 5, three_classes());
  const std::string journal = directory.read("train.phub.partial.journal");
  REQUIRE(journal.size() == 40 + 5 * 32);
  std::string damaged = journal;
  std::size_t kept = 0;
  SECTION("cut within the last entry") {
    damaged.resize(journal.size() - 7);
    kept = 4;
  }
  SECTION("a byte of the third entry") {
    damaged[40 + 2 * 32 + 9] = '!';
    kept = 2;
  }
  SECTION("the second entry in the third's place") {
    damaged.replace(40 + 2 * 32, 32, journal.substr(40 + 32, 32));
    kept = 2;
  }
  SECTION("a byte of the header") { damaged[20] = '!'; }
  SECTION("cut within the header") { damaged.resize(39); }
  directory.write("train.phub.partial.journal", damaged);
  const auto writer = open_writer(path);
  CHECK(writer->samples() == kept);
  finish_and_check(*writer, path, 6);
}

TEST_CASE("Samples that the partial file lacks or has otherwise are written again") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path / "train.phub";
  PackWriterOptions options = three_classes();
  crash_after(path, 5, options);
  std::string data = directory.read("train.phub.partial");
  std::size_t kept = 4;
  SECTION("cut within the last") { data.resize(data.size() - 9); }
  SECTION("a byte of the last") { data[data.size() - 20] = '!'; }
  SECTION("gone") {
    data.clear();
    kept = 0;
  }
  directory.write("train.phub.partial", data);
  const auto writer = open_writer(path);
  CHECK(writer->samples() == kept);
  finish_and_check(*writer, path, 6);
}

TEST_CASE("A partial file of another source is refused, or begun anew when asked") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path / "train.phub";
  crash_after(path, 2, three_classes());
  PackWriterOptions other = three_classes();
  other.source = 6;
  CHECK_THAT(refused_writer(path, other), Catch::Contains("of a pack of other samples"));
  PackWriterOptions renamed = three_classes();
  renamed.classes[2] = "d";
  CHECK_THAT(refused_writer(path, renamed), Catch::Contains("of a pack of other samples"));
  other.resume = false;
  const auto writer = open_writer(path, other);
  CHECK(writer->samples() == 0);
  finish_and_check(*writer, path, 1);
}

TEST_CASE("A second writer of the same file is refused while the first lives") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path / "train.phub";
  const auto writer = open_writer(path);
  CHECK_THAT(refused_writer(path, three_classes()),
             Catch::Contains("is being written by another process"));
}

// As a full disk: files may not grow any more.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(std::uint64_t bytes) {
    ::signal(SIGXFSZ, SIG_IGN);
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before_) == 0);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
  }
  ~FileSizeLimit() { ::setrlimit(RLIMIT_FSIZE, &before_); }

 private:
  rlimit before_{};
};

TEST_CASE("A full disk is an error that keeps the old file and what was written") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path / "train.phub";
  directory.write("train.phub", "old");
  {
    const auto writer = open_writer(path);
    const FileSizeLimit limit(64 + 3 * 24 + 60);
    Status status;
    while (status.ok()) status = append_next(*writer);
    CHECK(status.code() == Code::kResourceExhausted);
    CHECK_THAT(status.message(), Catch::Contains("train.phub.partial") &&
                                     Catch::Contains("make room and run it again"));
    CHECK(append_next(*writer).message() == status.message());
    CHECK(writer->finish().message() == status.message());
  }
  CHECK(directory.read("train.phub") == "old");
  const auto writer = open_writer(path);
  CHECK(writer->samples() > 0);
  finish_and_check(*writer, path, 20);
}

TEST_CASE("A disk that is full at the end keeps the samples") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path / "train.phub";
  {
    const auto writer = open_writer(path);
    while (writer->samples() < 20) REQUIRE(append_next(*writer).ok());
    const FileSizeLimit limit(fs::file_size(path.string() + ".partial") + 100);
    CHECK(writer->finish().code() == Code::kResourceExhausted);
  }
  const auto writer = open_writer(path);
  CHECK(writer->samples() == 20);
  finish_and_check(*writer, path, 20);
}

TEST_CASE("What a packed file cannot hold is refused") {
  const TemporaryDirectory directory;
  const fs::path path = directory.path / "train.phub";
  CHECK_THAT(refused_writer(path, {}), Catch::Contains("0 classes"));
  CHECK_THAT(refused_writer(path, {.classes = {std::string(1025, 'x')}}),
             Catch::Contains("has 1025 bytes; the most is 1024"));
  CHECK_THAT(refused_writer(path, {.classes = std::vector<std::string>(65537)}),
             Catch::Contains("65537 classes"));
  CHECK_THAT(refused_writer(directory.path / "absent/train.phub", three_classes()),
             Catch::Contains("absent"));
  const auto writer = open_writer(path);
  CHECK_THAT(writer->append({}, 0, "").message(), Catch::Contains("a sample of 0 bytes"));
  const std::vector<std::uint8_t> one(1);
  CHECK_THAT(writer->append(one, 3, "").message(), Catch::Contains("label 3 of 3 classes"));
  CHECK_THAT(writer->finish().message(), Catch::Contains("no sample to pack"));
  REQUIRE(writer->append(one, 2, std::string(2000, 'n')).ok());
  REQUIRE(writer->finish().ok());
  CHECK_THAT((*open_packed(path, Split::kTrain))->name(0),
             Catch::EndsWith('(' + std::string(1024, 'n') + ')'));
}

}  // namespace
}  // namespace phub::data
