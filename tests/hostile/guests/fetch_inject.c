/* Puts a second request into a header of the first. */
#include "http.h"
RUN { return fetch("GET", argument("url"), "{\"X-A\":\"b\\r\\nHost: other\\r\\n\\r\\nGET /secret HTTP/1.1\"}"); }
