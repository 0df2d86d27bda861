/* Opens one file until the host has no descriptors left for anybody. */
#include "files.h"
RUN {
  for (int i = 0; i < 100000; i++)
    if (open("/workspace/data.txt", O_RDONLY) < 0) return text(aw_cstr(strerror(errno)));
  return text(AW_STR("100000 open"));
}
