// Any text as a configuration: values that make sense, or an error that says where and what.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/config/config.h"

namespace {

template <typename Config>
void check(const phub::Result<Config>& config) {
  if (config ? !phub::validate(*config).ok() : config.error().message().empty()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(phub::parse_server_config(text, "server.textproto"));
  check(phub::parse_worker_config(text, "worker.textproto"));
  return 0;
}
