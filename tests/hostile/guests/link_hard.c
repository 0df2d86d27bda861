/* Gives a file of the outside a second name inside. */
#include "files.h"
RUN {
  if (link("/workspace/../outside/canary.txt", "/workspace/hard") == 0) return content("/workspace/hard");
  if (link("/workspace/found_link", "/workspace/hard") == 0) return content("/workspace/hard");
  return text(aw_cstr(strerror(errno)));
}
