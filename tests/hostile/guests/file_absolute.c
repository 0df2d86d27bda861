/* Names a file of the host by its absolute path. */
#include "files.h"
RUN { return content("/etc/passwd"); }
