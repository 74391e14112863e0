#include "common/transport/shm/namespace.h"

#include <fstream>

namespace phub::transport {

// A line ends in the socket's path; an abstract one begins with '@'.
bool is_in_this_namespace(const std::string& abstract_socket, const std::string& list) {
  std::ifstream file(list);
  std::string line;
  if (!std::getline(file, line)) return true;
  const std::string path = " @" + abstract_socket;
  while (std::getline(file, line)) {
    if (line.ends_with(path)) return true;
  }
  return false;
}

}  // namespace phub::transport
