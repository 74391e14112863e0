// How the two doctors introduce themselves.
//
// Pure functions but for the host's name; any thread.
#pragma once

#include <string>

#include "proto/doctor.pb.h"

namespace phub::phubctl::doctor {

// What is shown of the other one.
constexpr std::size_t kMostVersionBytes = 40;
constexpr std::size_t kMostHostBytes = 64;
constexpr std::size_t kMostTextBytes = 4000;

std::string host_name();

// Fit for a message and for a terminal: at most `most` bytes; blanks in place of control
// characters, question marks in place of what is not ASCII.
std::string printable(const std::string& text, std::size_t most = kMostTextBytes);

// For a connection to be measured, with its session.
doctor_wire::Hello make_hello(const std::string& session = {});
doctor_wire::Welcome make_welcome();

}  // namespace phub::phubctl::doctor
