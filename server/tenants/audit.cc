#include "server/tenants/audit.h"

#include <spdlog/spdlog.h>

#include <chrono>

namespace phub::server {
namespace {

constexpr std::size_t kCharsMax = 512;  // of each word: they may be a caller's

std::string bounded(std::string_view text) {
  std::string shown(text.substr(0, kCharsMax));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
    if (c == '"') c = '\'';
  }
  return shown;
}

}  // namespace

void AuditLog::record(std::string_view principal, std::string_view action, std::string_view object,
                      const Status& outcome) {
  using std::chrono::system_clock;
  const auto since = system_clock::now().time_since_epoch();
  const AuditRecord record{
      .unix_ms = std::chrono::duration_cast<std::chrono::milliseconds>(since).count(),
      .principal = bounded(principal),
      .action = bounded(action),
      .object = bounded(object),
      .outcome = outcome.ok() ? "done" : bounded(outcome.message())};
  spdlog::info("event=audit principal=\"{}\" action=\"{}\" object=\"{}\" outcome=\"{}\"",
               record.principal, record.action, record.object, record.outcome);
  const Status stored = store_.add_audit(record);
  if (!stored.ok()) spdlog::error("event=audit_not_stored reason=\"{}\"", stored.message());
}

}  // namespace phub::server
