"""The library as an HTTP service: one model, one Δ, prepared once, and a question in JSON for each request.

service   what is asked and answered, without HTTP: certify, explain, audit
body      a request's JSON, read strictly: what is not understood is refused by name
http      paths, the token, limits, the queue, logs
metrics   what a Prometheus scrapes
openapi   the interface as a document
run       uvicorn around it, in one process or several
"""

from holdfast.service._http import application
from holdfast.service._run import serve
from holdfast.service._service import RequestLimits, Service

__all__ = ["RequestLimits", "Service", "application", "serve"]
