/* Changes what it may only read, in every way there is. */
#include "files.h"
RUN {
  if (open("/workspace/data.txt", O_WRONLY) >= 0) return text(AW_STR("opened to write"));
  if (open("/workspace/data.txt", O_RDONLY | O_TRUNC) >= 0) return text(AW_STR("truncated"));
  if (open("/workspace/new.txt", O_WRONLY | O_CREAT, 0644) >= 0) return text(AW_STR("created"));
  if (mkdir("/workspace/new", 0755) == 0) return text(AW_STR("made a folder"));
  if (rename("/workspace/data.txt", "/workspace/other.txt") == 0) return text(AW_STR("renamed"));
  struct timespec old[2] = {{1, 0}, {1, 0}};
  if (utimensat(AT_FDCWD, "/workspace/data.txt", old, 0) == 0) return text(AW_STR("changed times"));
  return outcome(unlink("/workspace/data.txt"));
}
