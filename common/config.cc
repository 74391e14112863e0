#include "proto/config.pb.h"
