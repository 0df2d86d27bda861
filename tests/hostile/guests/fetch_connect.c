/* Asks the server to become a tunnel. */
#include "http.h"
RUN { return fetch("CONNECT", argument("url"), "{}"); }
