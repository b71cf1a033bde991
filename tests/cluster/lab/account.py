"""An AWS account on moto in the lab: what docs/cluster.md makes once, and what runs in it.

account.py make TEMPLATE PUBLIC_KEY   prints the security group, an image and the first zone's name
account.py instances                  prints what was started
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import boto3

REGION = "us-west-2"


def make(template: str, key: str) -> dict[str, str]:
    """Makes the stack and the launcher's key pair; names what cluster.yaml needs of them."""
    stacks = boto3.client("cloudformation", REGION)
    stacks.create_stack(
        StackName="nalu-ray",
        TemplateBody=Path(template).read_text(encoding="utf-8"),
        Parameters=[{"ParameterKey": "SshFrom", "ParameterValue": "172.31.0.0/24"}],
        Capabilities=["CAPABILITY_NAMED_IAM"],
    )
    (stack,) = stacks.describe_stacks(StackName="nalu-ray")["Stacks"]
    outputs = {found["OutputKey"]: found["OutputValue"] for found in stack["Outputs"]}
    ec2 = boto3.client("ec2", REGION)
    ec2.import_key_pair(
        KeyName=f"ray-autoscaler_{REGION}", PublicKeyMaterial=Path(key).read_bytes()
    )
    (subnet,) = [
        found
        for found in ec2.describe_subnets()["Subnets"]
        if found["CidrBlock"] == "172.31.0.0/20"
    ]
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    return {
        "group": outputs["SecurityGroup"],
        "results": outputs["Results"],
        "image": image,
        "zone": subnet["AvailabilityZone"],
    }


def instances() -> list[dict[str, Any]]:
    """Returns each instance ever started: node type, instance type, state, profile, spot or not."""
    pages = boto3.client("ec2", REGION).describe_instances()["Reservations"]
    return [
        {
            "node": {tag["Key"]: tag["Value"] for tag in found["Tags"]}["ray-user-node-type"],
            "type": found["InstanceType"],
            "state": found["State"]["Name"],
            "spot": found.get("InstanceLifecycle") == "spot",
            "profile": found.get("IamInstanceProfile", {"Arn": ""})["Arn"].rpartition("/")[2],
        }
        for page in pages
        for found in page["Instances"]
    ]


if __name__ == "__main__":
    print(json.dumps({"make": make, "instances": instances}[sys.argv[1]](*sys.argv[2:])))
