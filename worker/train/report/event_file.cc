#include "worker/train/report/event_file.h"

#include <unistd.h>

#include <array>
#include <boost/crc.hpp>
#include <chrono>

#include "proto/tensorboard.pb.h"

namespace phub::train {
namespace {

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// TensorBoard reads what has "tfevents" in its name, files of a folder in the order of the names.
std::string file_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') host = {"localhost"};
  std::string seconds = std::to_string(static_cast<std::uint64_t>(now_seconds()));
  seconds.insert(0, seconds.size() < 10 ? 10 - seconds.size() : 0, '0');
  return "events.out.tfevents." + seconds + "." + host.data() + "." + std::to_string(::getpid());
}

template <typename Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    bytes += static_cast<char>(static_cast<unsigned char>(number >> (8 * i)));
  }
  return bytes;
}

tensorboard::Event event_at(std::uint64_t step) {
  tensorboard::Event event;
  event.set_wall_time(now_seconds());
  event.set_step(static_cast<std::int64_t>(step));
  return event;
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  const std::uint32_t sum = crc.checksum();
  return ((sum >> 15U) | (sum << 17U)) + 0xA282EAD8U;
}

Status EventFile::check(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error && ::access(folder.c_str(), W_OK) == 0) return {};
  return {Code::kInvalidArgument,
          "train.tensorboard: cannot write in the folder " + folder.string() +
              (error ? " (" + error.message() + ")" : "") + ": choose one that this user may make"};
}

Result<std::unique_ptr<EventFile>> EventFile::open(const std::filesystem::path& folder) {
  PHUB_RETURN_IF_ERROR(check(folder));
  std::error_code error;
  // Another run of this process may have begun in the same second.
  std::filesystem::path path = folder / file_name();
  for (int next = 1; std::filesystem::exists(path, error); ++next) {
    path = folder / (file_name() + "." + std::to_string(next));
  }
  std::unique_ptr<EventFile> events(new EventFile(path));
  if (!events->file_) return errno_status("train.tensorboard: cannot write " + path.string());
  tensorboard::Event first = event_at(0);
  first.set_file_version("brain.Event:2");
  events->write(first.SerializeAsString());
  return events;
}

void EventFile::write(std::string_view record) {
  const std::string length = little_endian(std::uint64_t{record.size()});
  file_ << length << little_endian(masked_crc32c(length)) << record
        << little_endian(masked_crc32c(record));
  file_.flush();
}

void EventFile::resume_at(std::uint64_t step) {
  tensorboard::Event event = event_at(step);
  event.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  write(event.SerializeAsString());
}

void EventFile::add(std::uint64_t step, const std::vector<Scalar>& scalars) {
  tensorboard::Event event = event_at(step);
  for (const Scalar& scalar : scalars) {
    auto& value = *event.mutable_summary()->add_value();
    value.set_tag(scalar.tag);
    value.set_simple_value(static_cast<float>(scalar.value));
  }
  write(event.SerializeAsString());
}

Status EventFile::close() {
  file_.close();
  if (file_) return {};
  return {Code::kInternal,
          "could not write all events to " + path_.string() + ": is the disk full?"};
}

}  // namespace phub::train
