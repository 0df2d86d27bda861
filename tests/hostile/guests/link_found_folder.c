/* Goes through a linked folder that was there before, and writes outside. */
#include "files.h"
RUN {
  int fd = open("/workspace/found_folder/planted.txt", O_WRONLY | O_CREAT, 0644);
  if (fd < 0) return text(aw_cstr(strerror(errno)));
  return outcome(write(fd, "planted", 7) == 7 ? 0 : -1);
}
