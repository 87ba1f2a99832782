// One line per request at level debug: h2o's own access log would write to a file and block.
#include "http/inside.h"

enum { PATH_MAX_SHOWN = 200 };

void access_log(h2o_logger_t *self, h2o_req_t *req)
{
    (void)self;
    if (log_level_get() < LOG_DEBUG)
        return;
    size_t path =
        req->input.query_at < req->input.path.len ? req->input.query_at : req->input.path.len;
    log_line(LOG_DEBUG, "%.*s %.*s %d, %zu bytes in, %zu out, HTTP/%d.%d",
             (int)req->input.method.len, req->input.method.base,
             (int)(path < PATH_MAX_SHOWN ? path : PATH_MAX_SHOWN), req->input.path.base,
             req->res.status, req->entity.len, req->bytes_sent, req->version >> 8,
             req->version & 255);
}
