// Who may read what the HTTP server tells of jobs and cores, and of whose.
//
// Implemented by whoever keeps the tokens; outlives the server. Called by the server's one thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace phub::server {

struct Reader {
  std::string tenant = {};  // whose jobs alone it may see; empty: everything
};

class ReadAccess {
 public:
  virtual ~ReadAccess() = default;
  // `bearer_token`: what followed "Authorization: Bearer "; empty when there was none. Nothing: who
  // shows it may not read.
  virtual std::optional<Reader> reader_of(std::string_view bearer_token) = 0;
};

}  // namespace phub::server
