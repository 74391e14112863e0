#include "worker/train/report/event_file.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "proto/tensorboard.pb.h"
#include "tests/support/small_session.h"
#include "tests/support/temporary_directory.h"

namespace phub::train {
namespace {

template <typename Number>
Number number_at(const std::string& bytes, std::size_t at) {
  Number number = 0;
  REQUIRE(at + sizeof(number) <= bytes.size());
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

// The events of a file whose checksums are right.
std::vector<tensorboard::Event> events_of(const std::string& bytes) {
  std::vector<tensorboard::Event> events;
  std::size_t at = 0;
  while (at < bytes.size()) {
    const auto length = number_at<std::uint64_t>(bytes, at);
    REQUIRE(number_at<std::uint32_t>(bytes, at + 8) == masked_crc32c(bytes.substr(at, 8)));
    const std::string record = bytes.substr(at + 12, length);
    REQUIRE(number_at<std::uint32_t>(bytes, at + 12 + length) == masked_crc32c(record));
    REQUIRE(events.emplace_back().ParseFromString(record));
    at += 16 + length;
  }
  return events;
}

TEST_CASE("The checksum is that of the standard, masked as TensorFlow does") {
  // RFC 3720, appendix B.4.
  const auto masked = [](std::uint32_t crc) { return ((crc >> 15U) | (crc << 17U)) + 0xA282EAD8U; };
  std::string up;
  for (char c = 0; c < 32; ++c) up += c;
  REQUIRE(masked_crc32c(std::string(32, '\0')) == masked(0x8A9136AAU));
  REQUIRE(masked_crc32c(std::string(32, '\xff')) == masked(0x62A8AB43U));
  REQUIRE(masked_crc32c(up) == masked(0x46DD794EU));
}

TEST_CASE("An event file begins with its version and holds scalars by step") {
  const TemporaryDirectory directory;
  const auto file = EventFile::open(directory.path / "new" / "folder");
  REQUIRE(file);
  (*file)->add(7, {{"train/loss", 0.5}, {"speed/images_per_second", 3000.0}});
  (*file)->add(1ULL << 40U, {{"train/loss", 0.25}});
  const auto name = (*file)->path().filename().string();
  REQUIRE(name.starts_with("events.out.tfevents."));
  REQUIRE((*file)->close().ok());
  const auto events = events_of(directory.read("new/folder/" + name));
  REQUIRE(events.size() == 3);
  REQUIRE(events[0].file_version() == "brain.Event:2");
  REQUIRE(events[0].wall_time() > 1.7e9);
  REQUIRE(events[1].step() == 7);
  REQUIRE(events[1].summary().value_size() == 2);
  REQUIRE(events[1].summary().value(1).tag() == "speed/images_per_second");
  REQUIRE(events[1].summary().value(1).simple_value() == 3000.0F);
  REQUIRE(events[2].step() == 1LL << 40U);

  const auto second = EventFile::open(directory.path / "new" / "folder");
  REQUIRE(second);
  REQUIRE((*second)->path() != (*file)->path());
}

TEST_CASE("A run that goes on tells from which step earlier ones are to be forgotten") {
  const TemporaryDirectory directory;
  const auto file = EventFile::open(directory.path);
  REQUIRE(file);
  (*file)->resume_at(40);
  (*file)->add(40, {{"train/loss", 0.5}});
  REQUIRE((*file)->close().ok());
  const auto events = events_of(directory.read((*file)->path().filename().string()));
  REQUIRE(events.size() == 3);
  REQUIRE(events[1].step() == 40);
  REQUIRE(events[1].session_log().status() == tensorboard::SessionLog::START);
  REQUIRE(events[2].summary().value_size() == 1);
}

TEST_CASE("A folder that cannot be made is refused before the run, with the field") {
  const TemporaryDirectory directory;
  directory.write("file", "");
  SessionOptions options = testing::small_session();
  options.report.tensorboard = directory.path / "file" / "below";
  const auto result = testing::run(options);
  REQUIRE_FALSE(result);
  REQUIRE(result.error().message().find("train.tensorboard") != std::string::npos);
}

}  // namespace
}  // namespace phub::train
