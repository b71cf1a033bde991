"""Whether a machine may run trials: with the command's code, and in sight of its results folder."""

from __future__ import annotations

import platform

from pyarrow.fs import FileType

from nalu_ray.results.store.store import Store
from nalu_ray.sweep.provenance import code_digest
from nalu_ray.sweep.trial_spec import TrialSpec

SHARED = (
    "rows are written where trials run, so --out must be a shared folder or a URI such as "
    "s3://bucket/results"
)


class NodeError(RuntimeError):
    """A machine that trials must not run on."""


def check_node(spec: TrialSpec) -> None:
    """Makes sure that this machine may run a trial, however late it came.

    Raises:
        NodeError: it may not, with its name.
    """
    here = platform.node()
    if spec.code not in ("", code_digest()):
        raise NodeError(
            f"node {here} has other code (digest {code_digest()}) than this command "
            f"({spec.code}): copy one state of it to all"
        )
    store = Store(spec.out)
    mark = f"{store.root}/{spec.mark}"
    if spec.mark and store.filesystem.get_file_info(mark).type == FileType.NotFound:
        raise NodeError(f"node {here} does not see {store.out} ({mark} is not there): {SHARED}")
