/* Sleeps for a year in the host's own poll_oneoff. */
#include "hostile.h"
WASI(poll_oneoff) int32_t poll_oneoff(const void *in, void *out, int32_t n, int32_t *events);
static struct {
  uint64_t userdata;
  uint8_t tag;
  _Alignas(8) uint32_t clock;
  uint64_t timeout, precision;
  uint16_t flags;
} subscription = {.clock = 1, .timeout = 31536000ull * 1000000000};
static uint8_t event[32];
RUN {
  int32_t events;
  poll_oneoff(&subscription, event, 1, &events);
  return SAY("\"slept\"");
}
