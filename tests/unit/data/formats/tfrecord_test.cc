#include "tests/unit/data/formats/example_bytes.h"
#include "tests/unit/data/formats/sample_files.h"
#include "worker/data/formats/shards/example.h"
#include "worker/data/formats/open.h"

namespace phub::data {
namespace {

namespace fs = std::filesystem;

Result<std::unique_ptr<SampleSet>> open_record_file(const TemporaryDirectory& directory,
                                                    const std::string& bytes) {
  directory.write("train-0.tfrecord", bytes);
  return open_tfrecord(directory.path, Split::kTrain);
}

std::string refused_records(const std::string& bytes) {
  const TemporaryDirectory directory;
  const auto set = open_record_file(directory, bytes);
  REQUIRE_FALSE(set.has_value());
  CHECK_THAT(set.error().message(), Catch::Contains("train-0.tfrecord"));
  return set.error().message();
}

std::string refused_example(const std::string& text) {
  return refused_records(tf_record(example_bytes(text)));
}

TEST_CASE("The records of a TFRecord are read in the order of its shards") {
  const TemporaryDirectory directory;
  directory.write("train-00001-of-00002", tf_record(image_example(jpeg("c"), 2)));
  directory.write("train-00000-of-00002", tf_record(image_example(jpeg("a"), 1000)) +
                                              tf_record(image_example(jpeg("b"), 0)));
  directory.write("validation-00000-of-00001", tf_record(image_example(jpeg("v"), 3)));
  const auto set = open_tfrecord(directory.path, Split::kTrain);
  INFO(set.error().message());
  REQUIRE(set.has_value());
  CHECK(samples_of(**set) ==
        std::vector<Sample>{{1000, jpeg("a")}, {0, jpeg("b")}, {2, jpeg("c")}});
  CHECK((*set)->classes().size() == 1001);
  CHECK_THAT((*set)->name(0), Catch::EndsWith("train-00000-of-00002 at offset 12"));
  CHECK(samples_of(**open_tfrecord(directory.path, Split::kTest)) ==
        std::vector<Sample>{{3, jpeg("v")}});
}

TEST_CASE("Shards that are missing are refused with the figures") {
  const TemporaryDirectory directory;
  const std::string record = tf_record(image_example(jpeg("a"), 1));
  directory.write("train-00000-of-00002", record);
  CHECK_THAT(open_tfrecord(directory.path, Split::kTrain).error().message(),
             Catch::Contains("one of 00002 shards, but 1 of them"));
  directory.write("train-00001-of-00002", record);
  CHECK(open_tfrecord(directory.path, Split::kTrain).has_value());
  directory.write("train-00001-of-00003", record);
  CHECK_FALSE(open_tfrecord(directory.path, Split::kTrain).has_value());
}

TEST_CASE("Compressed records and a second test split are refused") {
  const TemporaryDirectory directory;
  const std::string record = tf_record(image_example(jpeg("a"), 1));
  directory.write("test-0.tfrecord", record);
  directory.write("val-0.tfrecord", record);
  CHECK_THAT(open_tfrecord(directory.path, Split::kTest).error().message(),
             Catch::Contains("both test-* and val-*"));
  directory.write(GENERATE("train-0.tfrecord.gz", "train-0-of-1.gz"), record);
  CHECK_THAT(open_tfrecord(directory.path, Split::kTrain).error().message(),
             Catch::Contains("is compressed"));
}

TEST_CASE("Features of other names are found when they are named") {
  const std::string text =
      "features { feature { key: 'jpg' value { bytes_list { value: 'i' } } }"
      " feature { key: 'y' value { int64_list { value: 4 } } } }";
  const TemporaryDirectory directory;
  directory.write("train-0.tfrecord", tf_record(example_bytes(text)));
  const auto set = open_tfrecord(directory.path, Split::kTrain, {.image = "jpg", .label = "y"});
  REQUIRE(set.has_value());
  CHECK(samples_of(**set) == std::vector<Sample>{{4, "i"}});
  CHECK_THAT(open_tfrecord(directory.path, Split::kTrain).error().message(),
             Catch::Contains("in the feature \"image/encoded\""));
}

TEST_CASE("Examples without one image and one label are refused") {
  const std::string image = "feature { key: 'image/encoded' value { bytes_list { value: 'i' } } }";
  const auto label = [](const std::string& value) {
    return "feature { key: 'image/class/label' value { int64_list { " + value + " } } }";
  };
  CHECK_THAT(refused_example("features {" + image + "}"),
             Catch::Contains("one integer from 0 on in the feature \"image/class/label\""));
  CHECK_THAT(refused_example("features {" + image + label("value: [1, 2]") + "}"),
             Catch::Contains("one integer"));
  CHECK_THAT(refused_example("features {" + image + label("value: -1") + "}"),
             Catch::Contains("one integer"));
  CHECK_THAT(refused_example("features {" + image + label("value: 65536") + "}"),
             Catch::Contains("label 65536; the largest is 65535"));
  CHECK_THAT(refused_example("features {" + label("value: 1") + "}"),
             Catch::Contains("one value of bytes"));
  CHECK_THAT(refused_example("features { feature { key: 'image/encoded' value { bytes_list "
                             "{ value: ['a', 'b'] } } } " +
                             label("value: 1") + "}"),
             Catch::Contains("one value of bytes"));
  CHECK_THAT(refused_records(tf_record(image_example("", 1))), Catch::Contains("no bytes"));
  CHECK_THAT(refused_records(tf_record("\xFF\xFF")), Catch::Contains("no tf.train.Example"));
  CHECK_THAT(refused_records(""), Catch::Contains("no samples"));
}

TEST_CASE("An Example may have its fields in any order, unknown ones and unpacked numbers") {
  const auto field = [](char tag, const std::string& content) {
    return std::string{tag, static_cast<char>(content.size())} + content;
  };
  const std::string unpacked =
      field('\x1A', std::string("\x08\x05", 2));  // int64_list { value: 5 }
  const std::string unknown("\x38\x01", 2);       // field 7
  const std::string label = field('\x12', unpacked) + unknown + field('\x0A', "image/class/label");
  const std::string image =
      field('\x0A', "image/encoded") + field('\x12', field('\x0A', field('\x0A', "img")));
  const std::string message =
      unknown + field('\x0A', field('\x0A', label)) + field('\x0A', unknown + field('\x0A', image));
  const std::vector<std::uint8_t> bytes(message.begin(), message.end());
  const auto found = find_in_example(bytes, TfRecordFeatures{});
  INFO(found.error().message());
  REQUIRE(found.has_value());
  CHECK(*found == ExamplePlace{message.size() - 3, 3, 5});
}

TEST_CASE("What opening finds in a file is what reading finds in memory") {
  const TemporaryDirectory directory;
  const std::string large(3U << 20U, 'x');
  const std::string example = image_example(jpeg(large), 5);
  directory.write("file", "before" + example + "behind");
  const auto file = SourceFile::open(directory.path / "file");
  REQUIRE(file.has_value());
  FileWindow window(*file);
  const auto in_file = find_in_example(window, 6, example.size(), {});
  REQUIRE(in_file.has_value());
  const std::vector<std::uint8_t> bytes(example.begin(), example.end());
  CHECK(*in_file == *find_in_example(bytes, {}));
  CHECK(in_file->image_bytes == large.size() + 3);
}

TEST_CASE("Each byte of a TFRecord counts") {
  const std::string whole =
      tf_record(image_example(jpeg("abc"), 1)) + tf_record(image_example(jpeg("d"), 2));
  const TemporaryDirectory directory;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 4);
    INFO(i);
    const auto set = open_record_file(directory, damaged);
    CHECK_FALSE((set.has_value() && reads_all(**set)));
  }
}

