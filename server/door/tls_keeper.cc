#include "server/door/tls_keeper.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <regex>

#include "common/base/log_value.h"
#include "common/base/whole_file.h"
#include "common/rpc/credentials.h"
#include "server/process/private_file.h"
#include "server/process/ticker.h"

namespace phub::server {
namespace {

namespace fs = std::filesystem;
using std::chrono::system_clock;

constexpr std::chrono::seconds kPeriod{1};
constexpr std::chrono::hours kWarnBefore{30 * 24};
constexpr std::chrono::hours kWarnEvery{24};

// What a look compares: the time of each file's last change.
using Seen = std::map<std::string, fs::file_time_type>;

void see(const fs::path& path, Seen& seen) {
  std::error_code ignored;
  seen[path.string()] = fs::last_write_time(path, ignored);
}

// Revocations under other names than OpenSSL looks for would silently not count.
Status check_crl_names(const std::string& folder) {
  static const std::regex hashed("[0-9a-f]{8}[.]r[0-9]+");
  std::error_code error;
  bool has_hashed = false;
  bool has_other = false;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const bool is_hashed = std::regex_match(entry.path().filename().string(), hashed);
    (is_hashed ? has_hashed : has_other) = true;
    if (!is_hashed) continue;
    const Status readable = check_readable_to_end(entry.path().string());
    if (!readable.ok()) return readable.with_context("security.crl_folder");
  }
  if (error) {
    return {Code::kInvalidArgument,
            fmt::format("security.crl_folder: cannot read {}: {}", folder, error.message())};
  }
  if (has_hashed || !has_other) return {};
  return {Code::kInvalidArgument,
          fmt::format("security.crl_folder: {} has no file that is named as OpenSSL looks for it "
                      "(HASH.r0); `openssl rehash {}` makes such names",
                      folder, folder)};
}

class FileTlsKeeper final : public TlsKeeper {
 public:
  FileTlsKeeper(const TlsFiles& files, bool require_client_certificates, std::string crl_folder)
      : files_(files),
        require_client_certificates_(require_client_certificates),
        crl_folder_(std::move(crl_folder)) {}

  Status start() {
    PHUB_RETURN_IF_ERROR(look());
    warn_of_others("key_is_open", files_.key);
    ticker_.emplace(kPeriod, [this] { static_cast<void>(look()); });  // logged
    return {};
  }

  Status look() override {
    const std::lock_guard lock(mutex_);
    warn_of_expiry();
    Seen seen = what_is_there();
    if (seen == seen_) return {};
    const Status taken = take();
    // What does not fit is looked at again when it changes, and by then it may.
    seen_ = std::move(seen);
    if (!taken.ok()) {
      spdlog::warn("event=tls_not_reloaded reason={}", log_value(taken.message()));
    } else if (generation_ > 1) {
      spdlog::info("event=tls_reloaded generation={}", generation_);
    }
    return taken;
  }

  TlsContext context() const override {
    const std::lock_guard lock(context_mutex_);
    return context_;
  }

  std::vector<CertificateExpiry> expiries() const override {
    const std::lock_guard lock(mutex_);
    return expiries_;
  }

 private:
  Seen what_is_there() const {
    Seen seen;
    for (const std::string& file : {files_.ca, files_.certificate, files_.key}) see(file, seen);
    if (crl_folder_.empty()) return seen;
    std::error_code ignored;
    see(crl_folder_, seen);
    for (const auto& entry : fs::directory_iterator(crl_folder_, ignored)) see(entry.path(), seen);
    return seen;
  }

  // REQUIRES: mutex_.
  Status take() {
    if (!crl_folder_.empty()) PHUB_RETURN_IF_ERROR(check_crl_names(crl_folder_));
    PHUB_ASSIGN_OR_RETURN(const ServerTls tls, read_server_tls(files_));
    PHUB_ASSIGN_OR_RETURN(TlsContext made,
                          make_tls_context(tls, require_client_certificates_, crl_folder_));
    {
      const std::lock_guard lock(context_mutex_);
      context_ = std::move(made);
    }
    ++generation_;
    expiries_ = {{"certificate", tls.certificate_expires_unix_s}, {"ca", tls.ca_expires_unix_s}};
    warned_ = {};
    return {};
  }

  // REQUIRES: mutex_.
  void warn_of_expiry() {
    const auto now = system_clock::now();
    if (now - warned_ < kWarnEvery) return;
    for (const CertificateExpiry& expiry : expiries_) {
      const auto left = system_clock::from_time_t(expiry.unix_s) - now;
      if (left > kWarnBefore) continue;
      warned_ = now;
      spdlog::warn(
          "event=certificate_expires what={} hours={} cure=\"`phubctl pki issue` makes "
          "another; it is read without a restart\"",
          expiry.what, std::chrono::duration_cast<std::chrono::hours>(left).count());
    }
  }

  const TlsFiles files_;
  const bool require_client_certificates_;
  const std::string crl_folder_;
  // Guards context_ alone: its reader moves everybody's bytes, and look() may wait for a disk.
  mutable std::mutex context_mutex_;
  TlsContext context_;
  mutable std::mutex mutex_;  // all below
  Seen seen_;
  std::uint64_t generation_ = 0;
  std::vector<CertificateExpiry> expiries_;
  system_clock::time_point warned_;
  std::optional<Ticker> ticker_;  // last: it uses the others
};

}  // namespace

Result<std::unique_ptr<TlsKeeper>> TlsKeeper::create(const TlsFiles& files,
                                                     bool require_client_certificates,
                                                     const std::string& crl_folder) {
  auto keeper = std::make_unique<FileTlsKeeper>(files, require_client_certificates, crl_folder);
  PHUB_RETURN_IF_ERROR(keeper->start());
  return std::unique_ptr<TlsKeeper>(std::move(keeper));
}

}  // namespace phub::server
