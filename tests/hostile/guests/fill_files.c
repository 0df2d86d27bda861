/* Makes files until the disk has no more of them. */
#include "files.h"
RUN {
  char name[64];
  for (int i = 0; i < 100000; i++) {
    snprintf(name, sizeof name, "/workspace/f%d", i);
    int fd = open(name, O_WRONLY | O_CREAT, 0644);
    if (fd < 0) return text(aw_cstr(strerror(errno)));
    close(fd);
  }
  return text(AW_STR("100000 files made"));
}
