// Seconds and shares as people read them, the same in all that is printed.
#pragma once

#include <string>

namespace oneflow {

// "0 s", "1.234 s", "1.234 ms" or "1.23 us"; `seconds` >= 0.
std::string TimeText(double seconds);

// "12.3 %" of the part 0.123.
std::string PercentText(double part);

}  // namespace oneflow
