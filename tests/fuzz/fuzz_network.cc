// Any text as a network: a graph whose own text is the same graph, or an error that says where.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "worker/nn/graph/description.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto network = phub::nn::parse_network(text, "network.textproto");
  if (!network) {
    if (network.error().message().empty()) std::abort();
    return 0;
  }
  const std::string written = phub::nn::to_textproto(network->graph, network->name);
  const auto again = phub::nn::parse_network(written, "again.textproto");
  if (!again || phub::nn::to_textproto(again->graph, again->name) != written) std::abort();
  return 0;
}
