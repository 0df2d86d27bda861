/* Lists the root, to see what else there is. */
#include "files.h"
RUN {
  aw_buf b = {0}, out = {0};
  DIR *d = opendir("/");
  if (d == NULL) return text(aw_cstr(strerror(errno)));
  for (struct dirent *e; (e = readdir(d)) != NULL;) aw_puts(&b, e->d_name), aw_puts(&b, " ");
  aw_put_json_string(&out, aw_view(&b));
  return aw_finish(&out);
}
