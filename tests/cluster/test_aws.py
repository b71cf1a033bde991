"""cluster.yaml against moto, which answers as AWS does: a CPU head, a spot GPU worker, all ended.

What moto cannot do is to start a machine: each node type has the address of a host of the lab.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from nalu_ray.results.store.store import Store
from nalu_ray.sweep.device import REHEARSE

from .hosts import ADDRESSES, GATEWAY, ROOT, Lab, lab
from .up import Cluster, results, without_index

pytestmark = [pytest.mark.cluster, pytest.mark.hosts, pytest.mark.timeout(1500)]

ACCOUNT = Path(__file__).parent / "lab" / "account.py"
AWS = {
    "AWS_ENDPOINT_URL": f"http://{GATEWAY}:5000",
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
}
SWEEP = "static --preset smoke layer=nac op=add,mul seeds=4 --seeds-per-trial 2"
GPUS = "--gpus-per-trial 0.25 --max-concurrent 4"  # one GPU is enough


def account(hosts: Lab, *words: str) -> Any:
    return json.loads(hosts.call("python", str(ACCOUNT), *words, **AWS).splitlines()[-1])


def shipped(hosts: Lab) -> dict[str, Any]:
    """cluster.yaml for moto: its image, zone and group, the lab's addresses, no public ones."""
    config: dict[str, Any] = yaml.safe_load((ROOT / "cluster.yaml").read_text(encoding="utf-8"))
    made = account(hosts, "make", str(ROOT / "cluster" / "aws_account.yaml"), f"{hosts.key}.pub")
    config["provider"] |= {"availability_zone": made["zone"], "use_internal_ips": True}
    addresses = {"head": "head", "gpu_spot": "w1", "gpu_on_demand": "w2"}
    for name, node in config["available_node_types"].items():
        node["node_config"] |= {
            "ImageId": made["image"],
            "SecurityGroupIds": [made["group"]],
            "PrivateIpAddress": ADDRESSES[addresses[name]],
        }
        if name != "head":  # one address, one node
            node["max_workers"] = 1
    known = {**AWS, REHEARSE: "1"}  # the lab has no GPU
    variables = " ".join(f"{name}={value}" for name, value in known.items())
    config["setup_commands"].append(f"echo export {variables} >> ~/.bashrc")
    return without_index(config)


@pytest.fixture(scope="module")
def on_aws(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with lab(tmp_path_factory.mktemp("aws"), "ubuntu", "head", "w1") as hosts:
        log = hosts.folder / "moto.log"
        hosts.start(
            *[str(Path(sys.executable).with_name("moto_server")), "-H", GATEWAY, "-p", "5000"],
            log=log,
            MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION="true",
        )
        hosts.wait_for(GATEWAY, 5000, log)
        (hosts.home / ".ssh").mkdir()
        shutil.copy(hosts.key, hosts.home / ".ssh" / "ray-autoscaler_us-west-2.pem")
        cluster = Cluster(hosts, shipped(hosts), **AWS)
        cluster.up()
        yield cluster


def test_the_file_is_accepted(on_aws: Cluster) -> None:
    config = yaml.safe_load(on_aws.file.read_text(encoding="utf-8"))
    assert "export AWS" in config["setup_commands"].pop()  # the account's, for moto: a secret
    without = on_aws.file.with_name("without.yaml")
    without.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
    on_aws.call("python", "-m", "nalu_ray.cluster", "check", str(without))


def test_up_starts_a_cpu_head_alone(on_aws: Cluster) -> None:
    (head,) = account(on_aws.lab, "instances")
    assert head == {
        "node": "head",
        "type": "m5.xlarge",
        "state": "running",
        "spot": False,
        "profile": "nalu-ray-head",
    }


def test_work_brings_a_spot_gpu_worker(on_aws: Cluster) -> None:
    out = results(on_aws.lab)
    on_aws.submit("static-1", f"{SWEEP} {GPUS} --address auto --out {out}")
    on_aws.finish("static-1")
    assert all(found.ok for found in Store(str(out)).outcomes("static").values())
    assert len(Store(str(out)).outcomes("static")) == 8

    trials = [task for task in on_aws.state("tasks") if task["name"].startswith("static nac ")]
    assert [trial["state"] for trial in trials] == ["FINISHED"] * 4
    asked = [trial["required_resources"].items() for trial in trials]  # GPU_group_...
    assert {share for found in asked for name, share in found if "GPU_" in name} == {0.25}
    (worker,) = [node for node in on_aws.state("nodes") if not node["is_head_node"]]
    assert {trial["node_id"] for trial in trials} == {worker["node_id"]}
    assert worker["resources_total"]["GPU"] == 1
    assert "accelerator_type:T4" in worker["resources_total"]

    found = {instance["node"]: instance for instance in account(on_aws.lab, "instances")}
    assert set(found) == {"head", "gpu_spot"}
    assert found["gpu_spot"] == {
        "node": "gpu_spot",
        "type": "g4dn.xlarge",
        "state": "running",
        "spot": True,
        "profile": "nalu-ray-worker",
    }
    assert "1.0 GPU" in on_aws.call("ray", "exec", str(on_aws.file), "ray status")


def test_down_ends_every_instance(on_aws: Cluster) -> None:
    on_aws.call("ray", "down", str(on_aws.file), "-y")
    assert {found["state"] for found in account(on_aws.lab, "instances")} <= {
        "terminated",
        "shutting-down",
    }