TEST_CASE("A TFRecord that was cut within a record is refused") {
  const std::string whole = tf_record(image_example(jpeg("abc"), 1));
  for (std::size_t bytes = 1; bytes < whole.size(); ++bytes) {
    INFO(bytes);
    CHECK_THAT(refused_records(whole.substr(0, bytes)), Catch::Contains("is damaged at offset"));
  }
}

TEST_CASE("Records that would take much memory are refused with the figure") {
  CHECK_THAT(refused_records(tf_record(std::string(kMaxSampleBytes + 1, 'x'))),
             Catch::Contains("a record of 268435457 bytes; the most is 268435456"));
  CHECK_THAT(refused_records(tf_record_head(1ULL << 60U) + std::string(64, 'x')),
             Catch::Contains("a record of 1152921504606846976 bytes, but the file has 64 more"));
  CHECK_THAT(refused_records(tf_record_head(~0ULL) + std::string(64, 'x')),
             Catch::Contains("a record of 18446744073709551615 bytes"));
}

TEST_CASE("A record that was replaced by another right one is noticed") {
  const TemporaryDirectory directory;
  const auto set = open_record_file(directory, tf_record(image_example(jpeg("abc"), 1)));
  directory.write("train-0.tfrecord", tf_record(image_example(jpeg("abc"), 2)));
  std::vector<std::uint8_t> buffer;
  CHECK((*set)->read(0, buffer).error().code() == Code::kDataLoss);
}

}  // namespace
}  // namespace phub::data
