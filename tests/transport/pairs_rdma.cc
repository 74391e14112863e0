// The verbs backend on this machine's devices: on the first one, and between the first two.
#include "common/transport/verbs/gid.h"
#include "common/transport/verbs/port_choice.h"
#include "tests/support/verbs_pair.h"

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

}  // namespace

std::vector<NamedPair> endpoint_pairs() {
  static const auto devices = open_all();
  const auto pair = [](std::size_t a, std::size_t b) {
    return NamedPair{"verbs, " + devices[a]->name + " to " + devices[b]->name,
                     [a, b] { return verbs_pair(devices[a], devices[b]); }};
  };
  std::vector<NamedPair> pairs = {pair(0, 0)};
  if (devices.size() > 1) pairs.push_back(pair(0, 1));
  return pairs;
}

}  // namespace phub::transport
