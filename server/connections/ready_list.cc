#include "server/connections/ready_list.h"

#include <utility>

#include "server/connections/connection.h"

namespace phub::server {

void ReadyList::push(Connection& connection) {
  connection.ready = true;
  connection.next_ready = nullptr;
  (first_ == nullptr ? first_ : last_->next_ready) = &connection;
  last_ = &connection;
  ++size_;
}

Connection& ReadyList::pop() {
  Connection& connection = *first_;
  first_ = connection.next_ready;
  connection.ready = false;
  --size_;
  return connection;
}

void ReadyList::remove(Connection& connection) {
  if (!connection.ready) return;
  for (std::size_t left = size_; left > 0; --left) {
    Connection& next = pop();
    if (&next != &connection) push(next);
  }
}

}  // namespace phub::server
