"""Promises that others can check.

certificate   one JSON file per piece of advice: hashes, the point, Δ, the verdict and its proof
prove         the proofs, found in floats and tried in the checker's exact arithmetic
ledger        every promise that was made, in a file that shows when it was tampered with
audit         which of them a new model keeps: for certain, by running it, or not
expiry        how many retrainings a promise lasts, with a stated probability
"""

from holdfast.promises.audit import audit
from holdfast.promises.audit_result import Audit, Group, Status
from holdfast.promises.certificate import (
    NoCertificateError,
    certificate,
    check_certificate,
    read_certificates,
    row_document,
    write_certificate,
    write_certificates,
    write_parameters,
)
from holdfast.promises.expiry import Expiry, promise_expiry
from holdfast.promises.ledger import Ledger, Receipt
from holdfast.promises.ledger_rows import Promises
from holdfast.promises.ledger_terms import Terms
from holdfast.promises.ledger_verify import Verification

__all__ = [
    "Audit",
    "Expiry",
    "Group",
    "Ledger",
    "NoCertificateError",
    "Promises",
    "Receipt",
    "Status",
    "Terms",
    "Verification",
    "audit",
    "certificate",
    "check_certificate",
    "promise_expiry",
    "read_certificates",
    "row_document",
    "write_certificate",
    "write_certificates",
    "write_parameters",
]
