"""The library as an HTTP service: one model and one Δ, prepared once; requests and responses are JSON.

service   certify, explain and audit, without HTTP
body      a request's JSON, read strictly: unknown fields are errors
http      paths, the token, limits, the queue, logs
metrics   counters for Prometheus
openapi   the interface as a document
run       uvicorn, in one process or several
"""

from holdfast.service._http import application
from holdfast.service._run import serve
from holdfast.service._service import RequestLimits, Service

__all__ = ["RequestLimits", "Service", "application", "serve"]
