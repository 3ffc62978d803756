"""Promises that others can check.

certificate   one JSON file per piece of advice: hashes, the point, Δ, the verdict and its proof
witness_file  a counter-model in the format of the model that it counters
ledger        every promise, in a file that shows tampering
audit         the promises that a new model keeps: proven, found by running it, or broken
expiry        the number of retrainings that a promise lasts, with a stated probability
kept_share    the same for models and changes of any kind: the share of promises kept, counted over a history
"""

from holdfast.promises._audit import audit
from holdfast.promises._audit_result import Audit, Group, Status
from holdfast.promises._certificate import (
    NoCertificateError,
    certificate,
    check_certificate,
    read_certificates,
    row_document,
    write_certificate,
    write_certificates,
    write_parameters,
)
from holdfast.promises._expiry import Expiry, promise_expiry
from holdfast.promises._kept_share import KeptShare
from holdfast.promises._ledger import Ledger, Receipt
from holdfast.promises._ledger_read import Promises
from holdfast.promises._ledger_verify import Verification
from holdfast.promises._terms import Terms
from holdfast.promises._witness_file import SavedWitness, WitnessFileError, save_witness

__all__ = [
    "Audit",
    "Expiry",
    "Group",
    "KeptShare",
    "Ledger",
    "NoCertificateError",
    "Promises",
    "Receipt",
    "SavedWitness",
    "Status",
    "Terms",
    "Verification",
    "WitnessFileError",
    "audit",
    "certificate",
    "check_certificate",
    "promise_expiry",
    "read_certificates",
    "row_document",
    "save_witness",
    "write_certificate",
    "write_certificates",
    "write_parameters",
]
