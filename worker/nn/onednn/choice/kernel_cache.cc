#include "worker/nn/onednn/choice/kernel_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>
#include <thread>

namespace phub::nn::onednn {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFirstLine = R"({"phub_kernels": 1})";
constexpr std::uintmax_t kMostBytes = std::uintmax_t{16} << 20U;  // of a file that is read
constexpr auto kLockDeadline = std::chrono::minutes(1);
constexpr auto kLockPause = std::chrono::milliseconds(10);

std::string line_of(const KernelScope& scope, const KernelChoice& choice) {
  Json times = Json::object();
  for (const KernelTime& time : choice.times) times[time.kernel] = time.microseconds;
  const Json line = {{"processor", scope.processor},  {"isa", scope.isa},
                     {"onednn", scope.onednn},        {"threads", scope.threads},
                     {"operation", choice.operation}, {"kernel", choice.kernel},
                     {"microseconds", times}};
  return line.dump(-1, ' ', false, Json::error_handler_t::replace);
}

KernelScope scope_of(const Json& line) {
  return {.processor = line.at("processor").get<std::string>(),
          .isa = line.at("isa").get<std::string>(),
          .onednn = line.at("onednn").get<std::string>(),
          .threads = line.at("threads").get<unsigned>()};
}

KernelChoice choice_of(const Json& line) {
  KernelChoice choice{.operation = line.at("operation").get<std::string>(),
                      .kernel = line.at("kernel").get<std::string>(),
                      .is_known = true,
                      .times = {}};
  for (const auto& [kernel, time] : line.at("microseconds").items()) {
    choice.times.push_back({kernel, time.get<double>()});
  }
  return choice;
}

}  // namespace

KernelCache::KernelCache(std::filesystem::path file, KernelScope scope, Note note)
    : file_(std::move(file)), scope_(std::move(scope)), note_(std::move(note)) {
  read();
}

void KernelCache::read() {
  std::error_code failed;
  if (file_.empty() || is_foreign_ || !std::filesystem::exists(file_, failed)) return;
  // Looked at before it is opened: a FIFO would wait there for a writer.
  const bool is_small = std::filesystem::is_regular_file(file_, failed) &&
                        std::filesystem::file_size(file_, failed) <= kMostBytes;
  std::ifstream in;
  if (is_small) in.open(file_);
  std::string line;
  if (!is_small || (!std::getline(in, line) && !in.eof()) ||
      (!line.empty() && line != kFirstLine)) {
    is_foreign_ = true;
    tell_once(": is no cache of measured kernels (its first line is not " +
              std::string(kFirstLine) +
              "): it is left alone and nothing is remembered; give another file");
    return;
  }
  std::size_t damaged = 0, first = 0;
  for (std::size_t number = 2; std::getline(in, line); ++number) {
    if (line.empty()) continue;
    try {
      read_line(line);
    } catch (const Json::exception&) {
      if (damaged++ == 0) first = number;
    }
  }
  if (damaged == 0) return;
  tell_once(":" + std::to_string(first) + ": " + std::to_string(damaged) +
            (damaged == 1 ? " line is" : " lines are") + " damaged and ignored");
}

// Throws Json::exception where it is damaged.
void KernelCache::read_line(const std::string& line) {
  const Json object = Json::parse(line);
  KernelChoice choice = choice_of(object);
  Key key{scope_of(object), choice.operation};
  choices_.insert_or_assign(std::move(key), std::move(choice));
}

std::optional<KernelChoice> KernelCache::find(const std::string& operation) const {
  const auto found = choices_.find({scope_, operation});
  if (found == choices_.end()) return std::nullopt;
  return found->second;
}

KernelChoice KernelCache::add(const KernelChoice& choice, bool replaces) {
  read();
  const auto [place, is_new] = choices_.try_emplace({scope_, choice.operation}, choice);
  if (replaces) place->second = choice;
  if ((!is_new && !replaces) || is_foreign_ || file_.empty()) return place->second;
  const Status written = write();
  if (!written.ok()) tell_once(": what is measured is lost with this run: " + written.message());
  return place->second;
}

Status KernelCache::write() const {
  const std::string temporary = file_.string() + "." + std::to_string(::getpid()) + ".new";
  std::ofstream out(temporary, std::ios::trunc);
  out << kFirstLine << '\n';
  for (const auto& [key, choice] : choices_) out << line_of(key.first, choice) << '\n';
  out.close();
  if (out && std::rename(temporary.c_str(), file_.c_str()) == 0) return {};
  Status failed = errno_status("writing", Code::kUnavailable);
  std::remove(temporary.c_str());
  return failed;
}

UniqueFd KernelCache::lock() {
  if (file_.empty() || is_foreign_) return {};
  const std::string name = file_.string() + ".lock";
  UniqueFd held(::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  const auto deadline = std::chrono::steady_clock::now() + kLockDeadline;
  while (held && ::flock(held.get(), LOCK_EX | LOCK_NB) != 0) {
    if (std::chrono::steady_clock::now() > deadline) held.reset();
    std::this_thread::sleep_for(kLockPause);
  }
  read();
  return held;
}

void KernelCache::tell_once(std::string_view what) {
  if (std::exchange(told_, true)) return;
  note_(file_.string() + std::string(what));
}

}  // namespace phub::nn::onednn
