#include <unistd.h>

#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/check.h"
#include "common/transport/verbs/device/gid.h"
#include "common/transport/verbs/device/port_choice.h"
#include "tests/support/transports/rdma_devices.h"

namespace phub::transport {

namespace {

std::vector<std::shared_ptr<const verbs::OpenDevice>> open_all() {
  const auto found = verbs::list_devices();
  PHUB_CHECK(found, found.error().message());
  const auto choices = verbs::choose_ports(*found, {});
  PHUB_CHECK(choices, choices.error().message());
  std::vector<std::shared_ptr<const verbs::OpenDevice>> devices;
  for (const verbs::PortChoice& choice : *choices) {
    const auto gid = verbs::choose_gid(choice.port, std::nullopt, std::nullopt);
    PHUB_CHECK(gid, gid.error().message());
    devices.push_back(*verbs::open_device(choice.device.name, choice.port.number,
                                          static_cast<std::uint8_t>(gid->index)));
  }
  return devices;
}

// One line of iproute2's "rdma -j resource show".
std::string resources() {
  struct Close {
    void operator()(FILE* pipe) const { ::pclose(pipe); }
  };
  const std::unique_ptr<FILE, Close> pipe(::popen("rdma -j resource show", "r"));
  PHUB_CHECK(pipe != nullptr, "rdma (iproute2)");
  std::string text;
  std::array<char, 4096> part = {};
  while (std::fgets(part.data(), part.size(), pipe.get()) != nullptr) text += part.data();
  return text;
}

}  // namespace

const std::vector<std::shared_ptr<const verbs::OpenDevice>>& rdma_devices() {
  static const auto kDevices = open_all();
  return kDevices;
}

// Domains, queues, queue pairs and registrations, as the kernel counts them.
int live_rdma_objects() {
  int count = 0;
  for (const auto& device : nlohmann::json::parse(resources())) {
    for (const char* kind : {"pd", "cq", "qp", "mr", "ctx"}) count += device.value(kind, 0);
  }
  return count;
}

}  // namespace phub::transport
