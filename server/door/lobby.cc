#include "server/door/lobby.h"

#include <algorithm>

namespace phub::server {

void Lobby::enter(const std::string& address, Guest& guest) {
  const auto own = queues_.find(address);
  if (own != queues_.end() && own->second.size() >= share_) {
    turn_out_oldest(own);
  } else if (found_.size() >= places_) {
    turn_out_oldest(std::max_element(queues_.begin(), queues_.end(), gives_way_later));
  }
  const auto queue = queues_.try_emplace(address).first;
  found_[&guest] = {queue, queue->second.insert(queue->second.end(), {&guest, entered_++})};
}

bool Lobby::gives_way_later(const Queues::value_type& a, const Queues::value_type& b) {
  if (a.second.size() != b.second.size()) return a.second.size() < b.second.size();
  return a.second.front().number > b.second.front().number;
}

void Lobby::leave(Guest& guest) {
  const auto found = found_.find(&guest);
  if (found == found_.end()) return;
  const Place place = found->second;
  found_.erase(found);
  place.queue->second.erase(place.guest);
  if (place.queue->second.empty()) queues_.erase(place.queue);
}

void Lobby::turn_out_oldest(Queues::iterator queue) {
  Guest& oldest = *queue->second.front().guest;
  leave(oldest);
  oldest.turn_out();
}

}  // namespace phub::server
