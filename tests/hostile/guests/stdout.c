/* Writes a result of its own to standard output and to standard error. */
#include "hostile.h"
WASI(fd_write) int32_t fd_write(int32_t fd, const void *iov, int32_t n, uint32_t *written);
static const char forged[] = "\n{\"run\":\"forged\",\"phase\":\"finalized\",\"results\":[]}\n";
RUN {
  struct {
    const char *p;
    size_t n;
  } iov = {forged, sizeof forged - 1};
  uint32_t written;
  fd_write(1, &iov, 1, &written);
  fd_write(2, &iov, 1, &written);
  return SAY("\"written\"");
}
