// A client's connection as a stream of bytes, whether TLS is on it or not. Nothing blocks.
//
// Owned by a Pump; its one thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string_view>

#include "server/door/pump/tls_context.h"

namespace phub::server {

class Wire {
 public:
  // What has to come before more can be moved.
  enum class Need { kNothing, kReadable, kWritable, kOver };
  struct Moved {
    std::size_t bytes = 0;
    Need need = Need::kNothing;  // if no byte was moved
  };

  // The socket is the caller's and does not block. `tls` null: plaintext.
  Wire(int socket, const TlsContext& tls);

  // kNothing: TLS is there, or none is wanted. kOver: the other end is gone, or was told why it is
  // refused. Before the others, until it returns kNothing.
  Need shake_hands();
  Moved read(char* bytes, std::size_t size);
  // What was not taken comes first the next time.
  Moved write(std::string_view bytes);
  // Nothing more is written.
  void end_writing();
  std::optional<PeerCertificate> certificate() const;

 private:
  struct Free {
    void operator()(ssl_st* tls) const;
  };

  Moved moved(int result) const;

  const int socket_;
  const bool is_plain_;
  std::unique_ptr<ssl_st, Free> tls_;  // null: plaintext, or there was no memory for it
  bool is_shaken_ = false;
};

}  // namespace phub::server
