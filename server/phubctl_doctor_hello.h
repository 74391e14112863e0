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

std::string host_name();
// For a connection to be measured, with its session.
doctor_wire::Hello make_hello(const std::string& session = {});
doctor_wire::Welcome make_welcome();

}  // namespace phub::phubctl::doctor
