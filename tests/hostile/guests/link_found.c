/* Reads through a symbolic link to the outside that was there before. */
#include "files.h"
RUN { return content("/workspace/found_link"); }
