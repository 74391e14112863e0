#include "server/plane/gathered_streams.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/transport/handshake.h"

namespace phub::server {

Result<std::vector<ArrivedStream>> GatheredStreams::add(std::size_t place, ArrivedStream stream,
                                                        std::uint32_t streams) {
  const std::uint32_t index = stream.index;
  if (index >= streams) {
    return Status(Code::kInvalidArgument,
                  "stream " + std::to_string(index) + ": this member has " +
                      std::to_string(streams) +
                      " to a core (a worker: tcp_streams; a rack: the cores of its servers)");
  }
  Place& waiting = places_[place];
  const bool is_anothers =
      !waiting.empty() && !transport::equal_constant_time(waiting.front().secret, stream.secret);
  if (is_anothers) waiting.clear();
  const bool is_there = std::any_of(waiting.begin(), waiting.end(),
                                    [&](const auto& other) { return other.index == index; });
  if (is_there) {
    return Status(Code::kAlreadyExists,
                  "stream " + std::to_string(index) + " is there already, beside " +
                      std::to_string(waiting.size() - 1) + " others of " + std::to_string(streams));
  }
  waiting.push_back(std::move(stream));
  if (waiting.size() < streams) return std::vector<ArrivedStream>();
  std::vector<ArrivedStream> all = std::move(waiting);
  places_.erase(place);
  std::sort(all.begin(), all.end(),
            [](const auto& one, const auto& other) { return one.index < other.index; });
  return all;
}

}  // namespace phub::server
