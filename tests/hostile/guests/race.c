/* Swaps a folder for a link to the outside while it reads through it, many times. */
#include "files.h"
RUN {
  static char buffer[256];
  mkdir("/workspace/swap", 0755);
  for (int i = 0; i < 300; i++) {
    rename("/workspace/swap", "/workspace/kept");
    rename("/workspace/found_folder", "/workspace/swap");
    int fd = open("/workspace/swap/canary.txt", O_RDONLY);
    if (fd >= 0) {
      ssize_t n = read(fd, buffer, sizeof buffer);
      return text((aw_str){(uint8_t *)buffer, n < 0 ? 0 : (size_t)n});
    }
    rename("/workspace/swap", "/workspace/found_folder");
    rename("/workspace/kept", "/workspace/swap");
  }
  return text(AW_STR("nothing read"));
}
