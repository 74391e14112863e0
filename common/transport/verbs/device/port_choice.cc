#include "common/transport/verbs/device/port_choice.h"

#include <algorithm>

namespace phub::transport::verbs {

const char* const kWithoutDevices =
    "use the transports tcp and shm, or add software RDMA to a network interface: "
    "rdma link add rxe0 type rxe netdev eth0";

namespace {

struct PortCandidate {
  const DeviceInfo* device = nullptr;
  const Port* port = nullptr;  // null: of a device that could not be asked
};

std::string name_of(const PortCandidate& candidate) {
  return candidate.device->name +
         (candidate.port == nullptr ? "" : " port " + std::to_string(candidate.port->number));
}

bool is_meant(const std::string& name, const PortCandidate& candidate) {
  if (name == candidate.device->name) return true;
  return candidate.port != nullptr &&
         name == candidate.device->name + ":" + std::to_string(candidate.port->number);
}

std::vector<PortCandidate> candidates_of(const std::vector<DeviceInfo>& devices) {
  std::vector<PortCandidate> all;
  for (const DeviceInfo& device : devices) {
    for (const Port& port : device.ports) all.push_back({&device, &port});
    if (device.ports.empty()) all.push_back({&device, nullptr});
  }
  return all;
}

// Empty: it can be used.
std::string obstacle(const PortCandidate& candidate) {
  if (!candidate.device->unusable.empty()) return candidate.device->unusable;
  if (candidate.port == nullptr) return "it has no port";
  if (!candidate.port->active) return candidate.port->state;
  if (candidate.port->gids.empty()) return "its GID table is empty";
  return {};
}

// Moves those that `names` mean to the front, in the order of the names, and says how many.
std::size_t put_meant_first(const std::vector<std::string>& names, std::vector<PortCandidate>& all,
                            std::vector<std::string>& rejected) {
  if (names.empty()) return all.size();
  auto end = all.begin();
  for (const std::string& name : names) {
    const auto means = [&](const PortCandidate& candidate) { return is_meant(name, candidate); };
    if (std::none_of(all.begin(), all.end(), means)) {
      rejected.push_back(name + " (verbs_devices): there is no such device or port");
    }
    end = std::stable_partition(end, all.end(), means);
  }
  return static_cast<std::size_t>(end - all.begin());
}

}  // namespace

Result<PortChoice> choose_port(const std::vector<DeviceInfo>& devices,
                               const std::vector<std::string>& names) {
  PortChoice choice;
  std::vector<PortCandidate> all = candidates_of(devices);
  const std::size_t meant = put_meant_first(names, all, choice.rejected);
  const PortCandidate* chosen = nullptr;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::string reason = i < meant ? obstacle(all[i]) : "not in verbs_devices";
    if (reason.empty() && chosen != nullptr) reason = "could be used too, but is not the first";
    if (reason.empty()) {
      chosen = &all[i];
    } else {
      choice.rejected.push_back(name_of(all[i]) + ": " + reason);
    }
  }
  if (chosen != nullptr) {
    choice.device = *chosen->device;
    choice.port = *chosen->port;
    return choice;
  }
  if (devices.empty()) {
    return Status(Code::kNotFound, std::string("there is no RDMA device; ") + kWithoutDevices);
  }
  std::string reasons;
  for (const std::string& reason : choice.rejected) {
    reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  return Status(Code::kNotFound, "no RDMA port can be used: " + reasons);
}

Result<std::vector<PortChoice>> choose_ports(const std::vector<DeviceInfo>& devices,
                                             const std::vector<std::string>& names) {
  std::vector<PortChoice> choices;
  for (const std::string& name : names) {
    PHUB_ASSIGN_OR_RETURN(PortChoice choice, choose_port(devices, {name}));
    choices.push_back(std::move(choice));
  }
  if (!names.empty()) return choices;
  for (const DeviceInfo& device : devices) {
    auto choice = choose_port({device}, {});
    if (choice) choices.push_back(std::move(*choice));
  }
  if (!choices.empty()) return choices;
  return choose_port(devices, {}).error();  // says why none can be used
}

}  // namespace phub::transport::verbs
