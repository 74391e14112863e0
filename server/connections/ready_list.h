// A job's connections that have something to be read, first come, first read. Nothing grows: the
// connections are its links. Belongs to the core's thread.
#pragma once

#include <cstddef>

namespace phub::server {

struct Connection;

class ReadyList {
 public:
  bool empty() const { return first_ == nullptr; }
  std::size_t size() const { return size_; }
  // REQUIRES: it is in no list.
  void push(Connection& connection);
  // These two REQUIRE that it is not empty.
  const Connection& front() const { return *first_; }
  Connection& pop();
  void remove(Connection& connection);  // ignored if it is not there

 private:
  Connection* first_ = nullptr;
  Connection* last_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace phub::server
