/* Looks at the host's environment and arguments. */
#include "files.h"
extern char **environ;
WASI(args_sizes_get) int32_t args_sizes(size_t *count, size_t *bytes);
RUN {
  size_t count = 0, bytes = 0;
  args_sizes(&count, &bytes);
  if (count != 0) return text(AW_STR("there are arguments"));
  for (char **e = environ; e != NULL && *e != NULL; e++) return text(aw_cstr(*e));
  return text(AW_STR("nothing"));
}
